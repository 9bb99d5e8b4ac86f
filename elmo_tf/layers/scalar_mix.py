"""The scalar mix: a weighted average of all layers of a biLM."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

VARIANCE_EPSILON = 1e-12

Mask: TypeAlias = tf.Tensor | None


@keras.saving.register_keras_serializable(package="elmo_tf")
class ScalarMix(keras.layers.Layer):
    """Averages the layers of a biLM with learned weights, which gives each token's ELMo vector.

        s = softmax(layer_weights)
        y = gamma * (sum over layers k of s_k * norm(x_k))         zeros where the mask is False

    `norm` is the identity by default. With `do_layer_norm`, it uses the mean and the variance of a
    layer over all values of all real tokens in the batch, as bilm-tf does:

        norm(x) = (x - mean) / sqrt(variance + 1e-12)

    so the result for a token depends on the rest of the batch. With `use_top_only`, y = gamma *
    x_top, without layer weights (`layer_weights` is None), normalization or penalty.

    Weights and their initial values: `layer_weights [num_layers]`, zeros (all layers are equal),
    and `gamma []`, 1. Weights and sums are float32 under any dtype policy.

    Args:
      num_layers: number of layers to mix, at least 1.
      do_layer_norm: whether to normalize each layer before it is weighted.
      l2_coefficient: 0 or more; adds `l2_coefficient * sum(layer_weights ** 2)` to `losses`.
      use_top_only: whether to use the last layer instead of an average.
      initial_weights: initial `layer_weights`, before the softmax. They remain fixed with
        `trainable=False`; `[-1e9, 0, -1e9]` then selects the second of three layers.

    Call arguments:
      layers: list of num_layers tensors `[batch, time, dim]`, lowest layer first, or one tensor
        `[batch, num_layers, time, dim]`.
      mask: bool `[batch, time]`, True for real tokens, or None if all tokens are real. Values
        elsewhere, even NaN, affect neither the result nor the gradient.

    Returns:
      `[batch, time, dim]`, in the compute dtype of the layer's policy.

    Example:
      >>> mix = ScalarMix(num_layers=3)
      >>> mix([tf.ones([2, 5, 4]), tf.zeros([2, 5, 4]), tf.ones([2, 5, 4])])   # 2 / 3 everywhere

    Reference:
      Peters et al. 2018, equation 1 and section 3.2, https://arxiv.org/abs/1802.05365.
    """

    def __init__(
        self,
        num_layers: int,
        do_layer_norm: bool = False,
        l2_coefficient: float = 0.0,
        use_top_only: bool = False,
        initial_weights: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        # No autocast, here and for the weights: it would round the inputs to half precision.
        super().__init__(autocast=False, **kwargs)
        if num_layers < 1:
            raise ValueError(f"ScalarMix: num_layers must be at least 1, got {num_layers}")
        if not 0 <= l2_coefficient < math.inf:  # also rejects NaN
            raise ValueError(
                f"ScalarMix: l2_coefficient must be finite and 0 or more, got {l2_coefficient}"
            )
        if initial_weights is not None and len(initial_weights) != num_layers:
            raise ValueError(
                f"ScalarMix: initial_weights must hold num_layers ({num_layers}) numbers, "
                f"got {len(initial_weights)}"
            )
        if initial_weights is not None and not all(map(math.isfinite, initial_weights)):
            raise ValueError(
                f"ScalarMix: initial_weights must be finite numbers, got {initial_weights}"
            )
        self.num_layers = num_layers
        self.do_layer_norm = do_layer_norm
        self.l2_coefficient = l2_coefficient
        self.use_top_only = use_top_only
        self.initial_weights = None if initial_weights is None else tuple(initial_weights)
        self.supports_masking = True

    def build(self, layers_shape: Any = None) -> None:
        full_precision = {"dtype": "float32", "autocast": False}
        self.layer_weights = None
        if not self.use_top_only:
            has_penalty = self.l2_coefficient > 0
            self.layer_weights = self.add_weight(
                name="layer_weights",
                shape=(self.num_layers,),
                initializer=keras.initializers.Constant(self.initial_weights or 0.0),
                regularizer=keras.regularizers.L2(self.l2_coefficient) if has_penalty else None,
                **full_precision,
            )
        self.gamma = self.add_weight(name="gamma", shape=(), initializer="ones", **full_precision)

    def call(self, layers: Sequence[tf.Tensor] | tf.Tensor, mask: Mask = None) -> tf.Tensor:
        layers = self._listed(layers)
        if len(layers) != self.num_layers:
            raise ValueError(
                f"ScalarMix: layers must be num_layers ({self.num_layers}), got {len(layers)}"
            )
        is_real = _one_mask(mask)
        if is_real is not None:
            is_real = tf.expand_dims(tf.cast(is_real, tf.bool), -1)  # [batch, time, 1]
        if self.use_top_only:
            mixed = _real_values(layers[-1], is_real)
        else:
            mix_weights = tf.unstack(tf.nn.softmax(self.layer_weights))
            values = (_real_values(layer, is_real) for layer in layers)
            if self.do_layer_norm:
                values = (_normalize(layer, is_real) for layer in values)
            mixed = tf.add_n(
                [weight * layer for weight, layer in zip(mix_weights, values, strict=True)]
            )
        return tf.cast(self.gamma * mixed, self.compute_dtype)

    def _listed(self, layers: Any) -> Sequence[tf.Tensor]:
        if isinstance(layers, (list, tuple)):
            return layers
        return tf.unstack(layers, layers.shape[1] or self.num_layers, axis=1)

    def compute_mask(self, inputs: Any, previous_mask: Mask | Sequence[Mask] = None) -> Mask:
        return _one_mask(previous_mask)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "do_layer_norm": self.do_layer_norm,
            "l2_coefficient": self.l2_coefficient,
            "use_top_only": self.use_top_only,
            "initial_weights": self.initial_weights,
        }


def _one_mask(mask: Any) -> Mask:
    """The mask. Keras passes a list with one mask per layer, all for the same tokens."""
    if isinstance(mask, (list, tuple)):
        return next((each for each in mask if each is not None), None)
    return mask


def _real_values(layer: tf.Tensor, is_real: Mask) -> tf.Tensor:
    """`layer` in float32, zero outside the mask.

    Selects instead of multiplying, since NaN times zero is NaN, in the result and the gradient.
    """
    layer = tf.cast(layer, tf.float32)
    return layer if is_real is None else tf.where(is_real, layer, 0.0)


def _normalize(layer: tf.Tensor, is_real: Mask) -> tf.Tensor:
    """Normalizes to zero mean and unit variance over real tokens; zeros outside the mask."""
    if is_real is None:
        is_real = tf.ones([1, 1, 1], tf.bool)
    count = tf.reduce_sum(tf.cast(tf.broadcast_to(is_real, tf.shape(layer)), tf.float32))
    count = tf.maximum(count, 1.0)  # if the batch is all padding
    mean = tf.reduce_sum(layer) / count
    centred = tf.where(is_real, layer - mean, 0.0)
    variance = tf.reduce_sum(tf.square(centred)) / count
    return centred * tf.math.rsqrt(variance + VARIANCE_EPSILON)
