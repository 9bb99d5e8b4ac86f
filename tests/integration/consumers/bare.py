"""A process with only TensorFlow: PATH EXPECTED [CLASSIFIER SCORES]."""

import sys

import guard

guard.refuse(
    *("elmo_tf", "export", "tensorflow_hub", "tensorflow_text", "tf_keras", "keras_hub", "h5py")
)

import numpy as np
import tensorflow as tf
from expectation import Expectation

expected = Expectation(sys.argv[2])
model = tf.saved_model.load(sys.argv[1])
text, tokens = tf.constant(expected.text), tf.constant(expected.tokens)
signatures = model.signatures
for name in ("default", "serving_default", "serve"):
    expected.check("text", signatures[name](text=text))
expected.check("text", signatures["elmo"](text=text), ["elmo", "sequence_len"])
expected.check("text", model(text))
expected.check("text", model(expected.text, training=True))
inputs = {"tokens": tokens, "sequence_len": tf.constant(expected.sequence_len)}
expected.check("tokens", signatures["tokens"](**inputs))
expected.check("tokens", model.tokens(inputs))
expected.check("char_ids", signatures["char_ids"](char_ids=tf.constant(expected.char_ids)))
expected.check("char_ids", model.char_ids(expected.char_ids))
print("loaded and equal")
if len(sys.argv) > 3:  # a classifier that Keras exported, and its scores of texts 0, 2, 4, ...
    classifier = tf.saved_model.load(sys.argv[3])
    scores = classifier.serve(tf.constant(expected.text[::2]))
    np.testing.assert_allclose(scores, np.load(sys.argv[4]), rtol=0, atol=1e-6)
    print("loaded and equal")
