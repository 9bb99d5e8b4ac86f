"""Which words a sampled softmax contrasts with the targets, step by step."""

import math

import numpy as np


def draw_negatives(
    seed: int, step: int, vocabulary_size: int, num_samples: int
) -> tuple[np.ndarray, int]:
    """Draws distinct ids, frequent words before rare ones, as TensorFlow's sampler does.

    Ids come from the log-uniform distribution p(w) = log((w + 2) / (w + 1)) /
    log(vocabulary_size + 1), close to Zipf's law for ids sorted by falling count. They are drawn
    until `num_samples` distinct ones have come, repetitions dropped: what
    `tf.random.log_uniform_candidate_sampler` does with `unique=True`, whose state, however, is
    lost when a run stops. Here the result follows from the arguments alone, so that a resumed run
    draws what an unbroken one draws.

    Args:
      seed: integer >= 0 of the run.
      step: integer >= 0; each step has a draw of its own.
      vocabulary_size: number of ids.
      num_samples: how many distinct ids to return, from 1 to vocabulary_size - 1; whoever wants
        all of them wants the full softmax.

    Returns:
      int32 `[num_samples]` in the order drawn, and the number of draws that it took, repetitions
      included: the loss corrects for it (see `elmo_tf.layers.sampled_softmax`).

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
    # Rounding may reach the very end of the interval.
    return np.minimum(values.astype(np.int32) - 1, vocabulary_size - 1)


def _is_first_of_its_kind(draws: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Whether no earlier draw has the same id, bool `[draws]`. Quicker than sorting them."""
    positions = np.arange(draws.size, dtype=np.int32)
    first = np.empty(vocabulary_size, np.int32)
    first[draws[::-1]] = positions[::-1]  # the last to be written, the earliest draw, stays
    return first[draws] == positions
