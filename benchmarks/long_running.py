"""A model that is called again and again: first delay, memory, traces, threads.

    .venv/bin/python benchmarks/long_running.py                      an export of random weights
    .venv/bin/python benchmarks/long_running.py --model=exported     your own
    .venv/bin/python benchmarks/long_running.py --calls=300 --json

No two calls need have the same shape: batch and length change from call to call, and so does the
way in (text, tokens, character ids). Words are random letters, so that no call knows the words of
another. After that many threads call at once; the outputs must be those of one thread alone.

Memory is what is resident, after the first tenth of the calls, in which TensorFlow's allocator and
the shapes reach their largest, and at the end. Each tenth has the same shapes.
"""

import argparse
import concurrent.futures
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from comparison import workers

SHAPES_SEED, WORDS_SEED = 1, 2
MEGABYTE = 1 << 20
WAYS = ("text", "tokens", "char_ids")


class Calls:
    """Calls of an export with inputs that any number of threads can make again.

    Args:
      path: of the SavedModel.
      max_batch: rows of the largest batch.
      max_tokens: tokens of the longest row.
    """

    def __init__(self, path: str, max_batch: int, max_tokens: int) -> None:
        import tensorflow as tf

        self._tf = tf
        self.model = tf.saved_model.load(path)
        self._max_batch, self._max_tokens = max_batch, max_tokens
        (ids,) = self.model.char_ids.concrete_functions[0].structured_input_signature[0]
        self._num_characters = ids.shape[-1]

    def __call__(self, number: int, period: int) -> dict[str, np.ndarray]:
        """The outputs of a call; numbers that are `period` apart have the same shapes."""
        shapes = np.random.default_rng([SHAPES_SEED, number % period])
        words = np.random.default_rng([WORDS_SEED, number])
        lengths = shapes.integers(0, self._max_tokens + 1, shapes.integers(1, self._max_batch + 1))
        outputs = self._call(WAYS[number % period % len(WAYS)], lengths, words)
        return {name: values.numpy() for name, values in outputs.items()}

    def _call(self, way: str, lengths: np.ndarray, words: np.random.Generator) -> dict[str, Any]:
        tf = self._tf
        width = lengths.max()
        is_real = np.arange(width) < lengths[:, np.newaxis]
        if way == "char_ids":
            ids = words.integers(1, 262, [*is_real.shape, self._num_characters])
            return self.model.char_ids(tf.constant(ids * is_real[..., np.newaxis], tf.int32))
        tokens = [[_word(words) if real else b"" for real in row] for row in is_real]
        if way == "text":
            return self.model(tf.constant([b" ".join(row) for row in tokens], tf.string))
        tokens = tf.constant(tokens, tf.string, is_real.shape)
        return self.model.tokens({"tokens": tokens, "sequence_len": tf.constant(lengths, tf.int32)})

    def num_traces(self) -> dict[str, int]:
        """Traces behind each way in; text has two, one for training."""
        functions = {
            "text": self.model.__call__,
            "tokens": self.model.tokens,
            "char_ids": self.model.char_ids,
        }
        return {way: len(each.concrete_functions) for way, each in functions.items()}


def _word(generator: np.random.Generator) -> bytes:
    return generator.integers(97, 123, generator.integers(1, 16), dtype=np.uint8).tobytes()


def measure_first_call(path: str, arguments: argparse.Namespace) -> tuple[Calls, dict[str, float]]:
    """Loads the export; seconds of that, and of the first and second call of each way in."""
    begin = time.perf_counter()
    calls = Calls(path, arguments.max_batch, arguments.max_tokens)
    seconds = {"load": time.perf_counter() - begin}
    for number, way in enumerate(WAYS):
        for name in ("first", "second"):
            begin = time.perf_counter()
            calls(number, len(WAYS))
            seconds[f"{name} call, {way}"] = time.perf_counter() - begin
    return calls, seconds


def measure_memory(calls: Calls, num_calls: int) -> dict[str, Any]:
    """Resident memory after each tenth of the calls, in MB, and calls per second."""
    period = num_calls // 10
    resident = []
    begin = time.perf_counter()
    for number in range(10 * period):
        calls(number, period)
        if (number + 1) % period == 0:
            gc.collect()
            resident.append(workers.memory()["resident"] / MEGABYTE)
    seconds = time.perf_counter() - begin
    return {
        "calls": 10 * period,
        "calls per second": 10 * period / seconds,
        "resident MB": resident,
        "growth MB": resident[-1] - resident[0],
    }


def measure_threads(calls: Calls, num_calls: int, num_threads: int) -> dict[str, Any]:
    """The largest difference between outputs of many threads at once and of one."""
    begin = time.perf_counter()
    alone = [calls(number, num_calls) for number in range(num_calls)]
    middle = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        # Each call is made by several threads, so that equal inputs run at once too.
        jobs = [
            (number, pool.submit(calls, number, num_calls))
            for number in range(num_calls)
            for _ in range(2)
        ]
        together = [(number, job.result()) for number, job in jobs]
    end = time.perf_counter()
    differences = [
        np.abs(outputs[name].astype(np.float64) - values).max(initial=0.0)
        for number, outputs in together
        for name, values in alone[number].items()
    ]
    return {
        "threads": num_threads,
        "calls": len(together),
        "largest difference": max(differences),
        "calls that differ in a bit": sum(
            any(np.any(outputs[name] != values) for name, values in alone[number].items())
            for number, outputs in together
        ),
        "speed beside one thread": 2 * (middle - begin) / (end - middle),
    }


def export_random(directory: str, size: str) -> str:
    """An export of one of the sizes with random weights."""
    from elmo_tf import ElmoEncoder
    from elmo_tf.config.model import SIZES
    from elmo_tf.export import saved_model

    path = str(Path(directory) / size)
    saved_model.export(ElmoEncoder(SIZES[size], seed=1), path)
    return path


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", help="path of an export; without it one of random weights is made")
    add("--size", default="tiny", help="of that one: tiny, small, medium or original")
    add("--calls", type=int, default=10_000, help="for memory, at least 10")
    add("--max-batch", type=int, default=8, help="rows of the largest batch")
    add("--max-tokens", type=int, default=24, help="tokens of the longest row")
    add("--threads", type=int, default=8, help="that call at once")
    add("--json", action="store_true", help="print one line of JSON instead of a table")
    return parser.parse_args()


def main() -> None:
    """Prints the figures."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.model or export_random(directory, arguments.size)
        calls, seconds = measure_first_call(path, arguments)
        results = {
            "seconds": seconds,
            "memory": measure_memory(calls, arguments.calls),
            "threads": measure_threads(calls, max(10, arguments.calls // 50), arguments.threads),
            "traces": calls.num_traces(),
        }
    if arguments.json:
        print(json.dumps(results))
        return
    for group, figures in results.items():
        for name, value in figures.items():
            values = value if isinstance(value, list) else [value]
            print(f"{group:<8} {name:<28} " + " ".join(f"{each:.4g}" for each in values))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
