"""Two replicas and two processes: equal to one device, stopped together, resumable."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from elmo_tf import train
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import UsageError
from elmo_tf.formats import checkpoint
from elmo_tf.training.distributed import Replicas
from tests.checkpoints import newest_arrays
from tests.training import tiny
from tests.training.events import read_events

# With dropout, and with gradients that are clipped at each step.
FLAGS = (
    "--train_files=[ab].txt",
    "--vocab_file=vocab",
    "--options_file=options.json",
    "--batch_size=4",
    "--unroll_steps=3",
    "--num_negative_samples=5",
    "--clip_norm=0.5",
    "--dropout=0.2",
    "--heldout_files=heldout.txt",
    "--steps_per_evaluation=4",
    "--steps_per_checkpoint=5",
    "--steps_per_report=1",
)
STEPS = 15
SECONDS = 240  # much longer than any test takes

TWO_CPUS = """
import sys
from elmo_tf import train
from elmo_tf.cli import tensorflow_start
tensorflow_start.load_tensorflow()
import tensorflow as tf
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.exit(train.main())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    tiny.CONFIG.write(folder / "options.json")
    return tiny.write_files(folder)


def train_here(folder, model_dir, *more):
    """The command in this process, on one device."""
    previous = os.getcwd()
    os.chdir(folder)
    try:
        return train.main([*FLAGS, f"--model_dir={model_dir}", *more])
    finally:
        os.chdir(previous)


@pytest.fixture(scope="module")
def alone(folder):
    """Losses and weights of the run on one device."""
    assert train_here(folder, "alone", f"--max_steps={STEPS}") == 0
    return read_run(folder / "alone")


def read_run(directory):
    return read_events(directory / "logs"), newest_arrays(directory)


def start(folder, project_dir, program, *arguments, **environment):
    environment = {**os.environ, "PYTHONPATH": str(project_dir), **environment}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.Popen(
        [sys.executable, *program, *FLAGS, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_workers(folder, project_dir, model_dir, *more):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return [
        start(
            folder,
            project_dir,
            ("-m", "elmo_tf.train"),
            f"--model_dir={model_dir}",
            "--distribution=multi_worker",
            *more,
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in range(2)
    ]


def finish(*processes):
    """Exit status, stdout and stderr of each."""
    try:
        outputs = [each.communicate(timeout=SECONDS) for each in processes]
    finally:
        for each in processes:
            each.kill()
    return [(each.returncode, *output) for each, output in zip(processes, outputs, strict=True)]


def assert_same_figures(found, expected):
    assert found.keys() == expected.keys()
    for key in expected:
        if key[1] not in ("tokens per second",):
            assert found[key] == pytest.approx(expected[key], rel=1e-5), key


def assert_same_weights(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("mirrored", ()),
        pytest.param(
            "in_parts", ("--batch_size=2", "--accumulation_steps=2"), marks=pytest.mark.slow
        ),
    ],
)
def test_two_replicas_do_what_one_device_does(folder, project_dir, alone, name, batch):
    arguments = (f"--model_dir={name}", "--distribution=mirrored", *batch)
    process = start(folder, project_dir, ("-c", TWO_CPUS), *arguments, "--max_steps=8")
    [(status, output, errors)] = finish(process)
    assert (status, errors) == (0, "")
    assert ", 2 replicas, CPU:0, CPU:1\n" in output

    # One device completes the run.
    assert train_here(folder, name, *batch, f"--max_steps={STEPS}") == 0
    figures, weights = read_run(folder / name)
    assert_same_figures(figures, alone[0])
    assert_same_weights(weights, alone[1])


# Prints the shapes of all tensors of a step.
SHAPES_OF_A_STEP = """
import tensorflow as tf
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.training.optimizers import Adagrad
from elmo_tf.training.replicated_step import ReplicatedStep
from tests.training import tiny

strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
with strategy.scope():
    model = ElmoLanguageModel(tiny.CONFIG, 7919)
    step = ReplicatedStep(strategy, model, Adagrad(), 2, 5, 11, 1.0)
for operation in step.function.get_concrete_function().graph.get_operations():
    for output in operation.outputs:
        if output.dtype != tf.resource:
            print(output.shape)
"""


def test_no_array_of_a_replica_s_step_grows_with_the_vocabulary(project_dir):
    environment = {**os.environ, "PYTHONPATH": str(project_dir)}
    command = [sys.executable, "-c", SHAPES_OF_A_STEP]
    shapes = subprocess.check_output(
        command, env=environment, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS
    ).splitlines()
    assert len(shapes) > 200
    assert not [shape for shape in shapes if "7919" in shape]


def test_two_processes_do_what_one_device_does(folder, project_dir, alone):
    workers = start_workers(folder, project_dir, "workers", f"--max_steps={STEPS}")
    (chief, output, errors), (other, other_output, other_errors) = finish(*workers)
    assert (chief, other, errors, other_errors) == (0, 0, "", "")
    assert ", 2 replicas, CPU:0 in each of 2 processes\n" in output
    assert other_output == (
        "2 replicas, CPU:0 in each of 2 processes; the first process reports and saves\n"
    )
    figures, weights = read_run(folder / "workers")
    assert_same_figures(figures, alone[0])
    assert_same_weights(weights, alone[1])


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_step(folder, project_dir):
    workers = start_workers(folder, project_dir, "stopped", "--num_epochs=1000")
    wait_for_checkpoint(folder / "stopped", workers)
    workers[1].send_signal(signal.SIGTERM)
    (chief, _, errors), (other, _, other_errors) = finish(*workers)
    assert (chief, other) == (130, 143)
    newest = os.path.basename(checkpoint.checkpoints_in(folder / "stopped")[0])
    step = newest.removeprefix("ckpt-")
    by_whom = "elmo-train: stopped by {} at step " + f"{int(step):,} of "
    assert errors.startswith(by_whom.format("a signal to another process"))
    assert other_errors.splitlines()[0] == "SIGTERM: finishing the current step, then saving"
    assert other_errors.splitlines()[1].startswith(by_whom.format("SIGTERM"))


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_the_death_of_one_process_ends_the_other(folder, project_dir, dies):
    name = f"died{dies}"
    workers = start_workers(folder, project_dir, name, "--num_epochs=1000")
    wait_for_checkpoint(folder / name, workers)
    workers[dies].kill()
    results = finish(*workers)
    status, _, errors = results[1 - dies]
    assert (status, errors) == (
        1,
        "elmo-train: another process of the run has ended or can't be reached; start the same "
        "command again in all of them, it resumes from the last checkpoint\n",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 3}, "batch_size: 3 can't be split evenly over 2 replicas"),
        ({"mixed_precision": "float16"}, "mixed_precision: float16 goes with .*none only; .*"),
    ],
)
def test_what_can_not_be_shared_out(settings, message):
    replicas = Replicas(SimpleNamespace(num_replicas_in_sync=2, scope=None))
    replicas.check_settings(TrainingConfig(batch_size=6, mixed_precision="bfloat16"))
    with pytest.raises(UsageError, match=f"^{message}$"):
        replicas.check_settings(TrainingConfig(**settings))


def wait_for_checkpoint(directory, processes):
    end = time.monotonic() + SECONDS
    while not list(directory.glob("ckpt-*.index")):
        assert time.monotonic() < end, "no checkpoint"
        if any(each.poll() is not None for each in processes):
            pytest.fail(str(finish(*processes)))
        time.sleep(0.02)
