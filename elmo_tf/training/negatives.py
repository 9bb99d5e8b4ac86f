"""Negative samples: the words that the sampled softmax of a step contrasts with the targets."""

import math

import numpy as np


def draw_negatives(
    seed: int, step: int, vocabulary_size: int, num_samples: int
) -> tuple[np.ndarray, int]:
    """Draws distinct ids from the log-uniform distribution, like TensorFlow's sampler.

    The distribution is p(w) = log((w + 2) / (w + 1)) / log(vocabulary_size + 1), close to Zipf's
    law for ids in order of decreasing frequency. Ids are drawn until `num_samples` distinct ones
    are found; duplicates are dropped. `tf.random.log_uniform_candidate_sampler` does the same with
    `unique=True`, but its state is lost when a run stops. Here the result depends only on the
    arguments, so that a resumed run draws the same ids as an uninterrupted one.

    Args:
      seed: the run's seed, an integer >= 0.
      step: the step, an integer >= 0.
      vocabulary_size: number of ids.
      num_samples: number of distinct ids to return, from 1 to vocabulary_size - 1. For all ids,
        use the full softmax.

    Returns:
      int32 `[num_samples]` in the order drawn, and the number of draws including duplicates, which
      the loss needs for its correction (see `elmo_tf.layers.sampled_softmax`).

    Raises:
      ValueError: `num_samples` is out of range.
    """
    if not 1 <= num_samples < vocabulary_size:
        raise ValueError(
            f"draw_negatives: num_samples must be from 1 to vocabulary_size - 1 "
            f"({vocabulary_size - 1}), got {num_samples}"
        )
    generator = np.random.default_rng([seed, step])
    draws = np.empty(0, np.int32)
    is_new = np.empty(0, bool)
    while np.count_nonzero(is_new) < num_samples:
        draws = np.concatenate([draws, _draw(generator, vocabulary_size, num_samples + draws.size)])
        is_new = _is_first_of_its_kind(draws, vocabulary_size)
    num_tries = int(np.flatnonzero(is_new)[num_samples - 1]) + 1
    return draws[:num_tries][is_new[:num_tries]], num_tries


def _draw(generator: np.random.Generator, vocabulary_size: int, count: int) -> np.ndarray:
    """Log-uniform ids, int32 `[count]`, by the inverse of the cumulative distribution."""
    values = np.exp(generator.random(count) * math.log(vocabulary_size + 1))  # 1 and up
    # Rounding can give the end of the interval itself.
    return np.minimum(values.astype(np.int32) - 1, vocabulary_size - 1)


def _is_first_of_its_kind(draws: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Whether no earlier draw has the same id, bool `[draws]`. Faster than sorting."""
    positions = np.arange(draws.size, dtype=np.int32)
    first = np.empty(vocabulary_size, np.int32)
    first[draws[::-1]] = positions[::-1]  # the last write for an id is its earliest draw
    return first[draws] == positions
