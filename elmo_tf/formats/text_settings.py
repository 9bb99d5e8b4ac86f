"""How a model's text was tokenized and normalized: `text.json`, beside the model's options.

    {"tokenizer": "unicode_punctuation", "normalize": "nfc"}

The options themselves have no room for it: other programs read them, and refuse what they don't
know.
"""

from typing import NamedTuple

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.formats.places import Place, read_small_json
from elmo_tf.storage import files
from elmo_tf.text import tokens

TEXT_FILE = "text.json"


class TextSettings(NamedTuple):
    """How text becomes tokens.

    Attributes:
      tokenizer, normalize: names of `elmo_tf.text.tokens`; None if it is not known.
    """

    tokenizer: str | None = None
    normalize: str | None = None

    def write(self, path: str) -> None:
        """Writes the file that `read` reads, whole or not at all."""
        files.write_json(path, self._asdict())


def read(place: Place, name: str = TEXT_FILE) -> TextSettings:
    """The settings that a place holds; unknown ones if it has no such file.

    Raises:
      InputError: the file is damaged, or has values that we don't know.
    """
    if not place.has(name):
        return TextSettings()
    return from_dict(read_small_json(place, name), place.shown(name))


def from_dict(values: dict, source: str) -> TextSettings:
    """The settings among `values`; `source` is the file to name in errors."""
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
