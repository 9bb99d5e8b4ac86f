"""The table of word vectors, alone and as the kernel of a softmax."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.layers.shared_softmax import SharedSoftmax
from elmo_tf.layers.word_embedding import WordEmbedding

pytestmark = pytest.mark.traced

SIZE, DIM = 37, 5


def make(size=SIZE, **options):
    layer = WordEmbedding(size, DIM, seed=4, **options)
    layer.build((None,))
    return layer


def make_shared(layer):
    softmax = SharedSoftmax(layer)
    softmax.build((None, DIM))
    softmax.bias.assign(np.linspace(-1, 1, SIZE))
    return softmax


@pytest.mark.parametrize("in_graph", [False, True])
def test_each_id_has_its_row(in_graph):
    layer = make()
    ids = np.array([[1, 7, SIZE], [3, 3, 0]], np.int32)
    found = (tf.function(layer) if in_graph else layer)(tf.constant(ids)).numpy()
    table = layer.embedding.numpy()
    for place in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]:
        np.testing.assert_array_equal(found[place], table[ids[place] - 1])
    assert found.shape == (2, 3, DIM)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(layer(tf.constant(ids), static_shapes=True), found)


def test_vectors_start_with_length_one_on_average_whatever_their_number():
    for size in (1000, 20_000):
        squares = (make(size).embedding.numpy() ** 2).sum(axis=1)
        assert squares.mean() == pytest.approx(1.0, rel=0.1)


def test_same_seed_same_table():
    np.testing.assert_array_equal(make().embedding, make().embedding)


def test_gradient_has_the_rows_that_were_looked_up_and_no_others():
    layer = make()
    weights = np.random.default_rng(0).normal(size=(4, DIM)).astype(np.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant([9, 2, 9, SIZE])) * weights)
    gradient = tape.gradient(loss, layer.embedding.value)
    assert isinstance(gradient, tf.IndexedSlices)
    expected = np.zeros((SIZE, DIM), np.float32)
    np.add.at(expected, [8, 1, 8, SIZE - 1], weights)
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, rtol=1e-6)


def test_half_precision_casts_vectors_and_not_the_table():
    layer = make(dtype="mixed_bfloat16")
    found = layer(tf.constant([3]))
    assert (found.dtype, layer.embedding.dtype) == (tf.bfloat16, "float32")
    expected = tf.cast(layer.embedding.numpy()[2:3], tf.bfloat16)
    np.testing.assert_array_equal(tf.cast(found, tf.float32), tf.cast(expected, tf.float32))


@pytest.mark.parametrize("wrong", [-1, -2, SIZE + 1])
def test_ids_of_no_word_are_refused_in_the_graph(wrong):
    look_up = tf.function(make().call, autograph=False)
    np.testing.assert_array_equal(look_up(tf.constant([0, 1]))[0], look_up(tf.constant([1, 1]))[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"is not in \[0, {SIZE}\)"):
        look_up(tf.constant([SIZE, wrong]))


def test_output_shape_and_wrong_size():
    assert make().compute_output_shape((2, None)) == (2, None, DIM)
    with pytest.raises(ValueError, match="vocabulary_size must be at least 1, got 0"):
        WordEmbedding(0, DIM)


def test_a_shared_softmax_is_that_of_a_kernel_equal_to_the_table():
    layer = make()
    shared, own = make_shared(layer), SampledSoftmax(SIZE)
    own.build((None, DIM))
    own.kernel.assign(layer.embedding)
    own.bias.assign(shared.bias)
    inputs = np.random.default_rng(1).normal(size=(6, DIM)).astype(np.float32)
    targets = np.array([0, 4, 36, 4, 9, 11], np.int32)
    sampled = {"negatives": np.array([4, 1, 20], np.int32), "num_tries": 5}
    for arguments in ({}, sampled):
        np.testing.assert_array_equal(
            shared(inputs, targets, **arguments), own(inputs, targets, **arguments)
        )
    np.testing.assert_array_equal(shared(inputs, targets), own(inputs, targets))
    top = [each.top_classes(inputs[np.newaxis], 3).ids.numpy() for each in (shared, own)]
    np.testing.assert_array_equal(*top)


def test_a_shared_softmax_owns_its_bias_and_learns_the_table():
    layer = make()
    softmax = make_shared(layer)
    assert [variable.name for variable in softmax.variables] == ["bias"]
    ids, targets = tf.constant([3, 9, 3]), np.array([8, 1, 30], np.int32)
    negatives = np.array([2, 8, 17], np.int32)

    own = SampledSoftmax(SIZE)
    own.build((None, DIM))
    own.kernel.assign(layer.embedding)
    own.bias.assign(softmax.bias)
    with tf.GradientTape() as tape:
        apart = tf.reduce_sum(own(layer(ids), targets, negatives=negatives, num_tries=4))
    parts = tape.gradient(apart, [layer.embedding.value, own.kernel.value])
    expected = tf.add_n([tf.convert_to_tensor(part) for part in parts])
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(softmax(layer(ids), targets, negatives=negatives, num_tries=4))
    gradient = tape.gradient(total, layer.embedding.value)
    assert isinstance(gradient, tf.IndexedSlices)
    assert set(gradient.indices.numpy()) == {2, 8, 17, 1, 30}
    assert total == apart
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, rtol=1e-6, atol=1e-7)


def test_a_shared_softmax_refuses_other_widths():
    with pytest.raises(ValueError, match="inputs must be 5 wide"):
        SharedSoftmax(make()).build((None, DIM + 1))
