"""`ElmoEncoder`: text, tokens or character ids to ELMo vectors, every layer by name."""

import functools
import logging
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import locate
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.reader import LocatedModel
from elmo_tf.layers.bilm import BiLm, BiLmState
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.layers.seeds import derive_seed
from elmo_tf.model import memory, pipeline, row_blocks, variables
from elmo_tf.model.inputs import arguments, boundaries
from elmo_tf.model.inputs.kinds import make_input
from elmo_tf.model.inputs.token_input import TokenInput
from elmo_tf.model.pipeline import Outputs, State
from elmo_tf.model.traced_functions import TracedFunctions
from elmo_tf.text.dictionaries import Dictionaries
from elmo_tf.text.tokens import Tokenizer, make_tokenizer, split_and_pad
from elmo_tf.text.vocabulary import Vocabulary

_logger = logging.getLogger(__name__)

# A Python list, a NumPy array or a tensor.
ArrayLike = Any


@keras.saving.register_keras_serializable(package="elmo_tf")
class ElmoEncoder(keras.layers.Layer):
    """A character CNN, a bidirectional language model and a scalar mix over their layers.

    A model with word input has an embedding table instead of the character CNN. It takes word ids
    where this page says character ids: int32 `[batch, max_tokens]`, the line number of the word in
    the vocabulary, from 1 on, and 0 for padding (see `token_ids.batch`).

    An encoder is a pure function: it keeps no state between calls, and equal inputs give bitwise
    equal outputs. Called from Python, it is traced once for each form of input, for all batch sizes
    and lengths. It computes a large batch in blocks of rows to bound memory, which changes values
    only by rounding. Called within a graph, it computes the whole batch at once.

    Args:
      config: the model's architecture; see `elmo_tf.config.model.ElmoConfig`.
      dropout: dropout rate of LSTM inputs and outputs in training.
      seed: integer seed of the initial weights, or None.
      vocabulary: the words of a model with word input, or a list of them; the dictionaries of a
        model with dictionary input. Ignored by other models.
      without_initialization: whether weights start as zeros, for weights read from a file.
      tokenizer: name of the training text's tokenizer, see `elmo_tf.text.tokens`; None if unknown.
        A call does not apply it, because these tokenizers are not part of the graph; a call with
        raw text warns once if the tokenizer is not "whitespace".
      normalize: name of the training text's Unicode normalization, or None.

    Attributes:
      token_input: converts tokens to ids; see `elmo_tf.model.inputs.token_input`.
      char_cnn, word_embedding: the layer that reads the ids; a model has one of the two.
      traced: the encoder's traced functions, including those of vector jobs.

    Call arguments:
      inputs: string `[batch]` (raw text, split at ASCII white space), string
        `[batch, max_tokens]` (needs `sequence_len`), or int32
        `[batch, max_tokens, max_characters]` (see `elmo_tf.batch_to_ids`).
      sequence_len: int32 `[batch]`, the number of tokens of each row. It alone determines padding:
        a `""` within it is a token. It is optional for character ids: without it, rows of zeros at
        the end are padding.
      initial_state: initial `BiLmState`, for example one that an earlier call returned.
      return_state: whether to also return the state after each row's last token.

    Returns:
      A dict, all float32 and zero at padding, with P = `config.lstm.projection_dim`:

            word_emb         [batch, max_tokens, P]      context-independent word embedding
            lstm_outputs1..n [batch, max_tokens, 2 * P]  LSTM layers: forward half, backward half
            elmo             [batch, max_tokens, 2 * P]  scalar mix of all layers (word_emb doubled)
            default          [batch, 2 * P]              mean of elmo over the row's tokens
            sequence_len     int32 [batch]

      With `return_state`: that dict and a `BiLmState`.

    Example:
      >>> encoder = ElmoEncoder.from_model("options.json,weights.hdf5")
      >>> encoder(["The cat sat on the mat .", "one"])["elmo"]      # [2, 7, 2 * P]
      >>> encoder([["The", "cat"], ["one", ""]], sequence_len=[2, 1])["default"]

    Reference:
      Peters et al. 2018, "Deep contextualized word representations",
      https://arxiv.org/abs/1802.05365.
    """

    def __init__(
        self,
        config: ElmoConfig | dict,
        dropout: float = 0.0,
        seed: int | None = None,
        vocabulary: Vocabulary | Dictionaries | Sequence[str | bytes] | dict | None = None,
        without_initialization: bool = False,
        tokenizer: str | None = None,
        normalize: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tokenizer, self.normalize = tokenizer, normalize
        self._has_warned = False
        self.config = config if isinstance(config, ElmoConfig) else ElmoConfig.from_options(config)
        self.dropout = dropout
        self.seed = seed
        self.token_input = make_input(self.config.input, vocabulary)
        self.config = self.config.with_input(self.token_input.config)
        lstm = self.config.lstm
        name = self.token_input.layer_name  # checkpoints name the layer after its attribute
        token_layer = self.token_input.make_layer(
            lstm.projection_dim,
            seed=derive_seed(seed, name),
            without_initialization=without_initialization,
            dtype=self.dtype_policy,
        )
        setattr(self, name, token_layer)
        self.bilm = BiLm(
            num_layers=lstm.num_layers,
            units=lstm.dim,
            projection_dim=lstm.projection_dim,
            use_skip_connections=lstm.use_skip_connections,
            cell_clip=lstm.cell_clip,
            projection_clip=lstm.projection_clip,
            dropout=dropout,
            seed=derive_seed(seed, "bilm"),
            without_initialization=without_initialization,
            always_projects=lstm.always_projects,
            name="bilm",
            dtype=self.dtype_policy,
        )
        self.scalar_mix = ScalarMix(lstm.num_layers + 1, name="scalar_mix", dtype="float32")
        self.traced = TracedFunctions()
        # Keras's own conversion would refuse lists of strings and cast integers to floats.
        self._allow_non_tensor_positional_args = True
        self._convert_input_args = False
        with memory.for_parameters(self.config.num_parameters):
            self.build()

    def build(self, inputs_shape: Any = None) -> None:
        # The configuration determines all shapes, so weights can be created and loaded before a
        # call.
        lstm = self.config.lstm
        with tf.init_scope():
            self.token_layer.build((None, *self.token_ids.shape))
            self.bilm.build((None, None, lstm.projection_dim))
            self.scalar_mix.build([(None, None, 2 * lstm.projection_dim)] * (lstm.num_layers + 1))

    @property
    def token_layer(self) -> keras.layers.Layer:
        """The lowest layer, which converts token ids to word embeddings."""
        return getattr(self, self.token_input.layer_name)

    @property
    def parts(self) -> pipeline.Model:
        """The parts that the functions of `pipeline` use."""
        return pipeline.Model(self.token_input, self.token_layer, self.bilm, self.scalar_mix)

    @property
    def token_ids(self) -> TokenInput:
        """The function that converts tokens to ids: `token_input`."""
        return self.token_input

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of a model with word input, otherwise None."""
        return self.token_input.vocabulary

    @classmethod
    def from_model(
        cls, path: str | os.PathLike | LocatedModel | OpenedModel, **options: Any
    ) -> "ElmoEncoder":
        """An encoder with the weights of a model in any format.

        A trained scalar mix is loaded if the model has one; a softmax is not. Anything unusual in
        the files is logged as a warning.

        Args:
          path: a model: "options.json,weights.hdf5" in bilm-tf format, a directory or zip that
            holds both, a training run, an exported SavedModel, or the name of a model; or the
            result of `elmo_tf.formats.locate`.
          **options: arguments of the constructor.

        Raises:
          InputError: there is no model, a file is damaged, or weights and options do not fit. The
            message is one line.
        """
        with locate.open_model(path) as model:
            words = model.input_words
            text = {"tokenizer": model.tokenizer, "normalize": model.normalize}
            options = {"vocabulary": words, **text, **options}
            encoder = cls(model.config, without_initialization=True, **options)
            variables.assign(variables.named_variables(encoder), model)
            for note in model.notes:
                _logger.warning("%s", note)
        return encoder

    @classmethod
    def from_weights(
        cls,
        options_file: str,
        weights_file: str,
        vocabulary_file: str | None = None,
        **kwargs: Any,
    ) -> "ElmoEncoder":
        """As `from_model`, for a pair of files in bilm-tf format.

        Args:
          options_file: the `options.json` of bilm-tf or AllenNLP.
          weights_file: its HDF5 file of weights.
          vocabulary_file: the vocabulary of a model with word input.
          **kwargs: arguments of the constructor.

        Raises:
          InputError: a file is missing or has a wrong format, or the files do not fit each other.
        """
        return cls.from_model(
            locate.find_model(options_file, weights_file, vocabulary_file), **kwargs
        )

    def call(
        self,
        inputs: ArrayLike,
        sequence_len: ArrayLike = None,
        initial_state: State = None,
        return_state: bool = False,
    ) -> Outputs | tuple[Outputs, BiLmState]:
        inputs = arguments.as_tensor(inputs)
        if inputs.dtype == tf.string:
            if inputs.shape.rank == 1:
                if sequence_len is not None:
                    raise InputError(
                        "ElmoEncoder: sequence_len goes with tokens, not with raw text"
                    )
                return self.encode_text(inputs, initial_state, return_state)
            if inputs.shape.rank == 2:
                if sequence_len is None:
                    raise InputError("ElmoEncoder: tokens [batch, max_tokens] need sequence_len")
                return self.encode_tokens(inputs, sequence_len, initial_state, return_state)
        elif inputs.dtype.is_integer and inputs.shape.rank == 2 + len(self.token_ids.shape):
            return self.encode_ids(inputs, sequence_len, initial_state, return_state)
        raise InputError(
            "ElmoEncoder: inputs must be strings [batch] or [batch, max_tokens], or integers "
            f"{self.token_input.ids_shape}; got {inputs.dtype.name} of shape {inputs.shape}"
        )

    def compute_output_spec(self, inputs: keras.KerasTensor, *args: Any, **kwargs: Any) -> Any:
        arguments.refuse_single_column(inputs, "ElmoEncoder")
        return super().compute_output_spec(inputs, *args, **kwargs)

    @property
    def _text_settings(self) -> dict[str, str | None]:
        return {"tokenizer": self.tokenizer, "normalize": self.normalize}

    def make_tokenizer(self) -> Tokenizer:
        """The tokenizer of the training text, for use outside of the graph.

        If it is unknown, as in the bilm-tf format, text is split at white space and not normalized.
        """
        return make_tokenizer(self.tokenizer or "whitespace", self.normalize or "none")

    def _warn_of_white_space(self) -> None:
        """Warns once that raw text is split differently from the training text."""
        tokenizer, normalize = self.tokenizer or "whitespace", self.normalize or "none"
        if (tokenizer, normalize) != ("whitespace", "none") and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "ElmoEncoder: raw text is split at white space, but the model was trained on text "
                "of tokenizer=%s, normalize=%s; elmo_tf.embed_sentences applies them, or give "
                "tokens",
                tokenizer,
                normalize,
            )

    def encode_text(
        self, text: ArrayLike, initial_state: State = None, return_state: bool = False
    ) -> Outputs | tuple[Outputs, BiLmState]:
        """Like a call, for raw text: string `[batch]`.

        The graph splits at ASCII white space and does not apply `tokenizer`; see `embed_sentences`.
        """
        self._warn_of_white_space()
        text = arguments.text_argument(text)
        initial_state = arguments.state_argument(initial_state, text)
        if not tf.inside_function() and not self._fits(text, row_blocks.most_tokens(text)):
            return self.encode_tokens(*split_and_pad(text), initial_state, return_state)
        return self.traced.run(
            pipeline.encode_text, text, initial_state, model=self.parts, return_state=return_state
        )

    def encode_tokens(
        self,
        tokens: ArrayLike,
        sequence_len: ArrayLike,
        initial_state: State = None,
        return_state: bool = False,
    ) -> Outputs | tuple[Outputs, BiLmState]:
        """Like a call, for tokens: string `[batch, max_tokens]`, int32 `[batch]`."""
        tokens, lengths = arguments.tokens_argument(tokens, sequence_len)
        initial_state = arguments.state_argument(initial_state, tokens)
        return self._run(
            pipeline.encode_tokens, tokens, lengths, initial_state, return_state=return_state
        )

    def encode_ids(
        self,
        token_ids: ArrayLike,
        sequence_len: ArrayLike = None,
        initial_state: State = None,
        return_state: bool = False,
        static_shapes: bool = False,
    ) -> Outputs | tuple[Outputs, BiLmState]:
        """Like a call, for character ids: int32 `[batch, max_tokens, max_characters]`.

        It uses no string operations and, with `static_shapes`, no shapes that depend on values, as
        converters and accelerators require. On a CPU `static_shapes` is slower.
        """
        token_ids = arguments.as_tensor(token_ids, "token_ids")
        if token_ids.shape.rank < 2 or tuple(token_ids.shape[2:]) != self.token_ids.shape:
            raise InputError(
                f"ElmoEncoder: ids must be {self.token_input.ids_shape} for this model, got "
                f"shape {token_ids.shape}"
            )
        if sequence_len is None:
            sequence_len = boundaries.lengths_of_ids(token_ids)
        lengths = arguments.lengths_argument(sequence_len, token_ids)
        initial_state = arguments.state_argument(initial_state, token_ids)
        self.token_input.check_ids(token_ids, lengths, "ElmoEncoder: ids")
        return self._run(
            pipeline.encode_ids,
            token_ids,
            lengths,
            initial_state,
            return_state=return_state,
            static_shapes=static_shapes,
        )

    def _run(
        self,
        function: Callable[..., Any],
        tokens: tf.Tensor,
        lengths: tf.Tensor,
        state: State,
        **options: Hashable,
    ) -> Any:
        """Calls a traced function of `pipeline`; from Python, a large batch in blocks of rows."""
        run = functools.partial(self.traced.run, function, model=self.parts, **options)
        if tf.inside_function() or self._fits(tokens, tokens.shape[1]):
            return run(tokens, lengths, state)

        def run_rows(rows: slice, width: int) -> Any:
            of_rows = state and tf.nest.map_structure(lambda part: part[rows], state)
            return run(tokens[rows, :width], lengths[rows], of_rows)

        limit = row_blocks.tokens_at_once(self.config)
        return row_blocks.run_in_blocks(run_rows, lengths, tokens.shape[1], limit)

    def _fits(self, inputs: tf.Tensor, max_tokens: int) -> bool:
        return row_blocks.fits(inputs.shape[0], max_tokens, row_blocks.tokens_at_once(self.config))

    def zero_state(self, batch: int) -> BiLmState:
        """The zero state of `batch` rows."""
        return self.bilm.zero_state(batch)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "config": self.config.to_options(),
            "dropout": self.dropout,
            "seed": self.seed,
            "vocabulary": self.token_input.word_list(),
            **self._text_settings,
        }
