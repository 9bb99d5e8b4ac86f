"""The bidirectional language model for training and evaluation: encoder plus softmax."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from elmo_tf.config.model import ElmoConfig
from elmo_tf.layers.bilm import DIRECTIONS, BiLmState
from elmo_tf.layers.dropout import RowsSeed, seeded_dropout
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.layers.seeds import derive_seed
from elmo_tf.layers.shared_softmax import SharedSoftmax
from elmo_tf.model import memory
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.text.vocabulary import Vocabulary

_RESET_SALT = 1_000_003  # differs from the salts of dropout


class WindowTensors(NamedTuple):
    """A window of text in both directions, as tensors.

    Attributes:
      token_ids: int32 `[tokens, max_characters]`, ids of the window's distinct tokens, made by the
        encoder's `token_ids`; with word input `[tokens]`.
      token_index: int32 `[2, batch, steps]`, rows of `token_ids`; forward, then backward.
      targets: int32 `[2, batch, steps]`, vocabulary ids of the tokens to predict.
      lengths: int32 `[batch]`, number of steps of each row; the rest is padding.
    """

    token_ids: tf.Tensor
    token_index: tf.Tensor
    targets: tf.Tensor
    lengths: tf.Tensor


class Negatives(NamedTuple):
    """Negative samples for a sampled softmax; see `elmo_tf.training.negatives`.

    Attributes:
      ids: int32 `[num_samples]`, distinct.
      num_tries: scalar, the number of draws including duplicates.
    """

    ids: tf.Tensor
    num_tries: tf.Tensor


class ElmoLanguageModel(keras.layers.Layer):
    """Predicts the next token of each direction from that direction's last LSTM layer.

    Both directions share the character CNN and the softmax, as in bilm-tf; only the LSTMs are
    separate. With word input the softmax may share the table of word vectors.

    Args:
      config: the encoder's configuration.
      vocabulary_size: number of target classes.
      dropout: dropout rate of LSTM inputs and outputs in training.
      seed: integer seed of the initial weights, or None.
      precision: a Keras dtype policy for the encoder. With "mixed_float16" or "mixed_bfloat16" the
        matrix products of its layers are in half precision; weights, states, softmax and losses
        stay float32.
      vocabulary: the words, for a model with word input; see `ElmoEncoder`.
      state_reset_rate: probability, for each row and window of training, that the row's state is
        reset to zeros before the window.
      without_initialization: whether weights start as zeros, for weights read from a file.

    Reference:
      Peters et al. 2018, equation before section 3.2: the sum of both directions' log-likelihoods.
    """

    def __init__(
        self,
        config: ElmoConfig,
        vocabulary_size: int,
        dropout: float = 0.0,
        seed: int | None = None,
        precision: str = "float32",
        vocabulary: Vocabulary | None = None,
        state_reset_rate: float = 0.0,
        without_initialization: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._state_reset_rate = state_reset_rate
        self.encoder = ElmoEncoder(
            config,
            dropout=dropout,
            seed=seed,
            vocabulary=vocabulary,
            without_initialization=without_initialization,
            name="encoder",
            dtype=precision,
        )
        if config.input.share_softmax:
            self.softmax = SharedSoftmax(self.encoder.token_layer, name="softmax")
        else:
            self.softmax = SampledSoftmax(
                vocabulary_size,
                seed=derive_seed(seed, "softmax"),
                without_initialization=without_initialization,
                name="softmax",
            )
        table = 0 if config.input.share_softmax else vocabulary_size * config.lstm.projection_dim
        with memory.for_parameters(config.num_parameters + table + vocabulary_size):
            self.softmax.build((None, config.lstm.projection_dim))
        self.built = True

    @property
    def language_model_variables(self) -> list[keras.Variable]:
        """The trained variables: all except the scalar mix, which a task trains."""
        encoder = self.encoder
        layers = (encoder.token_layer, encoder.bilm, self.softmax)
        return [variable for layer in layers for variable in layer.trainable_variables]

    def call(
        self,
        window: WindowTensors,
        state: BiLmState,
        negatives: Negatives | None = None,
        training: bool = False,
        dropout_seed: tf.Tensor | RowsSeed | None = None,
    ) -> tuple[tf.Tensor, BiLmState]:
        """Losses of one window and the state after it.

        Args:
          window: the input and target tokens.
          state: the initial state of each row.
          negatives: negative samples for the sampled softmax; None selects the full softmax.
          training: whether to apply dropout.
          dropout_seed: int32 `[2]`, or `RowsSeed`; required if dropout is applied.

        Returns:
          Negative log-likelihood of each target in nats, float32 `[2, batch, steps]`, zero past a
          row's length; and the state after each row's last step.
        """
        flat, state = self._flat_outputs(window, state, training, dropout_seed)
        sampled = () if negatives is None else (negatives.ids, negatives.num_tries)
        losses = self.softmax(flat, tf.reshape(window.targets, [-1]), *sampled)
        return _real_losses(losses, window), state

    def window_outputs(
        self,
        window: WindowTensors,
        state: BiLmState,
        training: bool = False,
        dropout_seed: tf.Tensor | RowsSeed | None = None,
    ) -> tuple[tf.Tensor, BiLmState]:
        """The last layer's outputs, `[2, batch, steps, P]`, and the next state."""
        # Cast to float32, because the gradient is a sum over all positions of a token.
        embeddings = tf.cast(self.encoder.token_layer(window.token_ids), tf.float32)  # [tokens, P]
        # Training windows have no padding, so the cheaper gradient without lengths applies.
        lengths = None if training else window.lengths
        if training and self._state_reset_rate:
            state = _reset_rows(state, self._state_reset_rate, dropout_seed)
        last_layers, states = [], {}
        for index, direction in enumerate(DIRECTIONS):
            layers, states[direction] = self.encoder.bilm.run_direction(
                direction,
                tf.gather(embeddings, window.token_index[index]),  # [batch, steps, P]
                getattr(state, direction),
                lengths=lengths,
                training=training,
                dropout_seed=dropout_seed,
            )
            last_layers.append(layers[-1])
        return tf.stack(last_layers), BiLmState(**states)

    def _flat_outputs(
        self,
        window: WindowTensors,
        state: BiLmState,
        training: bool = False,
        dropout_seed: tf.Tensor | RowsSeed | None = None,
    ) -> tuple[tf.Tensor, BiLmState]:
        outputs, state = self.window_outputs(window, state, training, dropout_seed)
        return tf.reshape(outputs, [-1, outputs.shape[-1]]), state  # [2 * batch * steps, P]

    def zero_state(self, batch: int | tf.Tensor) -> BiLmState:
        """The zero state of `batch` rows."""
        return self.encoder.bilm.zero_state(batch)


def _reset_rows(state: BiLmState, rate: float, seed: tf.Tensor | RowsSeed) -> BiLmState:
    """Sets random rows of a state to zero, the same rows in all layers of both directions.

    An independent sentence starts from zeros. A model trained only with states carried over from
    previous sentences may depend on them, and then predicts independent sentences badly.
    """
    rows = tf.shape(tf.nest.flatten(state)[0])[0]
    is_kept = seeded_dropout(tf.ones([rows, 1]), rate, seed, _RESET_SALT) > 0
    return tf.nest.map_structure(lambda values: tf.where(is_kept, values, 0), state)


def _real_losses(losses: tf.Tensor, window: WindowTensors) -> tf.Tensor:
    """Reshapes `[2 * batch * steps]` to `[2, batch, steps]`, with zeros past each row's length."""
    shape = tf.shape(window.targets)
    is_real = tf.sequence_mask(window.lengths, shape[2])[tf.newaxis]
    return tf.where(is_real, tf.reshape(losses, shape), 0.0)
