"""Memory: more than there is ends in one line that says what was asked for."""

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from elmo_tf.errors import OutOfMemoryError, gigabytes, out_of_memory

_BYTES_PER_PARAMETER = 4


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Running out of memory inside is an `OutOfMemoryError` that begins with `what`."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise OutOfMemoryError(f"{what}: {out_of_memory(error)}") from error


@contextlib.contextmanager
def for_parameters(num_parameters: int) -> Iterator[None]:
    """As `named`, for a model that is built inside.

    One whose weights alone are larger than the machine's memory is refused before: systems that
    promise more memory than they have would let it begin, and kill the process later.
    """
    size = gigabytes(_BYTES_PER_PARAMETER * num_parameters)
    what = f"a model of {_in_words(num_parameters)} parameters, {size} as float32"
    available = physical_memory()
    if available is not None and _BYTES_PER_PARAMETER * num_parameters > available:
        raise OutOfMemoryError(f"{what}: this machine has {gigabytes(available)} of memory")
    with named(what):
        yield


def physical_memory() -> int | None:
    """Bytes of memory of this machine, or None if the system doesn't tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _in_words(count: int) -> str:
    return f"{count:,}" if count < 1e12 else f"{count:.1e}"
