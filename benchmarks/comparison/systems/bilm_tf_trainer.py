"""A training step like that of bilm-tf's graph for TensorFlow 1, reimplemented.

As in bilm-tf, the character CNN runs on every position of both directions at full width; LSTM
cells of TensorFlow 1 are unrolled in the graph; each direction draws its own negative samples; rows
of sparse gradients are summed before clipping by global norm; the optimizer is Adagrad; each step
returns the state for the next. Summaries and the average over devices are omitted, in its favour.
"""

import json
import os
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # before importing TensorFlow: Keras 3 lacks this LSTMCell

import h5py
import numpy as np
import tensorflow as tf

from comparison import workers
from comparison.trainers import Trainer

tf1 = tf.compat.v1
_WEIGHTS_OF_CELL = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


class BilmTfTrainer(Trainer):
    """One graph, one session."""

    def prepare(self, model: str) -> None:
        tf1.disable_eager_execution()
        tf1.logging.set_verbosity(tf1.logging.ERROR)
        self._options = json.loads(Path(model, "options.json").read_text())
        self._weights = h5py.File(Path(model, "model.hdf5"), "r")
        settings = self.settings
        shape = [settings.batch_size, settings.unroll_steps]
        width = self._options["char_cnn"]["max_characters_per_token"]
        self._characters = [tf1.placeholder(tf.int64, [*shape, width]) for _ in range(2)]
        self._targets = [tf1.placeholder(tf.int64, shape) for _ in range(2)]
        self._first_states, self._last_states = [], []
        self._variables: dict[str, tf.Variable] = {}

        losses = []
        for direction in range(2):
            embeddings = self._char_cnn(self._characters[direction])
            outputs = self._lstms(direction, embeddings)  # [batch * steps, projection_dim]
            losses.append(self._softmax_loss(outputs, self._targets[direction]))
        self._loss = 0.5 * (losses[0] + losses[1])
        self._train_op = self._update()

        self._session = tf1.Session()
        self._session.run(tf1.global_variables_initializer())
        for variable, name in self._weights_of_variables():
            variable.load(self._weights[name][...], self._session)
        # One array per window, like bilm-tf's reader.
        self._feeds = [self._feed(number) for number in range(len(self.token_index))]
        self._state = self._session.run(self._first_states)

    def _variable(self, name: str) -> tf.Variable:
        """The variable of an array by bilm-tf's name; the directions share all but the LSTMs."""
        if name not in self._variables:
            self._variables[name] = tf1.get_variable(
                name, self._weights[name].shape, initializer=tf1.zeros_initializer()
            )
        return self._variables[name]

    def _char_cnn(self, character_ids: tf.Tensor) -> tf.Tensor:
        options = self._options["char_cnn"]
        activation = {"relu": tf.nn.relu, "tanh": tf.nn.tanh}[options["activation"]]
        embedded = tf.nn.embedding_lookup(self._variable("char_embed"), character_ids)
        maxima = []
        for i, _ in enumerate(options["filters"]):
            kernel = self._variable(f"CNN/W_cnn_{i}")
            values = tf.nn.conv2d(embedded, kernel, [1, 1, 1, 1], "VALID")
            values += self._variable(f"CNN/b_cnn_{i}")  # [batch, steps, positions, filters]
            window = [1, 1, values.shape[2], 1]
            values = activation(tf.nn.max_pool2d(values, window, [1, 1, 1, 1], "VALID"))
            maxima.append(tf.squeeze(values, axis=2))
        joined = tf.concat(maxima, axis=2)
        shape, values = joined.shape, tf.reshape(joined, [-1, joined.shape[-1]])
        for i in range(options.get("n_highway") or 0):
            scope = f"CNN_high_{i}"
            gate = tf.sigmoid(self._affine(values, f"{scope}/W_carry", f"{scope}/b_carry"))
            candidate = self._affine(values, f"{scope}/W_transform", f"{scope}/b_transform")
            values = gate * tf.nn.relu(candidate) + (1.0 - gate) * values
        if "CNN_proj" in self._weights:
            values = self._affine(values, "CNN_proj/W_proj", "CNN_proj/b_proj")
        return tf.reshape(values, [*shape[:-1], values.shape[-1]])

    def _affine(self, values: tf.Tensor, kernel: str, bias: str) -> tf.Tensor:
        return tf.matmul(values, self._variable(kernel)) + self._variable(bias)

    def _lstms(self, direction: int, inputs: tf.Tensor) -> tf.Tensor:
        options, keep = self._options["lstm"], 1.0 - self.settings.dropout
        rnn_cell = tf1.nn.rnn_cell
        cells = []
        for i in range(options["n_layers"]):
            cell = rnn_cell.LSTMCell(
                options["dim"],
                num_proj=options["projection_dim"],
                cell_clip=options["cell_clip"],
                proj_clip=options["proj_clip"],
            )
            if options["use_skip_connections"] and i > 0:
                cell = rnn_cell.ResidualWrapper(cell)
            cells.append(rnn_cell.DropoutWrapper(cell, input_keep_prob=keep))
        stack = rnn_cell.MultiRNNCell(cells)
        first_state = stack.zero_state(self.settings.batch_size, tf.float32)
        with tf1.variable_scope(f"RNN_{direction}"):
            outputs, last_state = tf1.nn.static_rnn(
                stack, tf.unstack(inputs, axis=1), initial_state=first_state
            )
        self._first_states.append(first_state)
        self._last_states.append(last_state)
        outputs = tf.reshape(tf.stack(outputs, axis=1), [-1, options["projection_dim"]])
        return tf.nn.dropout(outputs, rate=self.settings.dropout)

    def _softmax_loss(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        kernel, bias = self._variable("softmax/W"), self._variable("softmax/b")
        targets = tf.reshape(targets, [-1])
        if count := self.settings.num_negatives:
            losses = tf.nn.sampled_softmax_loss(
                kernel, bias, targets[:, tf.newaxis], outputs, count, kernel.shape[0], num_true=1
            )
        else:
            logits = tf.matmul(outputs, kernel, transpose_b=True) + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        return tf.reduce_mean(losses)

    def _update(self) -> tf.Operation:
        settings = self.settings
        optimizer = tf1.train.AdagradOptimizer(
            settings.learning_rate, initial_accumulator_value=1.0
        )
        pairs = optimizer.compute_gradients(
            self._loss * settings.unroll_steps,
            aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE,
        )
        gradients = [_sum_duplicates(gradient) for gradient, _ in pairs]
        clipped, _ = tf.clip_by_global_norm(gradients, settings.clip_norm)
        return optimizer.apply_gradients(
            zip(clipped, [variable for _, variable in pairs], strict=True)
        )

    def _weights_of_variables(self) -> list[tuple[tf.Variable, str]]:
        pairs = []
        for variable in tf1.trainable_variables():
            name = variable.op.name
            if name.startswith("RNN_"):  # RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel
                direction, _, _, cell, _, array = name.split("/", 5)
                cell = f"Cell{cell.removeprefix('cell_')}"
                name = f"{direction}/RNN/MultiRNNCell/{cell}/LSTMCell/{_WEIGHTS_OF_CELL[array]}"
            pairs.append((variable, name))
        return pairs

    def _feed(self, window: int) -> dict[tf.Tensor, np.ndarray]:
        feed = {}
        for direction in range(2):
            character_ids = self.character_ids[self.token_index[window, direction]]
            # bilm-tf trains without an id for padding, so its ids are lower by one.
            feed[self._characters[direction]] = character_ids.astype(np.int64) - 1
            feed[self._targets[direction]] = self.targets[window, direction].astype(np.int64)
        return feed

    def step(self, window: int) -> float:
        feed = {**self._feeds[window], **_flat_feed(self._first_states, self._state)}
        fetches = [self._train_op, self._loss, self._last_states]
        _, loss, self._state = self._session.run(fetches, feed)
        return loss


def _flat_feed(tensors: list, values: list) -> dict[tf.Tensor, np.ndarray]:
    return dict(zip(tf.nest.flatten(tensors), tf.nest.flatten(values), strict=True))


def _sum_duplicates(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.shape(indices)[0])
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


if __name__ == "__main__":
    workers.serve(BilmTfTrainer)
