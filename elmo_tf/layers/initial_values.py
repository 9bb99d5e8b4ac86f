"""How weights start: as draws of their own, or as zeros that others will take the place of."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

from elmo_tf.layers.seeds import derive_seed

_others_follow = contextvars.ContextVar("others_follow", default=False)


@contextlib.contextmanager
def others_follow() -> Iterator[None]:
    """Weights of layers that are built inside start as zeros.

    For models that are read from files: drawing 93 million numbers, the original size, took a third
    of the time until such a model was there.
    """
    token = _others_follow.set(True)
    try:
        yield
    finally:
        _others_follow.reset(token)


def uniform(limit: float, seed: int | None, name: str) -> keras.initializers.Initializer:
    """Draws from -limit to limit; `seed` is that of the layer, `name` that of the weight."""
    if _others_follow.get():
        return keras.initializers.Zeros()
    return keras.initializers.RandomUniform(-limit, limit, seed=derive_seed(seed, name))


def normal(stddev: float, seed: int | None, name: str) -> keras.initializers.Initializer:
    """Normal draws around 0; `seed` is that of the layer, `name` that of the weight."""
    if _others_follow.get():
        return keras.initializers.Zeros()
    return keras.initializers.RandomNormal(stddev=stddev, seed=derive_seed(seed, name))
