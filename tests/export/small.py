"""A small encoder whose sizes all differ, and how its outputs are compared."""

import numpy as np

from tests import models

CONFIG = models.small_config(embedding_dim=4, filters=((1, 3), (2, 5), (3, 7)), projection_dim=6)
VOCABULARY = b"<S>\n</S>\n<UNK>\nthe\n"


def make_encoder():
    """Random weights, and a scalar mix that differs from an untrained one."""
    return models.small_encoder(CONFIG)


def difference(actual, expected):
    """The largest difference between outputs, which must have the same names."""
    assert set(actual) == set(expected)
    pairs = [(np.asarray(actual[n], float), np.asarray(expected[n], float)) for n in expected]
    assert all(a.shape == b.shape for a, b in pairs)
    return max(np.abs(a - b).max(initial=0.0) for a, b in pairs)


def trace_counts(model):
    """How often the call and both functions of a loaded export were traced since it was loaded.

    What is loaded wraps what was saved: those inner functions are never traced again, and counting
    them shows nothing.
    """
    functions = (model.__call__, model.tokens, model.char_ids)
    return [function.experimental_get_tracing_count() for function in functions]
