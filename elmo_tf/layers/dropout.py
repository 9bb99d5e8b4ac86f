"""Dropout whose masks depend only on a seed, even if a batch is split over several devices."""

from typing import NamedTuple

import tensorflow as tf


class RowsSeed(NamedTuple):
    """A seed for part of a batch, which gives the rows the masks they have in the whole batch.

    Attributes:
      seed: int32 `[2]`, seed of the batch.
      first_row: scalar int32, index of the first row in the batch.
      batch: scalar int32, number of rows of the batch.
    """

    seed: tf.Tensor
    first_row: tf.Tensor
    batch: tf.Tensor


def seeded_dropout(
    values: tf.Tensor, rate: float, seed: tf.Tensor | RowsSeed, salt: int
) -> tf.Tensor:
    """Sets a fraction of the values to zero and scales up the others, which preserves the mean.

    Args:
      values: `[batch, ...]`; with a `RowsSeed`, some rows of the batch.
      rate: the fraction, 0 <= rate < 1.
      seed: int32 `[2]`, or a `RowsSeed`; the same seed and salt give the same mask.
      salt: integer that distinguishes the dropouts of a model.
    """
    if not isinstance(seed, RowsSeed):
        seed = tf.random.experimental.stateless_fold_in(seed, salt)
        return tf.nn.experimental.stateless_dropout(values, rate, seed=seed)
    num_rows, *others = tf.unstack(tf.shape(values))
    ones = tf.ones([seed.batch, *others], values.dtype)
    factors = seeded_dropout(ones, rate, seed.seed, salt)
    return values * factors[seed.first_row :][:num_rows]
