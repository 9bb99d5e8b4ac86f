"""`hub.KerasLayer` in a Keras 2 model, trained, saved and loaded: PATH EXPECTED mix|all."""

import sys

import guard

guard.refuse("elmo_tf", "export", "tensorflow_text")

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras
from expectation import Expectation

path, expected, trainable = sys.argv[1], Expectation(sys.argv[2]), sys.argv[3]
text = tf.constant(expected.text)
inputs = tf_keras.Input([], dtype=tf.string)
layer = hub.KerasLayer(path, trainable=True)
outputs = layer(inputs)
expected.check("text", layer(text))
model = tf_keras.Model(inputs, tf_keras.layers.Dense(1)(outputs["default"]))

variables = layer.resolved_object.variables
trained = layer.resolved_object.trainable_variables
gradients = []
for training in (False, True):  # TensorFlow's gradient, and possibly our own
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer.resolved_object(text, training=training)["elmo"] ** 2)
    gradients.append([tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, trained)])
for theirs, ours in zip(*gradients, strict=True):
    assert np.any(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)

before = [variable.numpy() for variable in variables]
model.compile(tf_keras.optimizers.SGD(0.1), "mse")
model.fit(text, np.arange(len(expected.text), dtype=np.float32), epochs=1, verbose=0)
moved = {
    variable.name
    for variable, value in zip(variables, before, strict=True)
    if np.any(variable.numpy() != value)
}
mix = {"scalar_mix/layer_weights:0", "scalar_mix/gamma:0"}
assert moved == (mix if trainable == "mix" else {variable.name for variable in variables}), moved
assert len(layer.trainable_weights) == len(moved)
assert all(np.isfinite(variable.numpy()).all() for variable in variables)

model.save("model.keras")
again = tf_keras.models.load_model("model.keras", custom_objects={"KerasLayer": hub.KerasLayer})
np.testing.assert_array_equal(again(text), model(text))
model.save_weights("model.h5")  # variables need unique names

# Signatures, which cannot be trained.
layer = hub.KerasLayer(path, signature="default", signature_outputs_as_dict=True)
expected.check("text", layer(text))
layer = hub.KerasLayer(path, signature="tokens", output_key="elmo")
tokens = {"tokens": tf.constant(expected.tokens)}
elmo = layer({**tokens, "sequence_len": tf.constant(expected.sequence_len)})
expected.check("tokens", {"elmo": elmo}, ["elmo"])
