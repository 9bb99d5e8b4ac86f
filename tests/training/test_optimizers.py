"""Adagrad against NumPy, dense and sparse, and names of optimizer slots."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config.training import OPTIMIZERS, TrainingConfig
from elmo_tf.training.optimizers import (
    Adagrad,
    fit_gradient,
    keras_optimizers,
    make_optimizer,
    named_slots,
)

ROWS, WIDTH = 7, 3


@pytest.fixture
def table():
    values = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return keras.Variable(values, name="table")


def gradients(count, rows=ROWS):
    rng = np.random.default_rng(2)
    return rng.normal(size=(count, rows, WIDTH)).astype(np.float32)


@pytest.mark.traced
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize("in_graph", [False, True])
def test_dense(table, in_graph, epsilon):
    optimizer = Adagrad(0.3, initial_accumulator_value=0.7, epsilon=epsilon)
    optimizer.build([table])

    def update(gradient):
        optimizer.apply([gradient], [table])

    update = tf.function(update) if in_graph else update
    weights, sums = table.numpy().copy(), np.full((ROWS, WIDTH), 0.7)
    for gradient in gradients(4):
        update(tf.constant(gradient))
        sums += gradient**2
        weights -= 0.3 * gradient / (np.sqrt(sums) + epsilon)
    np.testing.assert_allclose(table.numpy(), weights, rtol=1e-5, atol=1e-6)
    slots = named_slots(optimizer, {"softmax.kernel": table})
    np.testing.assert_allclose(slots["softmax.kernel.accumulator"].numpy(), sums, rtol=1e-6)
    assert slots["iteration"].numpy() == 4


def test_sparse_touches_its_rows_only(table):
    optimizer = Adagrad()
    optimizer.build([table])
    before, indices = table.numpy().copy(), [5, 0]
    gradient = gradients(1, rows=2)[0]
    slices = tf.IndexedSlices(tf.constant(gradient), tf.constant(indices), (ROWS, WIDTH))
    optimizer.apply([slices], [table])
    expected = before.copy()
    expected[indices] -= 0.2 * gradient / np.sqrt(1 + gradient**2)
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-6)
    others = [row for row in range(ROWS) if row not in indices]
    np.testing.assert_array_equal(table.numpy()[others], before[others])
    sums = named_slots(optimizer, {"t": table})["t.accumulator"].numpy()
    np.testing.assert_array_equal(sums[others], 1.0)


@pytest.mark.traced
def test_the_graph_of_a_sparse_update_has_no_operation_on_the_whole_table(table):
    optimizer = Adagrad()
    optimizer.build([table])

    @tf.function
    def update(values, indices):
        optimizer.apply([tf.IndexedSlices(values, indices, (ROWS, WIDTH))], [table])

    graph = update.get_concrete_function(
        tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None], tf.int32)
    ).graph
    whole = [
        op for op in graph.get_operations() for out in op.outputs if out.shape == (ROWS, WIDTH)
    ]
    assert [op.type for op in whole] == []


def test_defaults_are_those_of_bilm_tf():
    optimizer = make_optimizer(TrainingConfig())
    config = optimizer.get_config()
    assert isinstance(optimizer, Adagrad)
    assert (config["learning_rate"], config["initial_accumulator_value"]) == (
        pytest.approx(0.2),
        1.0,
    )


def test_serialization():
    optimizer = Adagrad(0.4, 0.6, epsilon=0.1)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(copy, Adagrad)
    assert copy.get_config() == optimizer.get_config()


def test_slots_of_another_optimizer():
    """Includes a variable whose path is a prefix of another's."""
    one, two = (keras.Variable(np.zeros(n), name=name) for n, name in ((2, "a"), (3, "a_m")))
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build([one, two])
    slots = named_slots(optimizer, {"x.a": one, "y": two})
    shapes = {name: tuple(variable.shape) for name, variable in slots.items()}
    assert shapes == {
        "iteration": (),
        "learning_rate": (),
        "x.a.momentum": (2,),
        "x.a.velocity": (2,),
        "y.momentum": (3,),
        "y.velocity": (3,),
    }


def test_every_optimizer_of_keras_is_offered_with_its_learning_rate():
    offered = keras_optimizers()
    for left_out in ("optimizer", "lossscaleoptimizer", "multioptimizer"):  # they need others
        del offered[left_out]
    for left_out in ("muon", "schedulefreeadamw"):  # see `OPTIMIZERS`
        del offered[left_out]
    assert offered.keys() == OPTIMIZERS.keys()
    for name, kind in offered.items():
        learning_rate = inspect.signature(kind).parameters["learning_rate"].default
        assert OPTIMIZERS[name] == (0.2 if name == "adagrad" else learning_rate), name


@pytest.mark.traced
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_are_the_same_as_the_whole_gradient(name, table):
    """Rows that occur, are missing, and occur again, against Keras with dense gradients."""
    whole = keras.Variable(table.numpy(), name="whole")
    ours, theirs = (make_optimizer(TrainingConfig(optimizer=name)) for _ in range(2))
    ours.build([table])
    theirs.build([whole])

    @tf.function
    def update(rows, indices):
        slices = tf.IndexedSlices(rows, indices, tf.constant([ROWS, WIDTH]))
        ours.apply([fit_gradient(ours, slices)], [table])

    update = update.get_concrete_function(
        tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None], tf.int32)
    )
    before = table.numpy().copy()
    for rows, indices in zip(gradients(3, rows=2), ([5, 0], [1, 3], [0, 6]), strict=True):
        update(tf.constant(rows), tf.constant(indices))
        dense = np.zeros((ROWS, WIDTH), np.float32)
        dense[indices] = rows
        theirs.apply([tf.constant(dense)], [whole])
    assert np.abs(table.numpy() - before).max() > 1e-6
    np.testing.assert_allclose(table.numpy(), whole.numpy(), rtol=1e-5, atol=1e-7)


def test_gradient_descent_touches_its_rows_only():
    optimizer = make_optimizer(TrainingConfig(optimizer="sgd"))
    slices = tf.IndexedSlices(tf.zeros([1, WIDTH]), tf.constant([2]), (ROWS, WIDTH))
    assert fit_gradient(optimizer, slices) is slices
    with_momentum = keras.optimizers.SGD(0.1, momentum=0.9)
    assert isinstance(fit_gradient(with_momentum, slices), tf.Tensor)
