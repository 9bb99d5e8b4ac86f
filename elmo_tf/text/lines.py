"""Reads text files as numbered lines of bytes. Standard library only."""

import glob
import os
from collections.abc import Iterator

from elmo_tf.errors import InputError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# First bytes of other formats that a user may give by mistake.
_NOT_UTF8_TEXT = {
    b"\xff\xfe": "is UTF-16 and not UTF-8; convert it, for instance with iconv",
    b"\xfe\xff": "is UTF-16 and not UTF-8; convert it, for instance with iconv",
    b"\x1f\x8b": "is compressed with gzip; unpack it first",
    b"\x89HDF": "is an HDF5 file and not text",
}


def expand_globs(patterns: str, flag: str) -> list[str]:
    """Expands comma separated patterns to distinct files, sorted by name.

    `~` is the home directory and `**` matches any depth of directories. Directories that a pattern
    matches are skipped. The name of an existing file is never treated as a pattern.

    Args:
      patterns: such as `data/*.txt,more.txt`.
      flag: its name in errors, such as `--input_files`.

    Raises:
      InputError: a pattern matches no file.
    """
    if os.path.isfile(patterns):  # a name with a comma in it
        return [patterns]
    files: set[str] = set()
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        path = os.path.expanduser(pattern)
        if os.path.isdir(path):
            raise InputError(f"{flag}: {pattern} is a directory; for its files give {pattern}/*")
        matches = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
        matches = [match for match in matches if not os.path.isdir(match)]
        if not matches:
            raise InputError(f"{flag}: no file matches {pattern}")
        files.update(matches)
    if not files:
        raise InputError(f"{flag}: no file given")
    # A file with two names, such as "a.txt" and "./a.txt" or a link, counts once.
    distinct: dict[tuple[int, int], str] = {}
    for path in sorted(files, key=lambda path: (os.path.normpath(path), path)):
        status = os.stat(path)
        distinct.setdefault((status.st_dev, status.st_ino), path)
    return list(distinct.values())


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, bytes]]:
    r"""Yields each line with its 1-based number.

    A line ends at `\n` or `\r\n`, which is removed; the last line may lack it. A `\r` elsewhere is
    white space inside the line. A byte order mark is removed. Lines may have any bytes and any
    length that fits in memory.

    Raises:
      InputError: the file is missing, a directory, not readable, or in a format such as gzip.
    """
    for number, line, _ in read_lines_from(path):
        yield number, line


def read_lines_from(
    path: str | os.PathLike, offset: int = 0, line_number: int = 0
) -> Iterator[tuple[int, bytes, int]]:
    """Like `read_lines`, but starts at an offset and also yields the offset after each line.

    Args:
      path: the file. A pipe, which can't be sought, can only be read from its beginning.
      offset: bytes to skip; a value yielded by an earlier call.
      line_number: number of lines in those bytes.

    Yields:
      The line's number, its bytes, and the offset of the next line.
    """
    path = os.path.expanduser(path)
    try:
        with open(path, "rb") as file:
            if offset:
                file.seek(offset)
            for number, line in enumerate(file, start=line_number + 1):
                is_first = offset == 0
                offset += len(line)
                if is_first:
                    _refuse_other_formats(line, path)
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                    if not line:  # the file has only a byte order mark
                        return
                if line.endswith(b"\n"):
                    line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
                yield number, line, offset
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def check_utf8(line: bytes, path: str | os.PathLike, number: int) -> None:
    """Raises an `InputError` with file, line and byte if the line is not UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}:{number}: is not UTF-8: byte 0x{line[error.start]:02x} "
            f"at byte {error.start + 1} of the line"
        ) from None


def _refuse_other_formats(first_line: bytes, path: str) -> None:
    for first_bytes, reason in _NOT_UTF8_TEXT.items():
        if first_line.startswith(first_bytes):
            raise InputError(f"{path}: {reason}")
