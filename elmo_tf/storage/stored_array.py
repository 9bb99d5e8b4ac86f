"""An array in a file, which is read when it is asked for."""

from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, ...]


class StoredArray:
    """An array in an open file. Each reading is a new array, and nothing is kept in memory.

    NumPy takes it for an array: `np.asarray(stored)`.

    Args:
      shape: None if it has none, which HDF5 knows too.
      dtype: NumPy's.
      read: returns the values, either all (None) or some of the first axis (a slice).
    """

    def __init__(
        self, shape: Shape | None, dtype: Any, read: Callable[[slice | None], np.ndarray]
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._read = read

    @classmethod
    def of(cls, values: np.ndarray) -> "StoredArray":
        """An array that is in memory already."""
        return cls(
            values.shape, values.dtype, lambda rows: values if rows is None else values[rows]
        )

    def read(self, rows: slice | None = None) -> np.ndarray:
        """The values, or those of some rows. Raises an `InputError` if they are damaged."""
        return self._read(rows)

    def view(
        self, of: Callable[[np.ndarray], np.ndarray], rows: slice | None = None
    ) -> "StoredArray":
        """The array that `of` makes of this one, or of some of its rows, when it is read.

        Args:
          of: returns a view of its argument, such as the transpose. It is called once here, with
            zeros that take no memory, to learn the shape.
          rows: of the first axis; no others are read.
        """
        zeros = np.broadcast_to(np.zeros([], self.dtype), self.shape or ())

        def read(rows_of_view: slice | None) -> np.ndarray:
            values = of(self._read(rows))
            # Not `ascontiguousarray`, which gives an array without dimensions one.
            return np.asarray(values if rows_of_view is None else values[rows_of_view], order="C")

        return StoredArray(of(zeros if rows is None else zeros[rows]).shape, self.dtype, read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._read(None)
