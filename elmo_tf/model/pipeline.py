"""The pipeline from text to vectors, as pure functions of tensors.

    text                string [batch]
      split_and_pad       of `text.tokens`
    tokens, lengths     string [batch, max_tokens], int32 [batch]
      embed_tokens        or `embed_ids`, which starts from ids
    embeddings          [batch, max_tokens + 2, P], with both boundaries
      run_layers
    layers              [batch, max_tokens, P], then n times [batch, max_tokens, 2 * P]
      named_outputs       scalar mix and mean
    outputs             a dict by name

`ElmoEncoder`, the signatures of an export, `ElmoEmbedding` and the vector jobs each call the parts
that they need.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from elmo_tf.layers.bilm import BiLm, BiLmState
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.model.inputs import boundaries
from elmo_tf.model.inputs.token_input import TokenInput
from elmo_tf.text.tokens import split_and_pad

Outputs = dict[str, tf.Tensor]
State = BiLmState | None
# Maps distinct words, string `[words]`, to their embeddings, `[words, P]`.
EmbedWords = Callable[[tf.Tensor], tf.Tensor]


class Model(NamedTuple):
    """The parts of a model that the functions use.

    Attributes:
      token_input: converts tokens to ids.
      token_layer: converts ids to word embeddings.
      bilm: the LSTM layers.
      scalar_mix: the weighted average of all layers.
    """

    token_input: TokenInput
    token_layer: keras.layers.Layer
    bilm: BiLm
    scalar_mix: ScalarMix


def embed_words(words: tf.Tensor, model: Model) -> tf.Tensor:
    """Word embeddings without boundaries: string `[words]` to `[words, P]`."""
    return model.token_layer(model.token_input(words))


def embed_tokens(
    tokens: tf.Tensor, lengths: tf.Tensor, model: Model, embed: EmbedWords | None = None
) -> tf.Tensor:
    """Word embeddings with boundaries: `[batch, max_tokens + 2, P]`, undefined past the length.

    The embedding of each distinct word of the batch is computed once.

    Args:
      tokens: string `[batch, max_tokens]`.
      lengths: int32 `[batch]`, checked.
      model: the parts of the model.
      embed: replaces the model's own computation of word embeddings, for example by a table.
    """
    bounded = boundaries.add_boundary_tokens(  # [batch, max_tokens + 2]
        tokens, lengths, model.token_input.boundary_tokens
    )
    distinct, index = tf.unique(tf.reshape(bounded, [-1]))
    embeddings = embed_words(distinct, model) if embed is None else embed(distinct)  # [words, P]
    return tf.gather(embeddings, tf.reshape(index, tf.shape(bounded)))


def embed_ids(
    token_ids: tf.Tensor, lengths: tf.Tensor, model: Model, static_shapes: bool = False
) -> tf.Tensor:
    """Like `embed_tokens`, for ids: int32 `[batch, max_tokens, ...]`."""
    bounded = boundaries.add_boundary_ids(token_ids, lengths, model.token_input.boundaries)
    return model.token_layer(bounded, static_shapes=static_shapes)


def run_layers(
    embeddings: tf.Tensor,
    lengths: tf.Tensor,
    bilm: BiLm,
    *,
    initial_state: State = None,
    return_state: bool = False,
    keep_boundaries: bool = False,
    training: bool = False,
    static_shapes: bool = False,
    save_activations: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], State]:
    """All layers from the word embeddings to the input of the scalar mix.

    Args:
      embeddings: `[batch, max_tokens + 2, P]`, including both boundaries of each row.
      lengths: int32 `[batch]`, number of tokens of each row, without boundaries.
      bilm: the LSTM layers.
      initial_state: the initial state, or None for zeros.
      return_state: whether to return the state after each row's last token.
      keep_boundaries: whether to return vectors of boundaries: `max_tokens + 2` below.
      training, static_shapes, save_activations: see `BiLm`.

    Returns:
      A list of the word embeddings `[batch, max_tokens, P]` and the LSTM layers
      `[batch, max_tokens, 2 * P]`, float32, zero at padding; and the state or None.
    """
    results = bilm(
        embeddings,
        lengths=lengths + 2,
        initial_state=initial_state,
        return_state=return_state,
        training=training,
        static_shapes=static_shapes,
        save_activations=save_activations,
    )
    lstm_layers, state = results if return_state else (results, None)
    layers = [embeddings, *lstm_layers]
    if keep_boundaries:
        lengths += 2
    else:
        layers = [layer[:, 1:-1] for layer in layers]
    # Not [..., tf.newaxis], which the LiteRT converter supports only for numbers.
    is_real = tf.expand_dims(tf.sequence_mask(lengths, tf.shape(layers[0])[1]), -1)
    return [tf.where(is_real, tf.cast(layer, tf.float32), 0.0) for layer in layers], state


def doubled(layers: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The layers to mix, each `[..., 2 * P]`: the word embedding is repeated to this width."""
    return [tf.concat([layers[0], layers[0]], axis=-1), *layers[1:]]


def mix(layers: Sequence[tf.Tensor], lengths: tf.Tensor, scalar_mix: ScalarMix) -> tf.Tensor:
    """The scalar mix `[batch, max_tokens, 2 * P]` of the layers from `run_layers`."""
    is_real = tf.sequence_mask(lengths, tf.shape(layers[0])[1])  # [batch, max_tokens]
    return scalar_mix(doubled(layers), mask=is_real)


def named_outputs(
    layers: Sequence[tf.Tensor], lengths: tf.Tensor, scalar_mix: ScalarMix
) -> Outputs:
    """The outputs that `ElmoEncoder` documents, from the layers of `run_layers`."""
    elmo = mix(layers, lengths, scalar_mix)
    count = tf.cast(tf.maximum(lengths, 1), elmo.dtype)
    return {
        "word_emb": layers[0],
        **{f"lstm_outputs{n}": layer for n, layer in enumerate(layers[1:], start=1)},
        "elmo": elmo,
        "default": tf.reduce_sum(elmo, axis=1) / count[:, tf.newaxis],
        "sequence_len": lengths,
    }


def encode_text(
    text: tf.Tensor, initial_state: State, *, model: Model, return_state: bool = False
) -> Outputs | tuple[Outputs, BiLmState]:
    """The whole pipeline for text, string `[batch]`; with `return_state`, also the state."""
    tokens, lengths = split_and_pad(text)
    return encode_tokens(tokens, lengths, initial_state, model=model, return_state=return_state)


def encode_tokens(
    tokens: tf.Tensor,
    lengths: tf.Tensor,
    initial_state: State,
    *,
    model: Model,
    return_state: bool = False,
) -> Outputs | tuple[Outputs, BiLmState]:
    """Like `encode_text`, for tokens: string `[batch, max_tokens]`, int32 `[batch]`."""
    lengths = boundaries.checked_lengths(lengths, tokens)
    embeddings = embed_tokens(tokens, lengths, model)
    return _encode(embeddings, lengths, model, initial_state, return_state)


def encode_ids(
    token_ids: tf.Tensor,
    lengths: tf.Tensor,
    initial_state: State,
    *,
    model: Model,
    return_state: bool = False,
    static_shapes: bool = False,
) -> Outputs | tuple[Outputs, BiLmState]:
    """Like `encode_tokens`, for ids: int32 `[batch, max_tokens, ...]`, int32 `[batch]`."""
    lengths = boundaries.checked_lengths(lengths, token_ids)
    embeddings = embed_ids(token_ids, lengths, model, static_shapes)
    return _encode(embeddings, lengths, model, initial_state, return_state, static_shapes)


def _encode(
    embeddings: tf.Tensor,
    lengths: tf.Tensor,
    model: Model,
    initial_state: State,
    return_state: bool,
    static_shapes: bool = False,
) -> Outputs | tuple[Outputs, BiLmState]:
    layers, state = run_layers(
        embeddings,
        lengths,
        model.bilm,
        initial_state=initial_state,
        return_state=return_state,
        static_shapes=static_shapes,
    )
    outputs = named_outputs(layers, lengths, model.scalar_mix)
    return outputs if state is None else (outputs, state)
