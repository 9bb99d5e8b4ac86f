"""Lengths of rows, derived from their contents."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.model.inputs import boundaries

pytestmark = pytest.mark.traced

ROWS = [["a", "", "b", "", ""], ["", "", "", "", ""], ["", "", "", "", "c"], ["\0", "", "", "", ""]]
LENGTHS = [3, 0, 5, 1]


@pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_lengths_of_tokens_and_of_ids(run):
    tokens = tf.constant([[token.encode() for token in row] for row in ROWS])
    assert list(run(boundaries.lengths_of_tokens)(tokens).numpy()) == LENGTHS
    ids = np.zeros([4, 5, 7], np.int32)
    ids[tokens.numpy() != b"", 2] = 9
    assert list(run(boundaries.lengths_of_ids)(tf.constant(ids)).numpy()) == LENGTHS


@pytest.mark.parametrize("shape", [[0, 0], [0, 3], [2, 0]])
def test_lengths_where_there_are_no_tokens(shape):
    lengths = boundaries.lengths_of_tokens(tf.zeros(shape, tf.string))
    assert (lengths.dtype, lengths.numpy().tolist()) == (tf.int32, [0] * shape[0])
