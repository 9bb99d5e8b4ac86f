"""A training step divided among devices by the rows of its window (data parallelism).

A replica is a device with a copy of every variable. It computes its rows of each window from their
state, which it holds. Losses and gradients are then averaged over all replicas, with duplicate rows
of sparse gradients summed, and each replica clips the whole gradient and makes the same update. The
result equals that of one device with the whole window except for floating-point summation order,
because dropout masks and negative samples are those of the whole window.
"""

from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.bilm import BiLmState
from elmo_tf.layers.dropout import RowsSeed
from elmo_tf.model.language_model import ElmoLanguageModel, Negatives, WindowTensors
from elmo_tf.training.accumulation import rows_of, rows_of_window
from elmo_tf.training.optimizers import Gradient
from elmo_tf.training.step import TrainStep, sum_duplicates


class ReplicatedStep(TrainStep):
    """A step whose windows are divided by rows; see the module.

    It takes and returns a state in the form that `split_state` gives.

    Args:
      strategy: the strategy whose replicas share each window.
      model, optimizer, *arguments: see `TrainStep`.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: ElmoLanguageModel,
        optimizer: keras.optimizers.Optimizer,
        *arguments: Any,
    ) -> None:
        self._strategy = strategy
        _leave_sums_to_caller(optimizer)
        super().__init__(model, optimizer, *arguments)

    def _state_signature(self, batch_size: int) -> BiLmState:
        state = split_state(self._strategy, self._model.zero_state(batch_size))
        return tf.nest.map_structure(tf.type_spec_from_value, state)

    def _step(self, *arguments: Any) -> tuple[tf.Tensor, BiLmState]:
        figures, state = self._strategy.run(super()._step, arguments)
        return self._strategy.experimental_local_results(figures)[0], state  # the same on each

    def _gradients(
        self,
        window: WindowTensors,
        negatives: Negatives | tuple,
        dropout_seed: tf.Tensor,
        state: BiLmState,
    ) -> tuple[tf.Tensor, list[Gradient], BiLmState]:
        """Losses and gradients of the whole window, and the state of this replica's rows."""
        first_row, num_rows = _own_rows(window.lengths)
        seed = RowsSeed(dropout_seed, first_row, tf.constant(window.lengths.shape[0]))
        window = rows_of_window(window, first_row, num_rows)
        losses, gradients, state = super()._gradients(window, negatives, seed, state)
        losses, gradients = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.MEAN, [losses, gradients]
        )
        return losses, [sum_duplicates(gradient) for gradient in gradients], state


def _leave_sums_to_caller(optimizer: keras.optimizers.Optimizer) -> None:
    """Prevents Keras from summing gradients over replicas again; they are summed and clipped."""
    if not hasattr(optimizer, "_all_reduce_sum_gradients"):  # no public name for it
        raise NotImplementedError(f"Keras {keras.__version__} adds up gradients in an unknown way")
    optimizer._all_reduce_sum_gradients = list


def split_state(strategy: tf.distribute.Strategy, state: BiLmState) -> BiLmState:
    """Converts the state of a whole batch to that of a `ReplicatedStep`: each replica's rows."""

    def share(state: BiLmState) -> BiLmState:
        return tf.nest.map_structure(lambda tensor: rows_of(tensor, 0, *_own_rows(tensor)), state)

    return tf.function(lambda: strategy.run(share, (state,)), autograph=False)()


def _own_rows(of_batch: tf.Tensor) -> tuple[tf.Tensor, int]:
    """Index of this replica's first row in the batch, and its number of rows."""
    replica = tf.distribute.get_replica_context()
    num_rows = of_batch.shape[0] // replica.num_replicas_in_sync
    return tf.constant(num_rows) * replica.replica_id_in_sync_group, num_rows
