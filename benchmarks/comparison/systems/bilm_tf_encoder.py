"""bilm-tf's graph for TensorFlow 1, run on current TensorFlow by the package simple_elmo."""

import logging
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # before importing TensorFlow: Keras 3 lacks this LSTMCell

import numpy as np
import simple_elmo
import tensorflow as tf
from simple_elmo.elmo import weight_layers

from comparison import workers
from comparison.encoders import Encoder, Sentences


class SimpleElmo(Encoder):
    """simple_elmo's model in one persistent session.

    Its own `get_elmo_vectors` would load the weights again at each call, or copy all vectors into
    one float64 matrix; this class has the rest of that method.
    """

    def load_model(self) -> None:
        self._model = simple_elmo.ElmoModel()
        logging.disable(logging.INFO)
        self._model.load(str(self.model), max_batch_size=self.max_batch_size)
        with tf.compat.v1.get_default_graph().as_default():
            trained = set(tf.compat.v1.global_variables())
            layers = self._model.sentence_embeddings_op
            self._elmo = weight_layers("input", layers, use_layers="average")["weighted_op"]
        # bilm-tf stores the LSTM state in unnamed variables, which are initially zero.
        states = [variable for variable in trained if variable.op.name.startswith("bilm/Variable")]
        self._forget = tf.compat.v1.variables_initializer(states)
        self._session = tf.compat.v1.Session()
        self._session.run(tf.compat.v1.global_variables_initializer())

    def encode_batch(self, sentences: Sentences) -> np.ndarray:
        character_ids = self._model.batcher.batch_sentences(sentences)
        feed = {self._model.sentence_character_ids: character_ids}
        return self._session.run(self._elmo, feed)

    def write_outputs(self, path: str, first: int, count: int) -> None:
        self._session.run(self._forget)  # other systems start each batch from the zero state
        super().write_outputs(path, first, count)


if __name__ == "__main__":
    workers.serve(SimpleElmo)
