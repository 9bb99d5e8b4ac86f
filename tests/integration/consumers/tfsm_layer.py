"""`TFSMLayer` in Keras 3 models, trained: PATH EXPECTED."""

import sys

import guard

guard.refuse("elmo_tf", "export", "tensorflow_text", "tensorflow_hub", "tf_keras")

import keras
import numpy as np
import tensorflow as tf
from expectation import Expectation

path, expected = sys.argv[1], Expectation(sys.argv[2])
text = tf.constant(expected.text)

layer = keras.layers.TFSMLayer(path, call_endpoint="default")
inputs = keras.Input([], dtype="string")
model = keras.Model(inputs, layer(inputs))
expected.check("text", model(text))
names = sorted(variable.name for variable in layer.trainable_variables)
assert names == ["scalar_mix_gamma:0", "scalar_mix_layer_weights:0"], names

before = [np.array(variable) for variable in layer.variables]
untrained = model(text)["elmo"]
classifier = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)["default"]))
classifier.compile(keras.optimizers.SGD(0.1), "mse")
classifier.fit(text, np.arange(len(expected.text), dtype=np.float32), epochs=1, verbose=0)
moved = [
    variable.name
    for variable, value in zip(layer.variables, before, strict=True)
    if np.any(np.array(variable) != value)
]
assert sorted(moved) == names, moved

assert np.any(model(text)["elmo"] != untrained)
classifier.save("classifier.keras")
again = keras.models.load_model("classifier.keras", safe_mode=False)
np.testing.assert_array_equal(again(text), classifier(text))

layer = keras.layers.TFSMLayer(path, call_endpoint="tokens")
inputs = {
    "tokens": keras.Input([None], dtype="string", name="tokens"),
    "sequence_len": keras.Input([], dtype="int32", name="sequence_len"),
}
model = keras.Model(inputs, layer(inputs))
values = {
    "tokens": tf.constant(expected.tokens),
    "sequence_len": tf.constant(expected.sequence_len),
}
expected.check("tokens", model(values))
