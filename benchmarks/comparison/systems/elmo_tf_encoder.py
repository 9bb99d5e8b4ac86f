"""elmo_tf's encoder, called from Python with tokens."""

import numpy as np

from comparison import workers
from comparison.encoders import Encoder, Sentences
from elmo_tf.encoder import ElmoEncoder


class ElmoTf(Encoder):
    """Calls the encoder as its documentation says; it returns each layer beside the mean."""

    def load_model(self) -> None:
        self._encoder = ElmoEncoder.from_weights(
            str(self.model / "options.json"), str(self.model / "model.hdf5")
        )

    def encode_batch(self, sentences: Sentences) -> np.ndarray:
        lengths = [len(tokens) for tokens in sentences]
        longest = max(lengths)
        padded = [[*tokens, *[""] * (longest - len(tokens))] for tokens in sentences]
        return self._encoder(padded, sequence_len=lengths)["elmo"].numpy()


if __name__ == "__main__":
    workers.serve(ElmoTf)
