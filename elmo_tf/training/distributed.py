"""Training on several devices and machines: who computes, who writes, and what all agree on.

How they divide a step is described in `replicated_step`.

With several processes, each reads all of the text and takes its rows of the windows. All of them
have to do the same at the same time, or they wait for each other for ever: what only some of them
know, such as a signal, is told to all (`any_process`) before anybody acts upon it.
"""

import abc
import contextlib
import functools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError, UsageError
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.training.cluster import read_cluster
from elmo_tf.training.replicated_step import ReplicatedStep, split_state
from elmo_tf.training.step import TrainStep


class Distribution(abc.ABC):
    """How the steps of a run are divided among devices and processes.

    Attributes:
      num_replicas: devices that share a batch.
      num_processes: processes that do.
      is_chief: whether this process is the one that writes and reports.
      make_step: makes the run's step; takes the arguments of `TrainStep`.
    """

    num_replicas: int
    num_processes: int
    is_chief: bool
    make_step: Callable[..., TrainStep]

    @abc.abstractmethod
    def scope(self) -> contextlib.AbstractContextManager:
        """Within it all variables of the run have to be made."""

    @abc.abstractmethod
    def check_settings(self, training: TrainingConfig) -> None:
        """Raises a `UsageError` for settings that this distribution does not support."""

    @abc.abstractmethod
    def split_state(self, state: BiLmState) -> BiLmState:
        """The state of the whole batch to that which a step takes: each replica has its rows."""

    @abc.abstractmethod
    def join_state(self, state: BiLmState) -> BiLmState:
        """The inverse of `split_state`; all processes have to call it."""

    @abc.abstractmethod
    def any_process(self, flag: bool) -> bool:
        """Whether the flag is set in any process; all of them have to call it."""

    @abc.abstractmethod
    def from_chief(self, numbers: Sequence[float]) -> list[float]:
        """The numbers that the chief has; all processes have to call it."""

    @abc.abstractmethod
    def require_same(self, *values: Any) -> None:
        """Raises an `InputError` if the values are not the same everywhere; all have to call it."""

    @abc.abstractmethod
    def chief_first(self) -> contextlib.AbstractContextManager:
        """The other processes enter it when the chief has left it."""

    @abc.abstractmethod
    def failures(self) -> contextlib.AbstractContextManager:
        """Within it the loss of another process is an `InputError`."""


class OneDevice(Distribution):
    """One process with one device: nothing is divided."""

    num_replicas = 1
    num_processes = 1
    is_chief = True
    make_step = TrainStep

    def scope(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def check_settings(self, training: TrainingConfig) -> None:
        pass

    def split_state(self, state: BiLmState) -> BiLmState:
        return state

    def join_state(self, state: BiLmState) -> BiLmState:
        return state

    def any_process(self, flag: bool) -> bool:
        return flag

    def from_chief(self, numbers: Sequence[float]) -> list[float]:
        return list(numbers)

    def require_same(self, *values: Any) -> None:
        pass

    def chief_first(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def failures(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def __str__(self) -> str:
        return "1 device"


class Replicas(Distribution):
    """Replicas of a strategy that mirrors variables.

    Args:
      strategy: with at least two replicas.
      num_processes, is_chief: as the attributes.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, num_processes: int = 1, is_chief: bool = True
    ) -> None:
        self._strategy = strategy
        self.num_replicas = strategy.num_replicas_in_sync
        self.num_processes = num_processes
        self.is_chief = is_chief
        self.make_step = functools.partial(ReplicatedStep, strategy)
        self._gather = tf.function(self._gathered, autograph=False)

    def scope(self) -> contextlib.AbstractContextManager:
        return self._strategy.scope()

    def _gathered(self, values: Any) -> Any:
        def gather(values: Any) -> Any:
            # TensorFlow asks a tensor for its device, which an argument does not say.
            values = tf.nest.map_structure(tf.identity, values)
            return tf.distribute.get_replica_context().all_gather(values, axis=0)

        # On every replica the same.
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0],
            self._strategy.run(gather, (values,)),
        )

    def split_state(self, state: BiLmState) -> BiLmState:
        return split_state(self._strategy, state)

    def join_state(self, state: BiLmState) -> BiLmState:
        return self._gather(state)

    def any_process(self, flag: bool) -> bool:
        return bool(self._of_each_process([flag]).any())

    def from_chief(self, numbers: Sequence[float]) -> list[float]:
        return self._of_each_process(numbers)[0].tolist()

    def require_same(self, *values: Any) -> None:
        found = self._of_each_process([zlib.crc32(repr(values).encode())])
        if (found != found[0]).any():
            raise InputError(
                "the processes do not agree on the run; all of them need the same settings and "
                "the same directory, as on a shared file system"
            )

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        if not self.is_chief:
            self._of_each_process([0])  # done when the chief does it too
        yield
        if self.is_chief:
            self._of_each_process([0])

    def _of_each_process(self, numbers: Sequence[float]) -> np.ndarray:
        """`[processes, numbers]`, the chief's first."""
        if self.num_processes == 1:
            return np.array([numbers])
        of_each_replica = self._gather(tf.constant([numbers], tf.float64)).numpy()
        return of_each_replica[:: self.num_replicas // self.num_processes]

    def check_settings(self, training: TrainingConfig) -> None:
        if training.batch_size % self.num_replicas:
            raise UsageError(
                f"batch_size: {training.batch_size} can't be split evenly over "
                f"{self.num_replicas} replicas",
                "batch_size",
            )
        # An update that may be left out can't be made by several replicas together.
        if training.mixed_precision == "float16":
            raise UsageError(
                "mixed_precision: float16 goes with distribution=none only; bfloat16 with all",
                "mixed_precision",
                "distribution",
            )

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            if self.num_processes == 1:
                raise
            raise InputError(
                "another process of the run has ended or can't be reached; start the same command "
                "again in all of them, it goes on from the last checkpoint"
            ) from error

    def __str__(self) -> str:
        devices = ", ".join(
            f"{device.device_type}:{device.device_index}"
            for device in map(tf.DeviceSpec.from_string, self._strategy.extended.worker_devices)
        )
        processes = f" in each of {self.num_processes} processes" * (self.num_processes > 1)
        return f"{self.num_replicas} replicas, {devices}{processes}"


def open_distribution(name: str) -> Distribution:
    """Prepares the devices; with `multi_worker` waits for the other processes.

    Several processes find each other only if this comes before anything else is asked of
    TensorFlow.

    Args:
      name: "none"; "mirrored", all GPUs of this machine, or without any its logical CPUs; or
        "multi_worker", the same of each process in TF_CONFIG.

    Raises:
      UsageError: see `read_cluster`.
      InputError: the processes can't reach each other.
    """
    distribution: Distribution = OneDevice()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        distribution = Replicas(tf.distribute.MirroredStrategy([each.name for each in devices]))
    elif name == "multi_worker":
        cluster = read_cluster(os.environ)
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.OpError as error:
            raise InputError(
                f"distribution=multi_worker: "
                f"{cluster.addresses[cluster.process_index]}: {error.message}",
                "distribution",
            ) from error
        distribution = Replicas(strategy, len(cluster.addresses), cluster.process_index == 0)
    return distribution if distribution.num_replicas > 1 else OneDevice()
