"""Word embeddings of any number of words, in bounded memory."""

from collections.abc import Sequence

import tensorflow as tf

from elmo_tf.model import pipeline
from elmo_tf.model.encoder import ElmoEncoder

# Limits the memory of the widest convolution, which has many windows per word.
_WORDS_AT_ONCE = 512


class WordVectors:
    """Computes an encoder's word embeddings for any number of words.

    Args:
      encoder: the model.
    """

    def __init__(self, encoder: ElmoEncoder) -> None:
        self._encoder = encoder

    def __call__(self, words: Sequence[bytes]) -> tf.Tensor:
        """One or more words to `[words, projection_dim]`."""
        blocks = [
            self._encoder.traced.run(
                pipeline.embed_words,
                tf.constant(words[first : first + _WORDS_AT_ONCE], tf.string),
                model=self._encoder.parts,
            )
            for first in range(0, len(words), _WORDS_AT_ONCE)
        ]
        return tf.concat(blocks, axis=0)
