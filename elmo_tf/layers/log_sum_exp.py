"""The log-normalizer of a softmax over many classes, and its gradient, in blocks of classes."""

import math

import tensorflow as tf

# Logit of an excluded class. Finite, so that excluding all classes does not give NaN.
EXCLUDED_LOGIT = -1e30

# Number of logits in a block. All at once, 8192 classes at 2560 positions, are 84 MB, and memory
# bandwidth limits every operation. A block of 8 MB fits into the cache, and recomputing it for the
# gradient is cheaper than storing it.
BLOCK_LOGITS = 2**21


def log_sum_exp(
    kernel: tf.Tensor,
    bias: tf.Tensor,
    inputs: tf.Tensor,
    excluded: tf.Tensor | None = None,
    block_size: int | tf.Tensor | None = None,
) -> tf.Tensor:
    """Computes log(sum over classes w of exp(kernel[w] . x + bias[w])) in bounded memory.

    Args:
      kernel: float32 `[classes, dim]`.
      bias: float32 `[classes]`.
      inputs: float32 `[positions, dim]`.
      excluded: int32 `[positions]` or None: id of the class that the sum excludes at each position.
        An id outside of the classes excludes none.
      block_size: number of classes per block; memory is `[block_size, positions]`. By default, a
        block fits into the cache.

    Returns:
      float32 `[positions]`, differentiable (once) in `kernel`, `bias` and `inputs`.
    """
    num_classes, num_positions = tf.shape(kernel)[0], tf.shape(inputs)[0]
    if block_size is None:
        block_size = tf.maximum(1, BLOCK_LOGITS // tf.maximum(1, num_positions))

    @tf.custom_gradient
    def run(kernel: tf.Tensor, bias: tf.Tensor, inputs: tf.Tensor) -> tuple:
        columns = tf.transpose(inputs)  # [dim, positions]

        def block_logits(start: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            end = tf.minimum(start + block_size, num_classes)
            logits = _logits(kernel[start:end], bias[start:end], columns)
            if excluded is not None:
                logits = _exclude(logits, excluded - start)
            return end, logits  # [block, positions]

        def add_block(start: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            end, logits = block_logits(start)
            block = tf.reduce_logsumexp(logits, axis=0)
            return end, tf.reduce_logsumexp(tf.stack([total, block]), axis=0)

        def is_left(start: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return start < num_classes

        # Parallel iterations would need memory for several blocks.
        _, total = tf.while_loop(
            is_left,
            add_block,
            (tf.constant(0), tf.fill([num_positions], -math.inf)),
            parallel_iterations=1,
        )

        def gradient(d_total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            # With a column of ones, the bias's gradient is one more column of the kernel's.
            with_ones = tf.concat([inputs, tf.ones([num_positions, 1])], axis=1)

            def add_gradient(
                start: tf.Tensor,
                number: tf.Tensor,
                of_weights: tf.TensorArray,
                of_columns: tf.Tensor,
            ) -> tuple:
                end, logits = block_logits(start)
                of_logits = tf.exp(logits - total) * d_total  # softmax * d_total
                of_weights = of_weights.write(number, tf.matmul(of_logits, with_ones))
                of_columns += tf.matmul(kernel[start:end], of_logits, transpose_a=True)
                return end, number + 1, of_weights, of_columns

            num_blocks = (num_classes + block_size - 1) // block_size
            of_weights = tf.TensorArray(
                tf.float32, num_blocks, infer_shape=False, element_shape=[None, with_ones.shape[1]]
            )
            *_, of_weights, of_columns = tf.while_loop(
                is_left,
                add_gradient,
                (tf.constant(0), tf.constant(0), of_weights, tf.zeros_like(columns)),
                parallel_iterations=1,
            )
            of_weights = of_weights.concat()  # [classes, dim + 1]
            return of_weights[:, :-1], of_weights[:, -1], tf.transpose(of_columns)

        return total, gradient

    return run(kernel, bias, inputs)


def _logits(kernel: tf.Tensor, bias: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Logits `[classes, positions]`. In this layout no product transposes the largest array."""
    return tf.matmul(kernel, columns) + bias[:, tf.newaxis]


def _exclude(logits: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
    """Excludes the logit in row `row` of each column, if that row exists."""
    is_inside = (row >= 0) & (row < tf.shape(logits)[0])
    position = tf.cast(tf.where(is_inside)[:, 0], tf.int32)
    return tf.tensor_scatter_nd_update(
        logits,
        tf.stack([tf.gather(row, position), position], axis=1),
        tf.fill(tf.shape(position), EXCLUDED_LOGIT),
    )
