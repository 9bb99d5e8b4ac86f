"""Functions are traced once for each form of input."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.model.traced_functions import TracedFunctions

pytestmark = pytest.mark.traced


def scaled(values, offset, factor):
    """A function with an optional tensor."""
    values = values * factor
    return values if offset is None else values + offset[0]


def test_forms_of_input_have_a_trace_each_and_sizes_and_values_none():
    traced = TracedFunctions()
    for size in (0, 1, 5):
        values = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(traced.run(scaled, values, None, factor=2), 2 * values)
        offset = (values + size,)
        actual = traced.run(scaled, tf.constant(values), offset, factor=3)
        np.testing.assert_array_equal(actual, 4 * values + size)
    assert traced.counts == [1, 1]
    traced.run(scaled, np.zeros([2, 2], np.float32), None, factor=2)
    traced.run(scaled, np.zeros(2, np.int32), None, factor=2)
    assert traced.counts == [1, 1, 1, 1], "another rank and another type"


def test_part_of_a_callers_graph():
    traced = TracedFunctions()
    assert tf.function(lambda: traced.run(scaled, tf.ones(2), None, factor=2))()[1] == 2.0
    assert traced.counts == []


def test_many_functions_are_no_frequent_retracing():
    """TensorFlow warns if it believes that one function is traced at each call."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = tf.get_logger()
    logger.addHandler(handler)
    try:
        traced = TracedFunctions()
        for factor in range(12):
            traced.run(scaled, tf.ones(2), None, factor=factor)
    finally:
        logger.removeHandler(handler)
    assert len(traced.counts) == 12
    assert not [message for message in messages if "retracing" in message]
