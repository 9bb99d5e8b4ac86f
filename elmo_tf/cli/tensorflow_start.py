"""Imports TensorFlow without its log lines."""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator


def load_tensorflow() -> None:
    """Imports TensorFlow without its log lines and makes it the backend of Keras.

    C++ code writes some of the lines before it reads any setting, so stderr itself is redirected
    during the import. If the user set TF_CPP_MIN_LOG_LEVEL below 3, all lines are shown.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ["KERAS_BACKEND"] = "tensorflow"
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet = level not in ("0", "1", "2") and sys.stderr is not None
    if quiet:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        for name in ("tensorflow", "absl"):
            logging.getLogger(name).setLevel(logging.ERROR)
    with _stderr_set_aside() if quiet else contextlib.nullcontext():
        import tensorflow  # noqa: F401, only the import's output matters here


@contextlib.contextmanager
def _stderr_set_aside() -> Iterator[None]:
    """Captures stderr, including output of C++ code, and shows it only if the block fails."""
    sys.stderr.flush()
    descriptor = 2
    terminal = os.dup(descriptor)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), descriptor)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            os.dup2(terminal, descriptor)
            os.close(terminal)
