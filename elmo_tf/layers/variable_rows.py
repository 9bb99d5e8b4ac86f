"""Reads some rows of a large variable without reading the others."""

import keras
import tensorflow as tf


def gather_rows(variable: keras.Variable, rows: tf.Tensor) -> tf.Tensor:
    """`tf.gather` of a variable's rows, at a cost that does not depend on the variable's size.

    `tf.gather` copies a mirrored variable as a whole first, because that lacks the method
    `sparse_read`, which each replica's copy has.

    Args:
      variable: `[rows, ...]`.
      rows: integers of any shape.

    Returns:
      `[*rows.shape, ...]`. Its gradient is a `tf.IndexedSlices`.
    """
    value, replica = variable.value, tf.distribute.get_replica_context()
    if replica is not None and replica.num_replicas_in_sync > 1:
        copies = replica.strategy.experimental_local_results(value)
        # Each process has the same number of replicas, numbered consecutively.
        value = copies[tf.get_static_value(replica.replica_id_in_sync_group) % len(copies)]
    return tf.gather(value, rows)
