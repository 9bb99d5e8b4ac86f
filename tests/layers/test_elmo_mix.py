"""ElmoMix: several mixes against NumPy, padding detected as zeros, trainable weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.elmo_mix import ElmoMix

pytestmark = pytest.mark.traced

NUM_LAYERS, BATCH, TIME, DIM = 3, 2, 5, 4
LENGTHS = [5, 2]
MASK = np.arange(TIME) < np.array(LENGTHS)[:, None]


def draw():
    values = np.random.default_rng(2).normal(1.0, 2.0, size=(BATCH, NUM_LAYERS, TIME, DIM))
    return np.where(MASK[:, None, :, None], values, 0).astype(np.float32)


def set_weights(layer):
    for index, mix in enumerate(layer.mixes):
        if mix.layer_weights is not None and layer.fixed_weights[index] is None:
            mix.layer_weights.assign([0.5, -1.0, 2.0 - index])
            mix.gamma.assign(1.7 + index)
    return layer


def numpy_mix(vectors, weights, gamma):
    shares = np.exp(weights) / np.exp(weights).sum()
    return gamma * np.einsum("l,bltd->btd", shares, vectors)


@pytest.mark.parametrize("as_list", [False, True])
def test_each_mix_equals_numpy_and_carries_the_mask(as_list):
    layer = set_weights(ElmoMix(NUM_LAYERS, num_mixes=2))
    vectors = draw()
    inputs = [tf.constant(each) for each in vectors.swapaxes(0, 1)] if as_list else vectors
    outputs = layer(inputs)
    assert len(outputs) == 2
    for index, output in enumerate(outputs):
        expected = numpy_mix(vectors, [0.5, -1.0, 2.0 - index], 1.7 + index)
        np.testing.assert_allclose(output, expected, atol=2e-6)
        np.testing.assert_array_equal(output._keras_mask, MASK)


def test_one_mix_is_no_list():
    output = ElmoMix(NUM_LAYERS)(draw())
    np.testing.assert_allclose(output, draw().mean(axis=1), atol=2e-6)


@pytest.mark.parametrize("given", ["argument", "on the input"])
def test_a_mask_comes_before_the_zeros(given):
    mask = tf.constant(MASK[::-1].copy())
    vectors = tf.constant(draw())
    layer = ElmoMix(NUM_LAYERS)
    if given == "argument":
        output = layer(vectors, mask=mask)
    else:
        vectors._keras_mask = mask
        output = layer(vectors)
    np.testing.assert_array_equal(output._keras_mask, mask)
    expected = np.where(mask[..., None], draw().mean(axis=1), 0)
    np.testing.assert_allclose(output, expected, atol=2e-6)


def test_fixed_weights_and_top_only():
    vectors = draw()
    fixed = ElmoMix(NUM_LAYERS, num_mixes=2, mix_weights=[-1e9, 0, -1e9])
    for output in fixed(vectors):
        np.testing.assert_array_equal(output, vectors[:, 1])
    one_fixed = ElmoMix(NUM_LAYERS, num_mixes=2, mix_weights=[[0, -1e9, -1e9], None])
    np.testing.assert_array_equal(one_fixed(vectors)[0], vectors[:, 0])
    np.testing.assert_allclose(one_fixed(vectors)[1], vectors.mean(axis=1), atol=2e-6)
    top = ElmoMix(NUM_LAYERS, use_top_only=True)
    np.testing.assert_array_equal(top(vectors), vectors[:, 2])


def test_layer_norm_over_real_tokens():
    output = ElmoMix(NUM_LAYERS, do_layer_norm=True, mix_weights=[-1e9, -1e9, 0])(draw())
    real = draw()[:, 2][MASK]
    expected = (real - real.mean()) / real.std()
    np.testing.assert_allclose(output.numpy()[MASK], expected, atol=2e-6)


def names(variables):
    return [variable.path.split("/", 1)[1] for variable in variables]


def test_what_is_trained():
    layer = ElmoMix(NUM_LAYERS, num_mixes=2, mix_weights=[None, [1, 2, 3]])
    learned = ["mix_0/layer_weights", "mix_0/gamma"]
    assert names(layer.trainable_variables) == learned
    layer.trainable = False
    assert layer.trainable_variables == []
    layer.trainable = True
    assert names(layer.trainable_variables) == learned, "fixed weights are fixed for good"
    model = keras.Sequential([keras.Input([NUM_LAYERS, None, DIM]), layer])
    model.trainable = False
    model.trainable = True
    assert names(model.trainable_variables) == learned
    assert ElmoMix(NUM_LAYERS, trainable=False).trainable_variables == []
    top = ElmoMix(NUM_LAYERS, use_top_only=True)
    assert names(top.trainable_variables) == ["mix_0/gamma"]


def test_penalty_of_learned_mixes_only():
    layer = ElmoMix(NUM_LAYERS, 2, mix_weights=[None, [1, 2, 3]], l2_coefficient=0.1)
    set_weights(layer)
    np.testing.assert_allclose(sum(layer.losses), 0.1 * (0.25 + 1 + 4), rtol=1e-6)
    layer.trainable = False
    assert layer.losses == []


def test_dropout_is_of_its_own_for_each_mix_and_off_by_default():
    layer = ElmoMix(NUM_LAYERS, num_mixes=2, dropout=0.5, seed=3)
    vectors = np.ones([7, NUM_LAYERS, 11, 13], np.float32)
    for output in layer(vectors):
        np.testing.assert_allclose(output, 1, atol=1e-6)
    first, second = (np.asarray(output) for output in layer(vectors, training=True))
    for output in (first, second):
        np.testing.assert_allclose(np.unique(output), [0, 2], atol=1e-6)
        assert 0.4 < (output == 0).mean() < 0.6
    assert (first != second).mean() > 0.3
    again = ElmoMix(NUM_LAYERS, num_mixes=2, dropout=0.5, seed=3)(vectors, training=True)
    np.testing.assert_array_equal(again[0], first)


@pytest.mark.parametrize("policy,eps", [("mixed_float16", 2**-11), ("mixed_bfloat16", 2**-8)])
def test_only_results_are_rounded_under_mixed_precision(policy, eps):
    vectors = draw()
    exact = set_weights(ElmoMix(NUM_LAYERS))(vectors)
    layer = set_weights(ElmoMix(NUM_LAYERS, dtype=policy))
    output = layer(vectors)
    assert output.dtype.name == policy.removeprefix("mixed_")
    np.testing.assert_allclose(tf.cast(output, tf.float32), exact, rtol=eps, atol=1e-7)
    keras_input = keras.Input([NUM_LAYERS, None, DIM])
    assert layer(keras_input).dtype == policy.removeprefix("mixed_")


def test_half_precision_vectors():
    vectors = draw().astype(np.float16)
    output = ElmoMix(NUM_LAYERS)(vectors)
    assert output.dtype == tf.float32
    np.testing.assert_allclose(output, vectors.astype(np.float32).mean(axis=1), atol=2e-6)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"num_mixes": 0}, "num_mixes must be an integer >= 1, got 0"),
        ({"num_mixes": 1.5}, "num_mixes must be an integer >= 1, got 1.5"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"l2_coefficient": -1.0}, "l2_coefficient must be finite and 0 or more, got -1.0"),
        ({"mix_weights": [1, 2]}, r"mix_weights must be None, 3 finite numbers .* got \[1, 2\]"),
        ({"mix_weights": [[1, 2, 3]] * 3}, "for each of 1 mixes"),
        ({"mix_weights": [0, float("nan"), 1]}, r"3 finite numbers .* got \[0, nan, 1\]"),
        ({"mix_weights": [[0, -np.inf, 1]]}, r"3 finite numbers .* got \[\[0, -inf, 1\]\]"),
        ({"mix_weights": "abc"}, "3 finite numbers .* got 'abc'"),
        ({"mix_weights": ["abc"]}, r"3 finite numbers .* got \['abc'\]"),
        ({"l2_coefficient": float("nan")}, "l2_coefficient must be finite and 0 or more, got nan"),
        ({"l2_coefficient": np.inf}, "l2_coefficient must be finite and 0 or more, got inf"),
        ({"mix_weights": [1, 2, 3], "use_top_only": True}, "must be None with use_top_only"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ElmoMix(NUM_LAYERS, **arguments)


def test_mix_weights_in_arrays_are_those_in_lists():
    rows = [[0, -1e9, 2], [1, 2, 3]]
    for weights in (np.array(rows), tf.constant(rows), [np.array(row) for row in rows]):
        assert ElmoMix(NUM_LAYERS, 2, mix_weights=weights).fixed_weights == tuple(map(tuple, rows))
    assert ElmoMix(NUM_LAYERS, mix_weights=np.array(rows[1])).fixed_weights == ((1, 2, 3),)


@pytest.mark.parametrize("shape", [(2, 4, 5, 4), (2, 5, 4), (2, 3, 5, 4, 1)])
@pytest.mark.parametrize("make", [np.ones, lambda shape: keras.Input(shape[1:])], ids=["", "spec"])
def test_wrong_shapes_are_named(shape, make):
    with pytest.raises(ValueError, match=r"vectors must be \[batch, 3, time, dim\]"):
        ElmoMix(NUM_LAYERS)(make(shape))


# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_keras_file_round_trip_and_static_shapes(tmp_path):
    layer = set_weights(ElmoMix(NUM_LAYERS, 2, [None, [1, 2, 3]], dropout=0.5, seed=7))
    vectors = keras.Input([NUM_LAYERS, 6, DIM])
    outputs = layer(vectors)
    assert [output.shape for output in outputs] == [(None, 6, DIM)] * 2
    model = keras.Model(vectors, outputs)
    model.save(tmp_path / "m.keras")
    copy = keras.models.load_model(tmp_path / "m.keras")
    assert copy.layers[1].get_config() == layer.get_config()
    inputs = np.pad(draw(), [[0, 0], [0, 0], [0, 1], [0, 0]])
    for ours, theirs in zip(model(inputs), copy(inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert names(copy.layers[1].trainable_variables) == names(layer.trainable_variables)
