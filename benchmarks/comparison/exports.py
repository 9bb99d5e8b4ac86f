"""Text, inputs and timing for benchmarks that compare exports."""

import random
import time
from pathlib import Path

import tensorflow as tf

from comparison import data
from elmo_tf.text import lines, vocabulary

EACH_HELD_OUT = 10
SEED = 20


def read_text(max_words: int) -> tuple[vocabulary.Vocabulary, list[list[bytes]]]:
    """A vocabulary, and sentences of other speeches in random order."""
    paths = lines.expand_globs(data.speeches(), "GLOB")
    heldout = paths[::EACH_HELD_OUT]
    rest = [path for path in paths if path not in heldout]
    known, others = (
        [[word.encode() for word in sentence] for sentence in data.read_sentences(some)]
        for some in (rest, heldout)
    )
    counts = vocabulary.count_tokens(known).counts
    words = vocabulary.choose_words(counts, max_size=max_words)
    random.Random(SEED).shuffle(others)
    return words, others


def to_inputs(batch: list[list[bytes]]) -> dict[str, tf.Tensor]:
    """Converts sentences to inputs of the export's signature `tokens`."""
    width = max(map(len, batch))
    tokens = [sentence + [b""] * (width - len(sentence)) for sentence in batch]
    return {
        "tokens": tf.constant(tokens, tf.string),
        "sequence_len": tf.constant([len(sentence) for sentence in batch], tf.int32),
    }


def measure(models: dict[str, tf.Module], batches: list[dict[str, tf.Tensor]]) -> dict[str, float]:
    """Total time of all batches with each model in seconds; the models alternate."""
    seconds = dict.fromkeys(models, 0.0)
    for number, inputs in enumerate(batches):
        names = list(models)
        for name in names[:: 1 if number % 2 else -1]:
            begin = time.perf_counter()
            models[name].tokens(inputs)["elmo"].numpy()
            seconds[name] += time.perf_counter() - begin
    return seconds


def size_of(directory: Path) -> float:
    """Total size of the files in a directory in MB."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6
