"""Which object reads tokens for which configuration: a row per kind of input layer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elmo_tf.config.inputs import (
    CharCnnConfig,
    DictionaryInputConfig,
    InputConfig,
    WordInputConfig,
)
from elmo_tf.model.inputs.characters import CharacterInput
from elmo_tf.model.inputs.dictionaries import DictionaryInput
from elmo_tf.model.inputs.token_input import TokenInput
from elmo_tf.model.inputs.words import WordInput
from elmo_tf.text.dictionaries import Dictionaries
from elmo_tf.text.vocabulary import Vocabulary

_KINDS: Mapping[type, Callable[[Any, Any], TokenInput]] = {
    CharCnnConfig: CharacterInput,
    WordInputConfig: WordInput,
    DictionaryInputConfig: DictionaryInput,
}


def make_input(
    config: InputConfig,
    vocabulary: Vocabulary | Dictionaries | Sequence[str | bytes] | Mapping[str, Any] | None = None,
) -> TokenInput:
    """The object that reads tokens as `config` says.

    Args:
      config: of the input.
      vocabulary: the words or dictionaries, for a kind that reads by them; others leave it aside.

    Raises:
      InputError: as the classes of the kinds.
    """
    return _KINDS[type(config)](config, vocabulary)
