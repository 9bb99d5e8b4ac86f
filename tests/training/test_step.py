"""One step: objective, clipping, updates and results."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.model.language_model import ElmoLanguageModel, Negatives, WindowTensors
from elmo_tf.training.optimizers import Adagrad
from elmo_tf.training.step import Batch, TrainStep, sum_duplicates
from tests.training.tiny import CONFIG

BATCH, STEPS, SIZE, NEGATIVES = 3, 5, 29, 4


def make_batch(num_words=6, negatives=True, seed=0, dropout_seed=(1, 2)):
    rng = np.random.default_rng(seed)
    window = WindowTensors(
        tf.constant(rng.integers(1, 257, (num_words, 7)), tf.int32),
        tf.constant(rng.integers(0, num_words, (2, BATCH, STEPS)), tf.int32),
        tf.constant(rng.integers(0, SIZE, (2, BATCH, STEPS)), tf.int32),
        tf.fill([BATCH], STEPS),
    )
    drawn = Negatives(tf.constant([9, 2, 28, 0]), tf.constant(6)) if negatives else None
    return Batch(window, drawn, tf.constant(dropout_seed))


def make_step(optimizer=None, clip_norm=None, negatives=NEGATIVES, dropout=0.0, **options):
    model = ElmoLanguageModel(CONFIG, SIZE, dropout=dropout, seed=3)
    optimizer = optimizer or keras.optimizers.SGD(0.5)
    return model, TrainStep(model, optimizer, BATCH, STEPS, negatives, clip_norm, **options)


def values(model):
    return [variable.numpy() for variable in model.language_model_variables]


@pytest.mark.parametrize("negatives", [True, False])
def test_losses_and_state_are_those_of_the_model(negatives):
    model, step = make_step(negatives=NEGATIVES if negatives else 0)
    batch, state = make_batch(negatives=negatives), model.zero_state(BATCH)
    losses, expected_state = model(batch.window, state, batch.negatives)
    result, next_state = step(batch, state)
    forward, backward = losses.numpy().mean(axis=(1, 2))
    np.testing.assert_allclose(result.forward_loss, forward, rtol=1e-6)
    np.testing.assert_allclose(result.backward_loss, backward, rtol=1e-6)
    np.testing.assert_allclose(result.loss, (forward + backward) / 2, rtol=1e-6)
    for one, two in zip(tf.nest.flatten(next_state), tf.nest.flatten(expected_state), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_gradient_is_that_of_the_loss_times_steps():
    """By central differences of the loss along the gradient."""
    model, step = make_step()
    batch, state = make_batch(), model.zero_state(BATCH)
    before = values(model)
    result, _ = step(batch, state)
    after = values(model)
    gradient = [(old - new) / 0.5 for old, new in zip(before, after, strict=True)]
    norm = np.sqrt(sum((part.astype(np.float64) ** 2).sum() for part in gradient))
    np.testing.assert_allclose(result.gradient_norm, norm, rtol=1e-4)

    def loss_at(distance):
        for variable, old, part in zip(
            model.language_model_variables, before, gradient, strict=True
        ):
            variable.assign(old + distance * part / norm)
        return float(tf.reduce_mean(model(batch.window, state, batch.negatives)[0]))

    slope = (loss_at(0.01) - loss_at(-0.01)) / 0.02
    np.testing.assert_allclose(slope * STEPS, norm, rtol=5e-3)


@pytest.mark.parametrize("negatives", [NEGATIVES, 0])
def test_clip_scales_the_whole_gradient(negatives):
    batch = make_batch(negatives=bool(negatives))
    updates, norms = [], []
    for clip_norm in (None, 1e9, 0.25):
        model, step = make_step(clip_norm=clip_norm, negatives=negatives)
        before = values(model)
        norms.append(step(batch, model.zero_state(BATCH))[0].gradient_norm)
        updates.append([new - old for old, new in zip(before, values(model), strict=True)])
    free, unclipped, clipped = updates
    assert norms[0] == norms[1] == norms[2] > 0.25
    for one, two, three in zip(free, unclipped, clipped, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(three, one * (0.25 / norms[0]), rtol=1e-4, atol=5e-7)


def test_the_mix_is_not_trained():
    model, step = make_step()
    mix = model.encoder.scalar_mix
    step(make_batch(), model.zero_state(BATCH))
    np.testing.assert_array_equal(mix.layer_weights.numpy(), 0.0)
    assert mix.gamma.numpy() == 1.0


def test_dropout_follows_its_seed():
    losses = []
    for seed in ((1, 2), (1, 2), (1, 3)):
        model, step = make_step(dropout=0.4)
        result, _ = step(make_batch(dropout_seed=seed), model.zero_state(BATCH))
        losses.append(result.loss)
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.traced
@pytest.mark.parametrize("negatives", [NEGATIVES, 0])
def test_traced_once_whatever_the_number_of_words(negatives):
    model, step = make_step(negatives=negatives)
    state = model.zero_state(BATCH)
    for num_words in (1, 4, 9):
        _, state = step(make_batch(num_words, bool(negatives)), state)
    assert step.function.experimental_get_tracing_count() == 1


def test_a_step_learns():
    model, step = make_step()
    batch, state = make_batch(), model.zero_state(BATCH)
    losses = [step(batch, state)[0].loss for _ in range(10)]
    assert losses[-1] < 0.9 * losses[0]


def test_parts_are_the_same_as_the_whole():
    """Three windows of one row against one window of three rows, with clipping and dropout."""
    runs = []
    for accumulation_steps in (1, BATCH):
        model, step = make_step(
            Adagrad(),
            clip_norm=1.0,
            dropout=0.3,
            accumulation_steps=accumulation_steps,
        )
        state, results = model.zero_state(BATCH), []
        for seed in range(4):
            result, state = step(make_batch(seed=seed), state)
            results.append(result)
        runs.append((results, tf.nest.flatten(state), values(model)))
    whole, parts = runs
    assert min(result.gradient_norm for result in whole[0]) > 1.0
    for one, two in zip(tf.nest.flatten(whole), tf.nest.flatten(parts), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-5)


@pytest.mark.traced
def test_parts_keep_rows_of_the_softmax_and_not_all_of_it():
    model, step = make_step(accumulation_steps=BATCH)
    batch = make_batch()

    @tf.function(autograph=False)
    def rows():
        arguments = batch.window, batch.negatives, batch.dropout_seed, model.zero_state(BATCH)
        gradients = step._gradients(*arguments)[1]
        return [each.indices for each in gradients if isinstance(each, tf.IndexedSlices)]

    ids = {*batch.window.targets.numpy().flat, *batch.negatives.ids.numpy()}
    assert len(ids) < SIZE
    kernel, bias = rows()
    assert sorted(kernel.numpy()) == sorted(bias.numpy()) == sorted(ids)


def test_duplicate_rows_are_summed():
    rows = np.arange(10.0, dtype=np.float32).reshape(5, 2)
    slices = tf.IndexedSlices(tf.constant(rows), tf.constant([3, 1, 3, 0, 3]), (4, 2))
    summed = sum_duplicates(slices)
    assert sorted(summed.indices.numpy()) == [0, 1, 3]
    np.testing.assert_array_equal(
        tf.convert_to_tensor(summed), [rows[3], rows[1], [0, 0], rows[0] + rows[2] + rows[4]]
    )
    dense = tf.constant(rows)
    assert sum_duplicates(dense) is dense
