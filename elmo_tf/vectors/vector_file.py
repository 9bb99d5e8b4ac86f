"""HDF5 files of vectors, a dataset for each line, that an interrupted run continues.

    with VectorFile("vectors.hdf5", settings={"layers": "top"}) as file:
        for number in range(file.progress.num_lines, len(lines)):
            file.write(number, vectors_of(lines[number]))
            file.add_sentence(number, lines[number])
            file.commit(Progress(num_lines=number + 1))
        file.finish()

Until it is finished, the file grows in the directory `vectors.hdf5.partial`.
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

# HDF5 1.8 and later read it. Its groups are trees in which a new name changes a few pages only,
# however many there are; in those of the default a table of all names is written again.
_FORMAT = ("v108", "v108")
_LONGEST_STRING = 2**31 - 1  # bytes, of NumPy
_PIECE = 1 << 20

# What is in the directory of an unfinished file.
_VECTORS, _SENTENCES = "vectors.hdf5", "sentences.json"
_PARTS = (_VECTORS, f"{_VECTORS}.journal", f"{_VECTORS}.journal.new", _SENTENCES)


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
      num_lines: lines of the input that are done, the first ones.
      num_tokens: tokens in them.
      text_digest: of the text of these lines.
      state: what else a run needs to go on, any value of JSON.
    """

    num_lines: int = 0
    num_tokens: int = 0
    text_digest: str = ""
    state: Any = None


class VectorFile:
    """An HDF5 file under construction; a context manager.

    Datasets `"0"`, `"1"`, ... hold the vectors of the lines. `sentence_to_index`, of shape `(1,)`,
    holds a JSON object from the text of each line to its number, as AllenNLP writes it.

    A run that is killed at any moment loses what it did after its last commit and no more: the next
    one finds it in `progress`. Not for two threads at once.

    Args:
      output_file: where the file will be after `finish`. Before, nothing is there.
      settings: what the vectors depend on, by name. An unfinished file is continued only if it was
        begun with the same. They become attributes of the finished file.
      overwrite: whether `finish` may replace a file, and an unfinished file that was begun with
        other settings is thrown away.

    Attributes:
      progress: as of the last commit, which an earlier process may have made.
      partial: the directory that holds the unfinished file.

    Raises:
      InputError: see `check_output`; or there is an unfinished file that was begun with other
        settings, or that another process is writing.
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
        with contextlib.ExitStack() as stack:  # the last is called first
            stack.callback(self._file.close)  # and with it the lock
            stack.callback(self._remove_if_useless)
            stack.callback(self._close_sentences)
            stack.callback(self._hdf5.close)

    def _close_sentences(self) -> None:
        with contextlib.suppress(OSError):  # a full disk costs what was not committed
            self._sentences.close()

    def _remove_if_useless(self) -> None:
        if self._file.record is None:  # nothing that a later run could use
            self._remove_partial()

    def _remove_partial(self) -> None:
        """Removes what this class wrote, and the directory if nothing else is in it."""
        for name in _PARTS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.partial, name))
        with contextlib.suppress(OSError):
            os.rmdir(self.partial)

    def restart(self) -> None:
        """Throws away what is there and begins at the first line."""
        self._hdf5.close()
        self._sentences.close()
        self._file.reset()
        self._open()

    def write(self, number: int, vectors: np.ndarray) -> None:
        """Adds the vectors of line `number`, of any shape and type of floats. May be empty."""
        vectors = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
        offset = self._allocate(str(number), vectors.dtype, vectors.shape)
        if vectors.size:
            self._file.write_at(offset, vectors.data.cast("B"))

    def add_sentence(self, number: int, line: bytes) -> None:
        """Adds line `number` to `sentence_to_index`.

        Its key is the text without white space at both ends. A byte that is not UTF-8 becomes the
        lone surrogate that Python's "surrogateescape" makes of it. Of lines with the same text a
        reader of the JSON keeps the last one, as AllenNLP did.
        """
        key = json.dumps(line.decode("utf-8", "surrogateescape").strip())
        separator = ", " if self._sentences.tell() else ""
        self._sentences.write(f'{separator}{key}: "{number}"'.encode("ascii"))

    def commit(self, progress: Progress) -> None:
        """Makes all that was added so far last, together with `progress`.

        Raises:
          OSError: the disk is full, or was full before.
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
        """Completes the file, after the last commit, and moves it to its place in one step.

        Returns:
          Whether there is a `sentence_to_index`: JSON of 2 GiB would be more than NumPy can read.
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
        """Opens what is there as of the last commit, of this process or an earlier one."""
        record = self._file.record
        self.progress = Progress(**record["progress"]) if record else Progress()
        self._hdf5 = h5py.File(self._file, "r+" if record else "w", libver=_FORMAT)
        path = os.path.join(self.partial, _SENTENCES)
        self._sentences = open(path, "ab")  # noqa: SIM115 - closed by __exit__
        self._sentences.truncate(record["sentence_bytes"] if record else 0)
        self._sentences.seek(0, os.SEEK_END)

    def _write_sentence_to_index(self) -> bool:
        """Writes it piece by piece: it is as long as the input's text."""
        size = self._sentences.tell() + len(b"{}")
        if SENTENCE_TO_INDEX in self._hdf5:  # of a run that was killed before the move
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
        """Makes a dataset and returns the place of its content in the file.

        HDF5 keeps the tables; the content is written without it, which copies nothing.
        """
        space = h5py.h5s.create_simple(shape)
        dataset = h5py.h5d.create(
            self._hdf5.id, name.encode(), h5py.h5t.py_create(kind), space, self._allocated_at_once
        )
        return dataset.get_offset()


def check_output(output_file: str, overwrite: bool) -> str:
    """Where the file will be; called early, it saves loading a model in vain.

    Raises:
      InputError: a file is there and `overwrite` is False, or see `files.check_target`.
    """
    target = files.check_target(output_file)
    if os.path.exists(target) and not overwrite:
        raise InputError(f"{output_file}: exists; overwrite=True replaces it", "overwrite=True")
    return target
