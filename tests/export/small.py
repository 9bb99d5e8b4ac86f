"""A small encoder with all sizes different, and a comparison of outputs."""

import numpy as np

from tests import models

CONFIG = models.small_config(embedding_dim=4, filters=((1, 3), (2, 5), (3, 7)), projection_dim=6)
VOCABULARY = b"<S>\n</S>\n<UNK>\nthe\n"


def make_encoder():
    """An encoder with random weights and a scalar mix that differs from the initial one."""
    return models.small_encoder(CONFIG)


def difference(actual, expected):
    """The largest difference between two outputs with equal names."""
    assert set(actual) == set(expected)
    pairs = [(np.asarray(actual[n], float), np.asarray(expected[n], float)) for n in expected]
    assert all(a.shape == b.shape for a, b in pairs)
    return max(np.abs(a - b).max(initial=0.0) for a, b in pairs)


def trace_counts(model):
    """Number of traces of the call and both functions of an export since it was loaded.

    Loaded functions wrap the saved ones. The inner functions are never traced again, so counting
    their traces is useless.
    """
    functions = (model.__call__, model.tokens, model.char_ids)
    return [function.experimental_get_tracing_count() for function in functions]
