"""Describes a model without building it: `describe`.

    description = elmo_tf.describe("elmo.zip")
    description.options["lstm"]["projection_dim"]   # 512
    print(description)

Every array is read once, one at a time. TensorFlow is imported only for formats that TensorFlow
writes.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmo_tf.errors import InputError, listed
from elmo_tf.formats import bilm_tf, locate, mapping, vocabulary_files
from elmo_tf.formats.file_names import OPTIONS_FILE
from elmo_tf.formats.opened_model import SCALAR_MIX, SOFTMAX, OpenedModel
from elmo_tf.formats.places import Place, base_name, read_small_json, visible_names
from elmo_tf.formats.reader import LocatedModel
from elmo_tf.text.dictionaries import Dictionaries

_MOST_FILES = 1000
_LABEL_WIDTH = 14


@dataclasses.dataclass(frozen=True)
class Description:
    """The result of `describe`. An attribute is None if the model lacks it or it is unknown.

    Attributes:
      path: the path or name that the user gave.
      format: name of the format.
      files: size of each file in bytes, by name.
      options: the configuration, in the form of `options.json`.
      num_parameters: number of weights of the biLM.
      num_layers: number of LSTM layers in each direction; a token has one vector more.
      width: dimension of a layer's vector, both directions together.
      arrays: shapes of all arrays, by our names.
      num_words: number of words in its vocabulary.
      num_softmax_words: number of words that its softmax predicts.
      scalar_mix: `layer_weights` (before the softmax over them) and `gamma`.
      optimizer: kinds of values that an optimizer stored per weight, such as "accumulator".
      tokenizer, normalize: tokenizer and normalization of its training text.
      unroll_steps: window length of its training in tokens.
      provenance: sentences about its origin.
      odd: sentences about anything unusual: NaN, all-zero weights, files that do not agree.
      problem: the reason why it cannot be used, or None.
    """

    path: str
    format: str
    files: dict[str, int]
    options: dict[str, Any] | None = None
    num_parameters: int | None = None
    num_layers: int | None = None
    width: int | None = None
    arrays: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    num_words: int | None = None
    num_softmax_words: int | None = None
    scalar_mix: dict[str, Any] | None = None
    optimizer: tuple[str, ...] = ()
    tokenizer: str | None = None
    normalize: str | None = None
    unroll_steps: int | None = None
    provenance: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    problem: str | None = None

    def to_json(self) -> str:
        """The description as a JSON object; NaN and infinity are strings such as "nan"."""
        return json.dumps(_as_json(dataclasses.asdict(self)), indent=2)

    def __str__(self) -> str:
        rows = [("model", self.path), ("format", self.format), ("files", _files_in_words(self))]
        if self.problem is None:
            rows += _rows(self)
        rows += [("odd", sentence) for sentence in self.odd] or [("odd", "nothing")]
        if self.problem is not None:
            rows[-1:] = [("problem", self.problem)]
        return "\n".join(f"{label:{_LABEL_WIDTH}}{text}" for label, text in rows)


def describe(model: str | os.PathLike | LocatedModel) -> Description:
    """Describes a model: format, files, sizes, layers, vocabulary, mix, softmax, anything unusual.

    Args:
      model: a path or name; see `ElmoEncoder.from_model`.

    Returns:
      The description. If the model is recognized but cannot be read, it has a `problem`.

    Raises:
      InputError: there is no model.
    """
    located = model if isinstance(model, LocatedModel) else locate.find_model(model)
    found = Description(located.path, located.reader.name, _files(located.place))
    try:
        with located.open() as opened:
            return _described(found, located.place, opened)
    except InputError as error:
        return dataclasses.replace(found, problem=str(error))


def _described(found: Description, place: Place, opened: OpenedModel) -> Description:
    odd = [*opened.notes]
    config, arrays = opened.config, opened.arrays
    num_softmax_words = None
    if f"{SOFTMAX}bias" in arrays:
        num_softmax_words = (arrays[f"{SOFTMAX}bias"].shape or (0,))[0]
    num_words = _num_words(place, opened, odd)
    counts = {
        "the softmax predicts": num_softmax_words,
        "the vocabulary has": num_words,
        "n_tokens_vocab of the options is": _declared_words(place),
    }
    known = {what: count for what, count in counts.items() if count is not None}
    if len(set(known.values())) > 1:
        odd.append(f"words: {', '.join(f'{what} {count:,}' for what, count in known.items())}")
    _require_fit(opened, num_softmax_words)
    mix = _read_all(opened, odd)
    kinds = {name.rsplit(".", 1)[-1] for name in opened.optimizer if "." in name}
    return dataclasses.replace(
        found,
        options=config.to_options(),
        num_parameters=config.num_parameters,
        num_layers=config.lstm.num_layers,
        width=2 * config.lstm.projection_dim,
        arrays={name: tuple(array.shape or ()) for name, array in arrays.items()},
        num_words=num_words,
        num_softmax_words=num_softmax_words,
        scalar_mix=mix or None,
        optimizer=tuple(sorted(kinds)),
        tokenizer=opened.tokenizer,
        normalize=opened.normalize,
        unroll_steps=opened.unroll_steps,
        provenance=opened.provenance,
        odd=tuple(odd),
    )


def _num_words(place: Place, opened: OpenedModel, odd: list[str]) -> int | None:
    """Number of words that the model reads or predicts, or of a vocabulary in the same place."""
    if isinstance(opened.input_words, Dictionaries):
        words = opened.input_words.words
        return None if words is None else len(words)
    try:
        if opened.vocabulary is not None:
            return len(opened.vocabulary)
        with vocabulary_files.open_vocabulary(place, opened.config) as found:
            return None if found.words is None else len(found.words)
    except InputError as error:  # a model with character input works without a vocabulary
        if str(error) not in odd:
            odd.append(str(error))
        return None


def _declared_words(place: Place) -> int | None:
    """`n_tokens_vocab` of the options, which a model with character input does not need."""
    options = [name for name in visible_names(place) if base_name(name).endswith(OPTIONS_FILE)]
    if len(options) != 1:
        return None
    count = read_small_json(place, options[0]).get("n_tokens_vocab")
    return count if type(count) is int else None


def _require_fit(opened: OpenedModel, num_softmax_words: int | None) -> None:
    """Raises an error if arrays do not fit the options, for formats whose reader does not check."""
    expected = bilm_tf.our_shapes(opened.config, num_softmax_words)
    if expected is None:
        return
    names = opened.names(scalar_mix=False)
    shapes = {name: opened.arrays[name].shape for name in names}
    mapping.require_fit(opened.source, expected, shapes)


def _read_all(opened: OpenedModel, odd: list[str]) -> dict[str, Any]:
    """Reads every array, appends anything unusual to `odd`, and returns the scalar mix."""
    mix: dict[str, Any] = {}
    zeros, not_finite = [], []
    for name, array in opened.arrays.items():
        values = array.read()
        if not np.all(np.isfinite(values)):
            not_finite.append(name)
        if name.startswith(SCALAR_MIX):
            mix[name.removeprefix(SCALAR_MIX)] = values.tolist()
        elif values.ndim > 1 and not values.any():  # biases may be zero
            zeros.append(name)
    if not_finite:
        odd.append(f"NaN or infinity in {listed(not_finite, ', ')}")
    if zeros:
        odd.append(f"all values are zero in {listed(zeros, ', ')}")
    return mix


def _files(place: Place) -> dict[str, int]:
    """Sizes of the files of a place by name, including files in subdirectories."""
    if not os.path.isdir(place.path):
        return {name: place.size(name) for name in place.names[:_MOST_FILES]}
    found: dict[str, int] = {}
    for folder, folders, names in os.walk(place.path):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name[0] != "." and os.path.isfile(path) and len(found) < _MOST_FILES:
                found[os.path.relpath(path, place.path)] = os.path.getsize(path)
        if len(found) >= _MOST_FILES:
            break
    return found


def _rows(model: Description) -> list[tuple[str, str]]:
    assert model.options is not None, "the model was read"
    lstm = model.options["lstm"]
    reading = {name: part for name, part in model.options.items() if name != "lstm"}
    softmax = model.num_softmax_words
    optimizer = f"{', '.join(model.optimizer)} of each weight" if model.optimizer else "none"
    rows = [
        ("parameters", f"{model.num_parameters:,} of the biLM"),
        (
            "layers",
            f"{model.num_layers} in each direction, of {lstm['dim']} units projected to "
            f"{lstm['projection_dim']}; {(model.num_layers or 0) + 1} vectors of {model.width} "
            "numbers for a token",
        ),
        ("LSTM", _in_words(lstm)),
        ("input", _in_words(reading)),
        ("vocabulary", "none" if model.num_words is None else f"{model.num_words:,} words"),
        ("softmax", "none" if softmax is None else f"over {softmax:,} words"),
        ("scalar mix", "none" if model.scalar_mix is None else _in_words(model.scalar_mix)),
        ("optimizer", optimizer),
        (
            "text",
            f"tokenizer {model.tokenizer or 'not known'}, normalization "
            f"{model.normalize or 'not known'}",
        ),
    ]
    return rows + [("origin", sentence) for sentence in model.provenance]


def _in_words(values: Mapping[str, Any]) -> str:
    """Settings on one line: "n_layers 2, cell_clip 3"."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= value if isinstance(value, dict) else {key: value}
    return ", ".join(f"{key} {_short(value)}" for key, value in flat.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and all(isinstance(each, float) for each in value):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, dict):
        return _in_words(value)
    return json.dumps(value) if not isinstance(value, str) else value


def _files_in_words(model: Description) -> str:
    shown = [f"{name} ({size:,} bytes)" for name, size in model.files.items()]
    return f"{sum(model.files.values()):,} bytes: {listed(shown, ', ', more='more files')}"


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
