"""Dropout whose masks follow from a seed, also where the rows of a batch are on several devices."""

from typing import NamedTuple

import tensorflow as tf


class RowsSeed(NamedTuple):
    """A seed for some rows of a larger batch: they get the masks that they get in the whole batch.

    Attributes:
      seed: int32 `[2]`, that of the batch.
      first_row: scalar int32, place of the first row in the batch.
      batch: scalar int32, rows of the batch.
    """

    seed: tf.Tensor
    first_row: tf.Tensor
    batch: tf.Tensor


def seeded_dropout(
    values: tf.Tensor, rate: float, seed: tf.Tensor | RowsSeed, salt: int
) -> tf.Tensor:
    """Sets a share of the values to zero and scales up the others; the mean stays the same.

    Args:
      values: `[batch, ...]`, or with a `RowsSeed` some rows of it.
      rate: the share, 0 <= rate < 1.
      seed: int32 `[2]`, or a `RowsSeed`; the same seed and salt give the same mask.
      salt: integer that tells the places of a model apart from each other.
    """
    if not isinstance(seed, RowsSeed):
        seed = tf.random.experimental.stateless_fold_in(seed, salt)
        return tf.nn.experimental.stateless_dropout(values, rate, seed=seed)
    num_rows, *others = tf.unstack(tf.shape(values))
    ones = tf.ones([seed.batch, *others], values.dtype)
    factors = seeded_dropout(ones, rate, seed.seed, salt)
    return values * factors[seed.first_row :][:num_rows]
