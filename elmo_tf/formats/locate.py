"""Finds the model that a user named.

  find_model("elmo.zip")                       a zip or tar, as from vectors.nlpl.eu
  find_model("directory")                      a model, a training run, or an export
  find_model("directory/model.ckpt-1000")      one checkpoint of several in a directory
  find_model("options.json,weights.hdf5")      a pair in bilm-tf format
  find_model("options.json", "weights.hdf5")

  find_model("https://host/elmo.zip")          the same, downloaded into a cache
  find_model("hf://owner/name")                from the Hugging Face Hub
  find_model("small")                          a model by name; see `catalog`

A model with word input has a third file, its vocabulary: "options.json,weights.hdf5,vocab.txt".
"""

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.formats import catalog, remote
from elmo_tf.formats.bilm_tf_checkpoint import BilmTfCheckpoint
from elmo_tf.formats.bilm_tf_pair import HOW_TO_NAME_A_PAIR, WEIGHT_ENDINGS, BilmTfPair
from elmo_tf.formats.file_names import OPTIONS_FILE, WEIGHTS_FILE
from elmo_tf.formats.hub_module import HubModule
from elmo_tf.formats.keras_weights import KerasWeights
from elmo_tf.formats.manylangs import ManyLangs
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import ArchivedFiles, Directory, NamedFiles, Place, enumerate_names
from elmo_tf.formats.reader import LocatedModel, Reader
from elmo_tf.formats.saved_model import SavedModel
from elmo_tf.formats.text_settings import TEXT_FILE
from elmo_tf.formats.training_run import TrainingRun
from elmo_tf.storage import archives
from elmo_tf.text.vocabulary import VOCABULARY_FILE

# The formats that we read, in order of precedence. A new format is a row here. A directory with a
# bilm-tf checkpoint and its dumped weights is read as a pair.
READERS: tuple[Reader, ...] = (
    HubModule(),
    SavedModel(),
    TrainingRun(),
    ManyLangs(),
    KerasWeights(),
    BilmTfPair(),
    BilmTfCheckpoint(),
)


_NAMES_OF_FILES = (OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE)


def find_model(
    path: str | os.PathLike,
    weights: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
) -> LocatedModel:
    """Finds the model that `path` names, mostly by file names.

    Args:
      path: a directory, a zip or tar, a checkpoint in a directory, `OPTIONS,WEIGHTS` or
        `OPTIONS,WEIGHTS,VOCABULARY`, a URL or a name; with `weights`, only the options file. A
        leading "~" is the home directory.
      weights: the weight file.
      vocabulary: the vocabulary of a model with word input, if `weights` is given.

    Raises:
      InputError: the file does not exist, or it holds no model or more than one; the message says
        which files were expected and which were found.
    """
    _require_path("path", path)
    for name, value in (("weights", weights), ("vocabulary", vocabulary)):
        if value is not None:
            _require_path(name, value)
    place = _place(path, weights, vocabulary)
    for reader in READERS:
        if reader.recognizes(place):
            return LocatedModel(place, reader)
    looked_for = "; ".join(reader.looks_for for reader in READERS)
    raise InputError(
        f"{place.path}: holds no model: looked for {looked_for}; "
        f"it holds {enumerate_names(place.names)}"
    )


@contextlib.contextmanager
def open_model(model: str | os.PathLike | LocatedModel | OpenedModel) -> Iterator[OpenedModel]:
    """Opens a model by name or path, or one that `find_model` found.

    An `OpenedModel` is returned as it is and stays open.

    Raises:
      InputError: see `find_model`; or a file is damaged, or files do not fit each other.
    """
    if isinstance(model, OpenedModel):
        yield model
        return
    located = model if isinstance(model, LocatedModel) else find_model(model)
    with located.open() as opened:
        yield opened


def _require_path(name: str, value: Any) -> None:
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise checks.refusal(name, "a path (str or os.PathLike)", value)


def _place(
    path: str | os.PathLike, weights: str | os.PathLike | None, vocabulary: str | os.PathLike | None
) -> Place:
    path = os.path.expanduser(os.fspath(path))
    if weights is None and remote.is_remote(path):
        return _fetched(path, remote.fetch(path))
    if weights is not None:
        files_named = [os.fspath(each) for each in (weights, vocabulary) if each]
        return _named_files(path, *(os.path.expanduser(each) for each in files_named))
    if os.path.isdir(path):
        return Directory(path)
    if os.path.isfile(f"{path}.index"):  # a checkpoint has no file of exactly its name
        return Directory(os.path.dirname(path) or ".", os.path.basename(path))
    if os.path.isfile(path):
        archive = archives.open_archive(path)
        if archive is not None:
            return ArchivedFiles(archive)
        raise InputError(
            f"{path}: is not a model by itself: {HOW_TO_NAME_A_PAIR}, or a directory, zip or "
            "tar that holds them"
        )
    if "," in path:
        return _named_files(*_split_at_commas(path))
    if remote.is_name(path):
        return _fetched(path, remote.fetch(path))
    near = catalog.nearest(path)
    hint = f"; is the published model {near} meant?" if near else ""
    raise InputError(f"{path or repr(path)}: there is no such file or directory{hint}")


def _fetched(path: str, files_fetched: list[str]) -> Place:
    """The place of a downloaded or included model: an archive, a directory, two or three files."""
    if len(files_fetched) > 1:
        if len(files_fetched) > len(_NAMES_OF_FILES):
            raise InputError(f"{path}: names {len(files_fetched)} files; {HOW_TO_NAME_A_PAIR}")
        return _named_files(*files_fetched)
    (found,) = files_fetched
    if os.path.isdir(found):
        return Directory(found)
    archive = archives.open_archive(found)
    if archive is not None:
        return ArchivedFiles(archive)
    raise InputError(
        f"{path}: is not a zip or tar; for a pair give both URLs, separated by a comma"
    )


def _split_at_commas(path: str) -> list[str]:
    """Splits "OPTIONS,WEIGHTS" or "OPTIONS,WEIGHTS,VOCABULARY" into two or three paths."""
    parts = path.split(",")
    ends = range(1, len(parts))
    splits = []
    for indices in (*itertools.combinations(ends, 1), *itertools.combinations(ends, 2)):
        borders = itertools.pairwise((0, *indices, len(parts)))
        names = [",".join(parts[begin:end]).strip() for begin, end in borders]
        splits.append(list(map(os.path.expanduser, names)))
    # A path may contain a comma: prefer a split into existing files.
    likely = splits[0] if len(parts) == 2 else splits[len(ends)]
    return next((split for split in splits if all(map(os.path.exists, split))), likely)


def _named_files(options: str, weights: str, *words: str) -> NamedFiles:
    named = dict(zip(_NAMES_OF_FILES, (options, weights, *words), strict=False))
    for path in named.values():
        if not os.path.isfile(path):
            what = "is not a file" if os.path.exists(path) else "there is no such file"
            raise InputError(f"{path or 'a file name before or after the comma'}: {what}")
    if options.lower().endswith(WEIGHT_ENDINGS) and weights.lower().endswith(".json"):
        raise InputError(f"{options},{weights}: the options come first: {weights},{options}")
    return NamedFiles(named, beside={TEXT_FILE: os.path.join(os.path.dirname(options), TEXT_FILE)})
