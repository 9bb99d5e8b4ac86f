"""The exported model: a SavedModel that needs only `tensorflow`.

    import tensorflow as tf

    model = tf.saved_model.load("exported")              # or hub.load, from tensorflow_hub
    outputs = model(["The cat sat on the mat .", "one"])
    outputs["elmo"]                                       # float32 [2, 7, 2 * P]
    outputs["default"]                                    # float32 [2, 2 * P]

    tokens = {"tokens": [["The", "cat"], ["one", ""]], "sequence_len": [2, 1]}
    model.tokens({name: tf.constant(value) for name, value in tokens.items()})["elmo"]
    model.signatures["tokens"](**{name: tf.constant(value) for name, value in tokens.items()})

`export` writes it, with a model card, options and vocabulary in `assets.extra/`.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.formats.checkpoint import INITIAL_STATE
from elmo_tf.formats.file_names import EXTRA_DIRECTORY, OPTIONS_FILE
from elmo_tf.formats.text_settings import TEXT_FILE
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.initial_state import InitialState
from elmo_tf.model.pipeline import Outputs
from elmo_tf.model.variables import Variables
from elmo_tf.storage import directories, files
from elmo_tf.text import forms
from elmo_tf.text.vocabulary import VOCABULARY_FILE

from . import model_card, warmup
from .cached_words import CachedWords
from .signatures import MIX, Signatures, copy_variables

TRAINABLE = ("mix", "all")
DTYPES = ("float32", "float16", "bfloat16")
MODEL_CARD_FILE = "README.md"
ROUNDED_WEIGHTS = (
    "dtype float16 or bfloat16 needs trainable=mix: steps of training are smaller than what half "
    "precision can store"
)
STALE_CACHE = (
    "cached words need trainable=mix: training the input layer would not change what is cached"
)


class ExportedElmo(tf.Module):
    """The object to save. Each function is traced once, for every batch size and length.

    A SavedModel stores functions and attributes that hold variables, but no Python code and no
    properties of a class. Therefore everything that TensorFlow Hub's interface of reusable
    SavedModels requires is a plain attribute here. Variables are copies with their own names and
    `trainable` flags, so the saved object contains nothing of Keras and the encoder is not changed.

    Args:
      encoder: the encoder with the weights and the computation.
      trainable: "mix" if training may change only the scalar mix; "all" for every weight.
      cached_words: words whose embeddings are stored instead of computed; see `CachedWords`.
      initial_state: the initial state of each row, or None for zeros.
      dtype: dtype of the stored weights, one of `DTYPES`; computation is in float32.

    Attributes:
      model: the variables by name, such as "bilm.forward_0.bias" (see `elmo_tf.model.variables`).
      variables: the same as a list, followed by the initial state and the embeddings of cached
        words, if there are any; these are not trainable.
      trainable_variables: the variables that training may change.
      regularization_losses: functions without arguments, whose sum a user adds to the loss.
      tokens: function of a dict of `tokens`, string `[batch, max_tokens]`, and `sequence_len`,
        int32 `[batch]`.
      char_ids: function of int32 `[batch, max_tokens, max_characters]`. A model with word input has
        `word_ids` instead, a function of int32 `[batch, max_tokens]`: line numbers of words in the
        vocabulary, from 1 on, and 0 for padding.

    Called with string `[batch]`. The call and both functions return `ElmoEncoder`'s outputs.
    """

    # They replace the properties of tf.Module, which would not be saved.
    variables: Sequence[tf.Variable] = ()
    trainable_variables: Sequence[tf.Variable] = ()

    def __init__(
        self,
        encoder: ElmoEncoder,
        trainable: str = "mix",
        cached_words: Sequence[bytes] = (),
        initial_state: InitialState | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__(name="elmo")
        trains_layers = trainable == "all"
        # Set before all other attributes: a checkpoint names a variable by its first path.
        self.model = copy_variables(encoder, trains_layers, dtype)
        self._dtype = dtype
        state = None
        self._initial_state = initial_state
        if initial_state is not None:
            self.initial_state = _state_variables(initial_state.state)
            values = list(self.initial_state.values())
            state = tf.nest.pack_sequence_as(initial_state.state, values)
        self.cached_words = CachedWords(encoder, cached_words, dtype) if cached_words else None
        self.variables = [
            *self.model.values(),
            *([] if initial_state is None else self.initial_state.values()),
            *([] if self.cached_words is None else [self.cached_words.embeddings]),
        ]
        self.trainable_variables = [each for each in self.variables if each.trainable]
        self.regularization_losses = _regularization_losses(encoder, self.model)
        # A plain object is not saved, so neither is the encoder inside it.
        self._functions = Signatures(encoder, self.model, trains_layers, self.cached_words, state)
        self.tokens = self._functions.token_dict
        setattr(self, self._functions.ids_name, self._functions.ids)
        self.token_ids = encoder.token_input  # with word input it owns the lookup table

    # Without an input signature a loaded function would be traced again for each new list and
    # shape. `training` must be a tensor, because a signature allows no Python arguments.
    @tf.function(input_signature=[Signatures.TEXT, Signatures.TRAINING], autograph=False)
    def __call__(self, text: tf.Tensor, training: bool | tf.Tensor = False) -> Outputs:
        return self._functions.text_in_training(text, training)

    @property
    def notes(self) -> list[str]:
        """Notes on this export for the model card."""
        notes = []
        if self._dtype != "float32":
            notes.append(model_card.note_on_dtype(self._dtype))
        if self.cached_words is not None:
            notes.append(model_card.note_on_cached_words(self.cached_words.embeddings))
        if self._initial_state is not None:
            num_sentences = self._initial_state.num_sentences
            notes.append(model_card.note_on_initial_state(num_sentences))
        return notes

    @property
    def named_signatures(self) -> dict[str, Any]:
        """The signatures to save, by name."""
        functions = self._functions
        return {
            "default": functions.text,
            "tokens": functions.tokens,
            "elmo": functions.text_to_elmo,
            functions.ids_name: functions.ids,
            "serving_default": functions.text,
            "serve": functions.text,
        }

    def warmup_requests(self, encoder: ElmoEncoder) -> dict[str, dict[str, tf.Tensor]]:
        """Inputs of one short sentence for each signature; see `warmup`."""
        words = tf.constant(["The", "cat", "sat"])
        examples = {
            "text": tf.constant(["The cat sat"]),
            "tokens": words[tf.newaxis],
            "sequence_len": tf.constant([3], tf.int32),
            self._functions.ids_name: encoder.token_ids(words)[tf.newaxis],
        }
        return {
            signature: {spec.name: examples[spec.name] for spec in function.input_signature}
            for signature, function in self.named_signatures.items()
        }


def _state_variables(state: BiLmState) -> Variables:
    """The initial state by name, such as "forward_0.hidden".

    They are variables rather than constants so that readers find them in the checkpoint.
    """
    names = [
        f"{way}_{index}.{part}"
        for way, layers in state._asdict().items()
        for index, layer in enumerate(layers)
        for part in layer._fields
    ]
    return {
        name: tf.Variable(value, trainable=False, name=f"{INITIAL_STATE}.{name}".replace(".", "/"))
        for name, value in zip(names, tf.nest.flatten(state), strict=True)
    }


def _regularization_losses(encoder: ElmoEncoder, variables: Variables) -> list:
    mix = encoder.scalar_mix
    if not mix.l2_coefficient or mix.layer_weights is None:
        return []
    weights = variables[f"{MIX}layer_weights"]

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
    cached_words: Sequence[str | bytes] = (),
    initial_state: InitialState | None = None,
    dtype: str = "float32",
) -> None:
    """Writes an encoder as a SavedModel, atomically.

    Args:
      encoder: the encoder to export; it is not changed.
      output_dir: the directory to create, with its parents.
      trainable: the weights that training on top of the export may change: "mix", the scalar mix
        (layer weights and gamma); or "all", also the biLM.
      overwrite: whether to replace an existing export when the new one is complete. A directory
        with any other content is never replaced.
      archive: whether to also write the export as `output_dir` with ".tar.gz", which `hub.load`
        can download by URL.
      vocabulary_file: the training vocabulary, to store with the export; nothing reads it. A model
        with word input stores its own vocabulary instead.
      provenance: sentences for the model card about the origin of the weights.
      cached_words: words whose embeddings are stored, which makes text and tokens faster and does
        not change results.
      initial_state: the initial state of each row in all signatures; None for zeros. See
        `elmo_tf.model.initial_state.mean_initial_state`.
      dtype: dtype of the stored weights: "float32", or "float16" or "bfloat16", which round the
        weights and halve the size. Computation is in float32.

    Raises:
      InputError: an argument is not valid, "all" is combined with cached words, `output_dir` exists
        or cannot be written, or the vocabulary cannot be read.
    """
    if trainable not in TRAINABLE:
        raise InputError(f"trainable must be one of {', '.join(TRAINABLE)}, got {trainable!r}")
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if dtype != "float32" and trainable == "all":
        raise InputError(ROUNDED_WEIGHTS)
    if isinstance(provenance, (str, bytes)):
        raise checks.refusal("provenance", "a list of sentences", provenance)
    cached_words = forms.words(cached_words, "cached_words")
    if cached_words and trainable == "all":
        raise InputError(STALE_CACHE)
    files.require_utf8(output_dir)
    packed = directories.archive_path(output_dir)
    if archive:
        directories.check_archive_target(packed, overwrite, directories.SAVED_MODEL)
    contents = directories.SAVED_MODEL
    with directories.write_directory_atomically(output_dir, overwrite, contents) as folder:
        module = ExportedElmo(encoder, trainable, cached_words, initial_state, dtype)
        extras = os.path.join(folder, EXTRA_DIRECTORY)
        os.mkdir(extras)
        encoder.config.write(os.path.join(extras, OPTIONS_FILE))
        notes = [*module.notes, *model_card.notes_on_text(encoder)]
        card = model_card.text(
            encoder.config, encoder.token_input, module.model, trainable, provenance, notes
        )
        with open(os.path.join(extras, MODEL_CARD_FILE), "xb") as file:
            # A path in the provenance may contain invalid UTF-8.
            file.write(card.encode("utf-8", "backslashreplace"))
        warmup.write(os.path.join(extras, warmup.FILE), module.warmup_requests(encoder))
        if encoder.tokenizer is not None:
            text_settings = {"tokenizer": encoder.tokenizer, "normalize": encoder.normalize}
            files.write_json(os.path.join(extras, TEXT_FILE), text_settings)
        written = encoder.token_input.write_words(extras)
        if vocabulary_file is not None and VOCABULARY_FILE not in written:
            files.copy(vocabulary_file, os.path.join(extras, VOCABULARY_FILE))
        try:
            tf.saved_model.save(module, folder, module.named_signatures)
        except tf.errors.OpError as error:  # for example, the disk is full
            raise InputError(f"{output_dir}: cannot be written: {error.message}") from error
        if archive:
            directories.write_archive(packed, folder)
