"""Reads a run's event files."""

import tensorflow as tf


def read_events(folder):
    """(step, name) -> value of everything in the event files."""
    found = {}
    for path in folder.iterdir():
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                found[event.step, value.tag] = float(tf.make_ndarray(value.tensor))
    return found
