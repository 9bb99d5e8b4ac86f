"""What every test shares: quiet TensorFlow, the same devices everywhere, the reference data."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

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
def eager_functions() -> Iterator[None]:
    """Functions that TensorFlow would trace run operation by operation, with the same values.

    A trace and TensorFlow's passes over its graph take seconds, the small sentences of a test
    milliseconds. For modules that compute much once and look at values; traces have tests of their
    own, and so has each export.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def traced_functions() -> Iterator[None]:
    """Functions are traced, in a module that uses `eager_functions`.

    For tests of traces, static shapes, Keras's own training loop and what only a graph can get
    wrong.
    """
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(before)


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
