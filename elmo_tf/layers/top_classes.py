"""The most probable classes under several softmaxes at once, in bounded memory."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf


class TopClasses(NamedTuple):
    """The best classes at each position, the best one first.

    Attributes:
      ids: int32 `[positions, num_top]`.
      scores: float32 `[positions, num_top]`, sums over the ways of the log-probabilities; they
        never rise from one to the next.
      log_probabilities: float32 `[ways, positions, num_top]`.
      log_normalizers: float32 `[ways, positions]`, of the whole softmax, whatever was left out.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    log_probabilities: tf.Tensor
    log_normalizers: tf.Tensor


class _Best(NamedTuple):
    """The best classes of the blocks so far, with their logits still."""

    ids: tf.Tensor  # [positions, num_top]
    totals: tf.Tensor  # [positions, num_top], sums over the ways
    logits: tf.Tensor  # [ways, positions, num_top]


def top_classes(
    inputs: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    num_top: int,
    left_out: Sequence[int] = (),
    block_size: int = 8192,
) -> TopClasses:
    """The classes w with the largest sum over the ways of log p(w | inputs[way]).

    Each log p is normalized over all classes. The classes are taken in blocks, and of each
    block only those stay that are among the best so far; memory is that of
    `[ways, positions, block_size + num_top]`, however many classes there are. Of classes with
    equal sums the one with the lower id comes first.

    Args:
      inputs: `[ways, positions, dim]`; the first dimension is known while tracing.
      kernel: `[classes, dim]`.
      bias: `[classes]`.
      num_top: how many classes to find, from 0 to as many as are not left out.
      left_out: ids, each once, that are never among them; they count in the normalization.
      block_size: how many classes at a time.
    """
    num_ways, num_positions, num_classes = inputs.shape[0], tf.shape(inputs)[1], kernel.shape[0]
    flat = tf.reshape(inputs, [-1, inputs.shape[2]])
    penalty = tf.tensor_scatter_nd_update(
        tf.zeros_like(bias),
        tf.reshape(tf.constant(left_out, tf.int32), [-1, 1]),
        tf.fill([len(left_out)], -math.inf),
    )

    def add_block(start: tf.Tensor, normalizers: tf.Tensor, best: _Best) -> tuple:
        end = tf.minimum(start + block_size, num_classes)
        # Positions first, unlike in a loss: what is searched must lie together.
        logits = tf.matmul(flat, kernel[start:end], transpose_b=True) + bias[start:end]
        logits = tf.reshape(logits, [num_ways, num_positions, end - start])
        block = tf.reduce_logsumexp(logits, axis=2)
        normalizers = tf.reduce_logsumexp(tf.stack([normalizers, block]), axis=0)
        ids = tf.broadcast_to(tf.range(start, end), [num_positions, end - start])
        totals = tf.reduce_sum(logits, axis=0) + penalty[start:end]
        new = _select(_Best(ids, totals, logits), tf.minimum(num_top, end - start))
        pairs = zip(best, new, strict=True)
        return end, normalizers, _select(_Best(*(tf.concat(p, axis=-1) for p in pairs)), num_top)

    # Nothing is found yet: what counts as -inf gives way to any class.
    nothing = tf.fill([num_ways, num_positions, num_top], -math.inf)
    best = _Best(tf.zeros_like(nothing[0], tf.int32), nothing[0], nothing)
    _, normalizers, best = tf.while_loop(
        lambda start, *_: start < num_classes,
        add_block,
        (0, tf.fill([num_ways, num_positions], -math.inf), best),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([num_ways, None]),
            _Best(*(tf.TensorShape([*ways, None, num_top]) for ways in ([], [], [num_ways]))),
        ),
        parallel_iterations=1,  # more would hold more blocks
    )
    # Rounding must not give a probability above 1.
    return TopClasses(
        best.ids,
        tf.minimum(best.totals - tf.reduce_sum(normalizers, axis=0)[:, tf.newaxis], 0.0),
        tf.minimum(best.logits - normalizers[..., tf.newaxis], 0.0),
        normalizers,
    )


def _select(candidates: _Best, number: int | tf.Tensor) -> _Best:
    """The `number` candidates with the largest totals; of equal ones the first."""
    totals, place = tf.math.top_k(candidates.totals, number)  # both [positions, number]
    num_ways = candidates.logits.shape[0]
    places = tf.broadcast_to(place, tf.concat([[num_ways], tf.shape(place)], axis=0))
    return _Best(
        tf.gather(candidates.ids, place, batch_dims=1),
        totals,
        tf.gather(candidates.logits, places, batch_dims=2),
    )
