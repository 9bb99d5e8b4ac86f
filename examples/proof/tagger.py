"""The task model, the same for every kind of vectors, and its training."""

import random
from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from elmo_tf import ElmoEmbedding
from elmo_tf.layers.elmo_mix import ElmoMix
from examples.proof.features import Features

HIDDEN = 64
STATIC_DIM = 128
DROPOUT = 0.25
BATCH = 32  # sentences
LEARNING_RATE = 0.003
FINE_TUNING_RATE = 0.001


def static_model(num_ids: int, num_tags: int) -> keras.Model:
    """A tagger with trained word embeddings: ids `[batch, time]` to logits."""
    ids = keras.Input([None], dtype="int32")
    vectors = keras.layers.Embedding(num_ids, STATIC_DIM)(ids)
    return _compiled(ids, keras.layers.Dropout(DROPOUT)(vectors), num_tags, LEARNING_RATE)


def layers_model(num_layers: int, dim: int, num_tags: int) -> keras.Model:
    """A tagger with a scalar mix of cached layers: `[batch, layers, time, dim]` to logits."""
    layers = keras.Input([num_layers, None, dim])
    vectors = ElmoMix(num_layers, dropout=DROPOUT, name="mix")(layers)
    return _compiled(layers, vectors, num_tags, LEARNING_RATE)


def fine_tuned_model(elmo: ElmoEmbedding, num_tags: int) -> keras.Model:
    """A tagger with the language model inside: tokens `[batch, time]` to logits."""
    tokens = keras.Input([None], dtype="string")
    return _compiled(tokens, elmo(tokens), num_tags, FINE_TUNING_RATE)


def _compiled(
    inputs: keras.KerasTensor, vectors: keras.KerasTensor, num_tags: int, rate: float
) -> keras.Model:
    # Without a bias the padding stays zero, so the convolution sees where a sentence ends. Its own
    # padding would do, but Conv1D warns of the mask that comes with the vectors, and ops drop it.
    hidden = keras.layers.Dense(HIDDEN, use_bias=False, name="reduce")(vectors)
    hidden = keras.ops.pad(hidden, [[0, 0], [1, 1], [0, 0]])
    hidden = keras.layers.Conv1D(HIDDEN, 3, activation="relu", name="window")(hidden)
    hidden = keras.layers.Dropout(DROPOUT)(hidden)
    model = keras.Model(inputs, keras.layers.Dense(num_tags, name="tags")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, jit_compile=False)
    return model


def restart(model: keras.Model, weights: Sequence[np.ndarray]) -> None:
    """Sets weights and a fresh optimizer, so that one traced training step serves all runs."""
    model.set_weights(weights)
    for variable in model.optimizer.variables:
        if variable is not model.optimizer.learning_rate:
            variable.assign(tf.zeros_like(variable.value))


def train(
    model: keras.Model,
    features: Features,
    tags: Sequence[Sequence[int]],
    train_rows: Sequence[int],
    development_rows: Sequence[int],
    epochs: int,
    seed: int,
) -> None:
    """Trains the model and leaves it with the weights of the epoch best on development sentences.

    Args:
      model: one of the above.
      features: makes its inputs.
      tags: the tags of each sentence, as numbers.
      train_rows: indices of the sentences to train on.
      development_rows: indices of the sentences to choose the epoch by.
      epochs: number of passes over `train_rows`.
      seed: seed of their order.
    """
    chooser = random.Random(seed)
    features.begin(train_rows, seed)
    best, best_weights = -1.0, model.get_weights()
    for _ in range(epochs):
        for rows in _batches(train_rows, tags, chooser):
            expected, weights = _padded_tags(tags, rows)
            model.train_on_batch(features.batch(rows, True), expected, sample_weight=weights)
        right = is_right(model, features, tags, development_rows).mean()
        if right > best:
            best, best_weights = right, model.get_weights()
    model.set_weights(best_weights)


def is_right(
    model: keras.Model, features: Features, tags: Sequence[Sequence[int]], rows: Sequence[int]
) -> np.ndarray:
    """Whether each token of some sentences gets its tag, bool `[tokens of all rows]`."""
    by_length = sorted(range(len(rows)), key=lambda index: len(tags[rows[index]]))
    results: dict[int, np.ndarray] = {}
    for start in range(0, len(rows), 2 * BATCH):
        indices = by_length[start : start + 2 * BATCH]
        found = model.predict_on_batch(features.batch([rows[i] for i in indices], False))
        for index, logits in zip(indices, found, strict=True):
            expected = tags[rows[index]]
            results[index] = logits[: len(expected)].argmax(-1) == np.array(expected)
    return np.concatenate([results[index] for index in range(len(rows))])


def _batches(
    rows: Sequence[int], tags: Sequence[Sequence[int]], chooser: random.Random
) -> Iterator[list[int]]:
    """Batches of sentences of similar length, in random order."""
    by_length = sorted(rows, key=lambda row: (len(tags[row]), chooser.random()))
    starts = list(range(0, len(rows), BATCH))
    chooser.shuffle(starts)
    for start in starts:
        yield by_length[start : start + BATCH]


def _padded_tags(
    tags: Sequence[Sequence[int]], rows: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Tags, and weights that are 1 for tokens and 0 for padding, both `[sentences, time]`."""
    shape = (len(rows), max(len(tags[row]) for row in rows))
    expected, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for index, row in enumerate(rows):
        expected[index, : len(tags[row])] = tags[row]
        weights[index, : len(tags[row])] = 1.0
    return expected, weights
