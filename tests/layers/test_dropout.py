"""Dropout: its rate, its mean, and masks of rows that do not depend on the batch."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.dropout import RowsSeed, seeded_dropout

pytestmark = pytest.mark.traced

SEED = tf.constant([3, 5])


def test_share_and_mean():
    dropped = seeded_dropout(tf.ones([50, 40, 30]), 0.3, SEED, 1).numpy()
    assert np.mean(dropped == 0) == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.7, rtol=1e-6)


def test_seed_and_salt_decide():
    values = tf.ones([5, 7, 4])
    masks = [
        seeded_dropout(values, 0.5, tf.constant(seed), salt).numpy()
        for seed, salt in [((3, 5), 1), ((3, 5), 1), ((3, 5), 2), ((3, 6), 1)]
    ]
    np.testing.assert_array_equal(masks[0], masks[1])
    assert (masks[0] != masks[2]).any()
    assert (masks[0] != masks[3]).any()


def test_rows_get_the_masks_of_the_whole_batch():
    values = tf.random.stateless_normal([6, 7, 4], seed=[1, 2])
    whole = seeded_dropout(values, 0.4, SEED, 2)
    parts = [
        seeded_dropout(
            values[first : first + 2], 0.4, RowsSeed(SEED, tf.constant(first), tf.constant(6)), 2
        )
        for first in (0, 2, 4)
    ]
    np.testing.assert_array_equal(tf.concat(parts, axis=0), whole)
