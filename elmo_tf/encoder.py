"""`ElmoEncoder`: text, tokens or character ids to ELMo vectors, every layer by name."""

import keras
import tensorflow as tf

from elmo_tf.config import ElmoConfig
from elmo_tf.layers.bilm import BiLm, BiLmState
from elmo_tf.layers.char_cnn import CharCnn
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.text import boundaries, characters
from elmo_tf.text.tokens import split_text

Outputs = dict[str, tf.Tensor]


@keras.saving.register_keras_serializable(package="elmo_tf")
class ElmoEncoder(keras.layers.Layer):
    """A character CNN, a bidirectional language model and a scalar mix over their layers.

    An encoder is pure: it keeps no state between calls, and the same input gives the same bits.
    Called from Python, each of its ways in is traced once, for every batch size and length.

    Args:
      config: the shapes and options of the model; see `elmo_tf.config.ElmoConfig`.
      dropout: share of LSTM inputs and outputs set to zero in training.
      seed: integer that fixes the initial weights, or None.

    Call arguments:
      inputs: string `[batch]` (raw text, split at ASCII white space), string
        `[batch, max_tokens]` (needs `sequence_len`), or int32
        `[batch, max_tokens, max_characters]` (see `elmo_tf.batch_to_ids`).
      sequence_len: int32 `[batch]`, how many tokens of each row are real. It alone decides what is
        padding: `""` inside it is a token. For character ids it may be left out: rows of zeros at
        the end are padding then.
      initial_state: `BiLmState` to start from, for instance one that an earlier call returned.
      return_state: whether to return the state after each row's last token as well.

    Returns:
      A dict, all float32 and zero at padding, with P = `config.lstm.projection_dim`:

        word_emb         `[batch, max_tokens, P]`      from the character CNN, without context
        lstm_outputs1..n `[batch, max_tokens, 2 * P]`  layer by layer, forward half first
        elmo             `[batch, max_tokens, 2 * P]`  scalar mix of all layers (word_emb doubled)
        default          `[batch, 2 * P]`              mean of elmo over the real tokens
        sequence_len     int32 `[batch]`

      With `return_state`: that dict and a `BiLmState`.

    Example:
      >>> encoder = ElmoEncoder.from_weights("options.json", "weights.hdf5")
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
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config if isinstance(config, ElmoConfig) else ElmoConfig.from_options(config)
        self.dropout = dropout
        self.seed = seed
        char_cnn, lstm = self.config.char_cnn, self.config.lstm
        self.char_cnn = CharCnn(
            embedding_dim=char_cnn.embedding_dim,
            filters=char_cnn.filters,
            num_highway_layers=char_cnn.num_highway_layers,
            projection_dim=lstm.projection_dim,
            activation=char_cnn.activation,
            num_characters=characters.NUM_CHARACTERS,
            filler_id=characters.FILLER,
            seed=seed,
            name="char_cnn",
            dtype=self.dtype_policy,
        )
        self.bilm = BiLm(
            num_layers=lstm.num_layers,
            units=lstm.dim,
            projection_dim=lstm.projection_dim,
            use_skip_connections=lstm.use_skip_connections,
            cell_clip=lstm.cell_clip,
            projection_clip=lstm.projection_clip,
            dropout=dropout,
            seed=None if seed is None else seed + 1000,
            name="bilm",
            dtype=self.dtype_policy,
        )
        self.scalar_mix = ScalarMix(lstm.num_layers + 1, name="scalar_mix")
        self._traces = _Traces()
        # Keras would refuse lists of strings, and cast integers to the layer's own type.
        self._allow_non_tensor_positional_args = True
        self._convert_input_args = False
        self.build()

    def build(self, inputs_shape=None) -> None:
        # All shapes follow from the configuration, so weights exist, and load, before any call.
        lstm, width = self.config.lstm, self.config.char_cnn.max_characters_per_token
        with tf.init_scope():
            self.char_cnn.build((None, width))
            self.bilm.build((None, None, lstm.projection_dim))
            self.scalar_mix.build([(None, None, 2 * lstm.projection_dim)] * (lstm.num_layers + 1))

    @classmethod
    def from_weights(cls, options_file: str, weights_file: str, **kwargs) -> "ElmoEncoder":
        """An encoder with published weights.

        Args:
          options_file: `options.json` of bilm-tf or AllenNLP.
          weights_file: the HDF5 file that belongs to it.
          **kwargs: given to the constructor.

        Raises:
          InputError: a file is missing, is not what its name says, or does not fit the other one.
        """
        from elmo_tf.weights import bilm_tf

        config = ElmoConfig.from_file(options_file)
        encoder = cls(config, **kwargs)
        bilm_tf.assign_arrays(encoder, bilm_tf.read_weights(weights_file, config))
        return encoder

    def call(self, inputs, sequence_len=None, initial_state=None, return_state=False):
        inputs = tf.convert_to_tensor(inputs)
        if inputs.dtype == tf.float32 and inputs.shape.num_elements() == 0:
            inputs = tf.as_string(inputs)  # a list of no strings has no type
        if inputs.dtype == tf.string:
            if inputs.shape.rank == 1:
                if sequence_len is not None:
                    raise ValueError(
                        "ElmoEncoder: sequence_len goes with tokens, not with raw text"
                    )
                return self.encode_text(inputs, initial_state, return_state)
            if inputs.shape.rank == 2:
                if sequence_len is None:
                    raise ValueError("ElmoEncoder: tokens [batch, max_tokens] need sequence_len")
                return self.encode_tokens(inputs, sequence_len, initial_state, return_state)
        elif inputs.dtype.is_integer and inputs.shape.rank == 3:
            return self.encode_character_ids(inputs, sequence_len, initial_state, return_state)
        raise ValueError(
            "ElmoEncoder: inputs must be strings [batch] or [batch, max_tokens], or integers "
            f"[batch, max_tokens, max_characters]; got {inputs.dtype.name} of shape {inputs.shape}"
        )

    def encode_text(self, text, initial_state=None, return_state=False):
        """As the call, for raw text: string `[batch]`."""
        text = tf.convert_to_tensor(text, tf.string)
        return self._run(self._text, [text], initial_state, return_state)

    def encode_tokens(self, tokens, sequence_len, initial_state=None, return_state=False):
        """As the call, for tokens: string `[batch, max_tokens]`, int32 `[batch]`."""
        tokens = tf.convert_to_tensor(tokens, tf.string)
        lengths = tf.cast(tf.convert_to_tensor(sequence_len), tf.int32)
        return self._run(self._tokens, [tokens, lengths], initial_state, return_state)

    def encode_character_ids(
        self,
        character_ids,
        sequence_len=None,
        initial_state=None,
        return_state=False,
        dense=False,
    ):
        """As the call, for character ids: int32 `[batch, max_tokens, max_characters]`.

        Uses no string operation; with `dense`, no shape that depends on values either, so that
        converters and accelerators can take it. On a CPU `dense` is slower.
        """
        character_ids = tf.cast(tf.convert_to_tensor(character_ids), tf.int32)
        width = self.config.char_cnn.max_characters_per_token
        if character_ids.shape[-1] != width:
            raise ValueError(
                f"ElmoEncoder: character ids must have {width} characters a token "
                f"(char_cnn.max_characters_per_token), got shape {character_ids.shape}"
            )
        if sequence_len is None:
            sequence_len = boundaries.lengths_of_character_ids(character_ids)
        lengths = tf.cast(tf.convert_to_tensor(sequence_len), tf.int32)
        way_in = self._dense_character_ids if dense else self._character_ids
        return self._run(way_in, [character_ids, lengths], initial_state, return_state)

    def _run(self, way_in, inputs, initial_state, return_state):
        """Calls `way_in` within the caller's graph if there is one, else through its own trace."""
        if tf.inside_function():
            return way_in(*inputs, initial_state, return_state)
        arguments = inputs if initial_state is None else [*inputs, initial_state]
        return self._traces.of(way_in, arguments, return_state)(*arguments)

    def _text(self, text, initial_state, return_state):
        ragged = split_text(text)
        lengths = tf.cast(ragged.row_lengths(), tf.int32)
        return self._tokens(ragged.to_tensor(""), lengths, initial_state, return_state)

    def _tokens(self, tokens, lengths, initial_state, return_state):
        lengths = _checked_lengths(lengths, tokens)
        return self._encode(
            self.embed_tokens(tokens, lengths), lengths, initial_state, return_state
        )

    def _dense_character_ids(self, character_ids, lengths, initial_state, return_state):
        return self._character_ids(character_ids, lengths, initial_state, return_state, dense=True)

    def _character_ids(self, character_ids, lengths, initial_state, return_state, dense=False):
        lengths = _checked_lengths(lengths, character_ids)
        with_boundaries = boundaries.add_boundary_characters(character_ids, lengths)
        embeddings = self.char_cnn(with_boundaries, dense=dense)  # [batch, max_tokens + 2, P]
        return self._encode(embeddings, lengths, initial_state, return_state)

    def embed_tokens(self, tokens: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Word embeddings with boundaries: `[batch, max_tokens + 2, P]`, garbage past the length.

        The character CNN sees each distinct word of the batch once (performance.md, point 3).
        """
        bounded = boundaries.add_boundary_tokens(tokens, lengths)  # [batch, max_tokens + 2]
        distinct, index = tf.unique(tf.reshape(bounded, [-1]))
        width = self.config.char_cnn.max_characters_per_token
        embeddings = self.char_cnn(characters.characters_of_tokens(distinct, width))  # [words, P]
        return tf.gather(embeddings, tf.reshape(index, tf.shape(bounded)))

    def _encode(self, embeddings, lengths, initial_state, return_state):
        """Everything above the words; `embeddings` include both boundaries of each row."""
        layers = self.bilm(
            embeddings,
            lengths=lengths + 2,
            initial_state=initial_state,
            return_state=return_state,
        )
        layers, state = layers if return_state else (layers, None)
        is_real = tf.sequence_mask(lengths, tf.shape(embeddings)[1] - 2)  # [batch, max_tokens]

        def real(values):  # boundaries taken off, zeros at padding
            values = tf.cast(values[:, 1:-1], tf.float32)
            return tf.where(is_real[..., tf.newaxis], values, 0.0)

        word_embeddings = real(embeddings)
        layers = [real(layer) for layer in layers]
        doubled = tf.concat([word_embeddings, word_embeddings], axis=-1)
        elmo = self.scalar_mix([doubled, *layers], mask=is_real)
        count = tf.cast(tf.maximum(lengths, 1), elmo.dtype)
        outputs = {
            "word_emb": word_embeddings,
            **{f"lstm_outputs{n}": layer for n, layer in enumerate(layers, start=1)},
            "elmo": elmo,
            "default": tf.reduce_sum(elmo, axis=1) / count[:, tf.newaxis],
            "sequence_len": lengths,
        }
        return (outputs, state) if return_state else outputs

    def zero_state(self, batch: int) -> BiLmState:
        """The state before any text, for `batch` rows."""
        return self.bilm.zero_state(batch)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "config": self.config.to_options(),
            "dropout": self.dropout,
            "seed": self.seed,
        }


class _Traces:
    """The traced functions of one encoder: one for each way in, whatever the shapes.

    A plain object, because Keras and `tf.train.Checkpoint` track what a layer's own attributes
    hold, and functions are not part of a model's content.
    """

    def __init__(self) -> None:
        self._functions = {}

    def of(self, way_in, arguments, return_state) -> tf.types.experimental.GenericFunction:
        """The function for `way_in(inputs..., initial_state or None, return_state)`."""
        has_state = isinstance(arguments[-1], tuple)
        key = (way_in.__name__, has_state, return_state)
        if key not in self._functions:

            def run(*arguments):
                state = () if has_state else (None,)
                return way_in(*arguments, *state, return_state)

            self._functions[key] = tf.function(
                run,
                input_signature=tf.nest.map_structure(_any_size, arguments),
                autograph=False,
            )
        return self._functions[key]


def _any_size(tensor: tf.Tensor) -> tf.TensorSpec:
    """Batch and length vary; only the characters of a token, and a state's width, are fixed."""
    num_free = 2 if tensor.dtype in (tf.string, tf.int32) else 1
    rank = tensor.shape.rank
    fixed = [None] * min(rank, num_free) + list(tensor.shape[num_free:])
    return tf.TensorSpec(fixed, tensor.dtype)


def _checked_lengths(sequence_len, tokens: tf.Tensor) -> tf.Tensor:
    """`sequence_len` as int32 `[batch]`, each from 0 to the width of `tokens`, or an error."""
    lengths = tf.cast(tf.convert_to_tensor(sequence_len), tf.int32)
    batch, width = tf.unstack(tf.shape(tokens)[:2])
    message = "sequence_len must be from 0 to the number of tokens in a row (the width of tokens)"
    checks = [
        tf.debugging.assert_equal(
            tf.shape(lengths), [batch], "sequence_len must hold one length for each row of tokens"
        ),
        tf.debugging.assert_non_negative(lengths, message),
        tf.debugging.assert_less_equal(lengths, width, message),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(lengths)
