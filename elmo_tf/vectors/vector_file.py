"""HDF5 files of vectors, with one dataset per line, written by resumable runs.

    with VectorFile("vectors.hdf5", settings={"layers": "top"}) as file:
        for number in range(file.progress.num_lines, len(lines)):
            file.write(number, vectors_of(lines[number]))
            file.add_sentence(number, lines[number])
            file.commit(Progress(num_lines=number + 1))
        file.finish()

Until it is finished, the file is in the directory `vectors.hdf5.partial`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import h5py
import numpy as np

from elmo_tf.errors import InputError
from elmo_tf.storage import files
from elmo_tf.storage.journaled_file import JournaledFile

SENTENCE_TO_INDEX = "sentence_to_index"

# The format of HDF5 1.8. Its groups are trees, in which a new name changes only a few pages. In the
# default format, a table of all names would be rewritten.
_FORMAT = ("v108", "v108")
_LONGEST_STRING = 2**31 - 1  # bytes, NumPy's limit
_PIECE = 1 << 20

# Files in the directory of an unfinished file.
_VECTORS, _SENTENCES = "vectors.hdf5", "sentences.json"
_PARTS = (_VECTORS, f"{_VECTORS}.journal", f"{_VECTORS}.journal.new", _SENTENCES)


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a run.

    Attributes:
      num_lines: number of completed lines at the beginning of the input.
      num_tokens: number of tokens in them.
      text_digest: digest of their text.
      state: additional state for resuming, any JSON value.
    """

    num_lines: int = 0
    num_tokens: int = 0
    text_digest: str = ""
    state: Any = None


class VectorFile:
    """Context manager for an HDF5 file of vectors that is being written.

    Datasets `"0"`, `"1"`, ... hold the vectors of the lines. As in AllenNLP, `sentence_to_index`,
    of shape `(1,)`, holds a JSON object that maps the text of each line to its number.

    A run that is killed at any moment loses only its work after the last commit; the next run finds
    that commit in `progress`. The class is not thread-safe.

    Args:
      output_file: path of the finished file, which appears with `finish`.
      settings: settings that the vectors depend on, by name. An unfinished file is resumed only if
        its settings are equal. They become attributes of the finished file.
      overwrite: whether `finish` may replace a file, and whether to discard an unfinished file with
        different settings.

    Attributes:
      progress: the progress at the last commit, possibly of an earlier process.
      partial: the directory of the unfinished file.

    Raises:
      InputError: see `check_output`; or there is an unfinished file with different settings, or one
        that another process is writing.
    """

    _hdf5: h5py.File
    _sentences: BinaryIO

    def __init__(
        self, output_file: str, settings: Mapping[str, str], overwrite: bool = False
    ) -> None:
        self._target = check_output(output_file, overwrite)
        self._settings = dict(settings)
        self.partial = f"{self._target}.partial"
        self._allocated_at_once = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._allocated_at_once.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        self._allocated_at_once.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        self._allocated_at_once.set_obj_track_times(False)
        with contextlib.ExitStack() as undo:
            os.makedirs(self.partial, exist_ok=True)
            self._file = JournaledFile(os.path.join(self.partial, _VECTORS))
            undo.callback(self._file.close)
            undo.callback(self._remove_if_useless)
            self._check_settings(overwrite)
            self._open()
            undo.pop_all()

    def __enter__(self) -> VectorFile:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as stack:  # the last callback is called first
            stack.callback(self._file.close)  # also releases the lock
            stack.callback(self._remove_if_useless)
            stack.callback(self._close_sentences)
            stack.callback(self._hdf5.close)

    def _close_sentences(self) -> None:
        with contextlib.suppress(OSError):  # a full disk loses only uncommitted work
            self._sentences.close()

    def _remove_if_useless(self) -> None:
        if self._file.record is None:  # nothing was committed
            self._remove_partial()

    def _remove_partial(self) -> None:
        """Removes the files of this class, and the directory if it is then empty."""
        for name in _PARTS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.partial, name))
        with contextlib.suppress(OSError):
            os.rmdir(self.partial)

    def restart(self) -> None:
        """Discards the unfinished file and starts at the first line."""
        self._hdf5.close()
        self._sentences.close()
        self._file.reset()
        self._open()

    def write(self, number: int, vectors: np.ndarray) -> None:
        """Adds the vectors of line `number`: floats of any shape and dtype, possibly empty."""
        vectors = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
        offset = self._allocate(str(number), vectors.dtype, vectors.shape)
        if vectors.size:
            self._file.write_at(offset, vectors.data.cast("B"))

    def add_sentence(self, number: int, line: bytes) -> None:
        """Adds line `number` to `sentence_to_index`.

        Its key is the text without white space at both ends. An invalid UTF-8 byte becomes a lone
        surrogate, as in Python's "surrogateescape". Of lines with equal text, JSON readers keep the
        last, as in AllenNLP.
        """
        key = json.dumps(line.decode("utf-8", "surrogateescape").strip())
        separator = ", " if self._sentences.tell() else ""
        self._sentences.write(f'{separator}{key}: "{number}"'.encode("ascii"))

    def commit(self, progress: Progress) -> None:
        """Commits everything added so far, together with `progress`.

        Raises:
          OSError: the disk is full, or was full at an earlier write.
        """
        self._hdf5.flush()
        self._sentences.flush()
        os.fsync(self._sentences.fileno())
        self._file.commit(
            {
                "settings": self._settings,
                "progress": dataclasses.asdict(progress),
                "sentence_bytes": self._sentences.tell(),
            }
        )
        self.progress = progress

    def finish(self) -> bool:
        """Completes the file after the last commit and moves it to `output_file` atomically.

        Returns:
          Whether the file has `sentence_to_index`, which is omitted if it exceeds NumPy's limit of
          2 GiB.
        """
        is_indexed = self._write_sentence_to_index()
        self._hdf5.attrs.update(self._settings)
        self._hdf5.close()
        self._file.commit(self._file.record)
        self._file.move_to(self._target)
        self._remove_partial()
        return is_indexed

    def _check_settings(self, overwrite: bool) -> None:
        if self._file.record is None:
            return
        before = self._file.record["settings"]
        if before == self._settings:
            return
        if overwrite:
            self._file.reset()
            return
        names = [name for name, value in self._settings.items() if before.get(name) != value]
        was, now = (
            ", ".join(f"{name}={values.get(name)}" for name in names)
            for values in (before, self._settings)
        )
        raise InputError(
            f"{self.partial}: an unfinished run with {was}, and now it is {now}; continue it as it "
            "was begun, or start anew with overwrite=True",
            "overwrite=True",
        )

    def _open(self) -> None:
        """Opens the files in the state of the last commit, of this or an earlier process."""
        record = self._file.record
        self.progress = Progress(**record["progress"]) if record else Progress()
        self._hdf5 = h5py.File(self._file, "r+" if record else "w", libver=_FORMAT)
        path = os.path.join(self.partial, _SENTENCES)
        self._sentences = open(path, "ab")  # noqa: SIM115 - closed by __exit__
        self._sentences.truncate(record["sentence_bytes"] if record else 0)
        self._sentences.seek(0, os.SEEK_END)

    def _write_sentence_to_index(self) -> bool:
        """Writes it in parts, because it is as long as the input text."""
        size = self._sentences.tell() + len(b"{}")
        if SENTENCE_TO_INDEX in self._hdf5:  # an earlier run was killed before the move
            del self._hdf5[SENTENCE_TO_INDEX]
        if size > _LONGEST_STRING:
            return False
        offset = self._allocate(SENTENCE_TO_INDEX, np.dtype(f"S{size}"), (1,))
        with open(self._sentences.name, "rb") as file:
            for piece in itertools.chain([b"{"], iter(lambda: file.read(_PIECE), b""), [b"}"]):
                self._file.write_at(offset, piece)
                offset += len(piece)
        return True

    def _allocate(self, name: str, kind: np.dtype, shape: tuple[int, ...]) -> int:
        """Creates a dataset and returns the offset of its content in the file.

        HDF5 writes the metadata. We write the content without HDF5, which avoids copies.
        """
        space = h5py.h5s.create_simple(shape)
        dataset = h5py.h5d.create(
            self._hdf5.id, name.encode(), h5py.h5t.py_create(kind), space, self._allocated_at_once
        )
        return dataset.get_offset()


def check_output(output_file: str, overwrite: bool) -> str:
    """The real path of the output file. Call this before loading a model.

    Raises:
      InputError: the file exists and `overwrite` is False; or see `files.check_target`.
    """
    target = files.check_target(output_file)
    if os.path.exists(target) and not overwrite:
        raise InputError(f"{output_file}: exists; overwrite=True replaces it", "overwrite=True")
    return target
