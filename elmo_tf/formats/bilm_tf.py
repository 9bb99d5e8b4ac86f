"""Reads and writes weights in the format of bilm-tf and AllenNLP.

The same numbers have three forms, with these conversions:

  an HDF5 file  <-- read_weights or open_weights, write_weights -->  arrays by bilm-tf's names
  arrays by bilm-tf's names  <-- from_bilm_tf, to_bilm_tf -->  arrays by our names

`table` maps bilm-tf's arrays to ours; `mapping` has the loops over it. `to_bilm_tf` and
`from_bilm_tf` only move numbers, so they also convert values that an optimizer stores for each
weight, such as sums of squared gradients.
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

# Files written by bilm-tf have no softmax; these are its names in bilm-tf's training graph. A file
# with a softmax can be trained further, and readers that need only the biLM ignore it.
SOFTMAX_NAMES = ("softmax/W", "softmax/b")
# Maximum number of words of a softmax in a weight file.
_MOST_WORDS = 1_000_000

_HIGHWAY_NAMES = {  # bilm-tf calls the gate "carry", although it multiplies the new value
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
    """All arrays of a model; with `vocabulary_size`, also those of its softmax."""
    dim = config.lstm.projection_dim
    if not _can_hold(config):
        raise InputError(
            "the bilm-tf format cannot store this model: it has dictionary input, "
            "or its LSTM layers always project"
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
    """Whether the format can store every array of such a model."""
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


# The kinds of input layers that the format can store.
_INPUT_ENTRIES: Mapping[type, Callable[[ElmoConfig], list[Entry]]] = {
    CharCnnConfig: _char_cnn_entries,
    WordInputConfig: _word_entries,
}


def _lstm_entries(config: ElmoConfig, name: str, path: str) -> list[Entry]:
    units, dim = config.lstm.dim, config.lstm.projection_dim
    # Rows of the input precede rows of the state. Every layer's input is as wide as its output,
    # because word embeddings have this width too.
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
    """The current name of an array for any name that bilm-tf has used.

    Older files of one-layer models lack "MultiRNNCell/Cell0". The training graph and its
    checkpoints use TensorFlow's names for LSTM weights, after "lm/" and before ":0". The inference
    graph, as in modules of TensorFlow Hub, has a mixture of both.
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
    """The shapes of the biLM's arrays, without the softmax, by bilm-tf's names."""
    return mapping.shapes_of(table(config))


def our_shapes(
    config: ElmoConfig, vocabulary_size: int | None = None
) -> dict[str, tuple[int, ...]] | None:
    """The shapes of all arrays by our names; None for a model that the format cannot store."""
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
    """An upper bound of the size of a model's weight file, in bytes.

    It allows for arrays in double precision, a softmax over a million words in single precision
    (its size is not in the options), and 16 MiB of other HDF5 data.
    """
    softmax = _MOST_WORDS * (config.lstm.projection_dim + 1)
    count = sum(math.prod(entry.shape) for entry in table(config))
    return 8 * count + 4 * softmax + (16 << 20)


def to_bilm_tf(
    config: ElmoConfig, get: Callable[[str], Any], vocabulary_size: int | None = None
) -> Arrays:
    """Converts our arrays to arrays by bilm-tf's names.

    Args:
      config: the model's configuration.
      get: returns the array of a path such as "bilm.forward_0.bias", in any form NumPy can read.
      vocabulary_size: if given, also convert "softmax.kernel" and "softmax.bias".

    Raises:
      InputError: arrays are missing (None) or have wrong shapes; the message lists all of them.
    """
    return mapping.to_theirs(table(config, vocabulary_size), get)


def from_bilm_tf(config: ElmoConfig, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Converts arrays by bilm-tf's names to arrays by our names, including a softmax.

    Raises:
      InputError: the arrays do not fit `config`; the message lists every difference.
    """
    shapes = {name: np.shape(array) for name, array in arrays.items()}
    mapping.require_fit("weights", mapping.shapes_of(_table_for(config, arrays)), shapes)
    stored = {name: StoredArray.of(np.asarray(array)) for name, array in arrays.items()}
    return {path: array.read() for path, array in our_arrays(config, stored).items()}


def our_arrays(config: ElmoConfig, arrays: mapping.StoredArrays) -> dict[str, StoredArray]:
    """Like `from_bilm_tf`, for arrays in a file that fit `config`; see `open_weights`."""
    return mapping.from_theirs(_table_for(config, arrays), arrays)


def collect_arrays(encoder: Any, softmax: Any = None) -> Arrays:
    """The arrays of a built encoder and, if given, its softmax layer, by bilm-tf's names.

    Raises:
      InputError: a layer is not built; see `to_bilm_tf`.
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
    """Like `read_weights`, but each array is read from the file only when it is used."""
    source = str(path) if source is None else source
    with hdf5.open_datasets(path, source) as found:
        yield fitted(source, config, found)


def fitted(source: str, config: ElmoConfig, found: mapping.StoredArrays) -> dict[str, StoredArray]:
    """The arrays of a model as float32, by bilm-tf's current names.

    Args:
      source: name of the file in errors.
      config: the configuration that they must fit.
      found: arrays by any names that `current_name` knows, possibly with a softmax.

    Raises:
      InputError: they do not fit `config`; the message lists every missing, unexpected, wrongly
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

    Names of older files are converted to current ones. Half precision is converted exactly; double
    precision is rounded to the nearest float32. A softmax is read if the file has one.

    Args:
      path: the HDF5 file.
      config: the configuration that the file must fit.
      source: name of the file in errors; default: its path.

    Raises:
      InputError: the file is missing, damaged or not HDF5; or it does not fit `config`, and the
        message lists every missing, unexpected, wrongly shaped and wrongly typed array.
    """
    with open_weights(path, config, source) as stored:
        return {name: array.read() for name, array in stored.items()}


def write_weights(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    config: ElmoConfig,
    dtype: npt.DTypeLike = np.float32,
) -> None:
    """Writes arrays by bilm-tf's names to an HDF5 file, atomically.

    Equal arrays give equal files, byte for byte. A softmax among the arrays is written too.

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
    """The table for `arrays`, with a softmax of their size if they contain any part of one."""
    shapes = [np.shape(arrays[name]) for name in SOFTMAX_NAMES if name in arrays]
    if not shapes:
        return table(config)
    return table(config, next((shape[0] for shape in shapes if shape), 0))


def float32_array(stored: StoredArray, name: str) -> StoredArray:
    """The array, converted to float32 when read; an error about its range names `name`."""
    return StoredArray(stored.shape, np.float32, lambda rows: _as_float(stored.read(rows), name))


def _as_float(values: Any, name: str, dtype: npt.DTypeLike = np.float32) -> np.ndarray:
    values, dtype = np.asarray(values), np.dtype(dtype)
    with np.errstate(over="ignore"):
        converted = values.astype(dtype)
    is_narrower = values.dtype.itemsize > dtype.itemsize
    if is_narrower and np.any(np.isinf(converted) & np.isfinite(values)):
        raise InputError(f"{name} has values beyond the range of {dtype}, as {values.dtype}")
    return converted
