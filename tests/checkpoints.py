"""Access to the checkpoints of a run, for tests."""

from elmo_tf.formats import locate


def newest_arrays(directory):
    """The arrays of the newest checkpoint of a run by name, read through the run's reader."""
    arrays = {}
    with locate.open_model(directory) as model:
        model.read(model.names(), arrays.__setitem__)
    return arrays
