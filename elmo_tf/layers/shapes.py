"""Checks of input shapes."""

from collections.abc import Sequence


def last_dimension(layer: str, shape: Sequence[int | None]) -> int:
    """The size of the last dimension of a layer's inputs.

    Raises:
      ValueError: it is unknown, so the shapes of weights are unknown too.
    """
    dim = shape[-1]
    if dim is None:
        raise ValueError(
            f"{layer}: the last dimension of inputs must be known, got shape {tuple(shape)}"
        )
    return dim
