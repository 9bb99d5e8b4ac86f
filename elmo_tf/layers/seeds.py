"""One seed per weight, derived from the one seed a layer is given."""

import zlib


def derive_seed(seed: int | None, weight_name: str) -> int | None:
    """Returns a seed for the initialiser of one weight; None (not repeatable) if `seed` is None.

    Keras initialisers with equal seeds draw equal numbers, so two weights of the same shape would
    start as copies of each other if they shared their layer's seed. The result depends only
    on the arguments: it is the same in every process and on every version of Python.
    """
    if seed is None:
        return None
    return zlib.crc32(f"{weight_name}/{seed}".encode()) & 0x7FFFFFFF
