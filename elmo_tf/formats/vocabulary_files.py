"""The vocabulary file next to a model's weights, optionally compressed with gzip."""

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats.places import Place, base_name, visible_names
from elmo_tf.storage import archives
from elmo_tf.text.vocabulary import Vocabulary

_NAME = re.compile(r"(vocab.*|.*_vocab)\.txt(\.gz)?")
LARGEST_WORD_LIST = 1 << 28  # bytes, ten times the largest known
_HOW_TO_GIVE_WORDS = "put vocab.txt beside them"


class VocabularyFile(NamedTuple):
    """A vocabulary while its file is open.

    Attributes:
      path: path of the decompressed file, or None.
      words: its words, or None.
    """

    path: str | None
    words: Vocabulary | None


@contextlib.contextmanager
def open_vocabulary(
    place: Place, config: ElmoConfig, how_to_give: str = _HOW_TO_GIVE_WORDS
) -> Iterator[VocabularyFile]:
    """The only vocabulary of a place, such as "vocab.txt", "vocab-2016.txt.gz" or "x_vocab.txt".

    Args:
      place: the place to search.
      config: the model's configuration.
      how_to_give: advice for a missing vocabulary, the end of the error message.

    Raises:
      InputError: the model has word input and the place has no vocabulary or more than one; or the
        file is damaged or too large.
    """
    found = [name for name in visible_names(place) if _NAME.fullmatch(base_name(name))]
    if len(found) != 1:
        if config.input.needs_vocabulary:
            what = "which is not there" if not found else f"and there are {len(found)}"
            raise InputError(
                f"{place.path}: the options have no char_cnn, so the model needs a "
                f"vocabulary, {what}; {how_to_give}"
            )
        yield VocabularyFile(None, None)
        return
    (name,) = found
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(place.local(name, LARGEST_WORD_LIST))
        if archives.is_gzip(path):
            path = stack.enter_context(
                archives.gunzipped(path, place.shown(name), LARGEST_WORD_LIST)
            )
        yield VocabularyFile(path, Vocabulary.from_file(path, place.shown(name)))
