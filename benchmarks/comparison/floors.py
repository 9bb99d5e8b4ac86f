"""Lower bounds of the time for a model size: the fastest of several libraries each time."""

from collections.abc import Sequence
from pathlib import Path

from comparison.workers import Worker
from elmo_tf.config.model import ElmoConfig

_LIBRARIES = ("numpy", "torch", "tensorflow")


class Floors:
    """Matrix products of the sizes of a model's LSTMs; see `systems.floor`.

    Attributes:
      operations_per_token: floating point operations of the LSTMs' products, all layers.
    """

    def __init__(self, config: ElmoConfig, python: Path, directory: Path) -> None:
        lstm = config.lstm
        num_layers = 2 * lstm.num_layers
        products = 4 * lstm.dim * 2 * lstm.projection_dim + lstm.dim * lstm.projection_dim
        self.operations_per_token = 2 * num_layers * products
        self._workers = [
            Worker(
                f"floor of {library}",
                python,
                "floor",
                {
                    "library": library,
                    "units": lstm.dim,
                    "projection_dim": lstm.projection_dim,
                    "num_layers": num_layers,
                },
                directory / f"floor_{library}.log",
            )
            for library in _LIBRARIES
        ]

    def rate(self) -> float:
        """Floating-point operations per second of a large matrix product."""
        return max(worker.call("rate")["rate"] for worker in self._workers)

    def products(self, batches: Sequence[tuple[int, int]]) -> float:
        """Time of only the LSTMs' products for batches of (rows, steps), in seconds."""
        return min(worker.call("products", batches=batches)["seconds"] for worker in self._workers)

    def reading(self, num_steps: int) -> float:
        """Time to read the recurrent and projection kernels once per step, in seconds."""
        return min(
            worker.call("reading", num_steps=num_steps)["seconds"] for worker in self._workers
        )

    def close(self) -> None:
        """Ends the worker processes."""
        for worker in self._workers:
            worker.close()
