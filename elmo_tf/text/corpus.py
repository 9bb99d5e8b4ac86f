"""Sentences to windows: what a language model with carried state is trained on, in both directions.

Each row of a batch is an endless stream. Forward it reads sentences `<S> w1 .. wn </S>`: inputs
are all but the last token, targets all but the first, so that `</S>` is only ever a target. The
backward stream does the same with each sentence reversed: it starts with `</S>` and ends with the
target `<S>`. A window holds the next `unroll_steps` tokens of every row. Within a window rows are
filled one after the other; a row whose sentence is used up takes the next sentence that nobody
has read. This is how bilm-tf cuts its windows (Peters et al., 2018).

bilm-tf passes over the files once per direction. Both passes meet the same sentences, a sentence
has as many tokens backward as forward, so both directions have the same sentence at the same
place, and one pass is enough.
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
      tokens: the distinct tokens of the window in the order of their first use, boundaries
        among them; what the character CNN has to be run on.
      token_index: int32 `[2, batch, steps]`, inputs as places in `tokens`; forward, then backward.
      targets: int32 `[2, batch, steps]`, vocabulary ids of the tokens to predict.
      lengths: int32 `[batch]`, real steps of each row, the same in both directions. Behind
        them `token_index` and `targets` are 0 and mean nothing.
    """

    tokens: list[bytes]
    token_index: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray


class StreamState(NamedTuple):
    """Position of a `WindowStream`: everything that the windows to come depend on.

    Attributes:
      reader: state of the `SentenceReader`.
      rows: for each row the sentence it is in and the steps taken of it, or None between two.
    """

    reader: dict
    rows: tuple[tuple[list[bytes], int] | None, ...]

    def to_json(self) -> dict:
        """The state as JSON values, small: a sentence for each row."""
        rows = [
            row and {"tokens": [_to_text(token) for token in row[0]], "step": row[1]}
            for row in self.rows
        ]
        return {"reader": self.reader, "rows": rows}

    @classmethod
    def from_json(cls, values: dict) -> "StreamState":
        """The state that `to_json` gave `values` for."""
        rows = [
            row and ([_to_bytes(text) for text in row["tokens"]], row["step"])
            for row in values["rows"]
        ]
        return cls(values["reader"], tuple(rows))


class WindowStream:
    """Cuts the sentences of a reader into windows; see the module.

    The stream ends when the reader does. What is then left of the rows fills no window of
    `unroll_steps` for every row; training leaves it out, as bilm-tf does, and evaluation gets it
    as windows whose rows are padded (`keep_incomplete`), so that each token is in exactly one.

    Args:
      reader: gives the sentences; belongs to this stream from now on.
      vocabulary: gives the ids of the targets.
      batch_size: rows.
      unroll_steps: tokens per row and window.
      keep_incomplete: whether the last windows may have rows that are not full.
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
        """The next window, or None when there is none, now and from then on."""
        shape = (2, self._batch_size, self._unroll_steps)
        places = _Places()
        token_index, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        lengths = np.zeros(self._batch_size, np.int32)
        for i in range(self._batch_size):
            lengths[i] = self._fill_row(i, places, token_index[:, i], targets[:, i])
            if lengths[i] < self._unroll_steps and not self._keep_incomplete:
                return None
        if not lengths.any():
            return None
        return Window(list(places), token_index, targets, lengths)

    def state(self) -> StreamState:
        """The position, a few pointers for each row; later windows do not change it."""
        rows = tuple(None if row is None else (row.sentence, row.step) for row in self._rows)
        return StreamState(self._reader.state(), rows)

    def restore(self, state: StreamState) -> None:
        """Goes to a position: the windows that followed it then follow again, bit for bit.

        Raises:
          InputError: the files, the reader's settings or the batch size are not the same.
        """
        if len(state.rows) != self._batch_size:
            raise InputError(
                f"batch_size changed since the position in the data was saved: "
                f"was {len(state.rows)}, is {self._batch_size}"
            )
        self._reader.restore(state.reader)
        self._rows = [row and _Row(row[0], self._vocabulary, row[1]) for row in state.rows]

    def _fill_row(
        self, i: int, places: "_Places", token_index: np.ndarray, targets: np.ndarray
    ) -> int:
        """Fills row `i`, of which it is given `[2, steps]`; returns how many steps are real."""
        filled = 0
        while filled < self._unroll_steps:
            row = self._rows[i]
            if row is None:
                sentence = next(self._reader, None)
                if sentence is None:
                    break
                row = self._rows[i] = _Row(sentence, self._vocabulary)
            filled += row.take(places, token_index[:, filled:], targets[:, filled:])
            if row.step == row.num_steps:
                self._rows[i] = None
        return filled


def sentence_windows(
    sentences: Sequence[list[bytes]], vocabulary: Vocabulary, unroll_steps: int
) -> Iterator[Window]:
    """Windows that read each sentence in a row of its own, from its beginning to its end.

    For models that read every sentence by itself. Rows whose sentence has ended are padding.

    Args:
      sentences: one a row.
      vocabulary: gives the ids of the targets.
      unroll_steps: most steps of a window; the last one is as long as it has to be.
    """
    rows = [_Row(sentence, vocabulary) for sentence in sentences]
    while num_left := max((row.num_steps - row.step for row in rows), default=0):
        shape = (2, len(rows), min(num_left, unroll_steps))
        places = _Places()
        token_index, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        lengths = [row.take(places, token_index[:, i], targets[:, i]) for i, row in enumerate(rows)]
        yield Window(list(places), token_index, targets, np.array(lengths, np.int32))


class CorpusCounts(NamedTuple):
    """What a corpus holds.

    Attributes:
      num_sentences: lines with at least one token.
      num_tokens: the targets of one direction: the words, and one boundary for each sentence.
      num_known: of the words, those that the vocabulary has, and not as `<UNK>`.
    """

    num_sentences: int
    num_tokens: int
    num_known: int


def count_corpus(
    files: Sequence[str], tokenizer: Tokenizer, vocabulary: Vocabulary | None = None
) -> CorpusCounts:
    """Counts in one pass over the files; without a vocabulary no word is known."""
    num_sentences = num_tokens = num_known = 0
    for sentence in SentenceReader(files, tokenizer, passes=1):
        num_sentences += 1
        num_tokens += len(sentence) + 1
        if vocabulary is not None:
            num_known += vocabulary.count_known(sentence)
    return CorpusCounts(num_sentences, num_tokens, num_known)


class _Row:
    """The sentence a row is in, as both directions read it, and the steps taken of it."""

    __slots__ = ("inputs", "num_steps", "sentence", "step", "targets")

    def __init__(self, sentence: list[bytes], vocabulary: Vocabulary, step: int = 0) -> None:
        tokens = [characters.BEGIN_TOKEN, *sentence, characters.END_TOKEN]
        ids = vocabulary.ids(tokens)
        self.sentence = sentence
        self.step = step
        self.num_steps = len(tokens) - 1
        self.inputs = (tokens[:-1], tokens[:0:-1])
        self.targets = (ids[1:], ids[-2::-1])

    def take(self, places: "_Places", token_index: np.ndarray, targets: np.ndarray) -> int:
        """Moves the next steps to the front of `[2, steps]`; returns how many there were."""
        begin = self.step
        self.step = end = min(begin + targets.shape[1], self.num_steps)
        for direction in (0, 1):
            inputs = self.inputs[direction][begin:end]
            token_index[direction, : end - begin] = [places[token] for token in inputs]
            targets[direction, : end - begin] = self.targets[direction][begin:end]
        return end - begin


class _Places(dict):
    """Token -> its place among the distinct ones; a new token gets the next place."""

    def __missing__(self, token: bytes) -> int:
        self[token] = place = len(self)
        return place


def _to_text(token: bytes) -> str:
    # Files are UTF-8, but a tokenizer may cut anywhere; surrogates survive JSON.
    return token.decode("utf-8", "surrogateescape")


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
