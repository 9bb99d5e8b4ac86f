"""Reads arrays of HDF5 files with h5py only."""

import h5py
import numpy as np


def read_arrays(path) -> dict[str, np.ndarray]:
    """All datasets of a file, by path."""
    arrays = {}

    def keep(name: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(keep)
    return arrays
