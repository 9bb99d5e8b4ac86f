"""Atomically written files, and JSON with errors that name the line.

Standard library only: the configuration and every command build on it.
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from elmo_tf.errors import InputError
from elmo_tf.storage import scratch

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# Our JSON files are small; `training.json` grows by about 60 bytes per training file.
_MOST_BYTES = 1 << 26


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike) -> Iterator[str]:
    """Yields a path to write to; the file moves to `path` when the block ends without an error.

    The file is flushed to disk before the move, so not even a power cut leaves a partial file at
    `path`. If the block fails, `path` is unchanged; see `scratch.replacement`. Missing parents of
    `path` are created.

    Raises:
      InputError: as for `check_target`, or the disk is full.
    """
    target = check_target(path)
    with failures_named(path, target), scratch.replacement(target) as temporary:
        yield temporary


@contextlib.contextmanager
def failures_named(path: str | os.PathLike, target: str) -> Iterator[None]:
    """Turns an `OSError` while `path` is written into an `InputError` that names it.

    Args:
      path: the path as the user gave it.
      target: the absolute path. Errors about other paths pass through, and so does
        `FileNotFoundError`: a file that should have been written and is missing is our bug.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if isinstance(error.filename, str):
            is_about_target = scratch.belongs_to(error.filename, target)
        else:
            is_about_target = error.errno in FULL
        if not is_about_target:
            raise
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def check_target(path: str | os.PathLike) -> str:
    """The absolute path that `write_atomically` will write.

    Call it before long work, so that a bad path fails early.

    Raises:
      InputError: `path` is a directory, a device or a pipe, or its parents can't be created.
    """
    # Follow a link and write to its target, as `open` does.
    target = os.path.realpath(os.path.expanduser(path))
    if os.path.isdir(target):
        raise InputError(f"{path}: is a directory, not a file to write to")
    if os.path.exists(os.path.expanduser(path)) and not os.path.isfile(target):
        raise InputError(f"{path}: is not a regular file, and would be replaced by one")
    check_parents(path, target)
    return target


def check_parents(path: str | os.PathLike, target: str) -> None:
    """Checks that `target` can be created: the nearest existing parent is a writable directory.

    Args:
      path: `target` as the user gave it, for the error.
      target: an absolute path.

    Raises:
      InputError: the parent is a file, or is not writable.
    """
    parent = os.path.dirname(target)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise InputError(f"{path}: can't be made, since {parent} is not a directory")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: can't be made in {parent}: no permission to write there")


def require_utf8(path: str | os.PathLike) -> None:
    """Raises an `InputError` for a path that is not UTF-8, which TensorFlow's C++ can't open."""
    try:
        os.fspath(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path}: TensorFlow takes only paths in UTF-8; rename the file or directory"
        ) from error


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copies the content of a file.

    Raises:
      InputError: `source` is missing or can't be read.
    """
    try:
        file = open(os.path.expanduser(source), "rb")  # noqa: SIM115, only errors of reading count
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from error
    with file, open(target, "xb") as copied:
        shutil.copyfileobj(file, copied)


def read_json(path: str | os.PathLike, most_bytes: int = _MOST_BYTES) -> dict[str, Any]:
    """Reads a JSON object from a UTF-8 file, with or without a byte order mark.

    Args:
      path: the file.
      most_bytes: limit of the file's size; a larger file is an error.

    Raises:
      InputError: the file is missing, unreadable or too large, is not UTF-8, is not JSON (the
        message gives line and column), or is not a JSON object.
    """
    try:
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from error
    if len(content) > most_bytes:
        raise InputError(f"{path}: is too large for what it should hold, over {most_bytes:,} bytes")
    return parse_json(content, str(path))


def parse_json(content: bytes, source: str) -> dict[str, Any]:
    """Parses the bytes of a JSON object; `source` is the file name to show in errors.

    Raises:
      InputError: as for `read_json`.
    """
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{source}:{line}: is not UTF-8: byte 0x{content[error.start]:02x} at {error.start}"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}:{error.lineno}: is not JSON: {error.msg} (column {error.colno})"
        ) from error
    except (ValueError, RecursionError) as error:  # numbers or nesting beyond Python's limits
        raise InputError(f"{source}: is not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{source}: must hold a JSON object {{...}}, got {type(value).__name__}")
    return value


def write_json(path: str | os.PathLike, value: Mapping[str, Any]) -> None:
    """Writes `value` as indented JSON, atomically."""
    text = json.dumps(value, indent=2) + "\n"
    with write_atomically(path) as temporary, open(temporary, "x", encoding="ascii") as file:
        file.write(text)
