"""Time and memory of a step of training at 10,000 and at 800,000 words, with the same negatives.

    .venv/bin/python benchmarks/vocabulary_scale.py [KIND ...]

Kinds: `characters` (a character CNN, and a softmax over the words), `words` (also an embedding
table) and `shared` (one table for both). The default is all of them. Size `tiny`, 64 x 20 tokens,
8192 negative samples. Each model has its own process; the two alternate, and their median step
times are compared. Memory "in a step" is the peak memory of the process minus its memory after the
tables (weights and Adagrad's sums of squares) were allocated.
"""

import dataclasses
import math
import multiprocessing
import re
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

VOCABULARIES = (10_000, 800_000)
KINDS = ("characters", "words", "shared")
SIZE, BATCH_SIZE, UNROLL_STEPS, NUM_NEGATIVES = "tiny", 64, 20, 8192
WARM_UP, STEPS = 2, 7


def resident(name: str = "VmRSS") -> int:
    """Resident memory of this process in bytes; with "VmHWM", the peak since the last reset."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024


def reset_most() -> None:
    """Resets "VmHWM"."""
    Path("/proc/self/clear_refs").write_text("5")


def serve(connection: Connection, kind: str, size: int) -> None:
    """Builds one model and makes a step at each request."""
    step = _build(kind, size)
    connection.send(resident())
    reset_most()
    while connection.recv():
        begin = time.perf_counter()
        step()
        connection.send(time.perf_counter() - begin)
    connection.send(resident("VmHWM"))


def _build(kind: str, size: int) -> Any:
    from elmo_tf.config.inputs import WordInputConfig
    from elmo_tf.config.model import ElmoConfig
    from elmo_tf.model.language_model import ElmoLanguageModel
    from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
    from elmo_tf.training.optimizers import Adagrad
    from elmo_tf.training.step import TrainStep

    config = ElmoConfig.from_size(SIZE)
    if kind != "characters":
        config = dataclasses.replace(config, input=WordInputConfig(share_softmax=kind == "shared"))
    words = [*SPECIAL_TOKENS, *(b"w%d" % number for number in range(size - 3))]
    model = ElmoLanguageModel(config, size, dropout=0.1, seed=1, vocabulary=Vocabulary(words))
    step = TrainStep(
        model, Adagrad(), BATCH_SIZE, UNROLL_STEPS, num_negatives=NUM_NEGATIVES, clip_norm=10.0
    )
    state = model.zero_state(BATCH_SIZE)
    batches = [_batch(model, words, number) for number in range(WARM_UP + STEPS)]
    return lambda: step(batches.pop(), state)


def _batch(model: Any, words: list[bytes], number: int) -> Any:
    """A window of words and negative samples, both distributed by Zipf's law."""
    import numpy as np
    import tensorflow as tf

    from elmo_tf.model.language_model import Negatives, WindowTensors
    from elmo_tf.training.negatives import draw_negatives
    from elmo_tf.training.step import Batch

    rng = np.random.default_rng(number)
    shape = (2, BATCH_SIZE, UNROLL_STEPS)
    inputs, targets = np.exp(rng.random((2, *shape)) * math.log(len(words))).astype(np.int32)
    distinct, places = np.unique(inputs, return_inverse=True)
    tokens = tf.constant([words[word] for word in distinct])
    window = WindowTensors(
        model.encoder.token_ids(tokens),
        tf.constant(places.reshape(shape), tf.int32),
        tf.constant(targets),
        tf.fill([BATCH_SIZE], UNROLL_STEPS),
    )
    drawn = draw_negatives(1, number, len(words), NUM_NEGATIVES)
    return Batch(window, Negatives(*map(tf.constant, drawn)), tf.constant([1, number]))


def measure(kind: str) -> None:
    """Prints the rows of one kind, and the ratio of large to small vocabulary."""
    context = multiprocessing.get_context("spawn")
    pipes, tables = [], []
    for size in VOCABULARIES:
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, kind, size), daemon=True).start()
        pipes.append(ours)
        tables.append(ours.recv())
    seconds: list[list[float]] = [[] for _ in pipes]
    for _ in range(WARM_UP + STEPS):
        for pipe, times in zip(pipes, seconds, strict=True):
            pipe.send(True)
            times.append(pipe.recv())
    medians = [statistics.median(times[WARM_UP:]) for times in seconds]
    extra = []
    for pipe, built in zip(pipes, tables, strict=True):
        pipe.send(False)
        extra.append(pipe.recv() - built)
    for size, median, built, more in zip(VOCABULARIES, medians, tables, extra, strict=True):
        print(
            f"{kind:<12} {size:>8,} words {1000 * median:8.1f} ms a step, "
            f"{built / 1e6:8,.0f} MB before, {more / 1e6:6,.0f} MB in a step"
        )
    pairs = [times[WARM_UP:] for times in seconds]
    ratio = statistics.median(large / small for small, large in zip(*pairs, strict=True))
    print(f"{kind:<12} time {ratio:.2f} times, memory {extra[1] / extra[0]:.2f} times", flush=True)


def main() -> None:
    """Measures the given kinds, or all."""
    for kind in sys.argv[1:] or KINDS:
        measure(kind)


if __name__ == "__main__":
    main()
