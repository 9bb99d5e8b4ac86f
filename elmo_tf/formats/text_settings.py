"""Tokenizer and normalization of a model's training text: `text.json`, next to its options.

    {"tokenizer": "unicode_punctuation", "normalize": "nfc"}

They cannot be stored in `options.json`, because other programs refuse keys that they don't know.
"""

from typing import NamedTuple

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.formats.places import Place, read_small_json
from elmo_tf.storage import files
from elmo_tf.text import tokens

TEXT_FILE = "text.json"


class TextSettings(NamedTuple):
    """Settings that convert text to tokens.

    Attributes:
      tokenizer, normalize: names in `elmo_tf.text.tokens`; None if unknown.
    """

    tokenizer: str | None = None
    normalize: str | None = None

    def write(self, path: str) -> None:
        """Writes the file that `read` reads, atomically."""
        files.write_json(path, self._asdict())


def read(place: Place, name: str = TEXT_FILE) -> TextSettings:
    """The settings in a place; both are None if it has no such file.

    Raises:
      InputError: the file is damaged or has unknown values.
    """
    if not place.has(name):
        return TextSettings()
    return from_dict(read_small_json(place, name), place.shown(name))


def from_dict(values: dict, source: str) -> TextSettings:
    """The settings in `values`; `source` is the file's name in errors."""
    allowed = (("tokenizer", tokens.TOKENIZERS), ("normalize", tokens.NORMALIZATIONS))
    try:
        return TextSettings(
            *(
                None if values.get(key) is None else checks.one_of(*names)(values[key], key)
                for key, names in allowed
            )
        )
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
