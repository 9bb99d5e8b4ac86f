"""Softmax over a large vocabulary: sampled for training, exact for evaluation."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.initial_values import InitialValues
from elmo_tf.layers.log_sum_exp import log_sum_exp
from elmo_tf.layers.shapes import last_dimension
from elmo_tf.layers.top_classes import TopClasses, top_classes
from elmo_tf.layers.variable_rows import gather_rows


@keras.saving.register_keras_serializable(package="elmo_tf")
class SampledSoftmax(keras.layers.Layer):
    """Cross-entropy of the target class at each position, in nats.

    With the logits z_w = kernel[w] . x + bias[w] and the target t:

        full:     loss = log(sum over all w of exp(z_w)) - z_t
        sampled:  loss = log(exp(u_t) + sum over negatives w other than t of exp(u_w)) - u_t
                  u_w = z_w - log(expected_count(w))
                  expected_count(w) = 1 - (1 - p(w)) ** num_tries
                  p(w) = log((w + 2) / (w + 1)) / log(vocabulary_size + 1)

    The sampled loss equals `tf.nn.sampled_softmax_loss` with the log-uniform sampler, unique
    samples and accidental hits removed; use it only for training. Class ids must be sorted by
    descending frequency, since p decreases with the id. The cost of the loss and of its gradient
    depends on the number of negatives, not on the vocabulary: the gradients of both weights are
    `tf.IndexedSlices` whose rows are the distinct ids of targets and negatives. Since no row occurs
    twice, their norm is the norm of the dense gradient, and an optimizer can apply them row by row.

    Weights and their initial values: `kernel [vocabulary_size, dim]`, normal(0, 1 / sqrt(dim)), and
    `bias [vocabulary_size]`, zeros. Everything is computed in float32 under any dtype policy.

    Args:
      vocabulary_size: number of classes, at least 1.
      seed: integer seed of the initial weights; None: not repeatable.
      without_initialization: whether weights start as zeros, for weights read from a file.

    Call arguments:
      inputs: `[positions, dim]`.
      targets: int32 `[positions]`, from 0 to vocabulary_size - 1.
      negatives: int32 `[num_samples]`, distinct, shared by all positions (see
        `elmo_tf.training.negatives`), or None for the full softmax. Logits are computed in blocks,
        so memory does not grow with either number of classes; see `log_sum_exp`.
      num_tries: scalar, number of draws it took to find these distinct negatives.

    Returns:
      float32 `[positions]`.

    Example:
      >>> softmax = SampledSoftmax(vocabulary_size=10_000)
      >>> outputs, targets = tf.zeros([7, 16]), tf.range(7)
      >>> full = softmax(outputs, targets)                                         # [7]
      >>> sampled = softmax(outputs, targets, negatives=tf.constant([3, 0, 99]), num_tries=4)

    Reference:
      Jean et al. 2015, section 3, https://arxiv.org/abs/1412.2007.
    """

    def __init__(
        self,
        vocabulary_size: int,
        seed: int | None = None,
        without_initialization: bool = False,
        **kwargs: Any,
    ) -> None:
        # No autocast, here and for the weights: it would copy the whole kernel in each step.
        super().__init__(autocast=False, **kwargs)
        if vocabulary_size < 1:
            raise ValueError(
                f"SampledSoftmax: vocabulary_size must be at least 1, got {vocabulary_size}"
            )
        self.vocabulary_size = vocabulary_size
        self.seed = seed
        self._initial_values = InitialValues(seed, without_initialization)

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        self._add_kernel(last_dimension("SampledSoftmax", inputs_shape))
        self.bias = self.add_weight(
            name="bias",
            shape=(self.vocabulary_size,),
            initializer="zeros",
            dtype="float32",
            autocast=False,
        )

    def _add_kernel(self, dim: int) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.vocabulary_size, dim),
            initializer=self._initial_values.normal(1 / math.sqrt(dim), "kernel"),
            dtype="float32",
            autocast=False,
        )

    def call(
        self,
        inputs: tf.Tensor,
        targets: tf.Tensor,
        negatives: tf.Tensor | None = None,
        num_tries: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        inputs, targets = tf.cast(inputs, tf.float32), tf.cast(targets, tf.int32)
        if negatives is not None:
            if num_tries is None:
                raise ValueError("SampledSoftmax: negatives need num_tries, got None")
            return self._sampled_loss(inputs, targets, tf.cast(negatives, tf.int32), num_tries)
        return self.log_normalizer(inputs) - self.target_logits(inputs, targets)  # [positions]

    def _sampled_loss(
        self,
        inputs: tf.Tensor,
        targets: tf.Tensor,
        negatives: tf.Tensor,
        num_tries: tf.Tensor | int,
    ) -> tf.Tensor:
        num_samples = tf.shape(negatives)[0]
        # Negatives come first, so that they keep their order and are the first gathered rows.
        ids, index = tf.unique(tf.concat([negatives, targets], axis=0))
        tf.debugging.assert_equal(
            index[:num_samples], tf.range(num_samples), "SampledSoftmax: negatives must be distinct"
        )
        target_row = index[num_samples:]  # [positions], row of the target in `kernel` and `bias`
        kernel = gather_rows(self.kernel, ids)  # [ids, dim]
        bias = gather_rows(self.bias, ids) - self._log_expected_count(ids, num_tries)
        target_logits = _logits_of_rows(inputs, kernel, bias, target_row)
        # Exclude the target from the negatives. If it is not one of them, its row is beyond theirs,
        # and nothing is excluded.
        of_negatives = log_sum_exp(kernel[:num_samples], bias[:num_samples], inputs, target_row)
        # log(exp(a) + exp(b)) - a, without stacking a and b
        return tf.nn.softplus(of_negatives - target_logits)

    def _log_expected_count(self, ids: tf.Tensor, num_tries: tf.Tensor | int) -> tf.Tensor:
        """Log of the probability, at most 1, that `num_tries` draws include each id."""
        # log1p: for a large id, (id + 2) / (id + 1) rounds to almost 1 in float32.
        probability = tf.math.log1p(1 / (tf.cast(ids, tf.float32) + 1))
        probability /= math.log(self.vocabulary_size + 1)
        log_never = tf.cast(num_tries, tf.float32) * tf.math.log1p(-probability)
        return tf.math.log(-tf.math.expm1(log_never))

    def target_logits(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """The logit of the target at each position, `[positions]`; arguments as for the call."""
        inputs = tf.cast(inputs, tf.float32)
        return _logits_of_rows(inputs, self.kernel.value, self.bias.value, targets)

    def log_normalizer(self, inputs: tf.Tensor) -> tf.Tensor:
        """log(sum over all w of exp(z_w)) for inputs `[positions, dim]`: `[positions]`."""
        inputs = tf.cast(inputs, tf.float32)
        return log_sum_exp(self.kernel.value, self.bias.value, inputs)

    def top_classes(
        self,
        inputs: tf.Tensor,
        num_top: int,
        excluded: Sequence[int] = (),
        block_size: int = 8192,
    ) -> TopClasses:
        """The classes with the largest sum of log-probabilities over several inputs.

        Args:
          inputs: `[directions, positions, dim]`: one softmax per position and direction of a
            language model.
          num_top: number of classes to find at each position.
          excluded: distinct ids to exclude from the result; the normalization includes them.
          block_size: number of classes per block; memory is
            `[directions, positions, block_size + num_top]`.
        """
        most = self.vocabulary_size - len(excluded)
        if not 0 <= num_top <= most:
            raise ValueError(f"SampledSoftmax: num_top must be from 0 to {most}, got {num_top}")
        if block_size < 1:
            raise ValueError(f"SampledSoftmax: block_size must be at least 1, got {block_size}")
        return top_classes(
            tf.cast(inputs, tf.float32),
            tf.convert_to_tensor(self.kernel),
            tf.convert_to_tensor(self.bias),
            num_top,
            excluded,
            block_size,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "seed": self.seed,
        }


def _logits_of_rows(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, row: tf.Tensor
) -> tf.Tensor:
    """The logit of one class per position, given by its row in the weights: `[positions]`."""
    return tf.reduce_sum(inputs * tf.gather(kernel, row), axis=-1) + tf.gather(bias, row)
