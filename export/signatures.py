"""The functions of an export: one for each form of input."""

import functools
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model import pipeline
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.initial_state import repeat_state
from elmo_tf.model.inputs import boundaries
from elmo_tf.model.pipeline import Outputs
from elmo_tf.model.variables import Variables, named_variables
from elmo_tf.text.tokens import split_and_pad

from .cached_words import CachedWords

MIX = "scalar_mix."


class Signatures:
    """The traced functions, from each form of input to the outputs.

    Args:
      encoder: the encoder that defines the computation.
      variables: the variables to use instead of the encoder's own, by the same names.
      trains_layers: whether a user may train more than the scalar mix.
      cached_words: words with stored embeddings, or None.
      initial_state: the initial state of every row, one row, or None for zeros.
    """

    TEXT = tf.TensorSpec([None], tf.string, "text")
    TOKENS = tf.TensorSpec([None, None], tf.string, "tokens")
    SEQUENCE_LEN = tf.TensorSpec([None], tf.int32, "sequence_len")
    TRAINING = tf.TensorSpec([], tf.bool, "training")

    def __init__(
        self,
        encoder: ElmoEncoder,
        variables: Variables,
        trains_layers: bool,
        cached_words: CachedWords | None = None,
        initial_state: BiLmState | None = None,
    ) -> None:
        self._encoder = encoder
        self._variables = variables
        self._trains_layers = trains_layers
        self._initial_state = initial_state
        self._model = encoder.parts
        self._embed = None
        if cached_words is not None:
            computed = functools.partial(pipeline.embed_words, model=self._model)
            self._embed = functools.partial(cached_words.embed, embed_others=computed)
        self.ids_name = encoder.token_input.ids_name

        def traced(function: Any, *specs: Any) -> tf.types.experimental.GenericFunction:
            return tf.function(function, input_signature=specs, autograph=False)

        def from_tokens(tokens: tf.Tensor, sequence_len: tf.Tensor) -> Outputs:
            return self._from_tokens(tokens, sequence_len)

        self.tokens = traced(
            from_tokens,
            self.TOKENS,
            self.SEQUENCE_LEN,
        )
        self.text = traced(self._from_text, self.TEXT)
        self.text_to_elmo = traced(self._elmo_from_text, self.TEXT)
        self.ids = traced(self._from_ids, encoder.token_input.ids_spec)
        self.token_dict = traced(
            self._from_token_dict, {"tokens": self.TOKENS, "sequence_len": self.SEQUENCE_LEN}
        )

    def _from_tokens(
        self, tokens: tf.Tensor, sequence_len: tf.Tensor, training: tf.Tensor | None = None
    ) -> Outputs:
        lengths = boundaries.checked_lengths(sequence_len, tokens)
        with self._exported_variables():
            embeddings = pipeline.embed_tokens(tokens, lengths, self._model, self._embed)
            return self._outputs(embeddings, lengths, save_activations=training)

    def _from_token_dict(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        return self.tokens(inputs["tokens"], inputs["sequence_len"])

    def _from_text(self, text: tf.Tensor) -> Outputs:
        return self.tokens(*split_and_pad(text))

    def text_in_training(self, text: tf.Tensor, training: tf.Tensor) -> Outputs:
        """The same values as `text`; `training` determines how their gradient is computed.

        If it is true, the LSTMs save activations for our own gradient function; a step of the small
        size is then 1.7 times as fast. Dropout is never applied.
        """
        if not self._trains_layers:
            return self.text(text)  # the gradient of the scalar mix is cheap
        return self._from_tokens(*split_and_pad(text), training)

    def _elmo_from_text(self, text: tf.Tensor) -> Outputs:
        outputs = self.text(text)
        return {name: outputs[name] for name in ("elmo", "sequence_len")}

    def _from_ids(self, ids: tf.Tensor) -> Outputs:
        lengths = boundaries.lengths_of_ids(ids)
        with self._exported_variables():
            # Accelerators and converters do not support shapes that depend on values.
            embeddings = pipeline.embed_ids(ids, lengths, self._model, static_shapes=True)
            return self._outputs(embeddings, lengths, static_shapes=True)

    def _outputs(
        self,
        embeddings: tf.Tensor,
        lengths: tf.Tensor,
        static_shapes: bool = False,
        save_activations: tf.Tensor | None = None,
    ) -> Outputs:
        initial_state = None
        if self._initial_state is not None:
            initial_state = repeat_state(self._initial_state, tf.shape(embeddings)[0])
        layers, _ = pipeline.run_layers(
            embeddings,
            lengths,
            self._model.bilm,
            initial_state=initial_state,
            static_shapes=static_shapes,
            save_activations=save_activations,
        )
        if not self._trains_layers:
            # Training the mix needs no backpropagation through the LSTMs, but TensorFlow would do
            # it, which makes a step of the small size 3.6 times as slow.
            layers = [tf.stop_gradient(layer) for layer in layers]
        return pipeline.named_outputs(layers, lengths, self._model.scalar_mix)

    def _exported_variables(self) -> keras.StatelessScope:
        """A context in which the encoder's layers use the exported variables."""
        pairs = _keras_variables(self._encoder)
        # Cast weights that are stored in half precision to the encoder's dtype.
        return keras.StatelessScope(
            [(pairs[name], _in_dtype(self._variables[name], pairs[name].dtype)) for name in pairs]
        )


def _in_dtype(variable: tf.Variable, dtype: str) -> tf.Variable | tf.Tensor:
    return variable if variable.dtype == tf.as_dtype(dtype) else tf.cast(variable, dtype)


def _keras_variables(encoder: ElmoEncoder) -> dict[str, keras.Variable]:
    of_value = {id(variable.value): variable for variable in encoder.variables}
    return {name: of_value[id(value)] for name, value in named_variables(encoder).items()}


def copy_variables(encoder: ElmoEncoder, trains_layers: bool, dtype: str) -> Variables:
    """Copies of the encoder's variables as `tf.Variable`, by name.

    The variables of the scalar mix are trainable and float32; the others have the given dtype.
    """
    return {
        name: tf.Variable(
            value if name.startswith(MIX) else tf.cast(value, dtype),
            trainable=trains_layers or name.startswith(MIX),
            name=name.replace(".", "/"),
        )
        for name, value in named_variables(encoder).items()
    }
