"""Lower bounds of the time of LSTMs: only the matrix products, and only reading the weights.

There is one process for each linear algebra library; the fastest of them is the floor.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from comparison import workers

_LARGE = 4096  # size of a square product that reaches the machine's best rate


class Library(NamedTuple):
    """A library's functions to convert a NumPy array, multiply two arrays, and sum one."""

    array: Callable[[np.ndarray], Any]
    multiply: Callable[[Any, Any], Any]
    add_up: Callable[[Any], Any]


class Layer(NamedTuple):
    """Kernels of one layer in one direction, for products from the left."""

    input_kernel: Any  # [4 * units, projection_dim]
    recurrent_kernel: Any  # [4 * units, projection_dim]
    projection_kernel: Any  # [projection_dim, units]


class Floor:
    """Times matrix products of a model's sizes, with arbitrary numbers.

    Args:
      library: "numpy", "torch" or "tensorflow".
      units: number of units of an LSTM layer.
      projection_dim: dimension of its output.
      num_layers: layers of both directions together.
    """

    def __init__(self, library: str, units: int, projection_dim: int, num_layers: int) -> None:
        self._library = {"numpy": _numpy, "torch": _torch, "tensorflow": _tensorflow}[library]()
        self._units, self._dim = units, projection_dim
        # As in a model, each layer has its own kernels, which together do not fit into the cache.
        gates = (4 * units, projection_dim)
        self._layers = [
            Layer(self._draw(gates), self._draw(gates), self._draw((projection_dim, units)))
            for _ in range(num_layers)
        ]

    def rate(self) -> dict:
        """The best rate of a large product, in floating-point operations per second."""
        left, right = self._draw((_LARGE, _LARGE)), self._draw((_LARGE, _LARGE))
        return {"rate": 2 * _LARGE**3 / min(self._time(left, right) for _ in range(3))}

    def products(self, batches: Sequence[tuple[int, int]]) -> dict:
        """The products of an encoder for batches of (rows, steps): all inputs, then each step."""
        seconds = 0.0
        for rows, num_steps in batches:
            inputs = self._draw((self._dim, rows * num_steps))
            hidden, cell = self._draw((self._dim, rows)), self._draw((self._units, rows))
            begin = time.perf_counter()
            for layer in self._layers:
                self._library.multiply(layer.input_kernel, inputs)
                for _ in range(num_steps):
                    self._library.multiply(layer.recurrent_kernel, hidden)
                    self._library.multiply(layer.projection_kernel, cell)
            seconds += time.perf_counter() - begin
        return {"seconds": seconds}

    def reading(self, num_steps: int) -> dict:
        """Reads recurrent and projection kernels once per step, with the cheapest operation."""
        kernels = [kernel for layer in self._layers for kernel in layer[1:]]
        begin = time.perf_counter()
        for _ in range(num_steps):
            for kernel in kernels:
                self._library.add_up(kernel)
        return {"seconds": time.perf_counter() - begin}

    def _time(self, left: Any, right: Any) -> float:
        begin = time.perf_counter()
        self._library.multiply(left, right)
        return time.perf_counter() - begin

    def _draw(self, shape: tuple[int, ...]) -> Any:
        return self._library.array(np.random.default_rng(0).standard_normal(shape, np.float32))


def _numpy() -> Library:
    return Library(np.asarray, np.matmul, np.sum)


def _torch() -> Library:
    import torch

    torch.set_grad_enabled(False)
    return Library(torch.from_numpy, torch.mm, torch.sum)


def _tensorflow() -> Library:
    import tensorflow as tf

    return Library(tf.constant, tf.matmul, tf.reduce_sum)


if __name__ == "__main__":
    workers.serve(Floor)
