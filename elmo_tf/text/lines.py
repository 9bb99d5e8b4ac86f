"""Text files as numbered lines of bytes. Standard library only."""

import glob
import os
from collections.abc import Iterator

from elmo_tf.errors import InputError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# First bytes of files that are not text in UTF-8 though somebody may take them for it.
_NOT_UTF8_TEXT = {
    b"\xff\xfe": "is UTF-16 and not UTF-8; convert it, for instance with iconv",
    b"\xfe\xff": "is UTF-16 and not UTF-8; convert it, for instance with iconv",
    b"\x1f\x8b": "is compressed with gzip; unpack it first",
    b"\x89HDF": "is an HDF5 file and not text",
}


def expand_globs(patterns: str, flag: str) -> list[str]:
    """The files that comma separated patterns name, each once, sorted by name.

    `~` is the home directory and `**` any depth of directories. Directories that a pattern happens
    to match are passed over. A name that exists is taken as it is, whatever characters it has.

    Args:
      patterns: such as `data/*.txt,more.txt`.
      flag: the flag to name in errors, such as `--input_files`.

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
    # A file that is named in two ways, as "a.txt" and "./a.txt" or by a link, counts once.
    distinct: dict[tuple[int, int], str] = {}
    for path in sorted(files, key=lambda path: (os.path.normpath(path), path)):
        status = os.stat(path)
        distinct.setdefault((status.st_dev, status.st_ino), path)
    return list(distinct.values())


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, bytes]]:
    r"""Yields each line with its number, from 1 on.

    A line ends at `\n` or `\r\n`; that end is dropped and nothing else. A `\r` elsewhere is white
    space inside the line. The last line may lack its end. A byte order mark is dropped. Lines may
    have any length that fits in memory, and hold any bytes.

    Raises:
      InputError: the file is missing, a directory, not readable, or plainly no UTF-8 text.
    """
    for number, line, _ in read_lines_from(path):
        yield number, line


def read_lines_from(
    path: str | os.PathLike, offset: int = 0, line_number: int = 0
) -> Iterator[tuple[int, bytes, int]]:
    """As `read_lines`, from a place in the file, and with the place after each line.

    Args:
      path: the file; one that can't be sought, such as a pipe, can be read from its beginning.
      offset: bytes to pass over; a value that came out of here before.
      line_number: lines in those bytes.

    Yields:
      The line's number, its bytes, and the offset of the line after it.
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
                    if not line:  # the mark was all there is
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
