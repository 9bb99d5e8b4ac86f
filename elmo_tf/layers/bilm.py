"""The bidirectional LSTM of ELMo: one stack reads left to right, the other right to left."""

import functools
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from elmo_tf.layers.dropout import RowsSeed, seeded_dropout
from elmo_tf.layers.lstm_scan import LstmState
from elmo_tf.layers.projected_lstm import ProjectedLstm
from elmo_tf.layers.seeds import derive_seed

DIRECTIONS = ("forward", "backward")


class BiLmState(NamedTuple):
    """State of both stacks: a tuple of one `LstmState` per layer each, lowest layer first."""

    forward: tuple[LstmState, ...]
    backward: tuple[LstmState, ...]


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLm(keras.layers.Layer):
    """Stacked projected LSTMs in both directions, with residual connections between layers.

    In each direction, layer 0 reads the word embeddings and layer k the outputs of layer k - 1.
    With skip connections, the output of each layer but the first is `lstm(x) + x`. In training,
    dropout is applied to the input of every layer and to the output of the last. The residual adds
    the input after dropout, as in bilm-tf, whose `DropoutWrapper` wraps its `ResidualWrapper`.

    The layers are the attributes `forward_0`, `forward_1`, ..., `backward_0`, ... .

    Args:
      num_layers: number of layers per direction.
      units, projection_dim, cell_clip, projection_clip: as for `ProjectedLstm`.
      use_skip_connections: whether layers above the first add their input to their output.
      dropout: fraction of values set to zero in training, 0 <= dropout < 1.
      seed: integer seed of the initial weights and of the dropout masks; None: not repeatable.
      without_initialization: whether weights start as zeros, for weights read from a file.
      always_projects: as for `ProjectedLstm`.

    Call arguments:
      inputs: `[batch, time, projection_dim]`.
      lengths: int32 `[batch]`, number of real steps of each row; the rest is padding.
      initial_state: `BiLmState`, or None for zeros.
      return_state: whether to also return the state after each row's last real step. For the
        backward direction, that is the state after the first token.
      training: whether dropout is on.
      static_shapes: whether to compute all rows to the end of the longest one; see
        `run_direction`.
      save_activations: bool scalar, or None. Like `training` without dropout, but evaluated when
        the graph runs; not with `training`, `static_shapes` or `return_state`.

    Returns:
      A list of `[batch, time, 2 * projection_dim]`, lowest layer first, forward half first. Values
      past a row's length are undefined. With `return_state`: the list and a `BiLmState`.

    Example:
      >>> bilm = BiLm(num_layers=2, units=64, projection_dim=16)
      >>> first, second = bilm(tf.zeros([2, 7, 16]), lengths=tf.constant([7, 3]))

    Reference:
      Peters et al. 2018, section 3.1, https://arxiv.org/abs/1802.05365.
    """

    def __init__(
        self,
        num_layers: int,
        units: int,
        projection_dim: int,
        use_skip_connections: bool = True,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        without_initialization: bool = False,
        always_projects: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # each LSTM layer casts its own kernels
        if num_layers < 1:
            raise ValueError(f"BiLm: num_layers must be at least 1, got {num_layers}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"BiLm: dropout must be at least 0 and below 1, got {dropout}")
        self.num_layers = num_layers
        self.units = units
        self.projection_dim = projection_dim
        self.use_skip_connections = use_skip_connections
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.dropout = dropout
        self.seed = seed
        self.always_projects = always_projects
        # One attribute per layer: tf.train.Checkpoint does not track Keras layers in a list.
        for name in self._layer_names():
            layer = ProjectedLstm(
                units,
                projection_dim,
                cell_clip,
                projection_clip,
                seed=derive_seed(seed, name),
                without_initialization=without_initialization,
                always_projects=always_projects,
                name=name,
                dtype=self.dtype_policy,
            )
            setattr(self, name, layer)

    def _layer_names(self) -> list[str]:
        return [
            f"{direction}_{index}" for direction in DIRECTIONS for index in range(self.num_layers)
        ]

    def stack(self, direction: str) -> list[ProjectedLstm]:
        """The layers of "forward" or "backward", lowest first."""
        return [getattr(self, f"{direction}_{index}") for index in range(self.num_layers)]

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        for name in self._layer_names():
            getattr(self, name).build(inputs_shape)

    def call(
        self,
        inputs: tf.Tensor,
        lengths: tf.Tensor,
        initial_state: BiLmState | None = None,
        return_state: bool = False,
        training: bool = False,
        static_shapes: bool = False,
        save_activations: tf.Tensor | None = None,
    ) -> list[tf.Tensor] | tuple[list[tf.Tensor], BiLmState]:
        lengths = tf.cast(lengths, tf.int32)
        # Training omits the lengths to use the cheaper gradient; inference uses them to skip steps.
        known_lengths = lengths if return_state or not (training or static_shapes) else None
        seed = self._dropout_seed() if training and self.dropout else None
        layers, states = {}, {}
        for direction in DIRECTIONS:
            # Reversing only the real steps keeps padding at the end of both directions, so no step
            # needs a mask.
            backward = direction == "backward"
            layers[direction], states[direction] = self.run_direction(
                direction,
                tf.reverse_sequence(inputs, lengths, seq_axis=1) if backward else inputs,
                None if initial_state is None else getattr(initial_state, direction),
                lengths=known_lengths,
                hold_state_past_length=return_state,
                static_shapes=static_shapes,
                save_activations=save_activations,
                training=training,
                dropout_seed=seed,
            )
            if backward:
                layers[direction] = [
                    tf.reverse_sequence(output, lengths, seq_axis=1) for output in layers[direction]
                ]
        outputs = [tf.concat(pair, axis=-1) for pair in zip(*layers.values(), strict=True)]
        return (outputs, BiLmState(**states)) if return_state else outputs

    def run_direction(
        self,
        direction: str,
        inputs: tf.Tensor,
        initial_state: tuple[LstmState, ...] | None = None,
        lengths: tf.Tensor | None = None,
        training: bool = False,
        dropout_seed: tf.Tensor | RowsSeed | None = None,
        hold_state_past_length: bool = True,
        static_shapes: bool = False,
        save_activations: tf.Tensor | None = None,
    ) -> tuple[list[tf.Tensor], tuple[LstmState, ...]]:
        """Runs one stack over `inputs` in the given order, as a language model's windows need it.

        Args:
          direction: "forward" or "backward".
          inputs: `[batch, time, projection_dim]`, in reading order of that direction.
          initial_state: one `LstmState` per layer, or None for zeros.
          lengths: int32 `[batch]`: the returned state is the one after this step. None for the
            last step.
          training: whether dropout is on, which needs `dropout_seed`.
          dropout_seed: int32 `[2]`, or `RowsSeed`; the same seed gives the same masks.
          hold_state_past_length: as for `ProjectedLstm`.
          static_shapes: whether shapes must not depend on values. If False, rows that have ended
            are skipped, which saves time; not in training or without lengths.
          save_activations: as for `ProjectedLstm`.

        Returns:
          Outputs of each layer, `[batch, time, projection_dim]`, and the state of each layer.
        """
        run = functools.partial(
            self._run_rows,
            direction,
            training=training,
            dropout_seed=dropout_seed,
            hold_state_past_length=hold_state_past_length,
            save_activations=save_activations,
        )
        # Training does not sort the rows, since dropout masks belong to the original order.
        if lengths is None or static_shapes or training:
            return run(inputs, initial_state, lengths)
        if initial_state is None:
            initial_state = getattr(self.zero_state(tf.shape(inputs)[0]), direction)
        # Sort by descending length, so that the rows that have ended are the last ones.
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        sorted_rows = _take_rows((inputs, initial_state, lengths), order)
        results = run(*sorted_rows, lengths_descending=True)
        return _take_rows(results, tf.argsort(order))

    def _run_rows(
        self,
        direction: str,
        inputs: tf.Tensor,
        initial_state: tuple[LstmState, ...] | None,
        lengths: tf.Tensor | None,
        training: bool,
        dropout_seed: tf.Tensor | RowsSeed | None,
        hold_state_past_length: bool,
        save_activations: tf.Tensor | None,
        lengths_descending: bool = False,
    ) -> tuple[list[tf.Tensor], tuple[LstmState, ...]]:
        """Like `run_direction`, without sorting; `lengths_descending` as for `ProjectedLstm`."""
        outputs, states = [], []
        for index, lstm in enumerate(self.stack(direction)):
            inputs = self._drop(inputs, direction, index, training, dropout_seed)
            output, state = lstm(
                inputs,
                initial_state=None if initial_state is None else initial_state[index],
                lengths=lengths,
                training=training,
                hold_state_past_length=hold_state_past_length,
                lengths_descending=lengths_descending,
                save_activations=save_activations,
            )
            if self.use_skip_connections and index > 0:
                output += inputs
            outputs.append(output)
            states.append(state)
            inputs = output
        outputs[-1] = self._drop(outputs[-1], direction, self.num_layers, training, dropout_seed)
        return outputs, tuple(states)

    def zero_state(self, batch: int | tf.Tensor) -> BiLmState:
        """The state before any token, for `batch` rows."""
        return BiLmState(
            *(tuple(lstm.zero_state(batch) for lstm in self.stack(each)) for each in DIRECTIONS)
        )

    def _drop(
        self,
        values: tf.Tensor,
        direction: str,
        index: int,
        training: bool,
        seed: tf.Tensor | RowsSeed | None,
    ) -> tf.Tensor:
        if not training or not self.dropout:
            return values
        if seed is None:
            raise ValueError("BiLm: dropout in training needs dropout_seed")
        salt = DIRECTIONS.index(direction) * (self.num_layers + 1) + index
        return seeded_dropout(values, self.dropout, seed, salt)

    def _dropout_seed(self) -> tf.Tensor:
        # A random seed for Keras `fit`, which passes none. The language model passes one per step,
        # so that a resumed run equals an uninterrupted one.
        return tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "units": self.units,
            "projection_dim": self.projection_dim,
            "use_skip_connections": self.use_skip_connections,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
            "dropout": self.dropout,
            "seed": self.seed,
            "always_projects": self.always_projects,
        }


def _take_rows(values: Any, rows: tf.Tensor) -> Any:
    """Gathers rows of every tensor in a structure."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), values)
