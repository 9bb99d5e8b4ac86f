"""Tables that map the arrays of ELMoForManyLangs to ours.

Their LSTM gates have a different order, the bias of their forget gate includes the 1 that our layer
adds, and the gate of their highway layer has the opposite meaning.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from elmo_tf.config.inputs import DictionaryInputConfig
from elmo_tf.config.model import ElmoConfig
from elmo_tf.formats import mapping
from elmo_tf.storage.stored_array import Shape, StoredArray

Arrays = dict[str, StoredArray]


class Entry(NamedTuple):
    """One of their arrays, and the arrays of ours that it contains, by name."""

    name: str
    shape: Shape
    ours: Mapping[str, Callable[[np.ndarray], np.ndarray]]


def embedder_entries(config: ElmoConfig) -> list[Entry]:
    """The arrays of `token_embedder.pkl`."""
    given = config.input
    assert isinstance(given, DictionaryInputConfig)
    ours, entries = "dictionary_embedding", []

    def same(values: np.ndarray) -> np.ndarray:
        return values

    if given.word_dim:
        entries.append(
            Entry(
                "word_emb_layer.embedding.weight",
                (given.num_words, given.word_dim),
                {f"{ours}.word_embedding.embedding": same},
            )
        )
    if given.char_dim:
        entries.append(
            Entry(
                "char_emb_layer.embedding.weight",
                (given.num_characters, given.char_dim),
                {f"{ours}.char_cnn.embedding": same},
            )
        )
        for i, (width, count) in enumerate(given.filters):
            kernel, bias = (
                f"{ours}.char_cnn.convolution_{part}_{i}" for part in ("kernel", "bias")
            )
            shape = (count, given.char_dim, width)
            entries += [
                Entry(f"convolutions.{i}.weight", shape, {kernel: np.transpose}),
                Entry(f"convolutions.{i}.bias", (count,), {bias: same}),
            ]
        entries += _highway_entries(given, f"{ours}.char_cnn")
    width = given.word_dim + given.num_filters
    dim = config.lstm.projection_dim
    return [
        *entries,
        Entry("projection.weight", (dim, width), {f"{ours}.projection_kernel": np.transpose}),
        Entry("projection.bias", (dim,), {f"{ours}.projection_bias": same}),
    ]


def _highway_entries(given: DictionaryInputConfig, ours: str) -> list[Entry]:
    """Their gate multiplies the input, ours the candidate, so the gates are complements."""
    width = given.num_filters

    def candidate(values: np.ndarray) -> np.ndarray:
        return values[:width]

    def gate(values: np.ndarray) -> np.ndarray:
        return -values[width:]

    entries = []
    for i in range(given.num_highway_layers):
        name, path = f"highways._layers.{i}", f"{ours}.highway_{i}"
        for theirs, part, shape in (
            ("weight", "matrix", (2 * width, width)),
            ("bias", "bias", (2 * width,)),
        ):
            of_ours = {f"{path}.candidate_{part}": candidate, f"{path}.gate_{part}": gate}
            entries.append(Entry(f"{name}.{theirs}", shape, of_ours))
    return entries


def encoder_entries(config: ElmoConfig) -> list[Entry]:
    """The arrays of `encoder.pkl`."""
    dim, width = config.lstm.dim, config.lstm.projection_dim

    def reordered(values: np.ndarray) -> np.ndarray:
        """Reorders gates from their order i, f, g, o to ours, i, g, f, o."""
        i, f, g, o = np.split(values, 4)
        return np.concatenate([i, g, f, o])

    def bias(values: np.ndarray) -> np.ndarray:
        """Subtracts 1 from the forget gate's bias, because our layer adds it."""
        forget = np.repeat(np.array([0, 0, 1, 0], values.dtype), dim)
        return reordered(values) - forget

    entries = []
    for direction in ("forward", "backward"):
        for layer in range(config.lstm.num_layers):
            name, ours = f"{direction}_layer_{layer}", f"bilm.{direction}_{layer}"
            kernel = (4 * dim, width)
            entries += [
                Entry(
                    f"{name}.input_linearity.weight", kernel, {f"{ours}.input_kernel": reordered}
                ),
                Entry(
                    f"{name}.state_linearity.weight",
                    kernel,
                    {f"{ours}.recurrent_kernel": reordered},
                ),
                Entry(f"{name}.state_linearity.bias", (4 * dim,), {f"{ours}.bias": bias}),
                Entry(
                    f"{name}.state_projection.weight",
                    (width, dim),
                    {f"{ours}.projection_kernel": lambda values: values},
                ),
            ]
    return entries


def from_theirs(source: str, entries: list[Entry], stored: Mapping[str, StoredArray]) -> Arrays:
    """Our arrays by name, each read when it is used.

    Raises:
      InputError: their arrays do not fit the configuration; the message lists every difference.
    """
    expected = {entry.name: entry.shape for entry in entries}
    shapes = {name: array.shape for name, array in stored.items()}
    problems = [
        f"not single precision: {name} is {array.dtype}"
        for name, array in stored.items()
        if name in expected and array.dtype != np.float32
    ]
    mapping.require_fit(source, expected, shapes, problems, to="its configuration")
    return {
        path: stored[entry.name].view(make)
        for entry in entries
        for path, make in entry.ours.items()
    }
