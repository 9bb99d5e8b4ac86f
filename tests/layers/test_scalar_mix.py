"""ScalarMix against NumPy; padding has no effect."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.scalar_mix import ScalarMix
from tests.layers import references

pytestmark = pytest.mark.traced

NUM_LAYERS, BATCH, TIME, DIM = 3, 2, 5, 4
MASK = np.array([[True] * 5, [True, True, False, False, False]])


def make(**kwargs):
    layer = ScalarMix(NUM_LAYERS, **kwargs)
    layer.build()
    if layer.layer_weights is not None:
        layer.layer_weights.assign([0.5, -1.0, 2.0])
    layer.gamma.assign(1.7)
    return layer


def draw():
    shape = (NUM_LAYERS, BATCH, TIME, DIM)
    return list(np.random.default_rng(2).normal(3.0, 2.0, size=shape).astype(np.float32))


@pytest.mark.parametrize(
    "do_layer_norm,use_top_only,masked,stacked,in_graph",
    list(itertools.product([False, True], repeat=5)),
)
def test_equals_numpy(do_layer_norm, use_top_only, masked, stacked, in_graph):
    layer = make(do_layer_norm=do_layer_norm, use_top_only=use_top_only)
    mask = MASK if masked else None
    inputs = np.stack(draw(), axis=1) if stacked else draw()
    outputs = (tf.function(layer) if in_graph else layer)(inputs, mask=mask)
    np.testing.assert_allclose(outputs, references.scalar_mix(layer, draw(), mask), atol=3e-6)
    assert (np.asarray(outputs) == 0).all(axis=-1).sum() == (3 if masked else 0)


def test_starts_as_the_plain_average():
    layer = ScalarMix(NUM_LAYERS)
    np.testing.assert_allclose(layer(draw()), np.mean(draw(), axis=0), atol=1e-6)
    assert [(v.name, v.shape) for v in layer.weights] == [("layer_weights", (3,)), ("gamma", ())]


def test_initial_weights_select_a_layer_for_good():
    layer = ScalarMix(NUM_LAYERS, initial_weights=[-1e9, 0, -1e9], trainable=False)
    np.testing.assert_array_equal(layer(draw()), draw()[1])
    assert layer.trainable_variables == []
    assert len(layer.non_trainable_variables) == 2


@pytest.mark.parametrize("do_layer_norm", [False, True])
@pytest.mark.parametrize("use_top_only", [False, True])
@pytest.mark.parametrize("filling", [np.nan, np.inf, 1e30])
def test_nothing_leaks_from_padding(do_layer_norm, use_top_only, filling):
    layer = make(do_layer_norm=do_layer_norm, use_top_only=use_top_only)
    results = []
    for padding in (0.0, filling):
        layers = [tf.constant(np.where(MASK[..., None], x, padding), tf.float32) for x in draw()]
        with tf.GradientTape() as tape:
            tape.watch(layers)
            outputs = layer(layers, mask=MASK)
            loss = tf.reduce_sum(outputs * draw()[0])
        sources = [*layers, *(v.value for v in layer.trainable_variables)]
        gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
        results.append([outputs, *gradients])
    for clean, filled in zip(*results, strict=True):
        np.testing.assert_array_equal(clean, filled)
    assert np.abs(results[0][-1]).max() > 0


@pytest.mark.parametrize("do_layer_norm", [False, True])
@pytest.mark.parametrize("batch,time", [(0, 5), (2, 0), (2, 5)])
def test_batch_without_a_real_token(do_layer_norm, batch, time):
    layer = make(do_layer_norm=do_layer_norm)
    layers = [tf.ones([batch, time, DIM])] * NUM_LAYERS
    outputs = layer(layers, mask=tf.zeros([batch, time], tf.bool))
    np.testing.assert_array_equal(outputs, np.zeros([batch, time, DIM]))


def test_penalty_is_on_the_raw_weights():
    layer = make(l2_coefficient=0.5)
    layer(draw())
    np.testing.assert_allclose(layer.losses, [0.5 * (0.5**2 + 1.0 + 2.0**2)])
    assert make().losses == []
    assert make(l2_coefficient=0.5, use_top_only=True).losses == []


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_mixed_precision_mixes_in_float32(policy, do_layer_norm):
    """The sum of squares overflows float16, and bfloat16 would lose the offset."""
    layer = make(dtype=policy, do_layer_norm=do_layer_norm)
    layers = [x * 200 + 1000 for x in draw()]
    outputs = layer(layers, mask=MASK)
    assert outputs.dtype == policy.removeprefix("mixed_")
    assert {v.dtype for v in layer.weights} == {"float32"}
    exact = tf.cast(make(do_layer_norm=do_layer_norm)(layers, mask=MASK), outputs.dtype)
    np.testing.assert_array_equal(outputs, exact)


def test_mask_of_a_keras_model_is_used_and_handed_on():
    layers = [x * MASK[..., None] for x in draw()]
    mix = make()
    inputs = [keras.Input((TIME, DIM)) for _ in layers]
    outputs = mix([keras.layers.Masking()(x) for x in inputs])
    model = keras.Model(inputs, outputs)
    np.testing.assert_allclose(model(layers), references.scalar_mix(mix, draw(), MASK), atol=3e-6)
    result = mix([keras.layers.Masking()(x) for x in layers])
    np.testing.assert_array_equal(result._keras_mask, MASK)


@pytest.mark.parametrize(
    "kwargs,message",
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        (
            {"num_layers": 2, "l2_coefficient": -1.0},
            "l2_coefficient must be finite and 0 or more, got -1.0",
        ),
        ({"num_layers": 2, "initial_weights": [0.0]}, r"must hold num_layers \(2\) .*, got 1"),
    ],
)
def test_wrong_arguments_are_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        ScalarMix(**kwargs)


@pytest.mark.parametrize("use_top_only", [False, True])
def test_wrong_number_of_layers_is_named(use_top_only):
    layer = make(use_top_only=use_top_only)
    with pytest.raises(ValueError, match=r"layers must be num_layers \(3\), got 2"):
        layer(draw()[:2])
    with pytest.raises(ValueError, match=r"layers must be num_layers \(3\), got 2"):
        layer(np.stack(draw()[:2], axis=1))
