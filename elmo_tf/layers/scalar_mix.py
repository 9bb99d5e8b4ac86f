"""The scalar mix: one weighted average of all layers of a language model."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

VARIANCE_EPSILON = 1e-12

Mask: TypeAlias = tf.Tensor | None


@keras.saving.register_keras_serializable(package="elmo_tf")
class ScalarMix(keras.layers.Layer):
    """Averages the layers of a biLM with learned weights: the ELMo vector of each token.

        s = softmax(layer_weights)
        y = gamma * (sum over layers k of s_k * norm(x_k))         zeros where the mask is False

    `norm` does nothing unless asked to. With `do_layer_norm` it takes the mean and the variance of
    one layer over every value of every real token of the batch, as bilm-tf does:

        norm(x) = (x - mean) / sqrt(variance + 1e-12)

    so results then depend on what else is in the batch. With `use_top_only`, y = gamma * x_top:
    there are no layer weights (`layer_weights` is None), no normalisation and no penalty.

    Weights: `layer_weights [num_layers]`, starting at zero (all layers alike), and `gamma []`,
    starting at 1. Both are float32 and so are the sums, whatever the precision policy.

    Args:
      num_layers: how many layers are mixed, at least 1.
      do_layer_norm: whether each layer is normalised before it is weighted.
      l2_coefficient: 0 or more; `l2_coefficient * sum(layer_weights ** 2)` joins `losses`.
      use_top_only: whether to take the last layer instead of an average.
      initial_weights: start of `layer_weights`, before the softmax. With `trainable=False` these
        are the weights for good; `[-1e9, 0, -1e9]` takes the second of three layers only.

    Call arguments:
      layers: list of num_layers tensors `[batch, time, dim]`, lowest layer first, or one tensor
        `[batch, num_layers, time, dim]`.
      mask: bool `[batch, time]`, True for real tokens, or None if all are. What stands elsewhere,
        NaN included, reaches neither the result nor the gradient.

    Returns:
      `[batch, time, dim]`, of the compute dtype of the layer's policy.

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
        # Without autocast, here and for the weights, full precision is not lost on the way in.
        super().__init__(autocast=False, **kwargs)
        if num_layers < 1:
            raise ValueError(f"ScalarMix: num_layers must be at least 1, got {num_layers}")
        if not 0 <= l2_coefficient < math.inf:  # NaN is neither
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
            shares = tf.unstack(tf.nn.softmax(self.layer_weights))
            values = (_real_values(layer, is_real) for layer in layers)
            if self.do_layer_norm:
                values = (_normalize(layer, is_real) for layer in values)
            mixed = tf.add_n([share * layer for share, layer in zip(shares, values, strict=True)])
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
    """The mask itself. Keras hands down a list, one mask a layer: they speak of the same tokens."""
    if isinstance(mask, (list, tuple)):
        return next((each for each in mask if each is not None), None)
    return mask


def _real_values(layer: tf.Tensor, is_real: Mask) -> tf.Tensor:
    """`layer` in float32, zero outside the mask.

    By selection: NaN times zero is NaN, in the result or in the gradient.
    """
    layer = tf.cast(layer, tf.float32)
    return layer if is_real is None else tf.where(is_real, layer, 0.0)


def _normalize(layer: tf.Tensor, is_real: Mask) -> tf.Tensor:
    """Zero mean and unit variance over all values of real tokens; zeros stay outside the mask."""
    if is_real is None:
        is_real = tf.ones([1, 1, 1], tf.bool)
    count = tf.reduce_sum(tf.cast(tf.broadcast_to(is_real, tf.shape(layer)), tf.float32))
    count = tf.maximum(count, 1.0)  # a batch of padding alone
    mean = tf.reduce_sum(layer) / count
    centred = tf.where(is_real, layer - mean, 0.0)
    variance = tf.reduce_sum(tf.square(centred)) / count
    return centred * tf.math.rsqrt(variance + VARIANCE_EPSILON)
