"""Turns out-of-memory failures into one-line errors that say what was requested."""

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from elmo_tf.errors import OutOfMemoryError, gigabytes, out_of_memory

_BYTES_PER_PARAMETER = 4


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Context that turns running out of memory into an `OutOfMemoryError` beginning with `what`."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise OutOfMemoryError(f"{what}: {out_of_memory(error)}") from error


@contextlib.contextmanager
def for_parameters(num_parameters: int) -> Iterator[None]:
    """Like `named`, for a context that builds a model.

    A model whose weights alone exceed the machine's memory is refused at once. A system that
    overcommits memory would let the build start and kill the process later.
    """
    size = gigabytes(_BYTES_PER_PARAMETER * num_parameters)
    what = f"a model of {_in_words(num_parameters)} parameters, {size} as float32"
    available = physical_memory()
    if available is not None and _BYTES_PER_PARAMETER * num_parameters > available:
        raise OutOfMemoryError(f"{what}: this machine has {gigabytes(available)} of memory")
    with named(what):
        yield


def physical_memory() -> int | None:
    """Physical memory of this machine in bytes, or None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _in_words(count: int) -> str:
    return f"{count:,}" if count < 1e12 else f"{count:.1e}"
