"""Finds the most probable classes of several softmaxes combined, in bounded memory."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf


class TopClasses(NamedTuple):
    """The best classes at each position, the best one first.

    Attributes:
      ids: int32 `[positions, num_top]`.
      scores: float32 `[positions, num_top]`, sums of the log-probabilities over the directions, in
        descending order.
      log_probabilities: float32 `[directions, positions, num_top]`.
      log_normalizers: float32 `[directions, positions]`, of the softmax over all classes, including
        excluded ones.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    log_probabilities: tf.Tensor
    log_normalizers: tf.Tensor


class _Best(NamedTuple):
    """The best classes of the blocks so far, with unnormalized logits."""

    ids: tf.Tensor  # [positions, num_top]
    totals: tf.Tensor  # [positions, num_top], sums over the directions
    logits: tf.Tensor  # [directions, positions, num_top]


def top_classes(
    inputs: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    num_top: int,
    excluded: Sequence[int] = (),
    block_size: int = 8192,
) -> TopClasses:
    """Finds the classes w with the largest sum over the directions d of log p(w | inputs[d]).

    Each log p is normalized over all classes. Classes are processed in blocks, and only the best so
    far are stored, so memory is `[directions, positions, block_size + num_top]` for any number of
    classes. Of classes with equal sums, the one with the lower id comes first.

    Args:
      inputs: `[directions, positions, dim]`; the first dimension must be static.
      kernel: `[classes, dim]`.
      bias: `[classes]`.
      num_top: number of classes to find, from 0 to the number of classes that are not excluded.
      excluded: distinct ids to exclude from the result; the normalization includes them.
      block_size: number of classes per block.
    """
    num_directions, num_positions, num_classes = (
        inputs.shape[0],
        tf.shape(inputs)[1],
        kernel.shape[0],
    )
    flat = tf.reshape(inputs, [-1, inputs.shape[2]])
    penalty = tf.tensor_scatter_nd_update(
        tf.zeros_like(bias),
        tf.reshape(tf.constant(excluded, tf.int32), [-1, 1]),
        tf.fill([len(excluded)], -math.inf),
    )

    def add_block(start: tf.Tensor, normalizers: tf.Tensor, best: _Best) -> tuple:
        end = tf.minimum(start + block_size, num_classes)
        # Unlike in the losses, classes are the last axis: top_k reads contiguous values.
        logits = tf.matmul(flat, kernel[start:end], transpose_b=True) + bias[start:end]
        logits = tf.reshape(logits, [num_directions, num_positions, end - start])
        block = tf.reduce_logsumexp(logits, axis=2)
        normalizers = tf.reduce_logsumexp(tf.stack([normalizers, block]), axis=0)
        ids = tf.broadcast_to(tf.range(start, end), [num_positions, end - start])
        totals = tf.reduce_sum(logits, axis=0) + penalty[start:end]
        new = _select(_Best(ids, totals, logits), tf.minimum(num_top, end - start))
        pairs = zip(best, new, strict=True)
        return end, normalizers, _select(_Best(*(tf.concat(p, axis=-1) for p in pairs)), num_top)

    # Before the first block, all scores are -inf, which any class exceeds.
    nothing = tf.fill([num_directions, num_positions, num_top], -math.inf)
    best = _Best(tf.zeros_like(nothing[0], tf.int32), nothing[0], nothing)
    _, normalizers, best = tf.while_loop(
        lambda start, *_: start < num_classes,
        add_block,
        (0, tf.fill([num_directions, num_positions], -math.inf), best),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([num_directions, None]),
            _Best(
                *(tf.TensorShape([*first, None, num_top]) for first in ([], [], [num_directions]))
            ),
        ),
        parallel_iterations=1,  # more would need memory for several blocks
    )
    # Rounding could otherwise give a probability above 1.
    return TopClasses(
        best.ids,
        tf.minimum(best.totals - tf.reduce_sum(normalizers, axis=0)[:, tf.newaxis], 0.0),
        tf.minimum(best.logits - normalizers[..., tf.newaxis], 0.0),
        normalizers,
    )


def _select(candidates: _Best, number: int | tf.Tensor) -> _Best:
    """The `number` candidates with the largest totals; the first of equal ones."""
    totals, index = tf.math.top_k(candidates.totals, number)  # both [positions, number]
    num_directions = candidates.logits.shape[0]
    indices = tf.broadcast_to(index, tf.concat([[num_directions], tf.shape(index)], axis=0))
    return _Best(
        tf.gather(candidates.ids, index, batch_dims=1),
        totals,
        tf.gather(candidates.logits, indices, batch_dims=2),
    )
