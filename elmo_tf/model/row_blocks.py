"""Computes large batches in blocks of rows, to bound memory.

The temporary memory of a pass (convolution windows, gates, intermediate layers) is proportional to
rows times tokens. 5,000 short texts in one pass took gigabytes for outputs of 100 MB.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from elmo_tf.config.model import ElmoConfig
from elmo_tf.text.batches import DEFAULT_BATCH_TOKENS, batches_by_tokens

_NUM_BOUNDARIES = 2
_BYTES_AT_ONCE = 1 << 30
_BYTES_PER_NUMBER = 4

# Computes the outputs of a block of rows, whose width is that of its longest row.
RunRows = Callable[[slice, int], Any]


def tokens_at_once(config: ElmoConfig) -> int:
    """Maximum number of tokens of a block, with padding and boundaries, for about 1 GB of memory.

    It is at least the default of `batches_by_tokens`, because small blocks are slow.
    """
    lstm = config.lstm
    # Each layer in both directions, its reversed copies, and the gates.
    numbers = 8 * lstm.projection_dim * (lstm.num_layers + 2) + 4 * lstm.dim
    numbers += config.input.numbers_per_token
    return max(DEFAULT_BATCH_TOKENS, _BYTES_AT_ONCE // (_BYTES_PER_NUMBER * numbers))


def most_tokens(text: tf.Tensor) -> int:
    """An upper bound of the tokens in any of the texts, string `[batch]`, before splitting."""
    if len(text) <= 1:  # a single row is one block, whatever its length
        return 0
    return int(tf.reduce_max(tf.strings.length(text)) + 1) // 2


def fits(batch: int, max_tokens: int, limit: int) -> bool:
    """Whether to compute a batch in one pass: it is small enough, or a single row."""
    return batch <= 1 or batch * (max_tokens + _NUM_BOUNDARIES) <= limit


def run_in_blocks(run_rows: RunRows, lengths: tf.Tensor, max_tokens: int, limit: int) -> Any:
    """The outputs of all rows, computed in blocks of consecutive rows.

    It consists of slices and concatenations, so gradients pass through.

    Args:
      run_rows: returns tensors whose first dimension is rows; the second of three is tokens.
      lengths: int32 `[batch]`, checked.
      max_tokens: width of the whole batch, to which outputs are padded with zeros.
      limit: see `tokens_at_once`. A longer row is a block by itself.
    """
    blocks, begin = [], 0
    sizes = lengths.numpy().tolist()
    for block in batches_by_tokens(sizes, limit, length=lambda size: size):
        rows = slice(begin, begin + len(block))
        blocks.append(_padded(run_rows(rows, max(block)), max_tokens))
        begin = rows.stop
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *blocks)


def _padded(outputs: Any, max_tokens: int) -> Any:
    def pad(tensor: tf.Tensor) -> tf.Tensor:
        if tensor.shape.rank < 3:
            return tensor
        return tf.pad(tensor, [[0, 0], [0, max_tokens - tensor.shape[1]], [0, 0]])

    return tf.nest.map_structure(pad, outputs)
