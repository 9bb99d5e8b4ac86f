"""The command: from text to a trained model, interrupted, killed and gone on with."""

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from elmo_tf import evaluate, train
from elmo_tf.config.model import ElmoConfig
from elmo_tf.storage.lock import run_lock
from tests.checkpoints import newest_arrays
from tests.models import small_config
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("shared_steps")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a text, a vocabulary and options for a very small model."""
    monkeypatch.chdir(tmp_path)
    tiny.CONFIG.write(tmp_path / "options.json")
    return tiny.write_files(tmp_path)


SETTINGS = (
    "--batch_size=3",
    "--unroll_steps=4",
    "--num_epochs=2",
    "--num_negative_samples=5",
)


def arguments(*more, model_dir="run"):
    return [
        "--train_files=[ab].txt",
        "--vocab_file=vocab",
        f"--model_dir={model_dir}",
        *SETTINGS,
        *more,
    ]


def begin(*more, **options):
    return train.main(arguments("--options_file=options.json", *more, **options))


@pytest.mark.traced
def test_a_whole_run(folder, capfd):
    assert begin("--heldout_files=heldout.txt") == 0
    output, errors = capfd.readouterr()
    assert errors == ""
    lines = output.splitlines()
    steps = 2 * (tiny.NUM_TOKENS // 12)
    assert lines[0] == "counting the tokens of 2 files"
    assert lines[1].startswith(f"{tiny.NUM_TOKENS} tokens in {tiny.NUM_SENTENCES} sentences")
    assert "softmax sampled with 5 words" in lines[2]
    assert lines[3].startswith(f"{steps} steps of 3 x 4 tokens, {steps // 2} an epoch; ")
    assert lines[3].endswith("starting from random weights")
    assert lines[1].endswith(", which has 100.00% of the text's")
    assert lines[4] == "building the graph of a step, which may take a minute"
    assert re.fullmatch(rf"step 1 of {steps}: sampled loss \d+\.\d+", lines[5])
    heldout = [line for line in lines if re.match("step .*held-out perplexity", line)]
    assert [line.split(":")[0] for line in heldout] == [f"step {steps // 2}", f"step {steps}"]

    summary = lines[lines.index("done; what to do next:") - 1]
    best = json.loads((folder / "run/heldout.json").read_text())["best"]
    assert re.fullmatch(
        rf"{steps} steps in \d+ s; the best held-out perplexity, {best['perplexity']:.2f} at step "
        rf"{best['step']}, is that of run/best",
        summary,
    )

    # The last lines are commands that work.
    commands = [shlex.split(line) for line in lines[lines.index("done; what to do next:") + 1 :]]
    for python, module_flag, module, *flags in commands[:-1]:
        assert (python, module_flag) == ("python", "-m")
        assert importlib.import_module(module).main(flags) == 0
    assert [command[2] for command in commands[:-1]] == [
        "elmo_tf.evaluate",
        "elmo_tf.embed",
        "export.export_elmo",
    ]
    assert commands[-1][-2:] == ["tensorboard", "--logdir=run/logs"]
    evaluated = json.loads(capfd.readouterr().out.splitlines()[0])
    stored = json.loads((folder / "run/heldout.json").read_text())["best"]
    assert evaluated["perplexity"] == pytest.approx(stored["perplexity"], rel=1e-6)
    assert os.path.isfile("exported/saved_model.pb")
    assert os.path.isfile("vectors.hdf5")
    assert evaluate.main(["--model_dir=run", "--heldout_files=heldout.txt", "--carry_state"]) == 0


def test_a_directory_that_another_process_trains_in(folder, capfd):
    with run_lock("run"):
        assert begin() == 1
    errors = capfd.readouterr().err
    assert re.fullmatch(r"elmo-train: run: is in use: process \d+ on .*\n", errors)


def test_the_same_command_again_is_harmless(folder, capfd):
    flags = ("--heldout_files=heldout.txt", "--export_dir=exported", "--max_steps=2")
    assert begin(*flags) == 0
    before = {path: path.stat().st_mtime_ns for path in folder.glob("run/ckpt*")}
    capfd.readouterr()
    assert begin(*flags) == 0
    output, errors = capfd.readouterr()
    assert errors == ""
    assert "the run is complete" in output
    assert "exported already exists and was not changed" in output
    assert {path: path.stat().st_mtime_ns for path in folder.glob("run/ckpt*")} == before


def test_flags_left_out_keep_the_run_and_changed_ones_are_refused(folder, capfd):
    assert begin("--max_steps=2") == 0
    assert train.main(["--train_files=[ab].txt", "--vocab_file=vocab", "--model_dir=run"]) == 0
    capfd.readouterr()
    assert train.main(arguments("--batch_size=4", "--size=tiny", "--seed=9")) == 2
    assert capfd.readouterr().err == (
        "elmo-train: run holds another run: --batch_size (was 3, is 4), --seed (was 0, is 9), "
        "--size or --options_file (not that of options.json); use the values it was "
        "begun with, or begin a new run in another --model_dir\n"
    )


def test_initial_weights_give_the_shape(folder, capfd):
    assert begin("--max_steps=1") == 0
    capfd.readouterr()
    assert train.main(arguments("--initial_weights=run", "--max_steps=1", model_dir="two")) == 0
    assert "starting from run, softmax too" in capfd.readouterr().out
    assert ElmoConfig.from_file("two/options.json") == tiny.CONFIG
    assert train.main(arguments("--initial_weights=run", "--size=tiny", model_dir="three")) == 2
    message = "elmo-train: --size or --options_file: not the shape of --initial_weights\n"
    assert capfd.readouterr().err == message


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--batch_size=0"], 2, "--batch_size must be an integer >= 1, got 0"),
        (["--dropout=1"], 2, "--dropout must be a number >= 0 and < 1, got 1.0"),
        (["--learning_rate=nan"], 2, "--learning_rate must be a finite number > 0, got nan"),
        (["--optimizer=adamx"], 2, r"--optimizer=adamx: .* <adagrad\|adadelta\|.*\|sgd>"),
        (
            ["--optimizer=adam", "--initial_accumulator=2"],
            2,
            "--initial_accumulator: applies only to --optimizer=adagrad, not adam",
        ),
        (["--patience=3"], 2, "--patience=3 needs --heldout_files"),
        (["--patience=0"], 2, "--patience must be an integer >= 1, got 0 .*"),
        (["--num_checkpoints_kept=1"], 2, "--num_checkpoints_kept must be an integer >= 2, got 1"),
        (["--seed=x"], 2, "--seed=x: .*invalid literal for int.*"),
        (["--size=huge"], 2, r"--size=huge: value should be one of <tiny\|small\|.*"),
        (["--size=tiny"], 2, "--size and --options_file both define the model; .*"),
        (["--distribution=multi_worker"], 2, "--distribution=multi_worker: .* TF_CONFIG is not .*"),
        (["--distribution=x"], 2, r"--distribution=x: value should be one of <none\|mirrored\|.*"),
        (["--batchsize=2"], 2, r"--batchsize: unknown flag, did you mean --batch_size\?"),
        (["--train_files=none*"], 1, r"--train_files: no file matches none\*"),
        (["--heldout_files=none*"], 1, r"--heldout_files: no file matches none\*"),
        (["--heldout_files=blank.txt"], 1, "--heldout_files: no sentence to evaluate"),
        (["--heldout_files=latin.txt"], 1, "latin.txt:2: is not UTF-8: byte 0xe9 at byte 4 .*"),
        (["--options_file=none"], 1, "none: cannot be read: No such file or directory"),
        (["--vocab_file=none"], 1, "none: cannot be read: No such file or directory"),
        (["--vocab_file=a.txt"], 1, "a.txt: the line <S> is missing; .*"),
        (["--export_dir=a.txt"], 1, "--export_dir: a.txt already exists; name another directory"),
        (["--export_dir=."], 2, r"--export_dir: \. has to be apart from --model_dir, run"),
        (["--export_dir=run/x/../"], 2, "--export_dir: run/x/../ has to be apart from .*"),
        (["--export_dir=run/exported"], 2, "--export_dir: run/exported has to be apart from .*"),
        (["--decay_steps=9"], 2, "--decay_steps: applies only to .*, not constant"),
        (["--steps_per_evaluation=2"], 2, "--steps_per_evaluation=2 needs --heldout_files"),
        (
            ["--batch_size=100000000000000"],
            2,
            "--batch_size must be an integer <= 16777216, got 100000000000000",
        ),
        (
            ["--batch_size=10000000"],
            2,
            r"--batch_size \* --accumulation_steps \* --unroll_steps \(tokens of a step\) .*",
        ),
        (["--export_dir=a.txt/where"], 1, "a.txt/where: can't be made, since .*"),
        (["--initial_weights=none"], 1, "none: there is no such file or directory"),
        (["--initial_optimizer"], 2, "--initial_optimizer needs --initial_weights"),
    ],
)
def test_mistakes_are_one_line(folder, capfd, flags, status, message):
    Path("blank.txt").write_text("\n \n")
    Path("latin.txt").write_bytes(b"good\ncaf\xe9\n")
    assert begin(*flags) == status
    output, errors = capfd.readouterr()
    assert re.fullmatch(f"elmo-train: {message}\n", errors)
    assert "step" not in output
    assert not os.path.exists("run/training.json")


@pytest.mark.parametrize("name", ["saved_model.pb", "training.json"])
def test_a_directory_that_is_refused_is_left_as_it_is(folder, capfd, name):
    """A SavedModel, and a run whose description is damaged."""
    os.mkdir("run")
    Path("run", name).write_text("junk")
    assert begin() == 1
    assert re.fullmatch(rf"elmo-train: run.*{name}.*\n", capfd.readouterr().err)
    assert os.listdir("run") == [name]


def stop_before_the_first_step(self):
    raise KeyboardInterrupt("not trained")


@pytest.mark.parametrize(
    ("size", "settings", "warning"),
    [
        ({}, ["--warmup_steps=1"], None),  # of 2 steps
        (
            {},
            ["--warmup_steps=2"],
            "--warmup_steps=2: the run ends after 2 steps, before --learning_rate is reached",
        ),
        (
            {"dim": 300},
            [],
            rf"[\d,]+ parameters for {tiny.NUM_TOKENS} tokens: the model can learn such a text by "
            "heart; take a smaller --size or more text",
        ),
    ],
)
def test_warnings_before_the_first_step(folder, capfd, monkeypatch, size, settings, warning):
    from elmo_tf.training.loop import Trainer

    monkeypatch.setattr(Trainer, "train", stop_before_the_first_step)
    small_config(max_characters_per_token=7, **{"dim": 6, "projection_dim": 2, **size}).write(
        folder / "options.json"
    )
    assert begin("--max_steps=2", *settings) == 130
    warnings = "" if warning is None else f"warning: {warning}\n"
    assert re.fullmatch(f"{warnings}elmo-train: not trained\n", capfd.readouterr().err)


def test_what_was_trained_in_half_precision_is_exported_in_float32(folder, capfd, monkeypatch):
    from elmo_tf.export import saved_model
    from elmo_tf.model import loading

    exported = []
    monkeypatch.setattr(saved_model, "export", lambda encoder, *_, **__: exported.append(encoder))
    flags = ("--mixed_precision=bfloat16", "--accumulation_steps=2", "--max_steps=2")
    assert begin(*flags, "--export_dir=exported") == 0
    assert re.search(r"\n2 steps of 2 x 3 x 4 tokens, \d an epoch", capfd.readouterr().out)
    (encoder,) = exported
    assert encoder.dtype_policy.name == "float32"
    text, expected = ["b1 c2 d3"], loading.load_encoder("run")
    np.testing.assert_array_equal(encoder(text)["elmo"], expected(text)["elmo"])


def test_the_best_model_is_exported_and_not_the_last(folder, capfd, monkeypatch):
    from elmo_tf.export import saved_model
    from elmo_tf.model import loading

    exported = []
    monkeypatch.setattr(saved_model, "export", lambda encoder, *_, **__: exported.append(encoder))
    flags = ("--heldout_files=heldout.txt", "--steps_per_evaluation=1", "--max_steps=3")
    assert begin(*flags, "--learning_rate=30", "--export_dir=exported") == 0
    figures = json.loads(Path("run/heldout.json").read_text())
    assert figures["best"]["step"] < figures["last"]["step"]
    assert "exported run/best to exported" in capfd.readouterr().out
    (encoder,) = exported
    text, best, last = ["b1 c2 d3"], loading.load_encoder("run/best"), loading.load_encoder("run")
    vectors = encoder(text)["elmo"].numpy()
    np.testing.assert_array_equal(vectors, best(text)["elmo"])
    assert (vectors != last(text)["elmo"].numpy()).any()


def test_a_loss_that_is_not_finite_is_one_line(folder, capfd):
    flags = ("--learning_rate=1e30", "--initial_accumulator=1e-30", "--num_negative_samples=0")
    assert begin(*flags, "--steps_per_checkpoint=1") == 1
    errors = capfd.readouterr().err
    assert re.fullmatch(r"elmo-train: step \d: loss or gradient is not finite .*\n", errors)
    for array in newest_arrays("run").values():
        assert np.isfinite(array).all()


def start(folder, project_dir, *more):
    """The command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(project_dir)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.Popen(
        [sys.executable, "-m", "elmo_tf.train", *arguments("--options_file=options.json", *more)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_checkpoint(folder, seconds=120):
    end = time.monotonic() + seconds
    while not list(folder.glob("run/ckpt-*.index")):
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.02)


LONG = ("--num_epochs=30", "--steps_per_checkpoint=7")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The weights of the run that is not interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("unbroken"))
        tiny.CONFIG.write(Path("options.json"))
        tiny.write_files(Path.cwd())
        assert begin(*LONG) == 0
        return newest_arrays("run")


def assert_same_run(unbroken):
    weights = newest_arrays("run")
    for name, value in unbroken.items():
        np.testing.assert_array_equal(weights[name], value, err_msg=name)


@pytest.mark.traced
def test_sigterm_saves_and_the_same_command_goes_on(folder, project_dir, unbroken, capfd):
    with start(folder, project_dir, *LONG) as process:
        wait_for_checkpoint(folder)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=120)
    step = int(re.search(r"at step ([\d,]+)", errors)[1].replace(",", ""))
    assert errors == (
        "SIGTERM: finishing the current step, then saving\n"
        f"elmo-train: stopped by SIGTERM at step {step} of 240, saved in run; "
        "the same command resumes from there\n"
    )
    assert (process.returncode, os.path.exists(f"run/ckpt-{step}.index")) == (143, True)
    assert output.splitlines()[0] == "counting the tokens of 2 files"
    capfd.readouterr()
    assert begin(*LONG) == 0
    assert f"starting from step {step}" in capfd.readouterr().out
    assert_same_run(unbroken)


@pytest.mark.traced
def test_a_killed_run_loses_the_steps_since_the_last_checkpoint_and_nothing_else(
    folder, project_dir, unbroken
):
    with start(folder, project_dir, *LONG) as process:
        wait_for_checkpoint(folder)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert begin(*LONG) == 0
    assert_same_run(unbroken)


@pytest.mark.slow
def test_killed_at_any_moment(folder, project_dir):
    """Twenty times, while it starts, steps, saves and evaluates."""
    flags = ("--num_epochs=400", "--steps_per_checkpoint=3", "--steps_per_evaluation=10")
    flags = (*flags, "--heldout_files=heldout.txt")
    assert begin(*flags, model_dir="unbroken") == 0
    rng = np.random.default_rng(0)
    for _ in range(20):
        with start(folder, project_dir, *flags) as process:
            if not os.path.exists("run/training.json"):
                wait_for_checkpoint(folder)
            time.sleep(rng.uniform(3.0, 7.0))  # a start takes about three seconds
            assert process.poll() is None, "it was too quick to be killed"
            process.kill()
    assert begin(*flags) == 0
    assert_same_run(newest_arrays("unbroken"))
    for name in ("best", "last"):
        figures = [
            json.loads((folder / run / "heldout.json").read_text())[name]
            for run in ("run", "unbroken")
        ]
        assert figures[0] == figures[1]
