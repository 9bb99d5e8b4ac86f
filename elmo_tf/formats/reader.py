"""The interface of a format's reader: it recognizes a model in the format and opens it."""

import contextlib
from typing import NamedTuple, Protocol

from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Place


class Reader(Protocol):
    """The reader of one format: a module in this folder and a row of `locate.READERS`.

    Attributes:
      name: the format's common name.
      looks_for: the files by which it recognizes a model, for an error message.
      needs_tensorflow: whether `open` imports TensorFlow.
    """

    name: str
    looks_for: str
    needs_tensorflow: bool

    def recognizes(self, place: Place) -> bool:
        """Whether the place holds a model in this format, judged by names and first bytes.

        Raises:
          InputError: it holds more than one model, and the user must choose.
        """

    def open(self, place: Place) -> contextlib.AbstractContextManager[OpenedModel]:
        """Opens the model of a place that this reader recognizes.

        Raises:
          InputError: a file is missing or damaged, or files do not fit each other.
        """


class LocatedModel(NamedTuple):
    """A model that was found but not opened.

    Attributes:
      place: the place of its files.
      reader: the reader of its format.
    """

    place: Place
    reader: Reader

    @property
    def path(self) -> str:
        """The path that the user gave."""
        return self.place.path

    @property
    def needs_tensorflow(self) -> bool:
        """Whether opening it imports TensorFlow."""
        return self.reader.needs_tensorflow

    def open(self) -> contextlib.AbstractContextManager[OpenedModel]:
        """Opens the model; see `Reader.open`."""
        return self.reader.open(self.place)
