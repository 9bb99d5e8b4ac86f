"""An array in a file, read on demand."""

from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, ...]


class StoredArray:
    """An array in an open file. Each read returns a new NumPy array; nothing is cached.

    NumPy accepts it as an array: `np.asarray(stored)`.

    Args:
      shape: None for HDF5's null dataspace, which has no shape.
      dtype: NumPy dtype.
      read: returns all values (None) or those of a slice of the first axis.
    """

    def __init__(
        self, shape: Shape | None, dtype: Any, read: Callable[[slice | None], np.ndarray]
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._read = read

    @classmethod
    def of(cls, values: np.ndarray) -> "StoredArray":
        """Wraps an array in memory."""
        return cls(
            values.shape, values.dtype, lambda rows: values if rows is None else values[rows]
        )

    def read(self, rows: slice | None = None) -> np.ndarray:
        """Reads all values or some rows. Raises an `InputError` if they are damaged."""
        return self._read(rows)

    def view(
        self, of: Callable[[np.ndarray], np.ndarray], rows: slice | None = None
    ) -> "StoredArray":
        """A stored array that applies `of` to this one, or to some of its rows, when it is read.

        Args:
          of: returns a view of its argument, such as the transpose. It is called once here to
            determine the shape, with broadcast zeros, which need no memory.
          rows: rows to read; None for all.
        """
        zeros = np.broadcast_to(np.zeros([], self.dtype), self.shape or ())

        def read(rows_of_view: slice | None) -> np.ndarray:
            values = of(self._read(rows))
            # Not `ascontiguousarray`, which adds a dimension to a scalar.
            return np.asarray(values if rows_of_view is None else values[rows_of_view], order="C")

        return StoredArray(of(zeros if rows is None else zeros[rows]).shape, self.dtype, read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._read(None)
