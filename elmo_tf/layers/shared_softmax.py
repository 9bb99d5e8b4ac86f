"""A softmax whose kernel is the word embedding table (tied embeddings)."""

from typing import Any

import keras

from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.layers.word_embedding import WordEmbedding


class SharedSoftmax(SampledSoftmax):
    """A `SampledSoftmax` whose kernel is the table of a `WordEmbedding`.

    Only `bias` is a weight of this layer. The table's gradient is the sum over both of its uses, in
    one `tf.IndexedSlices` in which a row can occur twice.

    Args:
      words: the layer whose table is the kernel. It must be built before this layer.

    Reference:
      Press and Wolf 2017, https://arxiv.org/abs/1608.05859; `share_embedding_softmax` of bilm-tf.
    """

    def __init__(self, words: WordEmbedding, **kwargs: Any) -> None:
        super().__init__(words.vocabulary_size, **kwargs)
        # Keras would track an attribute as a weight of this layer; a function hides the table.
        self._find_kernel = lambda: words.embedding

    @property
    def kernel(self) -> keras.Variable:
        """The table, `[vocabulary_size, dim]`."""
        return self._find_kernel()

    def _add_kernel(self, dim: int) -> None:
        if dim != self.kernel.shape[1]:
            raise ValueError(
                f"SharedSoftmax: inputs must be {self.kernel.shape[1]} wide (the table's vectors), "
                f"got {dim}"
            )
