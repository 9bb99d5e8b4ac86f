"""ElmoEmbedding by itself: values, masks, what is trained, precision, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.model.embedding import ElmoEmbedding
from elmo_tf.model.encoder import ElmoEncoder
from tests import models

CONFIG = models.small_config(filters=((1, 4), (3, 7)), cell_clip=2.0, projection_clip=1.5)
WIDTH = CONFIG.input.max_characters_per_token
P = CONFIG.lstm.projection_dim
SENTENCES = [["The", "cat", "", "sat", "très-long-mat"], ["one"], [], ["<S>", "b\xa0c"]]
LENGTHS = [5, 1, 0, 2]
TOKENS = tf.constant([[t.encode() for t in s] + [b""] * (5 - len(s)) for s in SENTENCES])
# What models are trained on here: Keras's average over a row without tokens is 0 / 0.
ROWS = tf.gather(TOKENS, [0, 1, 3])
MASK = np.arange(5) < np.array(LENGTHS)[:, None]


@pytest.fixture
def encoder():
    encoder = ElmoEncoder(CONFIG, seed=7)
    rng = np.random.default_rng(3)
    for variable in encoder.bilm.weights:  # at their start these layers hardly react
        variable.assign(rng.normal(size=variable.shape, scale=0.6))
    return encoder


def layers_of(encoder, tokens=TOKENS, lengths=LENGTHS):
    """The encoder's layers, `[num_layers, batch, time, 2 * P]`."""
    outputs = encoder(tokens, sequence_len=lengths)
    word = outputs["word_emb"].numpy()
    layers = [np.concatenate([word, word], axis=-1)]
    return np.stack(layers + [outputs[f"lstm_outputs{n}"].numpy() for n in (1, 2)])


def numpy_mix(layers, weights, gamma):
    shares = np.exp(weights) / np.exp(weights).sum()
    return gamma * np.einsum("l,lbtd->btd", shares, layers)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=2e-6)


def paths(variables):
    return {variable.path for variable in variables}


FORMS = {
    "tokens": TOKENS,
    "lists": SENTENCES,
    "objects": np.array(TOKENS.numpy()),
    "ids": elmo_tf.batch_to_ids(SENTENCES, WIDTH),
    "int64 ids": elmo_tf.batch_to_ids(SENTENCES, WIDTH).astype(np.int64),
}
IN_GRAPH = ("tokens", "int64 ids")  # one for each entry point


@pytest.mark.parametrize(
    "form,in_graph",
    [(form, False) for form in FORMS]
    + [pytest.param(form, True, marks=pytest.mark.traced) for form in IN_GRAPH],
)
def test_mixes_of_the_encoders_layers(encoder, form, in_graph):
    elmo = ElmoEmbedding(encoder, num_mixes=2)
    weights = np.random.default_rng(5).normal(size=[2, 3])
    for mix, start, gamma in zip(elmo.mix.mixes, weights, [1.5, 0.7], strict=True):
        mix.layer_weights.assign(start)
        mix.gamma.assign(gamma)
    outputs = (tf.function(elmo) if in_graph else elmo)(FORMS[form])
    layers = layers_of(encoder)
    for output, start, gamma in zip(outputs, weights, [1.5, 0.7], strict=True):
        close(output, numpy_mix(layers, start, gamma))
        assert not output.numpy()[~MASK].any()
    if not in_graph:
        for output in outputs:
            np.testing.assert_array_equal(output._keras_mask, MASK)


@pytest.mark.parametrize(
    "form", [list, tuple, np.array, lambda x: np.array(x, object), tf.constant]
)
def test_text(encoder, form):
    elmo = ElmoEmbedding(encoder)
    output = elmo(form(["  The cat\tsat ", "", "b\xa0c"]))
    close(output, encoder(tf.constant(["The cat sat", "", "b\xa0c"]))["elmo"])
    np.testing.assert_array_equal(output._keras_mask, [[1, 1, 1], [0, 0, 0], [1, 0, 0]])


def test_strings_with_surrogates(encoder):
    output = ElmoEmbedding(encoder)(["a\udcff"])
    close(output, encoder(tf.constant([b"a\xff"]))["elmo"])


@pytest.mark.parametrize("inputs,shape", [([], (0, 0)), ([[], []], (2, 0)), (["", " "], (2, 0))])
@pytest.mark.parametrize("keep_boundaries", [False, True])
def test_empty_batches_and_rows(encoder, inputs, shape, keep_boundaries):
    output = ElmoEmbedding(encoder, keep_boundaries=keep_boundaries)(inputs)
    extra = 2 if keep_boundaries else 0
    assert output.shape == (*output._keras_mask.shape, 2 * P)
    assert output.shape == (shape[0], shape[1] + extra, 2 * P)
    assert np.isfinite(output).all()


def test_boundaries_are_kept_when_asked_for(encoder):
    plain = ElmoEmbedding(encoder)(TOKENS).numpy()
    kept = ElmoEmbedding(encoder, keep_boundaries=True)(TOKENS)
    np.testing.assert_array_equal(kept._keras_mask, np.arange(7) < np.array(LENGTHS)[:, None] + 2)
    kept = kept.numpy()
    for row, length in enumerate(LENGTHS):
        close(kept[row, 1 : length + 1], plain[row, :length])
        assert not kept[row, length + 2 :].any()
        # By hand: the vectors of `<S>` and `</S>` in a row without padding.
        words = ["<S>", *SENTENCES[row], "</S>"]
        embedded = encoder.char_cnn(elmo_tf.batch_to_ids([words], WIDTH))
        layers = encoder.bilm(embedded, lengths=[length + 2])
        expected = np.mean([np.concatenate([embedded, embedded], -1), *layers], axis=0)
        close(kept[row, : length + 2], expected[0])


def test_fixed_mix_top_only_and_layer_norm(encoder):
    layers = layers_of(encoder)
    second = ElmoEmbedding(encoder, mix_weights=[-1e9, 0, -1e9])
    close(second(TOKENS), layers[1])
    close(ElmoEmbedding(encoder, use_top_only=True)(TOKENS), layers[2])
    normalised = ElmoEmbedding(encoder, mix_weights=[-1e9, 0, -1e9], do_layer_norm=True)(TOKENS)
    real = layers[1][MASK]
    np.testing.assert_allclose(
        normalised.numpy()[MASK], (real - real.mean()) / real.std(), atol=1e-5
    )


def test_mixes_start_from_the_encoders_own(encoder):
    encoder.scalar_mix.layer_weights.assign([0.3, -1.0, 2.0])
    encoder.scalar_mix.gamma.assign(1.3)
    for output in ElmoEmbedding(encoder, num_mixes=2)(TOKENS):
        close(output, encoder(TOKENS, sequence_len=LENGTHS)["elmo"])
    fixed = ElmoEmbedding(encoder, mix_weights=[0, 0, 0])
    close(fixed(TOKENS), layers_of(encoder).mean(axis=0))


@pytest.mark.parametrize("keep_boundaries", [False, True])
def test_later_layers_heed_the_mask(encoder, keep_boundaries):
    elmo = ElmoEmbedding(encoder, keep_boundaries=keep_boundaries)
    lstm = keras.layers.Bidirectional(keras.layers.LSTM(3))
    pool = keras.layers.GlobalAveragePooling1D()
    lstm_batch, pool_batch = lstm(elmo(TOKENS)), pool(elmo(TOKENS))
    for row, sentence in enumerate(SENTENCES):
        if sentence:
            alone = elmo([sentence])
            assert alone.shape[1] == len(sentence) + 2 * keep_boundaries
            close(lstm_batch[row], lstm(alone)[0])
            close(pool_batch[row], tf.reduce_mean(alone[0], axis=0))


def model_of(elmo, learning_rate=0.5):
    tokens = keras.Input([None], dtype="string")
    outputs = keras.layers.Concatenate()(elmo(tokens)) if elmo.mix.num_mixes > 1 else elmo(tokens)
    pooled = keras.layers.GlobalAveragePooling1D()(outputs)
    model = keras.Model(tokens, keras.layers.Dense(1, name="task")(pooled))
    model.compile(keras.optimizers.SGD(learning_rate), "mse")
    return model


def moved_by_one_step(model, labels=4.0):
    before = {variable.path: variable.numpy() for variable in model.variables}
    loss = model.train_on_batch(ROWS, np.full([3, 1], labels))
    assert np.isfinite(loss)
    return {
        variable.path
        for variable in model.variables
        if not np.array_equal(variable.numpy(), before[variable.path])
        and "seed_generator" not in variable.path
    }


@pytest.mark.parametrize(
    "trainable", ["mix", pytest.param("all", marks=pytest.mark.traced), "none"]
)
def test_a_step_moves_what_it_should_and_nothing_else(encoder, trainable):
    elmo = ElmoEmbedding(encoder, num_mixes=2, trainable=trainable, dropout=0.2)
    model = model_of(elmo)
    task = paths(model.get_layer("task").variables)
    mix = paths(elmo.mix.weights)
    bilm = paths(encoder.char_cnn.weights + encoder.bilm.weights)
    assert (len(mix), len(bilm)) == (4, 27)
    parts = {"mix": mix, "all": mix | bilm, "none": set()}
    assert paths(elmo.trainable_variables) == parts[trainable]
    assert moved_by_one_step(model) == task | parts[trainable]


def test_true_and_false_stand_for_mix_and_none(encoder):
    assert ElmoEmbedding(encoder, trainable=True).trained_parts == "mix"
    assert len(ElmoEmbedding(encoder, trainable=True).trainable_variables) == 2
    assert ElmoEmbedding(encoder, trainable=False).trained_parts == "none"
    assert ElmoEmbedding(encoder, trainable=False).trainable_variables == []


def test_fixed_mixes_do_not_move(encoder):
    elmo = ElmoEmbedding(encoder, num_mixes=2, mix_weights=[[0, 1, 2], None], trainable="all")
    model = model_of(elmo)
    moved = moved_by_one_step(model)
    assert not paths(elmo.mix.mix_0.weights) & moved
    assert paths(elmo.mix.mix_1.weights) <= moved
    assert paths(encoder.bilm.weights) <= moved


def test_parts_can_be_frozen_and_freed_later(encoder):
    elmo = ElmoEmbedding(encoder)
    model = model_of(elmo)
    for value, parts in [
        ("all", "all"),
        (False, "none"),
        (True, "all"),
        ("mix", "mix"),
        (True, "mix"),
        ("none", "none"),
        (True, "mix"),
    ]:
        elmo.trainable = value
        assert elmo.trained_parts == parts
        assert elmo.trainable is (parts != "none")
        assert len(elmo.trainable_variables) == {"mix": 2, "all": 29, "none": 0}[parts]
    model.trainable = False
    assert elmo.trained_parts == "none" and model.trainable_variables == []
    model.trainable = True
    assert elmo.trained_parts == "mix", "a model set free does not free the biLM"
    assert len(model.trainable_variables) == 2 + 2


def test_a_copy_is_as_frozen_as_the_layer(encoder):
    """Keras marks no variables of an encoder that its config says is frozen already."""
    for trainable, number in [("mix", 2), ("none", 0), ("all", 29)]:
        elmo = ElmoEmbedding(encoder, trainable=trainable)
        for copy in (elmo, ElmoEmbedding.from_config(elmo.get_config())):
            assert len(copy.trainable_variables) == number
            assert copy.trained_parts == trainable
            assert not copy.supports_jit, "XLA has no strings"


@pytest.mark.parametrize("trainable", [pytest.param("mix", marks=pytest.mark.traced), "all"])
def test_gradients_are_finite_and_those_of_plain_backpropagation(encoder, trainable):
    """In training the LSTMs have a gradient written by hand; otherwise TensorFlow's."""
    elmo = ElmoEmbedding(encoder, trainable=trainable)
    target = tf.constant(np.random.default_rng(1).normal(size=[4, 5, 2 * P]), tf.float32)
    variables = [variable.value for variable in elmo.trainable_variables]
    gradients = {}
    for training in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(elmo(TOKENS, training=training) - target))
        gradients[training] = tape.gradient(loss, variables)
    assert len(variables) == {"mix": 2, "all": 29}[trainable]
    for variable, plain, trained in zip(variables, gradients[False], gradients[True], strict=True):
        plain, trained = tf.convert_to_tensor(plain), tf.convert_to_tensor(trained)
        assert np.isfinite(trained).all() and np.abs(trained).max() > 0, variable.name
        np.testing.assert_allclose(trained, plain, rtol=1e-3, atol=1e-4, err_msg=variable.name)


def loops_in_gradient(elmo):
    """How many loops a graph with the gradient of the mix has."""
    mix = elmo.mix.mix_0.layer_weights.value

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string)])
    def step(tokens):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(elmo(tokens, training=True)))
        return tape.gradient(loss, [mix, *(v.value for v in elmo.encoder.bilm.weights)])

    graph = step.get_concrete_function().graph.as_graph_def()
    return sum("While" in node.op for node in graph.node)


@pytest.mark.traced
def test_backpropagation_stops_above_a_frozen_bilm(encoder):
    elmo = ElmoEmbedding(encoder)
    assert loops_in_gradient(elmo) == 4, "two layers, two directions, forward only"
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(elmo(TOKENS, training=True))
    frozen = [variable.value for variable in encoder.variables]
    assert tape.gradient(loss, frozen) == [None] * len(frozen)
    elmo.trainable = "all"
    assert loops_in_gradient(elmo) >= 8


@pytest.mark.traced
def test_penalty_arrives(encoder):
    elmo = ElmoEmbedding(encoder, num_mixes=2, l2_coefficient=0.1)
    elmo.mix.mix_0.layer_weights.assign([1.0, 2.0, 3.0])
    elmo.mix.mix_1.layer_weights.assign([0.0, 0.5, 0.0])
    np.testing.assert_allclose(sum(elmo.losses), 0.1 * (14 + 0.25), rtol=1e-6)
    model = model_of(elmo)
    model.get_layer("task").kernel.assign(np.zeros([4 * P, 1]))
    loss = model.evaluate(ROWS, np.zeros([3, 1]), verbose=0)
    np.testing.assert_allclose(loss, 1.425, rtol=1e-6)


def test_dropout_in_training_only(encoder):
    elmo = ElmoEmbedding(encoder, num_mixes=2, dropout=0.5, seed=2)
    plain, _ = (np.asarray(output) for output in elmo(TOKENS))
    close(plain, layers_of(encoder).mean(axis=0))
    first, second = (np.asarray(output) for output in elmo(TOKENS, training=True))
    kept = first != 0
    close(first[kept], 2 * plain[kept])
    assert 0.3 < kept[MASK].mean() < 0.7
    assert (kept != (second != 0)).any()


def test_the_encoders_dropout_is_for_fine_tuning(encoder):
    dropping = ElmoEncoder(CONFIG, dropout=0.5)
    dropping.set_weights(encoder.get_weights())
    elmo = ElmoEmbedding(dropping)
    np.testing.assert_array_equal(elmo(TOKENS, training=True), elmo(TOKENS))
    elmo.trainable = "all"
    assert np.abs(elmo(TOKENS, training=True) - elmo(TOKENS)).max() > 1e-3
    np.testing.assert_array_equal(elmo(TOKENS, training=False), elmo(TOKENS))


@pytest.fixture
def policy(request):
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    "policy,eps", [("mixed_float16", 2**-11), ("mixed_bfloat16", 2**-8)], indirect=["policy"]
)
def test_mixed_precision_rounds_results_and_nothing_else(encoder, policy, eps):
    exact = ElmoEmbedding(encoder, dtype="float32")(TOKENS)
    elmo = ElmoEmbedding(encoder, trainable="all")
    output = elmo(TOKENS)
    assert output.dtype.name == policy.removeprefix("mixed_")
    np.testing.assert_allclose(tf.cast(output, tf.float32), exact, rtol=eps, atol=1e-7)
    model = model_of(elmo, learning_rate=0.05)
    losses = [float(model.train_on_batch(ROWS, np.ones([3, 1]))) for _ in range(4)]
    assert np.isfinite(losses).all() and losses[3] < losses[0]
    assert all(np.isfinite(variable).all() for variable in model.weights)


@pytest.mark.parametrize(
    "policy,error", [("mixed_float16", 0.02), ("mixed_bfloat16", 0.15)], indirect=["policy"]
)
def test_an_encoder_in_half_precision_is_finite_and_near(encoder, policy, error):
    half = ElmoEncoder(CONFIG)
    half.set_weights(encoder.get_weights())
    elmo = ElmoEmbedding(half)
    difference = np.abs(tf.cast(elmo(TOKENS), tf.float32) - layers_of(encoder).mean(axis=0))
    assert 0 < difference.max() < error


@pytest.mark.traced
def test_one_trace_serves_every_shape(encoder):
    elmo = ElmoEmbedding(encoder)
    for tokens in (TOKENS, TOKENS[:1], TOKENS[:, :1], [["a"] * 13], [], [[]]):
        elmo(tokens)
    assert sorted(elmo._traced.counts) == [1, 1], "one for tokens and one for text"


@pytest.mark.traced
def test_a_model_is_traced_as_often_as_one_without_text(encoder):
    """Keras itself traces its loop over batches more than once."""
    counts = []
    for dtype, layer in [
        ("string", ElmoEmbedding(encoder)),
        ("int32", keras.layers.Embedding(9, 2)),
    ]:
        model = keras.Sequential([keras.Input([None], dtype=dtype), layer])
        model.compile()
        shapes = [[4, 5], [1, 5], [4, 1], [2, 3], [1, 1], [3, 7]]
        data = tf.data.Dataset.from_generator(
            lambda shapes=shapes, dtype=dtype: (tf.zeros(shape, dtype) for shape in shapes),
            output_signature=tf.TensorSpec([None, None], dtype),
        )
        model.predict(data, steps=len(shapes), verbose=0)
        counts.append(model.predict_function.experimental_get_tracing_count())
    assert counts[0] == counts[1] < len(shapes)


@pytest.mark.traced
@pytest.mark.parametrize("keep_boundaries,extra", [(False, 0), (True, 2)])
def test_static_shapes(encoder, keep_boundaries, extra):
    elmo = ElmoEmbedding(encoder, keep_boundaries=keep_boundaries)
    text, tokens = keras.Input([], dtype="string"), keras.Input([4], dtype="string")
    ids = keras.Input([3, WIDTH], batch_size=1, dtype="int32")
    assert elmo(text).shape == (None, None, 2 * P)
    assert elmo(tokens).shape == (None, 4 + extra, 2 * P)
    assert elmo(ids).shape == (1, 3 + extra, 2 * P)
    masks = [elmo.compute_mask(inputs) for inputs in (text, tokens, ids)]
    assert [mask.shape for mask in masks] == [(None, None), (None, 4 + extra), (1, 3 + extra)]

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.string)])
    def in_graph(tokens):
        assert elmo(tokens).shape == [None, 4 + extra, 2 * P]
        return elmo(tokens)

    in_graph.get_concrete_function()
    one = elmo([["a"]])
    assert (one.shape, one._keras_mask.shape) == ((1, 1 + extra, 2 * P), (1, 1 + extra))


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"encoder": "elmo.zip"}, r"encoder must be an ElmoEncoder \(for files .*got 'elmo.zip'"),
        ({"trainable": "bilm"}, "trainable must be one of 'mix', 'all', 'none', got 'bilm'"),
        ({"keep_boundaries": 1}, "keep_boundaries must be true or false, got 1"),
        ({"num_mixes": 0}, "num_mixes must be an integer >= 1, got 0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got -0.1"),
        ({"mix_weights": [1, 2]}, r"mix_weights must be None, 3 finite numbers .*got \[1, 2\]"),
    ],
)
def test_wrong_arguments_are_named(encoder, arguments, message):
    with pytest.raises(ValueError, match=message):
        ElmoEmbedding(**{"encoder": encoder, **arguments})


@pytest.mark.parametrize(
    "inputs,got",
    [
        (tf.constant([[["a"]]]), r"string of shape \(1, 1, 1\)"),
        (np.zeros([2, 3], np.int32), r"int32 of shape \(2, 3\)"),
        (np.zeros([2, 3, 50], np.int32), r"int32 of shape \(2, 3, 50\)"),
        (np.zeros([2, 3, WIDTH]), r"float64 of shape \(2, 3, 11\)"),
    ],
)
def test_wrong_inputs_are_named(encoder, inputs, got):
    message = rf"inputs must be strings \[batch\] .* integers \[batch, time, 11\] .*; got {got}"
    with pytest.raises(ValueError, match=message):
        ElmoEmbedding(encoder)(inputs)


def test_wrong_inputs_are_named_while_a_model_is_built(encoder):
    with pytest.raises(ValueError, match=r"got int32 of shape \(None, 7\)"):
        ElmoEmbedding(encoder)(keras.Input([7], dtype="int32"))
    with pytest.raises(NotImplementedError, match=r"got float32 of shape \(None, 7\)"):
        ElmoEmbedding(encoder)(keras.Input([7]))
