"""Splits sentences into windows for truncated backpropagation through time, in both directions.

Each row of a batch is a stream of sentences. The forward direction reads `<S> w1 .. wn </S>`: its
inputs are all tokens but the last, its targets all but the first, so `</S>` is never an input. The
backward direction reads the reversed sentence: it starts with the input `</S>` and ends with the
target `<S>`. A window has the next `unroll_steps` tokens of every row. Rows are filled in order; a
row at the end of its sentence takes the next sentence of the corpus. bilm-tf forms its windows in
the same way (Peters et al. 2018).

bilm-tf reads the files once per direction. A sentence has the same number of tokens in both, so
both directions have the same sentences at the same positions, and reading once is enough.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.text import characters
from elmo_tf.text.sentences import SentenceReader, Tokenizer
from elmo_tf.text.vocabulary import Vocabulary


class Window(NamedTuple):
    """The next steps of every row, in both directions.

    Attributes:
      tokens: the distinct input tokens of the window, boundaries included, in the order of their
        first use. The input layer computes each only once.
      token_index: int32 `[2, batch, steps]`, the inputs as indices into `tokens`; forward, then
        backward.
      targets: int32 `[2, batch, steps]`, vocabulary ids of the tokens to predict.
      lengths: int32 `[batch]`, number of real steps of each row, the same in both directions.
        After them, `token_index` and `targets` are 0 and have no meaning.
    """

    tokens: list[bytes]
    token_index: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray


class StreamState(NamedTuple):
    """Position of a `WindowStream`, which determines all later windows.

    Attributes:
      reader: state of the `SentenceReader`.
      rows: for each row, its current sentence and the number of steps read, or None between two
        sentences.
    """

    reader: dict
    rows: tuple[tuple[list[bytes], int] | None, ...]

    def to_json(self) -> dict:
        """The state as JSON values: one sentence per row."""
        rows = [
            row and {"tokens": [_to_text(token) for token in row[0]], "step": row[1]}
            for row in self.rows
        ]
        return {"reader": self.reader, "rows": rows}

    @classmethod
    def from_json(cls, values: dict) -> "StreamState":
        """The inverse of `to_json`."""
        rows = [
            row and ([_to_bytes(text) for text in row["tokens"]], row["step"])
            for row in values["rows"]
        ]
        return cls(values["reader"], tuple(rows))


class WindowStream:
    """Splits a reader's sentences into windows; see the module.

    The stream ends with its reader. The rest of the rows is then too short for a full window.
    Training drops it, as bilm-tf does; evaluation reads it in padded windows (`keep_incomplete`),
    so that each token is in exactly one window.

    Args:
      reader: yields the sentences. Nothing else may read from it.
      vocabulary: maps targets to ids.
      batch_size: number of rows.
      unroll_steps: tokens per row and window.
      keep_incomplete: whether to return the last windows with padded rows.
    """

    def __init__(
        self,
        reader: SentenceReader,
        vocabulary: Vocabulary,
        batch_size: int,
        unroll_steps: int,
        keep_incomplete: bool = False,
    ) -> None:
        self._reader = reader
        self._vocabulary = vocabulary
        self._batch_size = checks.integer(1)(batch_size, "batch_size")
        self._unroll_steps = checks.integer(1)(unroll_steps, "unroll_steps")
        self._keep_incomplete = keep_incomplete
        self._rows: list[_Row | None] = [None] * self._batch_size

    def next_window(self) -> Window | None:
        """The next window; None after the last one."""
        shape = (2, self._batch_size, self._unroll_steps)
        indices = _TokenIndices()
        token_index, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        lengths = np.zeros(self._batch_size, np.int32)
        for i in range(self._batch_size):
            lengths[i] = self._fill_row(i, indices, token_index[:, i], targets[:, i])
            if lengths[i] < self._unroll_steps and not self._keep_incomplete:
                return None
        if not lengths.any():
            return None
        return Window(list(indices), token_index, targets, lengths)

    def state(self) -> StreamState:
        """The current position, a snapshot that later windows do not change."""
        rows = tuple(None if row is None else (row.sentence, row.step) for row in self._rows)
        return StreamState(self._reader.state(), rows)

    def restore(self, state: StreamState) -> None:
        """Returns to a position. The following windows are bit-identical to those after `state`.

        Raises:
          InputError: the files, the reader's settings or the batch size have changed.
        """
        if len(state.rows) != self._batch_size:
            raise InputError(
                f"batch_size changed since the position in the data was saved: "
                f"was {len(state.rows)}, is {self._batch_size}"
            )
        self._reader.restore(state.reader)
        self._rows = [row and _Row(row[0], self._vocabulary, row[1]) for row in state.rows]

    def _fill_row(
        self, i: int, indices: "_TokenIndices", token_index: np.ndarray, targets: np.ndarray
    ) -> int:
        """Fills row `i` of the arrays, `[2, steps]` each; returns its number of real steps."""
        filled = 0
        while filled < self._unroll_steps:
            row = self._rows[i]
            if row is None:
                sentence = next(self._reader, None)
                if sentence is None:
                    break
                row = self._rows[i] = _Row(sentence, self._vocabulary)
            filled += row.take(indices, token_index[:, filled:], targets[:, filled:])
            if row.step == row.num_steps:
                self._rows[i] = None
        return filled


def sentence_windows(
    sentences: Sequence[list[bytes]], vocabulary: Vocabulary, unroll_steps: int
) -> Iterator[Window]:
    """Yields windows with one sentence per row, from its beginning to its end.

    For evaluation from zero state. A row is padding after its sentence has ended.

    Args:
      sentences: one per row.
      vocabulary: maps targets to ids.
      unroll_steps: maximum number of steps in a window; the last window has only as many steps as
        it needs.
    """
    rows = [_Row(sentence, vocabulary) for sentence in sentences]
    while num_left := max((row.num_steps - row.step for row in rows), default=0):
        shape = (2, len(rows), min(num_left, unroll_steps))
        indices = _TokenIndices()
        token_index, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        lengths = [
            row.take(indices, token_index[:, i], targets[:, i]) for i, row in enumerate(rows)
        ]
        yield Window(list(indices), token_index, targets, np.array(lengths, np.int32))


class CorpusCounts(NamedTuple):
    """Counts of a corpus.

    Attributes:
      num_sentences: lines with at least one token.
      num_tokens: targets of one direction: the words, and one boundary per sentence.
      num_known: words in the vocabulary, without `<UNK>`.
    """

    num_sentences: int
    num_tokens: int
    num_known: int


def count_corpus(
    files: Sequence[str], tokenizer: Tokenizer, vocabulary: Vocabulary | None = None
) -> CorpusCounts:
    """Counts in one pass over the files; `num_known` is 0 without a vocabulary."""
    num_sentences = num_tokens = num_known = 0
    for sentence in SentenceReader(files, tokenizer, passes=1):
        num_sentences += 1
        num_tokens += len(sentence) + 1
        if vocabulary is not None:
            num_known += vocabulary.count_known(sentence)
    return CorpusCounts(num_sentences, num_tokens, num_known)


class _Row:
    """The current sentence of a row, for both directions, and the number of steps read."""

    __slots__ = ("inputs", "num_steps", "sentence", "step", "targets")

    def __init__(self, sentence: list[bytes], vocabulary: Vocabulary, step: int = 0) -> None:
        tokens = [characters.BEGIN_TOKEN, *sentence, characters.END_TOKEN]
        ids = vocabulary.ids(tokens)
        self.sentence = sentence
        self.step = step
        self.num_steps = len(tokens) - 1
        self.inputs = (tokens[:-1], tokens[:0:-1])
        self.targets = (ids[1:], ids[-2::-1])

    def take(self, indices: "_TokenIndices", token_index: np.ndarray, targets: np.ndarray) -> int:
        """Writes the next steps to the start of the arrays, `[2, steps]`; returns their number."""
        begin = self.step
        self.step = end = min(begin + targets.shape[1], self.num_steps)
        for direction in (0, 1):
            inputs = self.inputs[direction][begin:end]
            token_index[direction, : end - begin] = [indices[token] for token in inputs]
            targets[direction, : end - begin] = self.targets[direction][begin:end]
        return end - begin


class _TokenIndices(dict):
    """Maps tokens to indices; a new token gets the next index."""

    def __missing__(self, token: bytes) -> int:
        self[token] = index = len(self)
        return index


def _to_text(token: bytes) -> str:
    # Files are UTF-8, but a tokenizer may split inside a character; surrogates survive JSON.
    return token.decode("utf-8", "surrogateescape")


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
