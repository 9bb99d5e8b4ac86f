"""What every reader makes of a model's files: one form for all formats."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import listed
from elmo_tf.storage.stored_array import StoredArray
from elmo_tf.text.dictionaries import Dictionaries
from elmo_tf.text.vocabulary import Vocabulary

_logger = logging.getLogger(__name__)

# Beginnings of the names of arrays; all others are the biLM's.
SCALAR_MIX, SOFTMAX = "scalar_mix.", "softmax."

StoredArrays = Mapping[str, StoredArray]
# Calls a function with the arrays of one copy of the model after the other, newest first, until
# there is one in which it finds no damage.
Attempt = Callable[[Callable[[StoredArrays], None]], None]


@dataclasses.dataclass(frozen=True)
class OpenedModel:
    """A model whose files are open. Its arrays can be read until they are closed.

    Attributes:
      source: what to call it in errors.
      config: its configuration.
      arrays: all its arrays by our names, which are those of `elmo_tf.model.variables`:
        "char_cnn.embedding", "bilm.forward_0.input_kernel"; of the scalar mix ("scalar_mix.gamma")
        and the softmax ("softmax.kernel") if the format has them. Whether they fit `config` is
        only known where the reader had to find out.
      optimizer: what an optimizer stores beside weights, by its own names; empty if nothing.
      vocabulary_file: path of the vocabulary while the files are open: the words that the model
        reads, with word input, and that it predicts. None if it is not known.
      tokenizer: how its text was split into tokens, a name of `elmo_tf.text.tokens`; None if the
        format does not say.
      normalize: how its text was normalized, likewise.
      unroll_steps: tokens of a window in its training; None if the format does not say.
      softmax_is_passed_on: whether the format counts the softmax as a part of the model, and not
        of its training.
      optimizer_is_passed_on: whether training that starts from the model continues with what the
        optimizer stored. A run of ours is resumed in its own directory instead.
      provenance: sentences about where it comes from. They name no file.
      notes: sentences about anything odd, for a warning.
    """

    source: str
    config: ElmoConfig
    arrays: StoredArrays
    optimizer: StoredArrays = dataclasses.field(default_factory=dict)
    vocabulary_file: str | None = None
    tokenizer: str | None = None
    normalize: str | None = None
    unroll_steps: int | None = None
    softmax_is_passed_on: bool = False
    optimizer_is_passed_on: bool = False
    provenance: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    _attempt: Attempt | None = None
    _words: Vocabulary | None = None
    _input_words: Dictionaries | None = None

    @functools.cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The words of `vocabulary_file`, read when they are first asked for."""
        if self._words is not None or self.vocabulary_file is None:
            return self._words
        return Vocabulary.from_file(self.vocabulary_file)

    @property
    def input_words(self) -> Vocabulary | Dictionaries | None:
        """What the model looks tokens up in; None if it needs nothing of the kind."""
        return self.input_vocabulary if self._input_words is None else self._input_words

    @property
    def input_vocabulary(self) -> Vocabulary | None:
        """The words that the model looks up; None if it reads tokens in another way."""
        return self.vocabulary if self.config.input.needs_vocabulary else None

    def names(self, scalar_mix: bool = True, softmax: bool = True) -> list[str]:
        """The names of `arrays`, without those of the scalar mix or of the softmax if so wanted."""
        left_out = tuple(
            start for start, wanted in ((SCALAR_MIX, scalar_mix), (SOFTMAX, softmax)) if not wanted
        )
        return [name for name in self.arrays if not name.startswith(left_out)]

    def read(self, names: Iterable[str], take: Callable[[str, np.ndarray], object]) -> None:
        """Reads arrays one at a time, each when the one before has been taken.

        A training run has several checkpoints. If the newest is damaged, all arrays are read again
        from the one before it, with a warning. Arrays that hold NaN or infinity are named in a
        warning too: every vector computed from them would be NaN.

        Args:
          names: of `arrays`.
          take: called with each name and its values.

        Raises:
          InputError: an array is damaged and there is no older copy; those before it are taken.
        """
        names = list(names)

        not_finite: list[str] = []

        def read_from(arrays: StoredArrays) -> None:
            not_finite.clear()
            for name in names:
                values = arrays[name].read()
                if not _is_finite(values):
                    not_finite.append(name)
                take(name, values)

        if self._attempt is None:
            read_from(self.arrays)
        else:
            self._attempt(read_from)
        if not_finite:
            _logger.warning("%s: NaN or infinity in %s", self.source, listed(not_finite, ", "))


def _is_finite(values: np.ndarray) -> bool:
    """Whether no value is NaN or infinite; one of them makes the sum so, which is quick to see."""
    if values.dtype.kind != "f":
        return True
    with np.errstate(invalid="ignore", over="ignore"):  # infinity less infinity
        return bool(np.isfinite(np.sum(values, dtype=np.float64)))
