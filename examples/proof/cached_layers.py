"""Layers of the frozen language model, computed once and kept as float16 outside the checkout.

While the language model is frozen, only the scalar mix and the task model change, so each epoch
can read the layers instead of computing them.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo_tf import ElmoEncoder, embed_sentences
from elmo_tf.storage import files


class CachedLayers:
    """All layers of some sentences.

    Attributes:
      vectors: float16 `[tokens of all sentences, layers, 2 * projection_dim]`.
      offsets: `[sentences + 1]`: the rows of sentence i are `offsets[i]:offsets[i + 1]`.
    """

    def __init__(self, vectors: np.ndarray, lengths: Sequence[int]) -> None:
        self.vectors = vectors
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def padded(self, rows: Sequence[int], layers: Sequence[int]) -> np.ndarray:
        """Some layers of some sentences, float32 `[sentences, layers, longest, dim]`."""
        lengths = [self.offsets[row + 1] - self.offsets[row] for row in rows]
        shape = (len(rows), len(layers), max(lengths), self.vectors.shape[-1])
        batch = np.zeros(shape, np.float32)
        for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            start = self.offsets[row]
            found = self.vectors[start : start + length, layers]  # [tokens, layers, dim]
            batch[index, :, :length] = found.transpose(1, 0, 2)
        return batch


def fingerprint(encoder: ElmoEncoder) -> str:
    """A name for the encoder's weights."""
    digest = hashlib.sha256()
    for variable in encoder.variables:
        digest.update(np.asarray(variable).tobytes())
    return digest.hexdigest()[:16]


def compute(
    encoder: ElmoEncoder, sentences: Sequence[Sequence[str]], directory: Path
) -> CachedLayers:
    """The layers of sentences, from a file in `directory` if it has them.

    Args:
      encoder: the language model.
      sentences: lists of tokens.
      directory: directory of the cache.
    """
    text = hashlib.sha256("\n".join(map("\t".join, sentences)).encode()).hexdigest()[:16]
    path = directory / f"layers-{fingerprint(encoder)}-{text}.npy"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        parts = embed_sentences(encoder, sentences, layers="all")  # [layers, tokens, dim] each
        rows = [part.transpose(1, 0, 2).astype(np.float16) for part in parts]
        with files.write_atomically(str(path)) as temporary, open(temporary, "wb") as file:
            np.save(file, np.concatenate(rows))
    return CachedLayers(np.load(path), [len(sentence) for sentence in sentences])
