"""Large batches from Python, computed in blocks of rows, so that memory is bounded.

What a pass needs besides its outputs grows with rows times tokens: windows of the character CNN,
gates, layers on their way. 5,000 short texts in one pass took gigabytes, their outputs 100 MB.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from elmo_tf.config.model import ElmoConfig
from elmo_tf.text.batches import DEFAULT_BATCH_TOKENS, batches_by_tokens

_NUM_BOUNDARIES = 2
_BYTES_AT_ONCE = 1 << 30
_BYTES_PER_NUMBER = 4

# From rows of a batch, cut to the tokens of the longest of them, to tensors of these rows.
RunRows = Callable[[slice, int], Any]


def tokens_at_once(config: ElmoConfig) -> int:
    """The most tokens of a block, padding and boundaries included, for at most about 1 GB.

    At least what `batches_by_tokens` takes by default, since small blocks cost speed.
    """
    lstm = config.lstm
    # Each layer in both directions, from and to the order of the other one, and their gates.
    numbers = 8 * lstm.projection_dim * (lstm.num_layers + 2) + 4 * lstm.dim
    numbers += config.input.numbers_per_token
    return max(DEFAULT_BATCH_TOKENS, _BYTES_AT_ONCE // (_BYTES_PER_NUMBER * numbers))


def most_tokens(text: tf.Tensor) -> int:
    """No fewer tokens than any of several texts has, string `[batch]`, before they are split."""
    if len(text) <= 1:  # a single row is one block, whatever its length
        return 0
    return int(tf.reduce_max(tf.strings.length(text)) + 1) // 2


def fits(batch: int, max_tokens: int, limit: int) -> bool:
    """Whether a batch is computed in one pass: small enough, or a single row."""
    return batch <= 1 or batch * (max_tokens + _NUM_BOUNDARIES) <= limit


def run_in_blocks(run_rows: RunRows, lengths: tf.Tensor, max_tokens: int, limit: int) -> Any:
    """The outputs for all rows, from blocks of consecutive rows.

    Gradients pass through, as all of it is slices and concatenations.

    Args:
      run_rows: gives tensors whose first dimension is rows. Where there are three dimensions, the
        second one is tokens.
      lengths: int32 `[batch]`, checked.
      max_tokens: of the whole batch, to which outputs are padded with zeros.
      limit: see `tokens_at_once`. A row above it is a block of its own.
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
