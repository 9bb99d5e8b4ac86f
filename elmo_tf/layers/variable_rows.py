"""Some rows of a large variable, without reading the others."""

import keras
import tensorflow as tf


def gather_rows(variable: keras.Variable, rows: tf.Tensor) -> tf.Tensor:
    """`tf.gather` of a variable's rows, at a cost that does not follow their number.

    Of a variable that a strategy mirrors, `tf.gather` copies all of it first: it lacks the method
    `sparse_read`, which the copy of each replica has.

    Args:
      variable: `[rows, ...]`.
      rows: integers of any shape.

    Returns:
      `[*rows.shape, ...]`. Its gradient is a `tf.IndexedSlices`.
    """
    value, replica = variable.value, tf.distribute.get_replica_context()
    if replica is not None and replica.num_replicas_in_sync > 1:
        copies = replica.strategy.experimental_local_results(value)
        # Each process has as many, and numbers follow one another within it.
        value = copies[tf.get_static_value(replica.replica_id_in_sync_group) % len(copies)]
    return tf.gather(value, rows)
