"""An initial LSTM state for sentences: the mean of the states at the ends of many sentences.

A model is trained on running text, where a sentence starts from the state at the end of the
previous one. In use, each sentence starts from zeros. The mean of final states is a compromise: no
sentence depends on another, and none starts from a state unlike those of training.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model import pipeline
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.inputs.arguments import as_tensor
from elmo_tf.text.batches import batches_by_tokens

_BATCH_TOKENS = 2048


class InitialState(NamedTuple):
    """An initial state.

    Attributes:
      state: one row, `[1, projection_dim]` and `[1, units]` for each layer.
      num_sentences: number of sentences whose final states were averaged.
    """

    state: BiLmState
    num_sentences: int


def mean_initial_state(encoder: ElmoEncoder, sentences: Iterable[list[bytes]]) -> InitialState:
    """The mean final state of sentences that each start from the zero state.

    A sentence ends where training continues with the next one: after its last token, before `</S>`;
    in the backward direction after its first token, before `<S>`.

    Memory depends on the longest sentence, not on the length of the text.

    Args:
      encoder: an encoder with trained weights.
      sentences: lists of tokens; empty ones are ignored.

    Raises:
      InputError: no sentence has a token, or a state is not finite.
    """
    zeros = encoder.zero_state(1)
    totals = [np.zeros(like.shape[1]) for like in tf.nest.flatten(zeros)]
    num_sentences = 0
    for sums, count in _sums_of_end_states(encoder, sentences):
        for total, part in zip(totals, sums, strict=True):
            total += part
        num_sentences += count
    if not num_sentences:
        raise InputError("sentences: no sentence with a token", "sentences")
    if not all(np.isfinite(total).all() for total in totals):
        raise InputError("the model's states are not finite; its weights are not usable")
    means = [
        tf.cast(total[np.newaxis] / num_sentences, like.dtype)
        for total, like in zip(totals, tf.nest.flatten(zeros), strict=True)
    ]
    return InitialState(tf.nest.pack_sequence_as(zeros, means), num_sentences)


def repeat_state(state: BiLmState, batch: int | tf.Tensor) -> BiLmState:
    """Repeats a state of one row for `batch` rows."""
    return tf.nest.map_structure(
        lambda values: tf.broadcast_to(values, [batch, values.shape[1]]), state
    )


def _sums_of_end_states(
    encoder: ElmoEncoder, sentences: Iterable[list[bytes]]
) -> Iterator[tuple[list[np.ndarray], int]]:
    """For each batch of sentences, the sums of their final states, float64, and their number."""
    for batch in batches_by_tokens(filter(None, sentences), _BATCH_TOKENS):
        lengths = tf.constant([len(sentence) for sentence in batch], tf.int32)
        parts = encoder.traced.run(_sums, as_tensor(batch), lengths, model=encoder.parts)
        yield [part.numpy() for part in parts], len(batch)


def _sums(tokens: tf.Tensor, lengths: tf.Tensor, model: pipeline.Model) -> list[tf.Tensor]:
    states = tf.nest.flatten(_end_states(tokens, lengths, model))
    return [tf.reduce_sum(tf.cast(state, tf.float64), axis=0) for state in states]


def _end_states(tokens: tf.Tensor, lengths: tf.Tensor, model: pipeline.Model) -> BiLmState:
    """The state of each row, `[batch, ...]`, before the last boundary of each direction."""
    embeddings = pipeline.embed_tokens(tokens, lengths, model)  # [batch, max_tokens + 2, P]
    backward = tf.reverse_sequence(embeddings, lengths + 2, seq_axis=1)
    run = model.bilm.run_direction
    return BiLmState(
        forward=run("forward", embeddings, lengths=lengths + 1)[1],
        backward=run("backward", backward, lengths=lengths + 1)[1],
    )
