"""What a user may give as a model, and how to tell which kind it is.

  resolve_model("elmo.zip")                       the pair inside a zip (vectors.nlpl.eu)
  resolve_model("directory")                      the pair, a training directory, or a SavedModel
  resolve_model("options.json,weights.hdf5")      the pair itself
  resolve_model("options.json", "weights.hdf5")

A model with word input has a third file, the words it knows: "options.json,weights.hdf5,vocab.txt".

`published` reads the first and the last two kinds, those in published format.
"""

import dataclasses
import itertools
import os
import re
import zipfile
from collections.abc import Iterable

from elmo_tf.errors import InputError, printable
from elmo_tf.storage import zips

PAIR, ZIP, TRAINING, SAVED_MODEL = "pair", "zip", "training", "saved_model"

_WEIGHT_ENDINGS = (".hdf5", ".h5")
_MOST_SHOWN = 10
_HOW_TO_NAME_A_PAIR = "name both files as OPTIONS.json,WEIGHTS.hdf5"


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """Where a model is.

    Attributes:
      kind: `PAIR`, `ZIP`, `TRAINING` or `SAVED_MODEL`.
      path: what the user named: a file or directory, or the files joined by commas.
      options: path of the options; of a zip, the name inside. None for a SavedModel.
      weights: path of the weights; of a zip, the name inside. None for the last two kinds.
      vocabulary: path of the vocabulary beside a pair; of a zip, the name inside. None if there is
        none that can be told by its name, and for the last two kinds. Only word input needs it.
    """

    kind: str
    path: str
    options: str | None = None
    weights: str | None = None
    vocabulary: str | None = None


def resolve_model(
    path: str | os.PathLike,
    weights: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
) -> ModelFiles:
    """Finds out what kind of model `path` names. Nothing is read but names.

    Args:
      path: a directory, a zip, `OPTIONS,WEIGHTS` or `OPTIONS,WEIGHTS,VOCABULARY`; with `weights`,
        the options file alone. A leading "~" stands for the home directory.
      weights: the weight file.
      vocabulary: the vocabulary of a model with word input, if `weights` is given.

    Raises:
      InputError: there is no such file, or no model in it, or more than one; the message lists
        the candidates.
    """
    path = os.path.expanduser(path)
    if weights is not None:
        files_named = filter(None, (weights, vocabulary))
        return _pair(path, *map(os.path.expanduser, files_named))
    if os.path.isdir(path):
        return _in_directory(path)
    if os.path.isfile(path):
        if zipfile.is_zipfile(path) or path.lower().endswith(".zip"):
            return _in_zip(path)
        raise InputError(
            f"{path}: is not a model by itself: {_HOW_TO_NAME_A_PAIR}, or a directory or zip "
            "that holds them"
        )
    if "," in path:
        return _pair(*_split_at_commas(path))
    raise InputError(f"{path or repr(path)}: there is no such file or directory")


def _split_at_commas(path: str) -> list[str]:
    """Two or three names."""
    parts = path.split(",")
    ends = range(1, len(parts))
    splits = []
    for places in (*itertools.combinations(ends, 1), *itertools.combinations(ends, 2)):
        borders = itertools.pairwise((0, *places, len(parts)))
        names = [",".join(parts[begin:end]).strip() for begin, end in borders]
        splits.append(list(map(os.path.expanduser, names)))
    # A name may itself hold a comma: prefer the places where all are there.
    likely = splits[0] if len(parts) == 2 else splits[len(ends)]
    return next((split for split in splits if all(map(os.path.exists, split))), likely)


def _pair(options: str, weights: str, vocabulary: str | None = None) -> ModelFiles:
    names = [name for name in (options, weights, vocabulary) if name is not None]
    for path in names:
        if not os.path.isfile(path):
            what = "is not a file" if os.path.exists(path) else "there is no such file"
            raise InputError(f"{path or 'a file name before or after the comma'}: {what}")
    if options.lower().endswith(_WEIGHT_ENDINGS) and weights.lower().endswith(".json"):
        raise InputError(f"{options},{weights}: the options come first: {weights},{options}")
    return ModelFiles(PAIR, ",".join(names), *names)


def _in_directory(path: str) -> ModelFiles:
    names = sorted(
        entry.name for entry in os.scandir(path) if entry.is_file() and entry.name[0] != "."
    )
    if "saved_model.pb" in names:
        return ModelFiles(SAVED_MODEL, path)
    if "options.json" in names and "training.json" in names:
        return ModelFiles(TRAINING, path, os.path.join(path, "options.json"))
    found = (*_find_pair(path, names), _find_vocabulary(names))
    return ModelFiles(PAIR, path, *(name and os.path.join(path, name) for name in found))


def _in_zip(path: str) -> ModelFiles:
    with zips.open_zip(path) as archive:
        names = sorted(name for name in archive.namelist() if not name.endswith("/"))
    return ModelFiles(ZIP, path, *_find_pair(path, names), _find_vocabulary(names))


def _find_pair(path: str, names: Iterable[str]) -> tuple[str, str]:
    """The one options file and the one weight file among `names`."""
    # macOS puts "__MACOSX/._name" beside each "name" of a zip.
    names = [name for name in names if not _base(name).startswith(".")]
    options = [n for n in names if _base(n) == "options.json" or n.endswith("_options.json")]
    weights = [n for n in names if n.lower().endswith(_WEIGHT_ENDINGS)]
    for found, what in ((options, "options.json"), (weights, "weight file (*.hdf5)")):
        if not found:
            raise InputError(f"{path}: holds no model: no {what}; it holds {_enumerate(names)}")
        if len(found) > 1:
            candidates = _enumerate(found)
            raise InputError(f"{path}: more than one {what}: {candidates}; {_HOW_TO_NAME_A_PAIR}")
    return options[0], weights[0]


def _find_vocabulary(names: Iterable[str]) -> str | None:
    """The one vocabulary among `names`, such as "vocab.txt", "vocab-2016.txt" or "x_vocab.txt"."""
    found = [name for name in names if re.fullmatch(r"(vocab.*|.*_vocab)\.txt", _base(name))]
    return found[0] if len(found) == 1 else None


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _enumerate(names: list[str]) -> str:
    shown = ", ".join(map(printable, names[:_MOST_SHOWN]))
    if len(names) > _MOST_SHOWN:
        shown += f" and {len(names) - _MOST_SHOWN} more"
    return shown or "no files"
