"""Adds sentence boundaries to each row of a batch, in the graph.

A model reads `<S> token ... token </S>`, followed by padding. Padding does not affect results, so
it is filled with `</S>`, which is in the batch already and needs no extra computation.
"""

import numpy as np
import tensorflow as tf

from elmo_tf.text import characters


def add_boundary_tokens(
    tokens: tf.Tensor, lengths: tf.Tensor, boundary_tokens: tuple[bytes, bytes]
) -> tf.Tensor:
    """Adds boundary tokens to each row.

    Args:
      tokens: string `[batch, max_tokens]`.
      lengths: int32 `[batch]`, number of tokens of each row.
      boundary_tokens: the two boundaries, such as `<S>` and `</S>`.

    Returns:
      String `[batch, max_tokens + 2]`: `<S>`, the real tokens, and `</S>` to the end.
    """
    begin, end = boundary_tokens
    is_real = tf.sequence_mask(lengths, tf.shape(tokens)[1])  # [batch, max_tokens]
    tokens = tf.where(is_real, tokens, end)
    column = [tf.shape(tokens)[0], 1]
    return tf.concat([tf.fill(column, begin), tokens, tf.fill(column, end)], axis=1)


def add_boundary_ids(
    token_ids: tf.Tensor, lengths: tf.Tensor, boundary_ids: np.ndarray
) -> tf.Tensor:
    """Like `add_boundary_tokens`, for ids.

    Args:
      token_ids: int32 `[batch, max_tokens, ...]`.
      lengths: int32 `[batch]`, number of tokens of each row.
      boundary_ids: int32 `[2, ...]`; see `token_ids`.

    Returns:
      int32 `[batch, max_tokens + 2, ...]`.
    """
    begin, end = tf.unstack(tf.constant(boundary_ids))
    is_real = tf.sequence_mask(lengths, tf.shape(token_ids)[1])  # [batch, max_tokens]
    for _ in end.shape:
        is_real = tf.expand_dims(is_real, -1)
    token_ids = tf.where(is_real, token_ids, end)
    column = [tf.shape(token_ids)[0], 1, *end.shape]
    return tf.concat(
        [tf.broadcast_to(begin, column), token_ids, tf.broadcast_to(end, column)], axis=1
    )


def lengths_of_tokens(tokens: tf.Tensor) -> tf.Tensor:
    """Number of tokens up to the last non-empty one of each row: int32 `[batch]`.

    Args:
      tokens: string `[batch, max_tokens]`.
    """
    return _ends(tf.not_equal(tokens, ""))


def lengths_of_ids(token_ids: tf.Tensor) -> tf.Tensor:
    """Number of tokens up to the last one of each row with a nonzero id: int32 `[batch]`.

    Args:
      token_ids: int32 `[batch, max_tokens, ...]`.
    """
    axes = list(range(2, token_ids.shape.rank))
    return _ends(tf.reduce_any(token_ids != characters.PADDING, axis=axes))


def _ends(is_token: tf.Tensor) -> tf.Tensor:
    """Index after the last True of each row of bool `[batch, max_tokens]`: int32 `[batch]`."""
    position = tf.range(1, tf.shape(is_token)[1] + 1)
    # Prepend zero so that a batch without tokens has a maximum.
    ends = tf.pad(tf.where(is_token, position, 0), [[0, 0], [1, 0]])
    return tf.reduce_max(ends, axis=1)


def checked_lengths(sequence_len: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Returns `sequence_len` after a check in the graph.

    Args:
      sequence_len: int32 `[batch]`.
      tokens: `[batch, max_tokens, ...]`.

    Raises:
      InvalidArgumentError: a length is below 0 or above max_tokens, or their number is not that of
        the rows. In eager code, and if shapes are known while tracing, it is a ValueError.
    """
    batch, width = tf.unstack(tf.shape(tokens)[:2])
    message = "sequence_len must be from 0 to the number of tokens in a row (the width of tokens)"
    checks = [
        tf.debugging.assert_equal(
            tf.shape(sequence_len),
            [batch],
            "sequence_len must hold one length for each row of tokens",
        ),
        tf.debugging.assert_non_negative(sequence_len, message),
        tf.debugging.assert_less_equal(sequence_len, width, message),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(sequence_len)
