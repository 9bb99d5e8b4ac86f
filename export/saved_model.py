"""The exported model: a SavedModel that asks nothing of its user but `tensorflow`.

    import tensorflow as tf

    model = tf.saved_model.load("exported")              # or hub.load, from tensorflow_hub
    outputs = model(["The cat sat on the mat .", "one"])
    outputs["elmo"]                                       # float32 [2, 7, 2 * P]
    outputs["default"]                                    # float32 [2, 2 * P]

    tokens = {"tokens": [["The", "cat"], ["one", ""]], "sequence_len": [2, 1]}
    model.tokens({name: tf.constant(value) for name, value in tokens.items()})["elmo"]
    model.signatures["tokens"](**{name: tf.constant(value) for name, value in tokens.items()})

`export` writes it, with what a reader of the directory wants to know in `assets.extra/`.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.encoder import ElmoEncoder, Outputs
from elmo_tf.errors import InputError
from elmo_tf.text import boundaries
from elmo_tf.text.tokens import split_and_pad
from elmo_tf.weights.checkpoint import Variables, named_variables
from elmo_tf.weights.models import EXTRA_DIRECTORY, OPTIONS_FILE, VOCABULARY_FILE
from export import directories, model_card
from export.directories import is_saved_model

TRAINABLE = ("mix", "all")
MODEL_CARD_FILE = "README.md"

_MIX = "scalar_mix."


class ExportedElmo(tf.Module):
    """What is saved. Each way in is traced once, for every batch size and length.

    A SavedModel keeps functions, and attributes that hold variables, but neither Python code nor
    the properties of a class; so what TensorFlow Hub's interface of reusable SavedModels asks for
    are plain attributes here. Variables are copies, with names and a trainable mark of their own:
    nothing of Keras is in what is saved, and the encoder can be used on.

    Args:
      encoder: where weights and computation come from.
      trainable: "mix" if a user's training may change the scalar mix only; "all" for every weight.

    Attributes:
      model: the variables by name, such as "bilm.forward_0.bias" (see `weights.checkpoint`).
      variables: the same as a list.
      trainable_variables: those that training may change.
      regularization_losses: functions without arguments; their sum belongs into a user's loss.
      tokens: function of a dict of `tokens`, string `[batch, max_tokens]`, and `sequence_len`,
        int32 `[batch]`.
      char_ids: function of int32 `[batch, max_tokens, max_characters]`.

    Called with string `[batch]`. The call and both functions return `ElmoEncoder`'s outputs.
    """

    # In place of the properties of tf.Module, which would not be saved.
    variables: Sequence[tf.Variable] = ()
    trainable_variables: Sequence[tf.Variable] = ()

    def __init__(self, encoder: ElmoEncoder, trainable: str = "mix") -> None:
        super().__init__(name="elmo")
        # The first attribute of all: a variable's name in the checkpoint is the first way to it.
        self.model = _copy_variables(encoder, trainable)
        self.variables = list(self.model.values())
        self.trainable_variables = [each for each in self.variables if each.trainable]
        self.regularization_losses = _regularization_losses(encoder, self.model)
        # A plain object, so that it is not saved, and with it neither is the encoder.
        self._ways_in = _WaysIn(encoder, self.model, trainable == "all")
        self.tokens = self._ways_in.token_dict
        self.char_ids = self._ways_in.char_ids
        for training in (False, True):
            self.__call__.get_concrete_function(_WaysIn.TEXT, training=training)

    @tf.function(autograph=False)
    def __call__(self, text: tf.Tensor, training: bool = False) -> Outputs:
        # The values are the same; only their gradient may be computed in another way.
        return self._ways_in.text_in_training(text) if training else self._ways_in.text(text)

    @property
    def named_signatures(self) -> dict[str, Any]:
        """The functions to save by name."""
        ways_in = self._ways_in
        return {
            "default": ways_in.text,
            "tokens": ways_in.tokens,
            "elmo": ways_in.text_to_elmo,
            "char_ids": ways_in.char_ids,
            "serving_default": ways_in.text,
            "serve": ways_in.text,
        }


class _WaysIn:
    """The traced functions, from each form of input to the outputs."""

    TEXT = tf.TensorSpec([None], tf.string, "text")
    TOKENS = tf.TensorSpec([None, None], tf.string, "tokens")
    SEQUENCE_LEN = tf.TensorSpec([None], tf.int32, "sequence_len")

    def __init__(self, encoder: ElmoEncoder, variables: Variables, trains_layers: bool) -> None:
        self._encoder = encoder
        self._variables = variables
        self._trains_layers = trains_layers
        max_characters = encoder.config.char_cnn.max_characters_per_token
        char_ids = tf.TensorSpec([None, None, max_characters], tf.int32, "char_ids")

        def traced(function: Any, *specs: Any) -> tf.types.experimental.GenericFunction:
            return tf.function(function, input_signature=specs, autograph=False)

        self.tokens = traced(
            lambda tokens, sequence_len: self._from_tokens(tokens, sequence_len),
            self.TOKENS,
            self.SEQUENCE_LEN,
        )
        self.text = traced(self._from_text, self.TEXT)
        self.text_in_training = self.text
        if trains_layers and not encoder.dropout:  # training would bring dropout along
            self.text_in_training = traced(self._from_text_in_training, self.TEXT)
        self.text_to_elmo = traced(self._elmo_from_text, self.TEXT)
        self.char_ids = traced(self._from_char_ids, char_ids)
        self.token_dict = traced(
            self._from_token_dict, {"tokens": self.TOKENS, "sequence_len": self.SEQUENCE_LEN}
        )

    def _from_tokens(
        self, tokens: tf.Tensor, sequence_len: tf.Tensor, training: bool = False
    ) -> Outputs:
        lengths = boundaries.checked_lengths(sequence_len, tokens)
        with self._exported_variables():
            return self._encode(self._encoder.embed_tokens(tokens, lengths), lengths, training)

    def _from_token_dict(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        return self.tokens(inputs["tokens"], inputs["sequence_len"])

    def _from_text(self, text: tf.Tensor) -> Outputs:
        return self.tokens(*split_and_pad(text))

    def _from_text_in_training(self, text: tf.Tensor) -> Outputs:
        # A hand-written gradient is saved too: a step of the small size is 1.7 times as fast.
        return self._from_tokens(*split_and_pad(text), training=True)

    def _elmo_from_text(self, text: tf.Tensor) -> Outputs:
        outputs = self.text(text)
        return {name: outputs[name] for name in ("elmo", "sequence_len")}

    def _from_char_ids(self, char_ids: tf.Tensor) -> Outputs:
        lengths = boundaries.lengths_of_ids(char_ids)
        with self._exported_variables():
            # Dense: accelerators and converters take no shapes that depend on values.
            embeddings = self._encoder.embed_ids(char_ids, lengths, dense=True)
            return self._encode(embeddings, lengths)

    def _encode(self, embeddings: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> Outputs:
        layers, _ = self._encoder.compute_layers(embeddings, lengths, training=training)
        if not self._trains_layers:
            # Training the mix needs no pass back through the LSTMs, but TensorFlow would run it: a
            # step of the small size takes 3.6 times as long without this.
            layers = [tf.stop_gradient(layer) for layer in layers]
        return self._encoder.mix_layers(layers, lengths)

    def _exported_variables(self) -> keras.StatelessScope:
        """While this is entered, the encoder's layers compute with the exported variables."""
        pairs = _keras_variables(self._encoder)
        return keras.StatelessScope([(pairs[name], self._variables[name]) for name in pairs])


def _keras_variables(encoder: ElmoEncoder) -> dict[str, keras.Variable]:
    of_value = {id(variable.value): variable for variable in encoder.variables}
    return {name: of_value[id(value)] for name, value in named_variables(encoder).items()}


def _copy_variables(encoder: ElmoEncoder, trainable: str) -> Variables:
    return {
        name: tf.Variable(
            value,
            trainable=trainable == "all" or name.startswith(_MIX),
            name=name.replace(".", "/"),
        )
        for name, value in named_variables(encoder).items()
    }


def _regularization_losses(encoder: ElmoEncoder, variables: Variables) -> list:
    mix = encoder.scalar_mix
    if not mix.l2_coefficient or mix.layer_weights is None:
        return []
    weights = variables[f"{_MIX}layer_weights"]

    @tf.function(input_signature=[], autograph=False)
    def penalty() -> tf.Tensor:
        return mix.l2_coefficient * tf.reduce_sum(tf.square(weights))

    return [penalty]


def export(
    encoder: ElmoEncoder,
    output_dir: str | os.PathLike,
    *,
    trainable: str = "mix",
    overwrite: bool = False,
    archive: bool = False,
    vocabulary_file: str | os.PathLike | None = None,
    provenance: Iterable[str] = (),
) -> None:
    """Writes an encoder as a SavedModel, whole or not at all.

    Args:
      encoder: what to export. It stays as it is.
      output_dir: the directory to make; the one that it lies in has to exist.
      trainable: what training on top of the export may change: "mix", the layer weights and gamma
        of the scalar mix; or "all", the biLM as well.
      overwrite: whether an export that is already there is replaced, once the new one is whole.
      archive: whether the export is packed as well, as `output_dir` with ".tar.gz". `hub.load`
        takes that by URL.
      vocabulary_file: a vocabulary that the model was trained with, to be kept with it. Nothing
        reads it.
      provenance: sentences for the model card, about where the weights come from.

    Raises:
      InputError: `trainable` is none of the two, `output_dir` can't be written or exists, or the
        vocabulary can't be read.
    """
    if trainable not in TRAINABLE:
        raise InputError(f"trainable must be one of {', '.join(TRAINABLE)}, got {trainable!r}")
    packed = directories.archive_path(output_dir)
    if archive:
        directories.check_archive_target(packed, overwrite)
    with directories.write_directory_atomically(output_dir, overwrite, is_saved_model) as folder:
        module = ExportedElmo(encoder, trainable)
        extras = os.path.join(folder, EXTRA_DIRECTORY)
        os.mkdir(extras)
        encoder.config.write(os.path.join(extras, OPTIONS_FILE))
        with open(os.path.join(extras, MODEL_CARD_FILE), "x", encoding="ascii") as file:
            file.write(model_card.text(encoder.config, module.model, trainable, provenance))
        if vocabulary_file is not None:
            shutil.copyfile(vocabulary_file, os.path.join(extras, VOCABULARY_FILE))
        try:
            tf.saved_model.save(module, folder, module.named_signatures)
        except tf.errors.OpError as error:  # such as a disk that is full
            raise InputError(f"{output_dir}: cannot be written: {error.message}") from error
        if archive:
            directories.write_archive(packed, folder)
