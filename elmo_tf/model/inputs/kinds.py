"""The kinds of input layers: the `TokenInput` class for each class of configuration."""

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
    """Creates the `TokenInput` for a configuration.

    Args:
      config: configuration of the input layer.
      vocabulary: the words or dictionaries for a kind that needs them; ignored by others.

    Raises:
      InputError: see the class of each kind.
    """
    return _KINDS[type(config)](config, vocabulary)
