"""Training on several devices and machines: devices, the process that writes, and agreement.

`replicated_step` describes how a step is divided among devices.

Each process reads the whole text and takes its rows of each window. All processes must make the
same collective calls in the same order, or they wait for each other indefinitely. Information that
only one process has, such as a signal, is therefore sent to all (`any_process`) before any process
acts on it.
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
    """Divides the steps of a run among devices and processes.

    Attributes:
      num_replicas: number of devices that share a batch.
      num_processes: number of processes that share a batch.
      is_chief: whether this process writes files and reports progress.
      make_step: makes the run's step; takes the arguments of `TrainStep`.
    """

    num_replicas: int
    num_processes: int
    is_chief: bool
    make_step: Callable[..., TrainStep]

    @abc.abstractmethod
    def scope(self) -> contextlib.AbstractContextManager:
        """The context in which all variables of the run must be created."""

    @abc.abstractmethod
    def check_settings(self, training: TrainingConfig) -> None:
        """Raises a `UsageError` for settings that this distribution does not support."""

    @abc.abstractmethod
    def split_state(self, state: BiLmState) -> BiLmState:
        """Converts the state of the whole batch to the state of a step: each replica's rows."""

    @abc.abstractmethod
    def join_state(self, state: BiLmState) -> BiLmState:
        """The inverse of `split_state`. Collective: all processes must call it."""

    @abc.abstractmethod
    def any_process(self, flag: bool) -> bool:
        """Whether the flag is set in any process. Collective: all processes must call it."""

    @abc.abstractmethod
    def from_chief(self, numbers: Sequence[float]) -> list[float]:
        """The chief's numbers. Collective: all processes must call it."""

    @abc.abstractmethod
    def require_same(self, *values: Any) -> None:
        """Raises an `InputError` if the processes' values differ. Collective, like the others."""

    @abc.abstractmethod
    def chief_first(self) -> contextlib.AbstractContextManager:
        """A context that the other processes enter after the chief has left it."""

    @abc.abstractmethod
    def failures(self) -> contextlib.AbstractContextManager:
        """A context in which the loss of another process raises an `InputError`."""


class OneDevice(Distribution):
    """A distribution with one process and one device."""

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
    """A distribution over the replicas of a `tf.distribute` strategy that mirrors variables.

    Args:
      strategy: a strategy with at least two replicas.
      num_processes, is_chief: see the attributes of `Distribution`.
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
            # TensorFlow needs a tensor with a device, which a function argument does not have.
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
            self._of_each_process([0])  # returns when the chief makes the same call
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
        # Loss scaling skips some updates, which replicas cannot do together.
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
                "again in all of them, it resumes from the last checkpoint"
            ) from error

    def __str__(self) -> str:
        devices = ", ".join(
            f"{device.device_type}:{device.device_index}"
            for device in map(tf.DeviceSpec.from_string, self._strategy.extended.worker_devices)
        )
        processes = f" in each of {self.num_processes} processes" * (self.num_processes > 1)
        return f"{self.num_replicas} replicas, {devices}{processes}"


def open_distribution(name: str) -> Distribution:
    """Initializes the devices; with `multi_worker`, waits for the other processes.

    In a multi-worker run, call this before any other use of TensorFlow.

    Args:
      name: "none"; "mirrored": all GPUs of this machine or, if it has none, its logical CPUs; or
        "multi_worker": the same devices of each process in TF_CONFIG.

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
