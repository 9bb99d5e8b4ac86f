"""Importing TensorFlow, quietly."""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator


def load_tensorflow() -> None:
    """Imports TensorFlow without its log lines, and makes it the backend of Keras.

    Some of the lines are written by C++ before any setting is read, so the stream itself is set
    aside during the import. With a TF_CPP_MIN_LOG_LEVEL below 3, a user's choice, all are visible.
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
        import tensorflow  # noqa: F401, what it prints while it starts is all that matters here


@contextlib.contextmanager
def _stderr_set_aside() -> Iterator[None]:
    """Keeps what is written to stderr, by C++ too, and shows it only if the block fails."""
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
