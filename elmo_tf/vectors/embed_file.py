"""Computes the vectors of a text file and writes them to an HDF5 file.

Lines are read and tokenized in chunks of several batches. Within a chunk, lines are sorted by
length so that batches need little padding; each line's vectors are written under its line number. A
second thread writes them while the next batch is computed.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.storage import files
from elmo_tf.text.batches import DEFAULT_BATCH_TOKENS
from elmo_tf.text.chunks import ChunkedText, Line
from elmo_tf.text.tokens import make_tokenizer
from elmo_tf.vectors.choices import DTYPES
from elmo_tf.vectors.line_vectors import CarriedLines, PureLines, fingerprint
from elmo_tf.vectors.sentence_vectors import SentenceVectors
from elmo_tf.vectors.vector_file import Progress, VectorFile

# Size of a chunk in bytes of text per token of a batch: about a dozen batches of English text.
_CHUNK_BYTES_PER_TOKEN = 64
_STATEFUL_CHUNK_BYTES = 4096  # lines are not sorted

# Called with completed lines, completed tokens and input offset: at the start, after each batch.
Report = Callable[[int, int, int], None]


class Summary(NamedTuple):
    """Statistics of a run.

    Attributes:
      num_lines: number of lines of the whole file.
      num_tokens: number of tokens of the whole file.
      tokens_before: number of these tokens that an earlier run computed.
      seconds: duration of this run.
      shape: shape of a dataset, with None for the number of tokens.
      is_indexed: see `VectorFile.finish`.
    """

    num_lines: int
    num_tokens: int
    tokens_before: int
    seconds: float
    shape: tuple[int | None, ...]
    is_indexed: bool


def embed_file(
    encoder: ElmoEncoder,
    input_file: str,
    output_file: str,
    *,
    layers: str = "all",
    dtype: str = "float32",
    tokenizer: str = "whitespace",
    normalize: str = "none",
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    is_stateful: bool = False,
    overwrite: bool = False,
    report: Report = lambda num_lines, num_tokens, offset: None,
    commit_seconds: float = 10.0,
) -> Summary:
    """Writes the vectors of each line of a text file to an HDF5 file; see `VectorFile`.

    This call resumes an interrupted one with the same model, text and arguments. `batch_tokens` and
    `overwrite` may differ, and lines may have been appended to the text.

    Args:
      encoder: the model.
      input_file: the text, any bytes, one sentence per line; it can be a pipe.
      output_file: the HDF5 file.
      layers: see `SentenceVectors`.
      dtype: "float32", or "float16", which halves the file and keeps three significant digits.
      tokenizer: see `elmo_tf.text.tokens.make_tokenizer`.
      normalize: see `elmo_tf.text.tokens.make_tokenizer`.
      batch_tokens: see `batches_by_tokens`. It changes vectors only by rounding.
      is_stateful: whether to carry the LSTM state over from line to line; see `CarriedLines`.
      overwrite: whether to replace a finished output, and to discard an unfinished one of a
        different call.
      report: called with the progress.
      commit_seconds: time between commits; an interruption loses this work and the current chunk.

    Raises:
      InputError: an argument is not valid; a file cannot be read or written, for example because
        the disk is full; the output exists; an unfinished one is of a different call; or a vector
        is beyond the range of float16.
    """
    begin = time.monotonic()
    settings = {
        "model": fingerprint(encoder),
        "layers": layers,
        "dtype": checks.one_of(*DTYPES)(dtype, "dtype"),
        "tokenizer": tokenizer,
        "normalize": normalize,
        "stateful": str(is_stateful).lower(),
    }
    batch_tokens = checks.integer(minimum=1)(batch_tokens, "batch_tokens")
    vectors = SentenceVectors(encoder, layers)
    text = ChunkedText(input_file, make_tokenizer(tokenizer, normalize))
    with VectorFile(output_file, settings, overwrite) as file:
        _pass_over_done(text, file, overwrite)
        before = file.progress
        compute: PureLines | CarriedLines = PureLines(vectors, batch_tokens)
        chunk_bytes = batch_tokens * _CHUNK_BYTES_PER_TOKEN
        if is_stateful:
            compute, chunk_bytes = CarriedLines(vectors, before.state), _STATEFUL_CHUNK_BYTES
        try:
            run = _Run(file, text, compute, np.dtype(dtype), report)
            is_indexed = run(chunk_bytes, commit_seconds)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(
                f"{str(interrupt) or 'interrupted'}; {_how_to_continue(file)}"
            ) from None
        except OSError as error:
            if error.errno not in files.FULL:
                raise
            raise InputError(
                f"{output_file}: cannot be written: {error.strerror}; {_how_to_continue(file)}"
            ) from error
        done = file.progress
    return Summary(
        num_lines=done.num_lines,
        num_tokens=done.num_tokens,
        tokens_before=before.num_tokens,
        seconds=time.monotonic() - begin,
        shape=vectors.shape,
        is_indexed=is_indexed,
    )


def _how_to_continue(file: VectorFile) -> str:
    if done := file.progress.num_lines:
        return f"the same command continues after line {done:,}"
    return "the same command starts at the first line"


def _pass_over_done(text: ChunkedText, file: VectorFile, overwrite: bool) -> None:
    """Skips the lines that `file` has already, after a check that they are the same."""
    done = file.progress
    text.skip(done.num_lines)
    if not done.num_lines or (text.num_lines, text.digest) == (done.num_lines, done.text_digest):
        return
    if not (overwrite and os.path.isfile(text.path)):
        raise InputError(
            f"{text.path}: its first {done.num_lines:,} lines are not those of the unfinished run "
            f"in {file.partial}; continue with the same text, or start anew with overwrite=True",
            "overwrite=True",
        )
    file.restart()
    text.rewind()


class _Run:
    """Computes in this thread and writes in another, the only one that uses the file.

    A keyboard interrupt reaches this thread, so it cannot interrupt HDF5.
    """

    def __init__(
        self,
        file: VectorFile,
        text: ChunkedText,
        compute: PureLines | CarriedLines,
        dtype: np.dtype,
        report: Report,
    ) -> None:
        self._file = file
        self._text = text
        self._compute = compute
        self._dtype = dtype
        self._report = report
        self._num_lines, self._num_tokens = file.progress.num_lines, file.progress.num_tokens

    def __call__(self, chunk_bytes: int, commit_seconds: float) -> bool:
        with ThreadPoolExecutor(max_workers=1) as writer:
            self._report(self._num_lines, self._num_tokens, self._text.offset)
            last_commit = time.monotonic()
            for chunk in self._text.chunks(chunk_bytes):
                self._embed(chunk, writer)
                self._report(self._num_lines, self._num_tokens, self._text.offset)
                if time.monotonic() - last_commit >= commit_seconds:
                    writer.submit(self._file.commit, self._progress()).result()
                    last_commit = time.monotonic()
            writer.submit(self._file.commit, self._progress()).result()
            return writer.submit(self._file.finish).result()

    def _embed(self, chunk: list[Line], writer: ThreadPoolExecutor) -> None:
        offset = self._text.offset - sum(len(line.text) + 1 for line in chunk)
        pending = writer.submit(self._add_sentences, chunk)
        for lines, vectors in self._compute(chunk):
            pending.result()  # at most one batch waits to be written
            pending = writer.submit(self._write, lines, vectors)
            self._num_lines += len(lines)
            self._num_tokens += sum(len(line.tokens) for line in lines)
            offset += sum(len(line.text) + 1 for line in lines)
            self._report(self._num_lines, self._num_tokens, offset)
        pending.result()

    def _progress(self) -> Progress:
        return Progress(
            num_lines=self._num_lines,
            num_tokens=self._num_tokens,
            text_digest=self._text.digest,
            state=self._compute.state(),
        )

    def _add_sentences(self, chunk: Sequence[Line]) -> None:
        for line in chunk:
            self._file.add_sentence(line.number, line.text)

    def _write(self, lines: Sequence[Line], vectors: Sequence[np.ndarray]) -> None:
        for line, values in zip(lines, vectors, strict=True):
            try:
                with np.errstate(over="raise"):
                    values = values.astype(self._dtype, copy=False)
            except FloatingPointError:
                raise InputError(
                    f"{self._text.path}:{line.number + 1}: a vector is beyond the range of "
                    f"{self._dtype.name}, {np.finfo(self._dtype).max}; use float32"
                ) from None
            self._file.write(line.number, values)
