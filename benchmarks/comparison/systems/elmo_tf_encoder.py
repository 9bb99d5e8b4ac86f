"""elmo_tf's encoder, called from Python with tokens."""

import numpy as np

from comparison import workers
from comparison.encoders import Encoder, Sentences
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.vectors.sentence_vectors import SentenceVectors


class ElmoTf(Encoder):
    """Calls the encoder for single sentences, and the code of `elmo-embed` for many.

    A call of the encoder also returns every layer.
    """

    def load_model(self) -> None:
        self._encoder = ElmoEncoder.from_weights(
            str(self.model / "options.json"), str(self.model / "model.hdf5")
        )
        self._vectors = SentenceVectors(self._encoder, "elmo")

    def encode_batch(self, sentences: Sentences) -> np.ndarray:
        lengths = [len(tokens) for tokens in sentences]
        return self._encoder(sentences, sequence_len=lengths)["elmo"].numpy()

    def encode_all(self, sentences: Sentences, batch_size: int) -> None:
        if batch_size == 1:  # one sentence at a time, without knowledge of the next
            super().encode_all(sentences, batch_size)
            return
        # Like `elmo_tf.embed_sentences`, with a given number of sentences per batch.
        encoded = [[token.encode() for token in tokens] for tokens in sentences]
        words = self._vectors.words(token for tokens in encoded for token in tokens)
        for first in range(0, len(encoded), batch_size):
            self._vectors(encoded[first : first + batch_size], words)


if __name__ == "__main__":
    workers.serve(ElmoTf)
