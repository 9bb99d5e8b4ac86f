"""Published models by name: where they are, and what they are.

The addresses are in `published_models.json`, each as its publisher or users wrote it. The file also
says when they were last known to work.
"""

import difflib
import functools
import json
from importlib import resources
from typing import NamedTuple

_FILE = "published_models.json"


class PublishedModel(NamedTuple):
    """A model that others publish.

    Attributes:
      name: what to give as a model, such as "manylangs/norwegian_bokmaal".
      language: of its text.
      size: of what is fetched, in words.
      licence: in words; "see the source" where its publisher decides.
      text: what it was trained on.
      source: a page about it.
      urls: an archive; or options and weights.
    """

    name: str
    language: str
    size: str
    licence: str
    text: str
    source: str
    urls: tuple[str, ...]


def models() -> list[PublishedModel]:
    """All published models that can be named, in the order of the file.

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


@functools.cache
def _by_name() -> dict[str, PublishedModel]:
    content = resources.files("elmo_tf.formats").joinpath(_FILE).read_text(encoding="utf-8")
    found = (
        PublishedModel(**{**entry, "urls": tuple(entry["urls"])})
        for entry in json.loads(content)["models"]
    )
    return {model.name: model for model in found}
