"""Vectors of tokens from a SavedModel, without elmo_tf.

    python examples/hub_vectors.py MODEL SENTENCES.json VECTORS.npz

The demo runs this in a separate process. It imports only TensorFlow and TensorFlow Hub.

SENTENCES.json is a list of [tokens, position]. VECTORS.npz gets an array for each contextual layer
of the model, with the vector at the position in each item of the list.
"""

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

BATCH_SIZE = 64


def main() -> None:
    """Loads the model, computes the vectors, writes them, and prints one line for each step."""
    model_path, sentences_path, vectors_path = sys.argv[1:]
    model = hub.load(model_path)
    print(f"hub.load: signatures {', '.join(sorted(model.signatures))}")
    with open(sentences_path, encoding="utf-8") as file:
        sentences = json.load(file)
    vectors = layer_vectors(model, sentences)
    np.savez(vectors_path, **vectors)
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in vectors.items())
    print(f"vectors of {len(sentences):,} sentences: {shapes}")
    ours = sorted(name for name in sys.modules if name.split(".")[0] in ("elmo_tf", "export"))
    print(f"modules of elmo_tf in this process: {', '.join(ours) or 'none'}")


def layer_vectors(model: tf.Module, sentences: list) -> dict[str, np.ndarray]:
    """For each layer by name, the vectors at the given positions of the sentences."""
    # Batch sentences of similar length, because each batch is padded to its longest.
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i][0]))
    vectors: dict[str, np.ndarray] = {}
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        tokens = tf.ragged.constant([sentences[i][0] for i in batch], tf.string)
        outputs = model.signatures["tokens"](
            tokens=tokens.to_tensor(""), sequence_len=tf.cast(tokens.row_lengths(), tf.int32)
        )
        for name in sorted(name for name in outputs if name.startswith("lstm_outputs")):
            layer = outputs[name].numpy()  # [batch, max_tokens, dim]
            rows = vectors.setdefault(name, np.empty([len(sentences), layer.shape[2]], np.float32))
            rows[batch] = layer[np.arange(len(batch)), [sentences[i][1] for i in batch]]
    return vectors


if __name__ == "__main__":
    main()
