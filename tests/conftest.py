"""What every test shares: quiet TensorFlow, the same devices everywhere, the reference data."""

import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from elmo_tf.model.encoder import ElmoEncoder

# TensorFlow reads these once, when it is first imported, so they are set before any test module.
# setdefault: a developer may still choose, say, a GPU.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # tolerances are those of the CPU
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "2")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")

PROJECT_DIR = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """TensorFlow's functions run eagerly, unless the test is marked `traced` or `slow`.

    Values are the same. A trace of a small encoder takes two seconds of Python, and then TensorFlow
    optimizes its graph; the sentences of a test take milliseconds. Tests of traces, static shapes
    and Keras's own training loop are marked, and one test of each way into the library. What an
    export holds is always traced, and runs as a graph when it is loaded.
    """
    tensorflow = sys.modules.get("tensorflow")  # rooms without TensorFlow stay without
    if tensorflow is not None:
        marks = {mark.name for mark in item.iter_markers()}
        tensorflow.config.run_functions_eagerly(marks.isdisjoint({"traced", "slow"}))
    for name in ("elmo_tf.export.saved_model", "export.saved_model"):
        if name in sys.modules:
            _export_traced_functions(sys.modules[name])


def _export_traced_functions(saved_model: Any) -> None:
    """Makes `export` write the graph that users get, in which functions call functions."""
    export = saved_model.export
    if hasattr(export, "__wrapped__"):
        return

    @functools.wraps(export)
    def traced(*args: Any, **kwargs: Any) -> None:
        import tensorflow as tf

        runs_eagerly = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(False)
        try:
            export(*args, **kwargs)
        finally:
            tf.config.run_functions_eagerly(runs_eagerly)

    saved_model.export = traced


@pytest.fixture(scope="session")
def project_dir() -> Path:
    """The root of the checkout."""
    return PROJECT_DIR


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """Signals do what they do in a terminal, here and in processes that the test starts.

    Tests may run as a script's job in the background, where SIGINT is ignored, or under `nohup`.
    """
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def shared_steps() -> Iterator[None]:
    """Trainers with the same settings share a traced step; see `tests.training.shared_steps`."""
    from elmo_tf.training import distributed
    from tests.training.shared_steps import make_step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed.OneDevice, "make_step", staticmethod(make_step))
        yield


@pytest.fixture(scope="session")
def small_encoder() -> "ElmoEncoder":
    """The encoder of `tests.models`, to be read and not changed."""
    from tests import models

    return models.small_encoder()


@pytest.fixture(scope="session")
def small_pair(small_encoder: "ElmoEncoder", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with its weights in published format (its mix has no place there)."""
    from tests import models

    return models.write_pair(tmp_path_factory.mktemp("small") / "pair", small_encoder)


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """The reference data beside the checkout; the test is skipped where there is none."""
    path = PROJECT_DIR.parent / "shared" / "fixtures"
    if not path.is_dir():
        pytest.skip(f"reference data not found: {path}")
    return path
