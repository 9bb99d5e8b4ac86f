"""CharCnn against NumPy and bilm-tf's graph, and its two implementations against each other."""

import itertools
import json

import h5py
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import char_cnn
from elmo_tf.layers.char_cnn import CharCnn
from tests.integration.zoo import CONFIGURATIONS
from tests.layers import references

pytestmark = pytest.mark.traced

FILLER = 29
EMBEDDING_DIM, MAX_CHARACTERS, NUM_CHARACTERS = 3, 11, 29
FILTERS = ((1, 4), (2, 5), (4, 6))  # 15 filters
PROJECTION_DIM = 7


def make(num_highway_layers=1, projection_dim=PROJECTION_DIM, activation="relu", **kwargs):
    kwargs = {"filler_id": FILLER, "num_characters": NUM_CHARACTERS, "seed": 3, **kwargs}
    layer = CharCnn(
        EMBEDDING_DIM, FILTERS, num_highway_layers, projection_dim, activation, **kwargs
    )
    layer.build((None, MAX_CHARACTERS))
    rng = np.random.default_rng(5)
    for variable in layer.weights:  # larger than initially, so that activations matter
        variable.assign(rng.normal(size=variable.shape, scale=0.4))
    return layer


def token(length):
    """`length` random characters, then filler up to the full width."""
    ids = np.full(MAX_CHARACTERS, FILLER, np.int32)
    ids[:length] = np.random.default_rng(length).integers(1, FILLER, length)
    return ids


def batch():
    """All lengths including the full width, and rows of padding: int32 `[2, 7, 11]`."""
    tokens = [token(length) for length in range(MAX_CHARACTERS + 1)]
    padding = [np.zeros(MAX_CHARACTERS, np.int32)] * 2
    return np.stack(tokens + padding).reshape(2, 7, MAX_CHARACTERS)


OPTIONS = list(itertools.product([0, 1, 2], [PROJECTION_DIM, 15], ["relu", "tanh"]))


@pytest.mark.parametrize("num_highway_layers,projection_dim,activation", OPTIONS)
@pytest.mark.parametrize("in_graph", [False, True])
def test_equals_numpy(num_highway_layers, projection_dim, activation, in_graph):
    layer = make(num_highway_layers, projection_dim, activation)
    assert (layer.projection_kernel is None) == (projection_dim == 15)
    outputs = (tf.function(layer) if in_graph else layer)(batch())
    assert outputs.dtype == tf.float32
    np.testing.assert_allclose(outputs, references.char_cnn(layer, batch()), atol=5e-6)


@pytest.mark.parametrize(
    "filler_id,static_shapes", [(None, False), (FILLER, True), (FILLER, False)]
)
@pytest.mark.parametrize("longest", range(MAX_CHARACTERS + 1))
def test_filler_is_skipped_without_a_trace(filler_id, static_shapes, longest):
    """This includes maxima in filler, and words that fill the width."""
    layer = make(filler_id=filler_id)
    ids = np.stack([token(longest), token(longest // 2), np.zeros(MAX_CHARACTERS, np.int32)])
    np.testing.assert_allclose(
        layer(ids, static_shapes=static_shapes), references.char_cnn(layer, ids), atol=5e-6
    )


def test_maximum_of_the_last_window_of_a_full_token_is_found():
    """A window may end at the right edge but not extend past it."""
    layer = make(num_highway_layers=0, projection_dim=15)
    layer.embedding.assign(-np.ones([NUM_CHARACTERS, EMBEDDING_DIM]))
    layer.embedding[4].assign(np.ones(EMBEDDING_DIM))  # character 5
    for index, (width, count) in enumerate(FILTERS):
        # The kernel uses only the last position of its window.
        kernel = np.zeros([width, EMBEDDING_DIM, count])
        kernel[-1] = 1.0
        getattr(layer, f"convolution_kernel_{index}").assign(kernel)
        getattr(layer, f"convolution_bias_{index}").assign(np.zeros(count))
    ids = np.full([1, MAX_CHARACTERS], 3, np.int32)
    np.testing.assert_array_equal(layer(ids), np.zeros([1, 15]))
    ids[0, -1] = 5
    np.testing.assert_allclose(layer(ids), np.full([1, 15], 3.0))


def test_windows_follow_the_length_of_each_token():
    ids = np.stack([token(4), np.zeros(MAX_CHARACTERS, np.int32), token(0), token(MAX_CHARACTERS)])
    windows = char_cnn.distinct_windows(tf.constant(ids), FILLER)
    np.testing.assert_array_equal(np.bincount(windows.token), [5, 1, 1, MAX_CHARACTERS])
    np.testing.assert_array_equal(windows.start[:7], [0, 1, 2, 3, 4, 0, 0])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_gradient_of_every_weight_equals_that_of_the_convolution(activation):
    """Maxima tie in filler and repeated letters; TensorFlow splits the gradient among them."""
    layer = make(2, activation=activation)
    ids = np.concatenate([batch().reshape(-1, MAX_CHARACTERS), np.tile(token(2), [3, 1])])
    ids[-1, 1:5] = ids[-1, 0]
    weights = np.random.default_rng(8).normal(size=[len(ids), PROJECTION_DIM]).astype(np.float32)
    gradients = {}
    for static_shapes in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(ids, static_shapes=static_shapes) * weights)
        gradients[static_shapes] = tape.gradient(loss, [v.value for v in layer.trainable_variables])
    assert len(gradients[False]) == len(layer.weights) == 1 + 2 * 3 + 4 * 2 + 2
    for ours, theirs, variable in zip(
        gradients[False], gradients[True], layer.weights, strict=True
    ):
        assert np.abs(theirs).max() > 0, variable.path
        np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=variable.path)


def test_gradient_equals_finite_differences():
    layer = make(1, activation="tanh")
    ids = np.stack([token(5), token(MAX_CHARACTERS), token(2)])
    weights = np.random.default_rng(8).normal(size=[3, PROJECTION_DIM])

    def loss():
        return np.sum(references.char_cnn(layer, ids) * weights)

    with tf.GradientTape() as tape:
        value = tf.reduce_sum(layer(ids) * tf.constant(weights, tf.float32))
    gradients = tape.gradient(value, [v.value for v in layer.weights])
    for variable, gradient in zip(layer.weights, gradients, strict=True):
        direction = np.random.default_rng(9).normal(size=variable.shape)
        start, step = variable.numpy(), 1e-3
        variable.assign(start + step * direction)
        above = loss()
        variable.assign(start - step * direction)
        slope = (above - loss()) / (2 * step)
        variable.assign(start)
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=0.01, abs=0.01)


@pytest.mark.parametrize("leading", [(), (0,), (3, 0), (2, 1, 2)])
@pytest.mark.parametrize("static_shapes", [False, True])
def test_leading_dimensions_of_any_rank_and_empty_batches(leading, static_shapes):
    layer = make()
    ids = np.broadcast_to(token(3), [*leading, MAX_CHARACTERS])
    outputs = layer(ids, static_shapes=static_shapes)
    assert outputs.shape == (*leading, PROJECTION_DIM)
    np.testing.assert_allclose(outputs, references.char_cnn(layer, ids), atol=5e-6)


def test_batch_of_padding_alone():
    layer = make()
    outputs = layer(np.zeros([2, 3, MAX_CHARACTERS], np.int32))
    assert np.isfinite(outputs).all()
    np.testing.assert_allclose(outputs, np.broadcast_to(outputs[:1, :1], outputs.shape), atol=1e-6)


def test_one_trace_serves_every_shape():
    layer = make()
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None, None, MAX_CHARACTERS], tf.int32)])
    def call(ids):
        traces.append(layer(ids))
        return traces[-1]

    for shape in [(2, 7), (1, 1), (0, 5), (3, 0), (14, 1)]:
        ids = np.resize(batch(), [*shape, MAX_CHARACTERS])
        np.testing.assert_allclose(call(ids), references.char_cnn(layer, ids), atol=5e-6)
    assert len(traces) == 1
    assert traces[0].shape.as_list() == [None, None, PROJECTION_DIM]


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_initial_weights_have_the_published_distribution(activation):
    layer = CharCnn(16, [(3, 300), (5, 200)], 0, 90, activation, seed=1)
    layer.build((None, MAX_CHARACTERS))
    assert layer.embedding.shape == (261, 16)
    assert np.abs(layer.embedding).max() == pytest.approx(1, abs=0.01)
    assert np.std(layer.embedding) == pytest.approx(np.sqrt(1 / 3), rel=0.03)
    for width, kernel in ((3, layer.convolution_kernel_0), (5, layer.convolution_kernel_1)):
        if activation == "relu":
            assert np.abs(kernel).max() == pytest.approx(0.05, abs=0.0005)
            assert np.std(kernel) == pytest.approx(0.05 / np.sqrt(3), rel=0.03)
        else:
            assert np.std(kernel) == pytest.approx(np.sqrt(1 / (16 * width)), rel=0.03)
    assert np.std(layer.projection_kernel) == pytest.approx(np.sqrt(1 / 500), rel=0.03)
    for bias in (layer.convolution_bias_0, layer.convolution_bias_1, layer.projection_bias):
        assert not np.any(bias)


def test_one_seed_gives_one_start_and_no_two_equal_weights():
    def kernels(seed):
        layer = CharCnn(3, [(2, 5), (2, 5)], 2, 10, seed=seed)
        layer.build((None, MAX_CHARACTERS))
        return {v.path: v.numpy() for v in layer.weights if v.numpy().std() > 0}

    first, again, other = kernels(1), kernels(1), kernels(2)
    assert len(first) == 3 + 2 * 2
    for one, two, three in zip(first.values(), again.values(), other.values(), strict=True):
        np.testing.assert_array_equal(one, two)
        assert (one != three).all()
    for one, two in itertools.combinations(first.values(), 2):
        assert one.shape != two.shape or (one != two).all()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"activation must be one of .*relu.*tanh.*got 'gelu'"):
        make(activation="gelu")
    with pytest.raises(ValueError, match=r"character_ids .* at least 4 .*got 3"):
        make()(np.zeros([2, 3], np.int32))


def published(weights_file, options):
    """A layer with weights from a bilm-tf file."""
    cnn = options["char_cnn"]
    layer = CharCnn(
        cnn["embedding"]["dim"],
        cnn["filters"],
        cnn["n_highway"],
        options["lstm"]["projection_dim"],
        cnn["activation"],
        filler_id=261,
    )
    layer.build((None, cnn["max_characters_per_token"]))
    with h5py.File(weights_file) as file:
        layer.embedding.assign(file["char_embed"])
        for index in range(len(cnn["filters"])):
            kernel = getattr(layer, f"convolution_kernel_{index}")
            kernel.assign(file[f"CNN/W_cnn_{index}"][0])
            getattr(layer, f"convolution_bias_{index}").assign(file[f"CNN/b_cnn_{index}"])
        for index in range(cnn["n_highway"]):
            highway, group = getattr(layer, f"highway_{index}"), file[f"CNN_high_{index}"]
            highway.gate_matrix.assign(np.transpose(group["W_carry"]))
            highway.gate_bias.assign(group["b_carry"])
            highway.candidate_matrix.assign(np.transpose(group["W_transform"]))
            highway.candidate_bias.assign(group["b_transform"])
        if layer.projection_kernel is not None:
            layer.projection_kernel.assign(file["CNN_proj/W_proj"])
            layer.projection_bias.assign(file["CNN_proj/b_proj"])
    return layer


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("static_shapes", [False, True])
def test_equals_the_graph_of_bilm_tf(fixtures_dir, name, static_shapes):
    folder = fixtures_dir / "config_zoo" / name
    options = json.loads((folder / "model" / "options.json").read_text())
    layer = published(folder / "model" / "lm_weights.hdf5", options)
    with h5py.File(folder / "expected.hdf5") as file:
        for batch_name in ("batch1", "batch2"):
            ids = file[f"{batch_name}_char_ids"][()]
            expected = file[f"{batch_name}_token_embeddings"][()]
            np.testing.assert_allclose(layer(ids, static_shapes=static_shapes), expected, atol=2e-6)


def test_no_configuration_of_the_zoo_is_left_out(fixtures_dir):
    folders = [p.name for p in (fixtures_dir / "config_zoo").iterdir() if p.is_dir()]
    assert sorted(folders) == list(CONFIGURATIONS)
