"""Derives a seed for each weight from the seed of its layer."""

import zlib


def derive_seed(seed: int | None, weight_name: str) -> int | None:
    """Returns a seed for the initializer of one weight; None (not repeatable) if `seed` is None.

    Keras initializers with equal seeds draw equal numbers, so two weights of the same shape would
    start with equal values if they shared their layer's seed. The result depends only on the
    arguments, not on the process or the version of Python.
    """
    if seed is None:
        return None
    return zlib.crc32(f"{weight_name}/{seed}".encode()) & 0x7FFFFFFF
