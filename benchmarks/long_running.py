"""Repeated calls of a model: traces, memory, time and threads, for each entry point.

    .venv/bin/python benchmarks/long_running.py                      an export of random weights
    .venv/bin/python benchmarks/long_running.py --model=exported     your own
    .venv/bin/python benchmarks/long_running.py --calls=300 --json

Each call has new words, a new batch size and new lengths; no shape is warmed up. The entry points
are those of the loaded export (the call, its functions, each signature), of the encoder, of a Keras
model with `ElmoEmbedding`, and `embed_sentences`. Only the first two calls of an entry point may
trace, and memory must not grow.

Traces are counted in two ways: by `experimental_get_tracing_count` on the functions of the loaded
object, which wrap the saved ones, and as all graphs that TensorFlow builds in the process, which
includes functions that are created anew for each call.

Memory is the resident memory after the first fifth of an entry point's calls and after the last.
"""

import argparse
import concurrent.futures
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from comparison import workers

SEED = 1
MEGABYTE = 1 << 20
# Number of calls of an entry point that may trace.
WARM_UP = 2
FUNCTIONS = ("__call__", "tokens", "char_ids", "word_ids")

Outputs = dict[str, np.ndarray]


@contextmanager
def counted_graphs() -> Iterator[list[str]]:
    """A list that receives the name of each graph that TensorFlow builds from a Python function."""
    from tensorflow.python.framework import func_graph

    original, built = func_graph.func_graph_from_py_func, []

    def counting(name: str, *args: Any, **kwargs: Any) -> Any:
        built.append(name)
        return original(name, *args, **kwargs)

    func_graph.func_graph_from_py_func = counting
    try:
        yield built
    finally:
        func_graph.func_graph_from_py_func = original


class Inputs:
    """The inputs of one call, with the same words in each form.

    Args:
      number: number of the call, which determines the inputs.
      max_batch: maximum number of rows of a batch.
      max_tokens: maximum number of tokens of a row.
      ids: converts sentences to the ids of the model.
    """

    def __init__(
        self, number: int, max_batch: int, max_tokens: int, ids: Callable[[list], np.ndarray]
    ) -> None:
        random = np.random.default_rng([SEED, number])
        self.lengths = random.integers(0, max_tokens + 1, random.integers(1, max_batch + 1))
        self.sentences = [[_word(random) for _ in range(length)] for length in self.lengths]
        self.text = [" ".join(sentence) for sentence in self.sentences]
        width = self.lengths.max()
        self.padded = [row + [""] * (width - len(row)) for row in self.sentences]
        self.ids = ids(self.sentences)


def _word(random: np.random.Generator) -> str:
    return random.integers(97, 123, random.integers(1, 16), dtype=np.uint8).tobytes().decode()


class EntryPoints:
    """All entry points of a model by name; each is a function of `Inputs`.

    Args:
      path: path of the SavedModel.
      max_batch, max_tokens: see `Inputs`.
    """

    def __init__(self, path: str, max_batch: int, max_tokens: int) -> None:
        import tensorflow as tf

        import elmo_tf

        self._tf = tf
        self._sizes = max_batch, max_tokens
        self.exported = tf.saved_model.load(path)
        elmo = elmo_tf.ElmoEmbedding.from_model(path)
        self._encoder = elmo.encoder
        self._embed_sentences = elmo_tf.embed_sentences
        self._ids_name = "char_ids" if hasattr(self.exported, "char_ids") else "word_ids"
        self.calls = {
            **self._of_export(),
            **self._of_signatures(),
            **self._of_python(elmo),
        }

    def inputs(self, number: int) -> Inputs:
        """The inputs of a call."""
        return Inputs(number, *self._sizes, self._encoder.token_input.batch)

    def __call__(self, name: str, number: int) -> Outputs:
        """The outputs of an entry point for the inputs of a call."""
        outputs = self.calls[name](self.inputs(number))
        return {key: np.asarray(value) for key, value in outputs.items()}

    def _of_export(self) -> dict[str, Callable[[Inputs], Any]]:
        tf, model = self._tf, self.exported
        ids = getattr(model, self._ids_name)

        def tokens(given: Inputs, lengths: Any) -> dict[str, Any]:
            return {"tokens": given.padded, "sequence_len": lengths}

        return {
            "export(list)": lambda given: model(given.text),
            "export(tensor)": lambda given: model(tf.constant(given.text)),
            "export(list, training=True)": lambda given: model(given.text, training=True),
            "export(tensor, training=True)": lambda given: model(
                tf.constant(given.text), training=True
            ),
            "export.tokens(lists)": lambda given: model.tokens(
                tokens(_not_empty(given), _not_empty(given).lengths.tolist())
            ),
            "export.tokens(tensors)": lambda given: model.tokens(self._tokens(given)),
            f"export.{self._ids_name}(lists)": lambda given: ids(_not_empty(given).ids.tolist()),
            f"export.{self._ids_name}(array)": lambda given: ids(given.ids),
        }

    def _tokens(self, given: Inputs) -> dict[str, Any]:
        tf = self._tf
        shape = [len(given.padded), given.lengths.max()]
        return {
            "tokens": tf.constant(given.padded, tf.string, shape),
            "sequence_len": tf.constant(given.lengths, tf.int32),
        }

    def _of_signatures(self) -> dict[str, Callable[[Inputs], Any]]:
        tf = self._tf
        arguments = {
            "tokens": self._tokens,
            self._ids_name: lambda given: {self._ids_name: tf.constant(given.ids)},
        }

        def text(given: Inputs) -> dict[str, Any]:
            return {"text": tf.constant(given.text)}

        def call(signature: Any, of: Callable[[Inputs], dict[str, Any]]) -> Callable:
            return lambda given: signature(**of(given))

        return {
            f"signature {name}": call(signature, arguments.get(name, text))
            for name, signature in self.exported.signatures.items()
        }

    def _of_python(self, elmo: Any) -> dict[str, Callable[[Inputs], Any]]:
        import keras

        tf, encoder = self._tf, self._encoder
        tokens = keras.Input([None], dtype="string")
        model = keras.Model(tokens, keras.layers.GlobalAveragePooling1D()(elmo(tokens)))
        return {
            "ElmoEncoder(text)": lambda given: encoder(given.text),
            "ElmoEncoder(tokens)": lambda given: encoder(
                given.sentences, sequence_len=given.lengths
            ),
            "ElmoEncoder(ids)": lambda given: encoder(given.ids),
            "ElmoEmbedding(text)": lambda given: {"": elmo(given.text)},
            "keras.Model(tokens)": lambda given: {"": model(self._tokens(given)["tokens"])},
            "embed_sentences": lambda given: {
                "": tf.concat(self._embed_sentences(encoder, given.sentences), axis=0)
            },
        }

    def wrapper_traces(self) -> dict[str, int]:
        """Number of traces of each function of the loaded export."""
        functions = {name: getattr(self.exported, name, None) for name in FUNCTIONS}
        return {
            name: function.experimental_get_tracing_count()
            for name, function in functions.items()
            if function is not None
        }


def _not_empty(given: Inputs) -> Inputs:
    """The inputs, or others if all rows are empty: empty lists have no dtype."""
    if not given.lengths.max():
        given.sentences[0], given.text[0], given.lengths[0] = ["a"], "a", 1
        given.padded = [row or [""] for row in given.sentences]
        given.ids = np.zeros([len(given.padded), 1, *given.ids.shape[2:]], np.int32)
    return given


def count_traces(entry_points: EntryPoints, name: str, num_calls: int) -> int:
    """Number of graphs that calls of an entry point build after the first two."""
    for number in range(WARM_UP):
        entry_points(name, number)
    with counted_graphs() as built:
        for number in range(WARM_UP, num_calls):
            entry_points(name, number)
    return len(built)


def measure(entry_points: EntryPoints, name: str, num_calls: int) -> dict[str, float]:
    """Seconds of the first, second and a later call; graphs and MB added by later calls."""
    seconds = []
    with counted_graphs() as built:
        for number in range(num_calls):
            if number == WARM_UP:
                built.clear()
            if number == num_calls // 5:
                begin = _resident()
            start = time.perf_counter()
            entry_points(name, number)
            seconds.append(time.perf_counter() - start)
    return {
        "traces": len(built),
        "growth MB": _resident() - begin,
        "first s": seconds[0],
        "second s": seconds[1],
        "median ms": 1000 * float(np.median(seconds[WARM_UP:])),
    }


def _resident() -> float:
    gc.collect()
    return workers.memory()["resident"] / MEGABYTE


def measure_threads(
    entry_points: EntryPoints, num_calls: int, num_threads: int
) -> dict[str, float]:
    """The largest difference between the outputs of concurrent threads and of one thread."""
    names = ["export(list)", "export.tokens(tensors)", "signature default", "ElmoEncoder(text)"]
    # Two threads make each call, so that equal inputs also run concurrently.
    pairs = [(names[number % len(names)], number) for number in range(num_calls)]
    alone = [entry_points(*pair) for pair in pairs]
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        jobs = [[pool.submit(entry_points, *pair) for _ in range(2)] for pair in pairs]
        together = [[job.result() for job in each] for each in jobs]
    differences = [
        np.abs(outputs[key].astype(np.float64) - values).max(initial=0.0)
        for expected, found in zip(alone, together, strict=True)
        for outputs in found
        for key, values in expected.items()
    ]
    return {"threads": num_threads, "calls": 2 * num_calls, "difference": max(differences)}


def export_random(directory: str, size: str) -> str:
    """Exports a model of the given size with random weights."""
    from elmo_tf import ElmoEncoder
    from elmo_tf.config.model import SIZES
    from elmo_tf.export import saved_model

    path = str(Path(directory) / size)
    saved_model.export(ElmoEncoder(SIZES[size], seed=1), path, trainable="all")
    return path


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", help="path of an export (default: an export with random weights)")
    add("--size", default="tiny", help="size of the default model, such as small or original")
    add("--calls", type=int, default=1000, help="number of calls per entry point, at least 10")
    add("--max-batch", type=int, default=8, help="maximum number of rows of a batch")
    add("--max-tokens", type=int, default=24, help="maximum number of tokens of a row")
    add("--threads", type=int, default=8, help="number of concurrent threads")
    add("--json", action="store_true", help="print one line of JSON instead of a table")
    return parser.parse_args()


def main() -> None:
    """Prints the figures."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.model or export_random(directory, arguments.size)
        begin = time.perf_counter()
        entry_points = EntryPoints(path, arguments.max_batch, arguments.max_tokens)
        results: dict[str, Any] = {
            "load s": time.perf_counter() - begin,
            "entry points": {
                name: measure(entry_points, name, arguments.calls) for name in entry_points.calls
            },
            "wrapper traces": entry_points.wrapper_traces(),
            "threads": measure_threads(
                entry_points, max(10, arguments.calls // 10), arguments.threads
            ),
        }
    if arguments.json:
        print(json.dumps(results))
        return
    rows = results.pop("entry points")
    columns = list(next(iter(rows.values())))
    print(f"{'entry point':<32}" + "".join(f"{column:>12}" for column in columns))
    for name, figures in rows.items():
        print(f"{name:<32}" + "".join(f"{figures[column]:>12.4g}" for column in columns))
    for name, value in results.items():
        print(f"{name}: {value}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
