"""Vectors of models in bilm-tf format, computed by the package simple_elmo.

    python simple_elmo_vectors.py SENTENCES.json OUTPUT.npz DIRECTORY...

Each directory's vectors are written as `[layers + 1, tokens, 2P]` under "NUMBER/SENTENCE".
"""

import json
import logging
import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # before TensorFlow: Keras 3 has no LSTMCell of that time

import numpy as np
import simple_elmo
import tensorflow as tf

sentences_file, output, *directories = sys.argv[1:]
with open(sentences_file, encoding="utf-8") as file:
    sentences = json.load(file)
vectors = {}
for number, directory in enumerate(directories):
    tf.compat.v1.reset_default_graph()
    model = simple_elmo.ElmoModel()
    logging.disable(logging.INFO)
    model.load(directory, max_batch_size=len(sentences))
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        ids = model.batcher.batch_sentences(sentences)
        layers = session.run(
            model.sentence_embeddings_op["lm_embeddings"], {model.sentence_character_ids: ids}
        )
    for row, sentence in enumerate(sentences):
        vectors[f"{number}/{row}"] = layers[row][:, : len(sentence)]
np.savez(output, **vectors)
