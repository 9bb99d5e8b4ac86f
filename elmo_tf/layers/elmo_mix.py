"""`ElmoMix`: the trainable part of ELMo in a task model, for precomputed layer vectors."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.scalar_mix import Mask, ScalarMix

Numbers = Sequence[float]


@keras.saving.register_keras_serializable(package="elmo_tf")
class ElmoMix(keras.layers.Layer):
    """One or several scalar mixes of the same layers, each followed by dropout.

    For each of `num_mixes` mixes k, see `ScalarMix`:

        y_k = dropout(gamma_k * sum over layers j of softmax(layer_weights_k)_j * norm(x_j))

    The mixes are the attributes `mix_0`, `mix_1`, ... . Sums are float32 under any dtype policy.

    The input is precomputed vectors, such as those that `elmo-embed` writes: a dataset
    `[layers, tokens, dim]` per line. Pad the lines of a batch with zeros to the same number of
    tokens and stack them to `[batch, layers, tokens, dim]` (`tf.data`'s `padded_batch` does both);
    no transpose is needed. `ElmoEmbedding` has an `ElmoMix` as its attribute `mix`, so weights
    trained here can be copied there by `set_weights`.

    Args:
      num_layers: number of layers, including the word embeddings (3 in the original models).
      num_mixes: number of mixes. A task model can use one at its input and one near its output.
      mix_weights: None to train all mixes. `num_layers` numbers fix the weights (before the
        softmax) of all mixes, with gamma 1; `[-1e9, 0, -1e9]` selects the second of three layers.
        A list of `num_mixes` entries, each None or such numbers, sets each mix separately.
      do_layer_norm: whether to normalize each layer before it is weighted.
      use_top_only: whether to use the last layer instead of a mix; gamma is still trained.
      l2_coefficient: 0 or more; adds `l2_coefficient * sum(layer_weights ** 2)` of each trained
        mix to `losses`.
      dropout: fraction of values set to zero in training, 0 <= dropout < 1.
      seed: integer seed of the dropout masks; None: not repeatable.

    Call arguments:
      vectors: `[batch, num_layers, time, dim]`, or a list of num_layers `[batch, time, dim]`.
      mask: bool `[batch, time]`, True for tokens. By default, positions where all values of all
        layers are zero are padding, as in zero-padded vectors of `elmo-embed`.
      training: whether dropout is on.

    Returns:
      `[batch, time, dim]`, zero at padding, with a Keras mask; a list of them if num_mixes > 1.

    Example:
      >>> vectors = keras.Input([3, None, 1024])
      >>> at_input, at_output = ElmoMix(num_layers=3, num_mixes=2, dropout=0.5)(vectors)

    Reference:
      Peters et al. 2018, sections 3.2 and 3.3, https://arxiv.org/abs/1802.05365.
    """

    def __init__(
        self,
        num_layers: int,
        num_mixes: int = 1,
        mix_weights: Numbers | Sequence[Numbers | None] | None = None,
        do_layer_norm: bool = False,
        use_top_only: bool = False,
        l2_coefficient: float = 0.0,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        # Autocast would round float32 vectors before the sum.
        super().__init__(autocast=False, **kwargs)
        if not isinstance(num_mixes, int) or num_mixes < 1:
            raise ValueError(f"ElmoMix: num_mixes must be an integer >= 1, got {num_mixes!r}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"ElmoMix: dropout must be at least 0 and below 1, got {dropout!r}")
        self.num_layers = num_layers
        self.num_mixes = num_mixes
        self.fixed_weights = _weights_of_each(mix_weights, num_layers, num_mixes)
        if use_top_only and any(self.fixed_weights):
            raise ValueError("ElmoMix: mix_weights must be None with use_top_only: it has none")
        self.do_layer_norm = do_layer_norm
        self.use_top_only = use_top_only
        self.l2_coefficient = l2_coefficient
        self.dropout = dropout
        self.seed = seed
        # One attribute per layer: tf.train.Checkpoint does not track Keras layers in a list.
        for index, weights in enumerate(self.fixed_weights):
            mix = ScalarMix(
                num_layers,
                do_layer_norm=do_layer_norm,
                l2_coefficient=l2_coefficient,
                use_top_only=use_top_only,
                initial_weights=weights,
                name=f"mix_{index}",
                dtype=self.dtype_policy,
            )
            setattr(self, f"mix_{index}", mix)
        self.drop = keras.layers.Dropout(dropout, seed=seed, name="drop", dtype=self.dtype_policy)
        self.build()
        self._set_trainable(self._trainable)  # the value passed to the constructor

    @property
    def mixes(self) -> list[ScalarMix]:
        """The scalar mixes in order."""
        return [getattr(self, f"mix_{index}") for index in range(self.num_mixes)]

    @property
    def trainable(self) -> bool:
        """Whether mixes with trainable weights are trained; fixed ones never are."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._set_trainable(value)

    def _set_trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for mix, weights in zip(self.mixes, self.fixed_weights, strict=True):
            mix.trainable = self._trainable and weights is None

    def build(self, vectors_shape: Any = None) -> None:
        # The shapes of weights do not depend on the inputs, so weights can be loaded before a call.
        for mix in self.mixes:
            mix.build()

    def call(
        self,
        vectors: tf.Tensor | Sequence[tf.Tensor],
        mask: Mask = None,
        training: bool | None = None,
    ) -> tf.Tensor | list[tf.Tensor]:
        self._check_shape([layer.shape for layer in _listed(vectors)])
        mask = self._token_mask(vectors, mask)
        outputs = [self.drop(mix(vectors, mask=mask), training=training) for mix in self.mixes]
        return outputs if self.num_mixes > 1 else outputs[0]

    def _check_shape(self, shapes: Sequence[Sequence[int | None]]) -> None:
        if len(shapes) == 1 and len(shapes[0]) == 4:
            num_layers = shapes[0][1]
        else:
            num_layers = len(shapes) if all(len(shape) == 3 for shape in shapes) else -1
        if num_layers not in (None, self.num_layers):
            raise ValueError(
                f"ElmoMix: vectors must be [batch, {self.num_layers}, time, dim] or a list of "
                f"{self.num_layers} [batch, time, dim] (num_layers), got {list(map(tuple, shapes))}"
            )

    def _token_mask(self, vectors: Any, mask: Any) -> Any:
        if isinstance(mask, (list, tuple)):  # Keras passes one mask per tensor of a list
            mask = next((each for each in mask if each is not None), None)
        if mask is not None:
            return mask
        is_token = [
            keras.ops.any(keras.ops.not_equal(layer, 0), axis=-1) for layer in _listed(vectors)
        ]
        if len(is_token) == 1 and len(is_token[0].shape) == 3:  # [batch, layers, time]
            return keras.ops.any(is_token[0], axis=1)
        return keras.ops.any(keras.ops.stack(is_token), axis=0)

    def compute_mask(self, vectors: Any, previous_mask: Any = None) -> Any:
        mask = self._token_mask(vectors, previous_mask)
        return [mask] * self.num_mixes if self.num_mixes > 1 else mask

    def compute_output_shape(self, vectors_shape: Any) -> Any:
        is_list = isinstance(vectors_shape[0], (list, tuple))
        self._check_shape(vectors_shape if is_list else [vectors_shape])
        shape = tuple(vectors_shape[0] if is_list else vectors_shape)
        shape = (shape[0], *shape[-2:])
        return [shape] * self.num_mixes if self.num_mixes > 1 else shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "num_mixes": self.num_mixes,
            "mix_weights": self.fixed_weights if any(self.fixed_weights) else None,
            "do_layer_norm": self.do_layer_norm,
            "use_top_only": self.use_top_only,
            "l2_coefficient": self.l2_coefficient,
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _listed(vectors: Any) -> Sequence[Any]:
    return vectors if isinstance(vectors, (list, tuple)) else [vectors]


def _weights_of_each(
    mix_weights: Any, num_layers: int, num_mixes: int
) -> tuple[tuple[float, ...] | None, ...]:
    """The fixed weights of each mix; None for a trainable one."""
    if mix_weights is None:
        return (None,) * num_mixes
    entries = _as_list(mix_weights)
    if entries is not None and not any(
        entry is None or _as_list(entry) is not None for entry in entries
    ):
        entries = [entries] * num_mixes
    each = [None if entry is None else _as_list(entry) for entry in entries or ()]
    is_right = len(each) == num_mixes and all(
        (weights is None and entry is None) or _are_finite(weights, num_layers)
        for entry, weights in zip(entries or (), each, strict=True)
    )
    if not is_right:
        raise ValueError(
            f"ElmoMix: mix_weights must be None, {num_layers} finite numbers (num_layers), or a "
            f"list with None or {num_layers} of them for each of {num_mixes} mixes, "
            f"got {mix_weights!r}"
        )
    return tuple(None if weights is None else tuple(map(float, weights)) for weights in each)


def _as_list(values: Any) -> list | None:
    """A list, tuple, array or tensor as a list; None for any other value, such as a string."""
    if hasattr(values, "numpy"):
        values = values.numpy()
    if hasattr(values, "tolist"):
        values = values.tolist()
    return list(values) if isinstance(values, (list, tuple)) else None


def _are_finite(weights: list | None, number: int) -> bool:
    return (
        weights is not None
        and len(weights) == number
        and all(isinstance(each, numbers.Real) and math.isfinite(each) for each in weights)
    )
