"""Reads some rows of a large variable without copying it."""

import keras
import tensorflow as tf


def gather_rows(variable: keras.Variable, rows: tf.Tensor) -> tf.Tensor:
    """Gathers rows of a variable, at a cost that does not depend on the variable's size.

    `tf.gather` first copies a mirrored variable completely, because it has no method
    `sparse_read`. The copy of each replica has that method.

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
