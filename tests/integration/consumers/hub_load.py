"""TensorFlow Hub's `load`: EXPECTED HANDLE..., each a path or the URL of an archive."""

import sys

import guard

guard.refuse("elmo_tf", "export", "tensorflow_text")

import tensorflow as tf
import tensorflow_hub as hub
from expectation import Expectation

expected = Expectation(sys.argv[1])
for handle in sys.argv[2:]:
    model = hub.load(handle)
    expected.check("text", model(expected.text))
    expected.check("text", model.signatures["default"](tf.constant(expected.text)))
    outputs = model.signatures["tokens"](
        tokens=tf.constant(expected.tokens), sequence_len=tf.constant(expected.sequence_len)
    )
    expected.check("tokens", outputs)
    print("loaded and equal")
