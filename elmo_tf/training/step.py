"""One training step: losses, gradients, clipping, update. It is traced once per run."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from elmo_tf.layers.bilm import BiLmState
from elmo_tf.layers.dropout import RowsSeed
from elmo_tf.model.language_model import ElmoLanguageModel, Negatives, WindowTensors
from elmo_tf.training.accumulation import accumulate
from elmo_tf.training.loss_scale import LossScale
from elmo_tf.training.optimizers import Gradient, fit_gradient


class Batch(NamedTuple):
    """The inputs of one step, except the LSTM state.

    Attributes:
      window: a window whose rows have no padding.
      negatives: negative samples for the sampled softmax, or None for the full softmax.
      dropout_seed: int32 `[2]`.
    """

    window: WindowTensors
    negatives: Negatives | None
    dropout_seed: tf.Tensor


class StepResult(NamedTuple):
    """Results of one step, as Python numbers.

    Attributes:
      forward_loss: mean over the window in nats per token; that of the sampled softmax if there are
        negative samples.
      backward_loss: the same in the backward direction.
      gradient_norm: norm of the gradient of `loss * unroll_steps` before clipping; 0 if the update
        was skipped because the scaled gradient overflowed (see `loss_scale`).
    """

    forward_loss: float
    backward_loss: float
    gradient_norm: float

    @property
    def loss(self) -> float:
        """The objective: the mean of both directions."""
        return 0.5 * (self.forward_loss + self.backward_loss)


class TrainStep:
    """Updates a model with one window; takes LSTM states and returns the next ones.

    The loss is the mean of both directions' mean losses. As in bilm-tf, the gradient is that of the
    loss times `unroll_steps`, which is a sum over a row's tokens and a mean over rows. Gradients
    are clipped to the global norm `clip_norm` over all trained variables (Pascanu et al. 2013,
    arXiv:1211.5063).

    Args:
      model: the model, trained in place except for its scalar mix.
      optimizer: the optimizer, which this class builds.
      batch_size: number of rows of a window.
      unroll_steps: number of steps of a window.
      num_negatives: number of negative samples, 0 for the full softmax.
      clip_norm: maximum gradient norm, or None.
      loss_scale: loss scaling for half precision, or None.
      accumulation_steps: number of parts into which the rows are divided for one update, a divisor
        of `batch_size`. See `accumulation`.
    """

    def __init__(
        self,
        model: ElmoLanguageModel,
        optimizer: keras.optimizers.Optimizer,
        batch_size: int,
        unroll_steps: int,
        num_negatives: int,
        clip_norm: float | None,
        loss_scale: LossScale | None = None,
        accumulation_steps: int = 1,
    ) -> None:
        self._accumulation_steps = accumulation_steps
        self._model = model
        self._loss_scale = loss_scale
        self._optimizer = optimizer
        self._unroll_steps = unroll_steps
        self._clip_norm = clip_norm
        self._variables = model.language_model_variables
        optimizer.build(self._variables)
        places = tf.TensorSpec([2, batch_size, unroll_steps], tf.int32)
        window = WindowTensors(
            token_ids=tf.TensorSpec([None, *model.encoder.token_ids.shape], tf.int32),
            token_index=places,
            targets=places,
            lengths=tf.TensorSpec([batch_size], tf.int32),
        )
        negatives: Any = ()
        if num_negatives:
            ids = tf.TensorSpec([num_negatives], tf.int32)
            negatives = Negatives(ids, num_tries=tf.TensorSpec([], tf.int32))
        state = self._state_signature(batch_size)
        self.function = tf.function(
            self._step,
            input_signature=[window, negatives, tf.TensorSpec([2], tf.int32), state],
            autograph=False,
        )

    def _state_signature(self, batch_size: int) -> BiLmState:
        return tf.nest.map_structure(tf.type_spec_from_value, self._model.zero_state(batch_size))

    def __call__(self, batch: Batch, state: BiLmState) -> tuple[StepResult, BiLmState]:
        """Makes one step; returns its results and the state after the window."""
        negatives = () if batch.negatives is None else batch.negatives
        figures, state = self.function(batch.window, negatives, batch.dropout_seed, state)
        return StepResult(*figures.numpy().tolist()), state

    def _step(
        self,
        window: WindowTensors,
        negatives: Negatives | tuple,
        dropout_seed: tf.Tensor,
        state: BiLmState,
    ) -> tuple[tf.Tensor, BiLmState]:
        losses, gradients, state = self._gradients(window, negatives, dropout_seed, state)
        gradients, norm = self._clip(gradients)
        norm = self._update(gradients, norm)
        return tf.stack([*tf.unstack(losses), norm]), state  # [3]

    def _gradients(
        self,
        window: WindowTensors,
        negatives: Negatives | tuple,
        dropout_seed: tf.Tensor | RowsSeed,
        state: BiLmState,
    ) -> tuple[tf.Tensor, list[Gradient], BiLmState]:
        """Mean losses `[2]` of some rows, gradients with unique indices, and the next state."""

        def of_window(window: WindowTensors, seed: tf.Tensor | RowsSeed, state: BiLmState) -> Any:
            return self._gradients_at_once(window, negatives, seed, state)

        if self._accumulation_steps == 1:
            losses, gradients, state = of_window(window, dropout_seed, state)
        else:
            if not isinstance(dropout_seed, RowsSeed):
                dropout_seed = RowsSeed(
                    dropout_seed, tf.constant(0), tf.constant(window.lengths.shape[0])
                )
            shapes = [variable.shape for variable in self._variables]
            losses, gradients, state = accumulate(
                of_window, shapes, window, dropout_seed, state, self._accumulation_steps
            )
        return losses, [sum_duplicates(gradient) for gradient in gradients], state

    def _gradients_at_once(
        self,
        window: WindowTensors,
        negatives: Negatives | tuple,
        dropout_seed: tf.Tensor | RowsSeed,
        state: BiLmState,
    ) -> tuple[tf.Tensor, list[Gradient], BiLmState]:
        with tf.GradientTape() as tape:
            losses, state = self._model(
                window,
                state,
                negatives=negatives or None,
                training=True,
                dropout_seed=dropout_seed,
            )
            losses = tf.reduce_mean(losses, axis=[1, 2])  # [2], forward and backward
            objective = tf.reduce_mean(losses) * self._unroll_steps
            if self._loss_scale is not None:
                objective *= self._loss_scale.factor
        gradients = tape.gradient(objective, [variable.value for variable in self._variables])
        if self._loss_scale is not None:
            inverse = 1.0 / self._loss_scale.factor
            gradients = [tf.math.scalar_mul(inverse, gradient) for gradient in gradients]
        return losses, gradients, state

    def _clip(self, gradients: list[Gradient]) -> tuple[list[Gradient], tf.Tensor]:
        """The clipped gradients in the optimizer's form, and their norm before clipping."""
        norm = tf.linalg.global_norm(gradients)
        if self._clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm, use_norm=norm)
        return [fit_gradient(self._optimizer, gradient) for gradient in gradients], norm

    def _update(self, gradients: list[Gradient], norm: tf.Tensor) -> tf.Tensor:
        """Updates the weights if the gradients are finite; returns the norm to report."""

        def apply() -> tf.Tensor:
            self._optimizer.apply(gradients, self._variables)
            return norm

        if self._loss_scale is None:
            return apply()
        # Without loss scaling, report the norm of a gradient that overflows unchanged.
        skipped = tf.where(self._loss_scale.factor > 1.0, 0.0, norm)
        is_finite = tf.math.is_finite(norm)
        norm = tf.cond(is_finite, apply, lambda: skipped)
        self._loss_scale.update(is_finite)
        return norm


def sum_duplicates(gradient: Gradient) -> Gradient:
    """The gradient with unique indices, which the norm and the optimizers require."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, place = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, place, tf.shape(indices)[0])
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
