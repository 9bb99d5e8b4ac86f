"""Models by name: one that this package includes, and those that others publish.

They are listed in `published_models.json`. The addresses of published models are as their
publishers or users wrote them; the file says when they were last known to work.
"""

import difflib
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from elmo_tf.errors import InputError

_FILE = "published_models.json"
_INCLUDED = "pretrained"  # a directory of data in the package, with one directory for each model


class PublishedModel(NamedTuple):
    """A model that has a name.

    Attributes:
      name: what to give as a model, such as "manylangs/norwegian_bokmaal".
      language: of its text.
      size: of its files, in words.
      licence: in words; "see the source" where its publisher decides.
      text: what it was trained on.
      source: a page about it.
      urls: an archive; or options and weights. Empty for a model that the package includes.
      sha256: digests in hexadecimal, by file name, of a model that the package includes.
    """

    name: str
    language: str
    size: str
    licence: str
    text: str
    source: str
    urls: tuple[str, ...] = ()
    sha256: Mapping[str, str] = {}

    @property
    def is_included(self) -> bool:
        """Whether its files are in this package, so that nothing is downloaded."""
        return bool(self.sha256)


def models() -> list[PublishedModel]:
    """All models that have names, the included one first, in the order of the file.

    Example:
      >>> [model.name for model in elmo_tf.models() if model.language == "Basque"]
      ['manylangs/basque']
    """
    return list(_by_name().values())


def find(name: str) -> PublishedModel | None:
    """The model of that name, or None."""
    return _by_name().get(name)


def nearest(name: str) -> str | None:
    """The name that is most like one that is none, or None if none is like it."""
    near = difflib.get_close_matches(name, list(_by_name()), n=1, cutoff=0.7)
    return near[0] if near else None


def included_directory(model: PublishedModel) -> str:
    """The directory of a model that the package includes, after a check of its files.

    Raises:
      InputError: a file is missing or damaged.
    """
    directory = os.path.join(str(resources.files("elmo_tf")), _INCLUDED, model.name)
    for name, expected in model.sha256.items():
        path = os.path.join(directory, name)
        try:
            with open(path, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read: {error.strerror}; install elmo_tf again"
            ) from error
        if found != expected:
            raise InputError(
                f"{path}: SHA-256 must be {expected}, got {found}; install elmo_tf again"
            )
    return directory


@functools.cache
def _by_name() -> dict[str, PublishedModel]:
    content = resources.files("elmo_tf.formats").joinpath(_FILE).read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = json.loads(content)["models"]
    found = (PublishedModel(**{**entry, "urls": tuple(entry.get("urls", ()))}) for entry in entries)
    return {model.name: model for model in found}
