"""Compares our vectors with those of other programs from the same files."""

import json

import numpy as np
import tensorflow as tf

from elmo_tf.export import saved_model
from elmo_tf.model.encoder import ElmoEncoder
from tests.integration.zoo import layers_of

# Our float32 values and theirs differ from double precision by similar amounts, theirs by up to
# 3e-6. The largest measured difference is 3.4e-6; most are below 1e-6.
TOLERANCE = 5e-6


def padded(sentences):
    """Token lists as tensors: tokens `[batch, longest]` and lengths."""
    lengths = [len(sentence) for sentence in sentences]
    tokens = [s + [""] * (max(lengths) - len(s)) for s in sentences]
    return tf.constant(tokens), tf.constant(lengths)


def through_python(model):
    """A function from token lists to outputs, by the encoder."""
    encoder = ElmoEncoder.from_model(model)
    return lambda sentences: encoder(*padded(sentences))


def through_saved_model(model, folder):
    """A function from token lists to outputs, by a signature of our export."""
    saved_model.export(ElmoEncoder.from_model(model), folder / "exported")
    loaded = tf.saved_model.load(str(folder / "exported"))

    def outputs(sentences):
        tokens, lengths = padded(sentences)
        return loaded.signatures["tokens"](tokens=tokens, sequence_len=lengths)

    return outputs


def largest_difference(outputs_of, sentences_file, expected):
    """The largest difference in all layers and sentences; `expected["vectors/k"]` has them."""
    sentences = json.loads(sentences_file.read_text(encoding="utf-8"))
    outputs = outputs_of(sentences)
    return max(
        np.abs(layers_of(outputs, k, len(sentence)) - expected[f"vectors/{k}"]).max()
        for k, sentence in enumerate(sentences)
    )
