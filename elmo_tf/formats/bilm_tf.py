"""Weights in the format of bilm-tf and AllenNLP, in and out.

Three forms of the same numbers, and what leads from one to the next:

  an HDF5 file  <-- read_weights or open_weights, write_weights -->  arrays by bilm-tf's names
  arrays by bilm-tf's names  <-- from_bilm_tf, to_bilm_tf -->  arrays by our names

`table` says which array of bilm-tf's holds which of ours; the rest is loops over it, in `mapping`.
`to_bilm_tf` and `from_bilm_tf` only move numbers, so they serve as well for what is kept
beside each weight, such as an optimizer's sums of squares.
"""

import contextlib
import functools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo_tf.config.inputs import CharCnnConfig, WordInputConfig
from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, printable
from elmo_tf.formats import mapping
from elmo_tf.formats.mapping import Arrays, Entry
from elmo_tf.storage import hdf5
from elmo_tf.storage.stored_array import StoredArray
from elmo_tf.text.characters import NUM_CHARACTERS

# Files that bilm-tf writes leave the softmax out; its training graph and ours call it so. With it
# a file is enough to go on training from, and a reader that wants only the biLM is not disturbed.
SOFTMAX_NAMES = ("softmax/W", "softmax/b")
# Words of the largest softmax that a weight file may have.
_MOST_WORDS = 1_000_000

_HIGHWAY_NAMES = {  # bilm-tf calls the gate "carry", though the new value is what it lets through
    "W_carry": "gate_matrix",
    "b_carry": "gate_bias",
    "W_transform": "candidate_matrix",
    "b_transform": "candidate_bias",
}
_LSTM_NAME = re.compile(
    r"RNN_(?P<direction>[01])/RNN"
    r"(?:/MultiRNNCell/Cell(?P<layer>[0-9]+))?"
    r"/LSTMCell/(?P<array>W_0|B|W_P_0)"
)
_GRAPH_LSTM_NAME = re.compile(
    r"RNN_(?P<direction>[01])/"
    r"(?:rnn(?:/multi_rnn_cell/cell_(?P<layer>[0-9]+))?|RNN/MultiRNNCell/Cell(?P<cell>[0-9]+)/rnn)"
    r"/lstm_cell/(?P<array>kernel|bias|projection/kernel)"
)
_GRAPH_ARRAYS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


def table(config: ElmoConfig, vocabulary_size: int | None = None) -> list[Entry]:
    """All arrays of a model; with `vocabulary_size`, those of its softmax as well."""
    dim = config.lstm.projection_dim
    if not _can_hold(config):
        raise InputError(
            "bilm-tf format has no place for this model: its input is joined from words and "
            "characters of dictionaries, or its LSTM layers project in every case"
        )
    entries = _INPUT_ENTRIES[type(config.input)](config)
    for direction, stack in enumerate(("forward", "backward")):
        for layer in range(config.lstm.num_layers):
            entries += _lstm_entries(config, _lstm_name(direction, layer), f"bilm.{stack}_{layer}")
    if vocabulary_size is not None:
        kernel_name, bias_name = SOFTMAX_NAMES
        if not config.input.share_softmax:
            entries.append(mapping.same(kernel_name, (vocabulary_size, dim), "softmax.kernel"))
        entries.append(mapping.same(bias_name, (vocabulary_size,), "softmax.bias"))
    return entries


def _can_hold(config: ElmoConfig) -> bool:
    """Whether the format has a place for every array of such a model."""
    return type(config.input) in _INPUT_ENTRIES and not config.lstm.always_projects


def _word_entries(config: ElmoConfig) -> list[Entry]:
    assert isinstance(config.input, WordInputConfig)
    if config.input.vocabulary_size is None:
        raise InputError("a model with word input has no table before its vocabulary is known")
    shape = (config.input.vocabulary_size, config.lstm.projection_dim)
    return [mapping.same("embedding", shape, "word_embedding.embedding")]


def _char_cnn_entries(config: ElmoConfig) -> list[Entry]:
    assert isinstance(config.input, CharCnnConfig)
    cnn, dim = config.input, config.lstm.projection_dim
    width = cnn.num_filters
    entries = [
        mapping.same("char_embed", (NUM_CHARACTERS, cnn.embedding_dim), "char_cnn.embedding")
    ]
    for i, (positions, count) in enumerate(cnn.filters):
        kernel_shape = (positions, cnn.embedding_dim, count)
        kernel_path = f"char_cnn.convolution_kernel_{i}"
        entries.append(mapping.with_height_one(f"CNN/W_cnn_{i}", kernel_shape, kernel_path))
        entries.append(mapping.same(f"CNN/b_cnn_{i}", (count,), f"char_cnn.convolution_bias_{i}"))
    for i in range(cnn.num_highway_layers):
        for theirs, ours in _HIGHWAY_NAMES.items():
            name, path = f"CNN_high_{i}/{theirs}", f"char_cnn.highway_{i}.{ours}"
            if ours.endswith("matrix"):
                entries.append(mapping.transposed(name, (width, width), path))
            else:
                entries.append(mapping.same(name, (width,), path))
    if width != dim:
        entries.append(mapping.same("CNN_proj/W_proj", (width, dim), "char_cnn.projection_kernel"))
        entries.append(mapping.same("CNN_proj/b_proj", (dim,), "char_cnn.projection_bias"))
    return entries


# The kinds of input layer that the format has arrays for.
_INPUT_ENTRIES: Mapping[type, Callable[[ElmoConfig], list[Entry]]] = {
    CharCnnConfig: _char_cnn_entries,
    WordInputConfig: _word_entries,
}


def _lstm_entries(config: ElmoConfig, name: str, path: str) -> list[Entry]:
    units, dim = config.lstm.dim, config.lstm.projection_dim
    # The rows of the input come before those of the state; every layer's input has its output's
    # width, since word embeddings have it too.
    kernels = (f"{path}.input_kernel", f"{path}.recurrent_kernel")
    entries = [
        mapping.stacked(f"{name}/W_0", (dim, dim), 4 * units, *kernels),
        mapping.same(f"{name}/B", (4 * units,), f"{path}.bias"),
    ]
    if config.lstm.has_projection:
        entries.append(
            mapping.transposed(f"{name}/W_P_0", (units, dim), f"{path}.projection_kernel")
        )
    return entries


def _lstm_name(direction: int | str, layer: int | str) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def current_name(name: str) -> str:
    """The name of today for any name that bilm-tf gives or gave an array.

    Older files of one-layer models lack "MultiRNNCell/Cell0". The training graph and its
    checkpoints have TensorFlow's own names for LSTM weights, after "lm/" and before ":0"; the
    inference graph, which modules of TensorFlow Hub hold, has a mixture of both.
    """
    name = name.removeprefix("lm/").removesuffix(":0")
    if match := _LSTM_NAME.fullmatch(name):
        layer, array = match["layer"], match["array"]
    elif match := _GRAPH_LSTM_NAME.fullmatch(name):
        layer, array = match["layer"] or match["cell"], _GRAPH_ARRAYS[match["array"]]
    else:
        return name
    return f"{_lstm_name(match['direction'], layer or 0)}/{array}"


def expected_shapes(config: ElmoConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every array of the biLM (without softmax) by bilm-tf's name."""
    return mapping.shapes_of(table(config))


def our_shapes(
    config: ElmoConfig, vocabulary_size: int | None = None
) -> dict[str, tuple[int, ...]] | None:
    """The shape of every array by our name; None for a model that the format has no place for."""
    if not _can_hold(config):
        return None
    zero = np.zeros([])
    arrays = {
        entry.name: StoredArray.of(np.broadcast_to(zero, entry.shape))
        for entry in table(config, vocabulary_size)
    }
    ours = mapping.from_theirs(table(config, vocabulary_size), arrays)
    return {path: array.shape or () for path, array in ours.items()}


def largest_file(config: ElmoConfig) -> int:
    """Bytes that a weight file of a model may have, a generous bound.

    The arrays in double precision, a softmax of a million words in single precision (options don't
    tell how many words it has), and 16 MiB for what else HDF5 writes.
    """
    softmax = _MOST_WORDS * (config.lstm.projection_dim + 1)
    count = sum(math.prod(entry.shape) for entry in table(config))
    return 8 * count + 4 * softmax + (16 << 20)


def to_bilm_tf(
    config: ElmoConfig, get: Callable[[str], Any], vocabulary_size: int | None = None
) -> Arrays:
    """Arrays by bilm-tf's names, made from what `get` returns for each of our paths.

    Args:
      config: the model's configuration.
      get: called with a path such as "bilm.forward_0.bias"; returns something NumPy can read.
      vocabulary_size: if given, `get` also has "softmax.kernel" and "softmax.bias".

    Raises:
      InputError: paths give nothing (None) or arrays of the wrong shape; the message lists all.
    """
    return mapping.to_theirs(table(config, vocabulary_size), get)


def from_bilm_tf(config: ElmoConfig, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Arrays by our names, made from arrays by bilm-tf's; the softmax's too, if there.

    Raises:
      InputError: the arrays are not those of `config`; the message lists every difference.
    """
    shapes = {name: np.shape(array) for name, array in arrays.items()}
    mapping.require_fit("weights", mapping.shapes_of(_table_for(config, arrays)), shapes)
    stored = {name: StoredArray.of(np.asarray(array)) for name, array in arrays.items()}
    return {path: array.read() for path, array in our_arrays(config, stored).items()}


def our_arrays(config: ElmoConfig, arrays: mapping.StoredArrays) -> dict[str, StoredArray]:
    """As `from_bilm_tf`, for arrays in a file that fit `config`; see `open_weights`."""
    return mapping.from_theirs(_table_for(config, arrays), arrays)


def collect_arrays(encoder: Any, softmax: Any = None) -> Arrays:
    """The arrays by bilm-tf's names of a built encoder and, if given, its softmax layer.

    Raises:
      InputError: as `to_bilm_tf`, for layers that are not built.
    """
    size = None if softmax is None else int(softmax.kernel.shape[0])
    return to_bilm_tf(encoder.config, _finder(encoder, softmax), size)


def _finder(encoder: Any, softmax: Any) -> Callable[[str], Any]:
    def find(path: str) -> Any:
        first, *attributes = path.split(".")
        start = softmax if first == "softmax" else getattr(encoder, first, None)
        return functools.reduce(lambda item, name: getattr(item, name, None), attributes, start)

    return find


@contextlib.contextmanager
def open_weights(
    path: str | os.PathLike, config: ElmoConfig, source: str | None = None
) -> Iterator[dict[str, StoredArray]]:
    """As `read_weights`, but yields arrays that are read when NumPy asks for them."""
    source = str(path) if source is None else source
    with hdf5.open_datasets(path, source) as found:
        yield fitted(source, config, found)


def fitted(source: str, config: ElmoConfig, found: mapping.StoredArrays) -> dict[str, StoredArray]:
    """The arrays of a model as float32, by bilm-tf's names of today.

    Args:
      source: what to call them in errors.
      config: what they have to fit.
      found: arrays by any names that `current_name` knows, those of the softmax if there.

    Raises:
      InputError: they don't fit `config`; the message lists every missing, unexpected, wrongly
        shaped and wrongly typed array.
    """
    arrays: dict[str, StoredArray] = {}
    problems = []
    for name, array in found.items():
        known_name = current_name(name)
        if known_name in arrays:
            problems.append(f"twice, under two names: {known_name}")
        elif array.dtype.kind != "f":
            problems.append(f"not floating point: {printable(name)} is {array.dtype}")
        arrays[known_name] = array
    entries = _table_for(config, arrays)
    shapes = {name: array.shape for name, array in arrays.items()}
    mapping.require_fit(source, mapping.shapes_of(entries), shapes, problems)
    return {
        entry.name: float32_array(arrays[entry.name], f"{source}: {entry.name}")
        for entry in entries
    }


def read_weights(path: str | os.PathLike, config: ElmoConfig, source: str | None = None) -> Arrays:
    """Reads a weight file as float32 arrays by bilm-tf's names.

    Names of older files come out in their newer form. Half precision is widened, which is exact;
    double precision is rounded to the nearest float32. The softmax is read if it is there.

    Args:
      path: the HDF5 file.
      config: what the file has to fit.
      source: what to call the file in errors, if not by its path.

    Raises:
      InputError: the file is missing, no HDF5 file or damaged; or it does not fit `config`, and
        the message lists every missing, unexpected, wrongly shaped and wrongly typed array.
    """
    with open_weights(path, config, source) as stored:
        return {name: array.read() for name, array in stored.items()}


def write_weights(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    config: ElmoConfig,
    dtype: npt.DTypeLike = np.float32,
) -> None:
    """Writes arrays by bilm-tf's names to an HDF5 file, whole or not at all.

    Equal arrays give equal files, byte for byte. The softmax is written if it is among them.

    Args:
      path: the HDF5 file to write.
      arrays: the arrays by bilm-tf's names.
      config: the model's configuration, which the arrays must fit.
      dtype: type of the stored numbers, float32 or float16. float16 halves the file and rounds
        each value to 11 significant bits.

    Raises:
      InputError: the arrays do not fit `config` (the message lists every difference), or a value
        is beyond the range of `dtype`.
    """
    shapes = {name: np.shape(array) for name, array in arrays.items()}
    expected = mapping.shapes_of(_table_for(config, arrays))
    mapping.require_fit(f"weights for {path}", expected, shapes)
    hdf5.write_arrays(path, {name: _as_float(array, name, dtype) for name, array in arrays.items()})


def _table_for(config: ElmoConfig, arrays: Mapping[str, Any]) -> list[Entry]:
    """The table with the softmax if `arrays` has any part of one, of the size that it has."""
    shapes = [np.shape(arrays[name]) for name in SOFTMAX_NAMES if name in arrays]
    if not shapes:
        return table(config)
    return table(config, next((shape[0] for shape in shapes if shape), 0))


def float32_array(stored: StoredArray, name: str) -> StoredArray:
    """The same as float32 when it is read; an error names `name` if it has larger values."""
    return StoredArray(stored.shape, np.float32, lambda rows: _as_float(stored.read(rows), name))


def _as_float(values: Any, name: str, dtype: npt.DTypeLike = np.float32) -> np.ndarray:
    values, dtype = np.asarray(values), np.dtype(dtype)
    with np.errstate(over="ignore"):
        converted = values.astype(dtype)
    is_narrower = values.dtype.itemsize > dtype.itemsize
    if is_narrower and np.any(np.isinf(converted) & np.isfinite(values)):
        raise InputError(f"{name} has values beyond the range of {dtype}, as {values.dtype}")
    return converted
