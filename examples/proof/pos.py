"""Part-of-speech tagging of the Brown corpus with five kinds of vectors.

    python -m examples.proof.pos --model=english-pd --output=proof

The tagger is the same for all: a projection to 64 dimensions, a convolution over three tokens, and
12 tags. Its input is

    static      a word embedding trained with the task
    word        `word_emb`: the character CNN of the language model, without context
    top         the top layer of the language model
    mix         the learned scalar mix of all layers
    fine-tuned  the same through `ElmoEmbedding`, then the language model trained with it

The first four read layers that are computed once. Finished runs in `--output` are not repeated.
"""

import argparse
import itertools
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from elmo_tf import ElmoEmbedding, ElmoEncoder
from elmo_tf.errors import InputError
from elmo_tf.storage import files
from examples.proof import brown, cached_layers, features, fetch, samples, tagger
from examples.proof.samples import FROZEN, QUICK_SIZES, SIZES, VARIANTS, Sample

EPOCHS = {300: 30, 1000: 15, 5000: 6}  # the smaller the sample, the more passes
FINE_TUNING_EPOCHS = 3
NUM_SEEDS = 3


class Experiment:
    """The sample, the models and the directory of results.

    Args:
      encoder: the language model.
      sample: the sentences.
      cache: directory of cached layers.
      output: directory of results, one file per run.
    """

    def __init__(self, encoder: ElmoEncoder, sample: Sample, cache: Path, output: Path) -> None:
        self._encoder, self._output = encoder, output
        self._tokens = sample.tokens
        number = {tag: index for index, tag in enumerate(brown.UNIVERSAL_TAGS)}
        self._tags = [[number[tag] for tag in each.tags] for part in sample for each in part]
        ends = np.cumsum([len(part) for part in sample]).tolist()
        self._train = range(ends[0])
        self._development, self._test = range(ends[0], ends[1]), range(ends[1], ends[2])
        self._cached = cached_layers.compute(encoder, self._tokens, cache)
        self._first_weights = [np.array(each) for each in encoder.get_weights()]
        self._models: dict[str, tuple[keras.Model, features.Features]] = {}

    def run(self, variant: str, size: int, seed: int, epochs: int) -> None:
        """Trains and tests one variant, and saves which test tokens it got right."""
        path = self._output / f"{variant}-{size}-{seed}.npz"
        if path.exists():
            return
        begin = time.monotonic()
        rows = random.Random(seed).sample(self._train, size)
        model, inputs = self._model(variant)
        keras.utils.set_random_seed(seed)
        self._restart(variant, model)
        if variant == "fine-tuned":
            self._train_frozen_first(model, rows, size, seed, epochs)
            epochs = FINE_TUNING_EPOCHS
        tagger.train(model, inputs, self._tags, rows, self._development, epochs, seed)
        right = tagger.is_right(model, inputs, self._tags, self._test)
        seen = sorted({token for row in rows for token in self._tokens[row]})
        with files.write_atomically(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, right=right, seen=np.array(seen), mix=mix_weights(model))
        seconds = time.monotonic() - begin
        print(f"{variant} {size} {seed}: {right.mean():.4f}, {seconds:.0f} s", flush=True)

    def _train_frozen_first(
        self, model: keras.Model, rows: Sequence[int], size: int, seed: int, epochs: int
    ) -> None:
        frozen, inputs = self._model("mix")
        self._restart("mix", frozen)
        tagger.train(frozen, inputs, self._tags, rows, self._development, epochs, seed)
        for name in ("reduce", "window", "tags"):
            model.get_layer(name).set_weights(frozen.get_layer(name).get_weights())
        model.get_layer("elmo").mix.set_weights(frozen.get_layer("mix").get_weights())

    def _restart(self, variant: str, model: keras.Model) -> None:
        fresh = keras.models.clone_model(model) if variant in FROZEN else None
        tagger.restart(model, (fresh or model).get_weights())
        if variant == "fine-tuned":
            self._encoder.set_weights(self._first_weights)

    def _model(self, variant: str) -> tuple[keras.Model, features.Features]:
        if variant not in self._models:
            self._models[variant] = self._make(variant)
        return self._models[variant]

    def _make(self, variant: str) -> tuple[keras.Model, features.Features]:
        num_tags = len(brown.UNIVERSAL_TAGS)
        num_layers, dim = self._cached.vectors.shape[1:]
        if variant == "static":
            words = features.WordIds(self._tokens)
            return tagger.static_model(words.num_ids, num_tags), words
        if variant == "fine-tuned":
            elmo = ElmoEmbedding(
                self._encoder, dropout=tagger.DROPOUT, trainable="all", name="elmo"
            )
            return tagger.fine_tuned_model(elmo, num_tags), features.Tokens(self._tokens)
        layers = {"word": [0], "top": [num_layers - 1], "mix": list(range(num_layers))}[variant]
        model = tagger.layers_model(len(layers), dim, num_tags)
        return model, features.Layers(self._cached, layers)


def mix_weights(model: keras.Model) -> np.ndarray:
    """The softmax of the model's scalar mix, lowest layer first; empty without one."""
    for layer in model.layers:
        mix = getattr(layer, "mix", layer)
        if hasattr(mix, "mixes"):
            weights = np.asarray(mix.mixes[0].layer_weights)
            return np.exp(weights) / np.exp(weights).sum()
    return np.zeros(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all experiments; returns the exit status."""
    options = parse(arguments)
    try:
        run(options)
    except InputError as error:
        print(f"pos: {error}", file=sys.stderr)
        return 1
    return 0


def parse(arguments: Sequence[str] | None) -> Any:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="A model as ElmoEncoder.from_model takes.")
    parser.add_argument("--output", required=True, type=Path, help="Directory of the results.")
    parser.add_argument(
        "--data",
        type=Path,
        default=fetch.default_directory(),
        help="Directory of fetched data and cached layers (default: %(default)s).",
    )
    parser.add_argument("--brown", type=Path, help="Unpacked corpus, instead of fetching it.")
    parser.add_argument(
        "--variants", nargs="*", choices=VARIANTS, default=VARIANTS, help="Kinds of vectors."
    )
    parser.add_argument("--sizes", nargs="*", type=int, default=sorted(EPOCHS), help="Sentences.")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="Runs of each kind.")
    parser.add_argument("--quick", action="store_true", help="Tiny sample, to see that it runs.")
    return parser.parse_args(arguments)


def run(options: Any) -> None:
    """Runs what the options name."""
    corpus = brown.read_corpus(options.brown or fetch.fetch(fetch.BROWN, options.data))
    sample = samples.draw(corpus, QUICK_SIZES if options.quick else SIZES)
    encoder = ElmoEncoder.from_model(options.model)
    experiment = Experiment(encoder, sample, options.data / "cache", options.output)
    sizes = [QUICK_SIZES[0]] if options.quick else options.sizes
    for seed, size, variant in itertools.product(range(options.seeds), sizes, options.variants):
        experiment.run(variant, size, seed, 1 if options.quick else EPOCHS.get(size, 6))


if __name__ == "__main__":
    sys.exit(main())
