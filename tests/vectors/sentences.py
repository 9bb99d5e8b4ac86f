"""Sentences with unusual tokens, and their expected vectors."""

import numpy as np
import tensorflow as tf

from tests.models import small_config

P, NUM_LAYERS = small_config().lstm.projection_dim, small_config().lstm.num_layers
SENTENCES = [
    [b"the", b"cat", b"sat", b"on", b"the", b"mat"],
    [b"", b"a\0", b"\xff\xfe", b"a"],
    [b"</S>"],
    [b"cat", b"the"],
]


def expected(encoder, sentence, layers):
    """The encoder's outputs for one sentence at a time."""
    outputs = encoder(tf.constant([sentence]), sequence_len=[len(sentence)])
    outputs = {name: values.numpy()[0] for name, values in outputs.items()}
    word = outputs["word_emb"]
    stack = np.stack(
        [
            np.concatenate([word, word], axis=-1),
            *(outputs[f"lstm_outputs{n}"] for n in range(1, NUM_LAYERS + 1)),
        ]
    )
    return {
        "all": stack,
        "elmo": outputs["elmo"],
        "top": stack[-1],
        "average": np.mean(stack, axis=0),
        "word": word,
    }[layers]
