"""`ElmoEmbedding`: ELMo as a layer of a Keras model, from strings to vectors that a task trains."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.layers.elmo_mix import ElmoMix, Numbers
from elmo_tf.model import pipeline
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.inputs import arguments
from elmo_tf.model.token_mask import TokenMask, mask_of, tokens_and_lengths
from elmo_tf.model.traced_functions import TracedFunctions

# A Python list, a NumPy array or a tensor.
ArrayLike = Any
Shape = Sequence[int | None]

TRAINABLE = ("mix", "all", "none")


@keras.saving.register_keras_serializable(package="elmo_tf")
class ElmoEmbedding(keras.layers.Layer):
    """ELMo vectors of text, tokens or character ids, for Functional, Sequential or other models.

    One pass through the biLM gives `num_mixes` weighted averages of its layers. The paper adds one
    to the input and one to the output of a task model's encoder. By default the biLM is frozen,
    backpropagation stops above it, and the averages are trained with the task.

    The biLM computes in the precision of `encoder`, float32 by default, and the averages in
    float32. Only the results are cast to this layer's dtype policy.

    Args:
      encoder: the `ElmoEncoder` to use. It is shared, not copied; `trainable` determines which of
        its weights are trainable. Learned mixes are initialized from its scalar mix.
      num_mixes, mix_weights, do_layer_norm, use_top_only, l2_coefficient, dropout, seed: as for
        `ElmoMix`. The paper uses dropout of 0.5 and l2_coefficient from 0.001 to 1.
      keep_boundaries: whether to return vectors of `<S>` and `</S>` too: n + 2 vectors for a row of
        n tokens. A row without tokens then has these two.
      trainable: "mix" trains the learned mixes (weights and gamma); "all" also trains the biLM and
        its character CNN; "none" trains nothing. True means "mix", False means "none". The
        attribute can be set to any of these values before `compile`; True restores the value before
        False. Its value is True or False; see `trained_parts`.

    Call arguments:
      inputs: one of
        string `[batch]`: raw text, split at runs of ASCII white space;
        string `[batch, time]`: tokens, padded with `""` after the last token of a row. A `""`
          before it is a token without characters and has a vector;
        integers `[batch, time, max_characters]`: see `elmo_tf.batch_to_ids`; rows of zeros after
          the last token are padding. With word input `[batch, time]`; see `ElmoEncoder`.
        Strings can also be lists or NumPy arrays of `str` or `bytes`; lists of tokens may have
        different lengths.
      training: whether to apply dropout; with trainable="all" also the encoder's own dropout.

    Returns:
      `[batch, time, 2 * projection_dim]`, zero at padding; a list of them if num_mixes > 1. Each
      has a Keras mask, which later layers (LSTM, GlobalAveragePooling1D ...) use.

    Example:
      >>> elmo = ElmoEmbedding.from_model("elmo.zip", num_mixes=2, dropout=0.5)
      >>> tokens = keras.Input([None], dtype="string")
      >>> at_input, at_output = elmo(tokens)
      >>> hidden = keras.layers.LSTM(64, return_sequences=True)(at_input)
      >>> tags = keras.layers.Dense(9)(keras.layers.Concatenate()([hidden, at_output]))
      >>> model = keras.Model(tokens, tags)

    Reference:
      Peters et al. 2018, sections 3.2 and 3.3, https://arxiv.org/abs/1802.05365.
    """

    def __init__(
        self,
        encoder: ElmoEncoder,
        num_mixes: int = 1,
        mix_weights: Numbers | Sequence[Numbers | None] | None = None,
        do_layer_norm: bool = False,
        use_top_only: bool = False,
        l2_coefficient: float = 0.0,
        dropout: float = 0.0,
        seed: int | None = None,
        keep_boundaries: bool = False,
        trainable: str | bool = "mix",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(encoder, ElmoEncoder):
            what = "an ElmoEncoder (for files there are from_model and from_weights)"
            raise checks.refusal("ElmoEmbedding: encoder", what, encoder)
        self.encoder = encoder
        self.keep_boundaries = checks.boolean(keep_boundaries, "ElmoEmbedding: keep_boundaries")
        self.mix = ElmoMix(
            encoder.config.lstm.num_layers + 1,
            num_mixes,
            mix_weights=mix_weights,
            do_layer_norm=do_layer_norm,
            use_top_only=use_top_only,
            l2_coefficient=l2_coefficient,
            dropout=dropout,
            seed=seed,
            name="mix",
            dtype=self.dtype_policy,
        )
        self.token_mask = TokenMask(keep_boundaries, name=f"{self.name}_mask")
        self._start_mixes()
        self._trained_parts = "mix"
        self._set_trainable(trainable)
        self._traced = TracedFunctions()
        self.supports_jit = False  # XLA has no strings; Keras's jit_compile="auto" checks this
        # Keras's own conversion would refuse lists of strings and cast integers to floats.
        self._allow_non_tensor_positional_args = True
        self._convert_input_args = False
        self.build()

    @classmethod
    def from_model(cls, path: str | os.PathLike, **kwargs: Any) -> "ElmoEmbedding":
        """A layer with the weights of a model in any format, and its trained mix if it has one.

        Args:
          path: see `ElmoEncoder.from_model`.
          **kwargs: arguments of the constructor.

        Raises:
          InputError: there is no such model, or it is damaged.
        """
        return cls(ElmoEncoder.from_model(path, dtype="float32"), **kwargs)

    @classmethod
    def from_weights(cls, options_file: str, weights_file: str, **kwargs: Any) -> "ElmoEmbedding":
        """As `from_model`, for a pair of files in bilm-tf format."""
        encoder = ElmoEncoder.from_weights(options_file, weights_file, dtype="float32")
        return cls(encoder, **kwargs)

    def _start_mixes(self) -> None:
        start = self.encoder.scalar_mix
        for mix, fixed in zip(self.mix.mixes, self.mix.fixed_weights, strict=True):
            if fixed is None:
                mix.gamma.assign(start.gamma)
                if mix.layer_weights is not None:
                    mix.layer_weights.assign(start.layer_weights)

    @property
    def trained_parts(self) -> str:
        """The trained parts: "mix", "all" or "none"."""
        return self._trained_parts if self._trainable else "none"

    @property
    def trainable(self) -> bool:
        """Whether any weight is trainable; can be set to "mix", "all", "none", True or False."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: str | bool) -> None:
        self._set_trainable(value)

    def _set_trainable(self, value: str | bool) -> None:
        if not isinstance(value, bool):
            value = checks.one_of(*TRAINABLE)(value, "ElmoEmbedding: trainable")
        self._trainable = value not in (False, "none")
        if value in ("mix", "all"):
            self._trained_parts = value
        self.mix.trainable = self._trainable
        self.encoder.trainable = self.trained_parts == "all"
        # Keras ignores an assignment that does not change `trainable`, and does not pass it on to
        # sublayers, so set it for every variable.
        for variable in self.encoder.variables:
            variable.trainable = self.encoder.trainable
        for variable in self.encoder.scalar_mix.variables:  # not used here
            variable.trainable = False

    def build(self, inputs_shape: Any = None) -> None:
        # The encoder and the mixes are built in the constructor: weights load before any call.
        pass

    def call(self, inputs: ArrayLike, training: bool | None = None) -> tf.Tensor | list[tf.Tensor]:
        inputs = arguments.as_tensor(inputs)
        self._check_inputs(inputs)
        if inputs.dtype == tf.string and inputs.shape.rank == 2:
            inputs = arguments.refuse_white_space(inputs, None, "inputs")
        if inputs.dtype.is_integer:
            self.encoder.token_input.check_ids(inputs, None, "ElmoEmbedding: ids")
        fine_tunes = self.trained_parts == "all"
        layers, mask = self._traced.run(
            self._layers_and_mask,
            inputs,
            fine_tunes=fine_tunes,
            training=bool(training) and fine_tunes,
        )
        for layer in layers:
            layer.set_shape(self._output_shape(inputs.shape))
        return self.mix(layers, mask=mask, training=training)

    def _layers_and_mask(
        self, inputs: tf.Tensor, fine_tunes: bool, training: bool
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The layers to mix, each `[batch, time, 2 * projection_dim]`, the lowest first."""
        tokens, lengths = tokens_and_lengths(inputs)
        model = self.encoder.parts
        embed = pipeline.embed_tokens if inputs.dtype == tf.string else pipeline.embed_ids
        embeddings = embed(tokens, lengths, model)  # [batch, time + 2, projection_dim]
        layers, _ = pipeline.run_layers(
            embeddings,
            lengths,
            model.bilm,
            keep_boundaries=self.keep_boundaries,
            training=training,
        )
        layers = pipeline.doubled(layers)
        if not fine_tunes:
            layers = [tf.stop_gradient(layer) for layer in layers]
        return layers, mask_of(tokens, lengths, self.keep_boundaries)

    def _check_inputs(self, inputs: Any, error: type[Exception] = InputError) -> None:
        of_token = self.encoder.token_ids.shape
        dtype, shape = keras.backend.standardize_dtype(inputs.dtype), tuple(inputs.shape)
        is_right = dtype == "string" and len(shape) in (1, 2)
        is_right |= dtype.startswith(("int", "uint")) and (len(shape), shape[2:]) == (
            2 + len(of_token),
            of_token,
        )
        if not is_right:
            width = "".join(f", {size}" for size in of_token)
            raise error(
                "ElmoEmbedding: inputs must be strings [batch] (text) or [batch, time] (tokens), "
                f"or integers [batch, time{width}] (ids of {self.encoder.token_input.units}); "
                f"got {dtype} of shape {shape}"
            )

    def _output_shape(self, shape: Shape) -> tuple[int | None, ...]:
        time = shape[1] if len(shape) > 1 else None
        if time is not None and self.keep_boundaries:
            time += 2
        return (shape[0], time, 2 * self.encoder.config.lstm.projection_dim)

    def compute_output_shape(self, inputs_shape: Shape) -> Any:
        shape = self._output_shape(inputs_shape)
        return [shape] * self.mix.num_mixes if self.mix.num_mixes > 1 else shape

    def compute_output_spec(self, inputs: keras.KerasTensor, training: bool | None = None) -> Any:
        # A Sequential model without keras.Input assumes float inputs. This error makes it defer
        # building until it has seen the inputs.
        is_guess = keras.backend.is_float_dtype(inputs.dtype)
        self._check_inputs(inputs, NotImplementedError if is_guess else InputError)
        arguments.refuse_single_column(inputs, "ElmoEmbedding")
        return super().compute_output_spec(inputs, training=training)

    def compute_mask(self, inputs: ArrayLike, previous_mask: Any = None) -> Any:
        mask = self.token_mask(inputs)
        return [mask] * self.mix.num_mixes if self.mix.num_mixes > 1 else mask

    def get_config(self) -> dict[str, Any]:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        # Keras registers shared objects too late for objects inside a layer's config. With this id,
        # two layers of a saved model that share an encoder share it again after loading.
        encoder["shared_object_id"] = id(self.encoder)
        mix = self.mix.get_config()
        names = ("num_mixes", "mix_weights", "do_layer_norm", "use_top_only", "l2_coefficient")
        return {
            **super().get_config(),
            "encoder": encoder,
            **{name: mix[name] for name in (*names, "dropout", "seed")},
            "keep_boundaries": self.keep_boundaries,
            "trainable": self.trained_parts,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ElmoEmbedding":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})
