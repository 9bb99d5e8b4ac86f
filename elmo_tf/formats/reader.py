"""What a format has to offer: a reader says whether a model is in it, and opens the model."""

import contextlib
from typing import NamedTuple, Protocol

from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Place


class Reader(Protocol):
    """One format. Each is a file of this folder and a row of `locate.READERS`.

    Attributes:
      name: what people call the format.
      looks_for: the files by which it knows a model, for the error where no reader does.
      needs_tensorflow: whether `open` imports TensorFlow.
    """

    name: str
    looks_for: str
    needs_tensorflow: bool

    def recognizes(self, place: Place) -> bool:
        """Whether the place holds a model in this format, by names and first bytes.

        Raises:
          InputError: it holds more than one, and the user has to choose.
        """

    def open(self, place: Place) -> contextlib.AbstractContextManager[OpenedModel]:
        """The model of a place that this reader recognizes.

        Raises:
          InputError: a file is missing or damaged, or files don't fit each other.
        """


class LocatedModel(NamedTuple):
    """A model that was found; nothing of it is read yet but names.

    Attributes:
      place: where its files are.
      reader: of its format.
    """

    place: Place
    reader: Reader

    @property
    def path(self) -> str:
        """What the user named."""
        return self.place.path

    @property
    def needs_tensorflow(self) -> bool:
        """Whether opening it imports TensorFlow."""
        return self.reader.needs_tensorflow

    def open(self) -> contextlib.AbstractContextManager[OpenedModel]:
        """The model, with its files open; see `Reader.open`."""
        return self.reader.open(self.place)
