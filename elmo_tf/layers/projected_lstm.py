"""An LSTM whose output is a projection of its hidden vector, with both clips of bilm-tf."""

from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers import lstm_gradient, lstm_scan
from elmo_tf.layers.initial_values import InitialValues
from elmo_tf.layers.lstm_scan import LstmState
from elmo_tf.layers.shapes import last_dimension


@keras.saving.register_keras_serializable(package="elmo_tf")
class ProjectedLstm(keras.layers.Layer):
    """LSTM with recurrent projection, cell clip and projection clip.

    For the input x, with the state (h, c):

        i, j, f, o = split(W x + R h + b)                     four blocks of `units` rows each
        c' = clip(sigmoid(f + 1) * c + sigmoid(i) * tanh(j), cell_clip)
        h' = clip(P (sigmoid(o) * tanh(c')), projection_clip)

    The order of the gates and the 1 added to the forget gate, which is not part of the bias, are
    those of TensorFlow 1's `LSTMCell`, so bilm-tf's weights are only transposed when they are
    loaded. As there, an LSTM without projection has no projection clip. `clip(v, limit)` limits the
    magnitude.

    Kernels are stored for multiplication from the left: W `[4 * units, input_dim]`,
    R `[4 * units, projection_dim]`, P `[projection_dim, units]`; see `lstm_scan` for the reason.
    W and R are initialized as one Glorot uniform matrix `[input_dim + projection_dim, 4 * units]`,
    as in bilm-tf's graph, P as its own; the bias is initialized with zeros.

    Under a mixed precision policy, the products with W, R and P are in half precision; gates,
    clips, outputs and state have the dtype of the weights, float32.

    The layer keeps no state between calls: to continue a sequence, pass the returned state.

    Args:
      units: width of the cell.
      projection_dim: width of the output; None or `units` means no projection.
      cell_clip: limit of the cell's magnitude, or None.
      projection_clip: limit of the output's magnitude, or None.
      seed: integer seed of the initial weights; None: not repeatable.
      without_initialization: whether weights start as zeros, for weights read from a file.
      always_projects: whether there is a projection even if `projection_dim` equals `units`;
        `projection_dim` may then also be larger.

    Call arguments:
      inputs: `[batch, time, input_dim]`; time is at least 1, batch can be 0.
      initial_state: `LstmState`, or None for zeros.
      lengths: int32 `[batch]`, or None. If given, the returned state is the one after each row's
        last real step, and outputs past a row's length are undefined.
      training: if True and there are no lengths, activations are saved for a cheaper gradient; the
        outputs are the same.
      hold_state_past_length: whether a row's state remains constant after its last real step. With
        lengths, False saves a little time, and the returned state is undefined.
      lengths_descending: whether the rows are sorted by descending length. Rows that have ended are
        then skipped, which saves time but makes shapes depend on values; XLA and converters don't
        support that.
      save_activations: bool scalar, or None. Like `training`, but evaluated when the graph runs;
        requires `lengths_descending`, and `hold_state_past_length` must be False.

    Returns:
      Outputs `[batch, time, projection_dim]` and the last `LstmState`.

    Example:
      >>> lstm = ProjectedLstm(units=64, projection_dim=16, cell_clip=3.0, projection_clip=3.0)
      >>> outputs, state = lstm(tf.zeros([2, 7, 16]))     # [2, 7, 16], ([2, 16], [2, 64])
      >>> outputs, state = lstm(tf.zeros([2, 5, 16]), initial_state=state)

    Reference:
      Sak et al. 2014, https://arxiv.org/abs/1402.1128 (equations 1 to 6, without peepholes).
    """

    def __init__(
        self,
        units: int,
        projection_dim: int | None = None,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        seed: int | None = None,
        without_initialization: bool = False,
        always_projects: bool = False,
        **kwargs: Any,
    ) -> None:
        # No autocast, here and for the weights: it would round the state.
        super().__init__(autocast=False, **kwargs)
        if units < 1:
            raise ValueError(f"ProjectedLstm: units must be at least 1, got {units}")
        greatest = None if always_projects else units
        is_allowed = projection_dim is None or 1 <= projection_dim <= (greatest or projection_dim)
        if not is_allowed:
            allowed = "at least 1" if always_projects else f"from 1 to units ({units})"
            raise ValueError(
                f"ProjectedLstm: projection_dim must be {allowed}, got {projection_dim}"
            )
        for name, clip in (("cell_clip", cell_clip), ("projection_clip", projection_clip)):
            if clip is not None and not clip > 0:  # NaN too
                raise ValueError(f"ProjectedLstm: {name} must be above 0 or None, got {clip}")
        self.units = units
        self.projection_dim = units if projection_dim is None else projection_dim
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.seed = seed
        self.always_projects = always_projects
        self._initial_values = InitialValues(seed, without_initialization)

    @property
    def has_projection(self) -> bool:
        """Whether the layer has a projection."""
        return self.always_projects or self.projection_dim != self.units

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        input_dim = last_dimension("ProjectedLstm", inputs_shape)
        limit = (6.0 / (input_dim + self.projection_dim + 4 * self.units)) ** 0.5
        no_autocast = {"autocast": False}
        self.input_kernel = self.add_weight(
            name="input_kernel",
            shape=(4 * self.units, input_dim),
            initializer=self._initial_values.uniform(limit, "input_kernel"),
            **no_autocast,
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(4 * self.units, self.projection_dim),
            initializer=self._initial_values.uniform(limit, "recurrent_kernel"),
            **no_autocast,
        )
        self.bias = self.add_weight(
            name="bias", shape=(4 * self.units,), initializer="zeros", **no_autocast
        )
        projection_limit = (6.0 / (self.projection_dim + self.units)) ** 0.5
        self.projection_kernel = None
        if self.has_projection:
            self.projection_kernel = self.add_weight(
                name="projection_kernel",
                shape=(self.projection_dim, self.units),
                initializer=self._initial_values.uniform(projection_limit, "projection_kernel"),
                **no_autocast,
            )

    def call(
        self,
        inputs: tf.Tensor,
        initial_state: LstmState | None = None,
        lengths: tf.Tensor | None = None,
        training: bool = False,
        hold_state_past_length: bool = True,
        lengths_descending: bool = False,
        save_activations: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, LstmState]:
        inputs = tf.cast(inputs, self.variable_dtype)
        batch = tf.shape(inputs)[0]
        if initial_state is None:
            initial_state = self.zero_state(batch)
        hidden, cell = (tf.transpose(tf.cast(s, inputs.dtype)) for s in initial_state)
        # Add the forget gate's 1 here, once, instead of in each step.
        is_forget = tf.repeat(tf.constant([0.0, 0.0, 1.0, 0.0], inputs.dtype), self.units)
        bias = (tf.convert_to_tensor(self.bias) + is_forget)[:, tf.newaxis]
        weights = lstm_scan.LstmWeights(
            self._kernel(self.recurrent_kernel),
            tf.broadcast_to(bias, [4 * self.units, batch]),
            self._kernel(self.projection_kernel) if self.has_projection else None,
            self.cell_clip,
            self.projection_clip,
        )
        input_kernel = self._kernel(self.input_kernel)
        if save_activations is not None or (training and lengths is None):
            if save_activations is not None and not lengths_descending:
                raise ValueError("ProjectedLstm: save_activations needs lengths_descending")
            results = lstm_gradient.scan_for_training(
                inputs, hidden, cell, input_kernel, weights, lengths, save_activations
            )
        else:
            results = lstm_scan.scan(
                inputs,
                hidden,
                cell,
                input_kernel,
                weights,
                lengths,
                hold_state_past_length,
                lengths_descending,
            )
        outputs, hidden, cell = results
        outputs = tf.transpose(outputs, [2, 0, 1])  # [batch, time, projection_dim]
        return outputs, LstmState(tf.transpose(hidden), tf.transpose(cell))

    def _kernel(self, weight: keras.Variable) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(weight), self.compute_dtype)

    def zero_state(self, batch: int | tf.Tensor) -> LstmState:
        """The state before the first step: zeros for `batch` rows."""
        dtype = self.variable_dtype
        return LstmState(
            tf.zeros([batch, self.projection_dim], dtype), tf.zeros([batch, self.units], dtype)
        )

    def compute_output_spec(
        self,
        inputs: keras.KerasTensor,
        initial_state: LstmState | None = None,
        lengths: keras.KerasTensor | None = None,
        training: bool = False,
        hold_state_past_length: bool = True,
        lengths_descending: bool = False,
        save_activations: tf.Tensor | None = None,
    ) -> tuple[keras.KerasTensor, LstmState]:
        batch, num_steps = inputs.shape[0], inputs.shape[1]

        def tensor(*shape: int | None) -> keras.KerasTensor:
            return keras.KerasTensor(shape, dtype=self.variable_dtype)

        state = LstmState(tensor(batch, self.projection_dim), tensor(batch, self.units))
        return tensor(batch, num_steps, self.projection_dim), state

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "projection_dim": self.projection_dim,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
            "seed": self.seed,
            "always_projects": self.always_projects,
        }
