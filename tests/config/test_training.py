"""Settings of a run: defaults, JSON and errors."""

import json

import pytest

from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError


def test_training_defaults_are_those_of_bilm_tf():
    config = TrainingConfig()
    assert (config.batch_size, config.unroll_steps, config.num_epochs) == (128, 20, 10)
    assert (config.learning_rate, config.initial_accumulator, config.clip_norm) == (0.2, 1.0, 10.0)
    assert (config.dropout, config.num_negative_samples) == (0.1, 8192)


@pytest.mark.parametrize(("optimizer", "expected"), [("sgd", 0.01), ("lamb", 0.001)])
def test_the_learning_rate_is_the_optimizers_unless_given(optimizer, expected):
    assert TrainingConfig(optimizer=optimizer).learning_rate == expected
    assert TrainingConfig(optimizer=optimizer, learning_rate=3).learning_rate == 3.0


def test_training_round_trip():
    for config in (
        TrainingConfig(),
        TrainingConfig(batch_size=3, max_steps=26, clip_norm=None, dropout=0, seed=2**31 - 1),
        TrainingConfig(num_negative_samples=0, normalize="nfkc", steps_per_evaluation=17),
    ):
        assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_training_keys_left_out_take_their_defaults():
    assert TrainingConfig.from_dict({"seed": 5}) == TrainingConfig(seed=5)


def test_keys_of_earlier_releases_are_read():
    assert TrainingConfig.from_dict({"restart_share": 0.25}) == TrainingConfig(
        state_reset_rate=0.25
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_siz": 3}, r"a key must be one of 'batch_size', .*, got 'batch_siz'"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"unroll_steps": 2.5}, "unroll_steps must be an integer >= 1, got 2.5"),
        ({"num_epochs": False}, "num_epochs must be an integer >= 1, got False"),
        ({"max_steps": 0}, r"max_steps must be an integer >= 1, got 0 \(null for none\)"),
        ({"learning_rate": -0.2}, "learning_rate must be a finite number > 0, got -0.2"),
        ({"learning_rate": 10**400}, "learning_rate must be a finite number > 0, got 1000"),
        ({"optimizer": "Adam"}, r"optimizer must be one of 'adagrad', .*, got 'Adam'"),
        ({"learning_rate_schedule": "exp"}, r"learning_rate_schedule must be one of .*, got 'exp'"),
        ({"mixed_precision": "half"}, "mixed_precision must be one of 'none', 'float16', 'bf.*"),
        ({"accumulation_steps": 0}, "accumulation_steps must be an integer >= 1, got 0"),
        ({"warmup_steps": -1}, "warmup_steps must be an integer >= 0, got -1"),
        (
            {"warmup_steps": 5, "decay_steps": 5},
            r"decay_steps must be an integer > 5 \(warmup_steps\), got 5",
        ),
        ({"initial_accumulator": 0}, "initial_accumulator must be a finite number > 0, got 0"),
        ({"clip_norm": float("nan")}, "clip_norm must be a finite number > 0, got nan"),
        ({"dropout": 1}, "dropout must be a number >= 0 and < 1, got 1"),
        ({"dropout": -0.1}, "dropout must be a number >= 0 and < 1, got -0.1"),
        ({"dropout": "0.1"}, "dropout must be a number >= 0 and < 1, got '0.1'"),
        ({"num_negative_samples": -1}, "num_negative_samples must be an integer >= 0, got -1"),
        ({"seed": 2**31}, "seed must be an integer from 0 to 2147483647, got 2147483648"),
        ({"shuffle_buffer": None}, "shuffle_buffer must be an integer >= 0, got None"),
        ({"tokenizer": ""}, "tokenizer must be a string that is not empty, got ''"),
        ({"normalize": "nfd"}, "normalize must be one of 'none', 'nfc', 'nfkc', got 'nfd'"),
        ({"batch_size": 10**13}, "batch_size must be an integer <= 16777216, got 10000000000000"),
        ({"unroll_steps": 10**30}, "unroll_steps must be an integer <= 16777216, got 1000000"),
        (
            {"batch_size": 4096, "accumulation_steps": 8, "unroll_steps": 1000},
            r"batch_size \* accumulation_steps \* unroll_steps \(tokens of a step\) must be an "
            "integer <= 16777216, got 32768000",
        ),
        ({"max_steps": 2**31}, r"max_steps must be an integer <= 2147483647, got 2147483648 \(nul"),
        ({"num_epochs": 10**30}, "num_epochs must be an integer <= 2147483647, got 10000"),
        ({"shuffle_buffer": 10**12}, "shuffle_buffer must be an integer <= 2147483647, got 1000"),
        ({"clip_norm": 1e300}, r"clip_norm must be a number > 0 that float32 holds, .* 1e\+300"),
        ({"initial_accumulator": 1e-300}, "initial_accumulator must be .* holds, .* got 1e-300"),
        ([], r"the training options must be an object {...}, got \[\]"),
    ],
)
def test_wrong_training_values_are_named(values, message):
    with pytest.raises(InputError, match=f"^training.json: {message}"):
        TrainingConfig.from_dict(values)
