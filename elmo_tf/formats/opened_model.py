"""The common form of an opened model, which the readers of all formats produce."""

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

# Prefixes of array names; all other arrays belong to the biLM.
SCALAR_MIX, SOFTMAX = "scalar_mix.", "softmax."

StoredArrays = Mapping[str, StoredArray]
# Calls a function with the arrays of each copy of the model, newest first, until it finds no damage
# in one.
Attempt = Callable[[Callable[[StoredArrays], None]], None]


@dataclasses.dataclass(frozen=True)
class OpenedModel:
    """A model whose files are open. Its arrays can be read until the files are closed.

    Attributes:
      source: name of the model in errors.
      config: its configuration.
      arrays: all its arrays by the names of `elmo_tf.model.variables`: "char_cnn.embedding",
        "bilm.forward_0.input_kernel", and those of a scalar mix ("scalar_mix.gamma") and a softmax
        ("softmax.kernel") if the format has them. Not every reader checks that they fit `config`.
      optimizer: the stored variables of an optimizer, by its own names; empty if there are none.
      vocabulary_file: path of the vocabulary while the files are open: the words that the model
        predicts and, with word input, reads. None if unknown.
      tokenizer: name of the training text's tokenizer, see `elmo_tf.text.tokens`; None if unknown.
      normalize: name of the training text's normalization; None if unknown.
      unroll_steps: window length of its training in tokens; None if unknown.
      softmax_is_passed_on: whether the softmax is a part of the model in this format, rather than
        of its training.
      optimizer_is_passed_on: whether training that starts from the model restores the optimizer's
        state. Our own runs are resumed in their directories instead.
      provenance: sentences about its origin. They name no file.
      notes: sentences about anything unusual, for a warning.
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
        """The words of `vocabulary_file`, read at the first use."""
        if self._words is not None or self.vocabulary_file is None:
            return self._words
        return Vocabulary.from_file(self.vocabulary_file)

    @property
    def input_words(self) -> Vocabulary | Dictionaries | None:
        """The vocabulary or dictionaries of the input layer; None if it needs none."""
        return self.input_vocabulary if self._input_words is None else self._input_words

    @property
    def input_vocabulary(self) -> Vocabulary | None:
        """The vocabulary of a model with word input, otherwise None."""
        return self.vocabulary if self.config.input.needs_vocabulary else None

    def names(self, scalar_mix: bool = True, softmax: bool = True) -> list[str]:
        """The names of `arrays`, with or without those of the scalar mix and the softmax."""
        left_out = tuple(
            start for start, wanted in ((SCALAR_MIX, scalar_mix), (SOFTMAX, softmax)) if not wanted
        )
        return [name for name in self.arrays if not name.startswith(left_out)]

    def read(self, names: Iterable[str], take: Callable[[str, np.ndarray], object]) -> None:
        """Reads arrays and passes them to `take`, one at a time.

        A training run has several checkpoints. If the newest is damaged, all arrays are read again
        from the previous one, with a warning. A warning also names arrays with NaN or infinity,
        because every vector computed from them would be NaN.

        Args:
          names: names in `arrays`.
          take: called with each name and its values.

        Raises:
          InputError: an array is damaged and there is no older copy; `take` has been called for
            earlier arrays.
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
    """Whether all values are finite. The sum shows it: one NaN or infinity makes it not finite."""
    if values.dtype.kind != "f":
        return True
    with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity
        return bool(np.isfinite(np.sum(values, dtype=np.float64)))
