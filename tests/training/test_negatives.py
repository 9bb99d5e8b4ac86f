"""Negative samples: distribution, number of draws, and reproducibility."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.training import negatives
from elmo_tf.training.negatives import draw_negatives

VOCABULARY_SIZE, NUM_SAMPLES = 97, 23


def log_uniform(vocabulary_size):
    ids = np.arange(vocabulary_size)
    return np.log((ids + 2) / (ids + 1)) / np.log(vocabulary_size + 1)


@pytest.mark.parametrize("vocabulary_size,num_samples", [(97, 23), (5, 4), (2, 1), (3000, 2900)])
def test_ids_are_distinct_and_in_range(vocabulary_size, num_samples):
    ids, num_tries = draw_negatives(3, 11, vocabulary_size, num_samples)
    assert ids.dtype == np.int32
    assert ids.shape == (num_samples,)
    assert len(set(ids.tolist())) == num_samples
    assert ids.min() >= 0 and ids.max() < vocabulary_size
    assert isinstance(num_tries, int) and num_tries >= num_samples


def test_seed_and_step_decide_alone():
    ids, num_tries = draw_negatives(3, 11, VOCABULARY_SIZE, NUM_SAMPLES)
    np.random.default_rng(0).random(5)
    draw_negatives(3, 12, VOCABULARY_SIZE, NUM_SAMPLES)
    again, num_tries_again = draw_negatives(3, 11, VOCABULARY_SIZE, NUM_SAMPLES)
    np.testing.assert_array_equal(ids, again)
    assert num_tries == num_tries_again
    for seed, step in [(3, 12), (4, 11), (11, 3), (0, 11), (3, 0)]:
        assert list(draw_negatives(seed, step, VOCABULARY_SIZE, NUM_SAMPLES)[0]) != list(ids)


def test_another_process_draws_the_same():
    code = "from elmo_tf.training.negatives import draw_negatives as d; print(d(3, 11, 97, 23))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert printed.decode().strip() == str(draw_negatives(3, 11, 97, 23))


def test_first_draw_has_the_log_uniform_distribution():
    """The first draw is never rejected. Chi-squared test, 96 degrees of freedom, 5 sigma."""
    steps = 20_000
    first = [draw_negatives(1, step, VOCABULARY_SIZE, 1)[0][0] for step in range(steps)]
    counts = np.bincount(first, minlength=VOCABULARY_SIZE)
    expected = steps * log_uniform(VOCABULARY_SIZE)
    chi_squared = np.sum((counts - expected) ** 2 / expected)
    freedom = VOCABULARY_SIZE - 1
    assert abs(chi_squared - freedom) < 5 * np.sqrt(2 * freedom)


def tensorflow_draws(count):
    """Ids and numbers of draws of TensorFlow's sampler, derived from its expected counts."""
    rarest = VOCABULARY_SIZE - 1
    probability = log_uniform(VOCABULARY_SIZE)[rarest]
    all_ids, all_tries = [], []
    for seed in range(count):
        ids, expected, _ = tf.random.log_uniform_candidate_sampler(
            [[rarest]], 1, NUM_SAMPLES, True, VOCABULARY_SIZE, seed=seed + 1
        )
        all_ids.append(ids.numpy())
        all_tries.append(np.log1p(-float(expected[0, 0])) / np.log1p(-probability))
    return np.array(all_ids), np.array(all_tries)


def test_inclusion_and_tries_are_those_of_tensorflow():
    steps = 1500
    theirs, their_tries = tensorflow_draws(steps)
    draws = [draw_negatives(2, step, VOCABULARY_SIZE, NUM_SAMPLES) for step in range(steps)]
    ours, our_tries = np.array([ids for ids, _ in draws]), np.array([n for _, n in draws])
    assert np.abs(their_tries - np.round(their_tries)).max() < 0.01, "tries were not recovered"
    error = np.sqrt((our_tries.var() + their_tries.var()) / steps)
    assert abs(our_tries.mean() - their_tries.mean()) < 4 * error
    assert our_tries.std() == pytest.approx(their_tries.std(), rel=0.12)

    shares = [np.bincount(x.ravel(), minlength=VOCABULARY_SIZE) / steps for x in (ours, theirs)]
    error = np.sqrt(2 * shares[1] * (1 - shares[1]) / steps) + 1e-3
    assert np.max(np.abs(shares[0] - shares[1]) / error) < 4.5
    # The loss correction: the expected count of an id in the samples, given the number of draws.
    expected = np.mean(
        -np.expm1(our_tries[:, None] * np.log1p(-log_uniform(VOCABULARY_SIZE))), axis=0
    )
    np.testing.assert_allclose(shares[0], expected, atol=0.06)


@pytest.mark.parametrize("vocabulary_size", [17_649, 800_000])
def test_a_step_draws_few_blocks(vocabulary_size, monkeypatch):
    """It takes milliseconds, because ids are drawn in blocks and not one at a time."""
    blocks = []

    def draw(generator, size, count):
        blocks.append(count)
        return original(generator, size, count)

    original = negatives._draw
    monkeypatch.setattr(negatives, "_draw", draw)
    _, num_tries = draw_negatives(1, 5, vocabulary_size, 8192)
    assert len(blocks) <= 4 and num_tries <= sum(blocks) < 3 * num_tries


@pytest.mark.parametrize("num_samples", [0, -1, 97, 98])
def test_wrong_number_of_samples_is_named(num_samples):
    message = rf"num_samples must be from 1 to vocabulary_size - 1 \(96\), got {num_samples}"
    with pytest.raises(ValueError, match=message):
        draw_negatives(1, 1, VOCABULARY_SIZE, num_samples)
