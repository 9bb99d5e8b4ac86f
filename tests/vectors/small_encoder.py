"""A small encoder, sentences with odd tokens, and what vectors they should give."""

import numpy as np
import tensorflow as tf

from elmo_tf.config.model import CharCnnConfig, ElmoConfig, LstmConfig
from elmo_tf.model.encoder import ElmoEncoder

P, NUM_LAYERS = 7, 2
CONFIG = ElmoConfig(
    CharCnnConfig(
        embedding_dim=4, filters=((1, 3), (2, 5)), num_highway_layers=1, max_characters_per_token=11
    ),
    LstmConfig(dim=9, projection_dim=P, num_layers=NUM_LAYERS),
)
SENTENCES = [
    [b"the", b"cat", b"sat", b"on", b"the", b"mat"],
    [b"", b"a\0", b"\xff\xfe", b"a"],
    [b"</S>"],
    [b"cat", b"the"],
]


def make_encoder(seed=4):
    encoder = ElmoEncoder(CONFIG, seed=seed)
    encoder.scalar_mix.layer_weights.assign([0.3, -1.0, 2.0])
    encoder.scalar_mix.gamma.assign(1.7)
    return encoder


def expected(encoder, sentence, layers):
    """From the encoder's own outputs, a sentence at a time."""
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
