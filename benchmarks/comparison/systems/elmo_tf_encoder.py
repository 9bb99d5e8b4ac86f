"""elmo_tf's encoder, called from Python with tokens."""

import numpy as np

from comparison import workers
from comparison.encoders import Encoder, Sentences
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.vectors.sentence_vectors import SentenceVectors


class ElmoTf(Encoder):
    """Calls the encoder as its documentation says, and for many sentences as `elmo-embed` does.

    A call of the encoder returns each layer beside the mean.
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
        if batch_size == 1:  # one sentence at a time: nothing is known of the next
            super().encode_all(sentences, batch_size)
            return
        # What `elmo_tf.embed_sentences` does, with batches of a given number of sentences.
        encoded = [[token.encode() for token in tokens] for tokens in sentences]
        words = self._vectors.words(token for tokens in encoded for token in tokens)
        for first in range(0, len(encoded), batch_size):
            self._vectors(encoded[first : first + batch_size], words)


if __name__ == "__main__":
    workers.serve(ElmoTf)
