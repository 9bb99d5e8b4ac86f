"""Senses of ambiguous words by their nearest neighbour, on the example sentences of WordNet.

    python -m examples.proof.senses --model=english-pd --output=proof

Each occurrence of a lemma takes the sense of the most similar (cosine) other occurrence of the same
lemma. Nothing is trained. Prints a table for each layer in Markdown, and writes it to `senses.md`
and a figure to `senses.png`.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

from elmo_tf import ElmoEncoder, embed_sentences
from elmo_tf.errors import InputError
from elmo_tf.storage import files
from examples.proof import fetch, wordnet
from examples.proof.wordnet import PARTS_OF_SPEECH, Occurrence

matplotlib.use("Agg")  # we write only a file; there may be no display

from matplotlib import pyplot

NUM_RESAMPLES = 1000


def occurrence_vectors(encoder: ElmoEncoder, occurrences: Sequence[Occurrence]) -> np.ndarray:
    """The vectors of each occurrence's token, `[occurrences, layers, dim]`."""
    sentences = list(dict.fromkeys(each.tokens for each in occurrences))
    rows = {tokens: row for row, tokens in enumerate(sentences)}
    vectors = embed_sentences(encoder, sentences, layers="all")  # [layers, tokens, dim] each
    return np.array([vectors[rows[each.tokens]][:, each.position] for each in occurrences])


def neighbours_right(occurrences: Sequence[Occurrence], vectors: np.ndarray) -> np.ndarray:
    """Whether the nearest other occurrence of the lemma has the same sense.

    Args:
      occurrences: occurrences of any lemmas.
      vectors: `[occurrences, dim]`.

    Returns:
      `[occurrences]`: 1 or 0; where several are equally near, the fraction of them that is right.
    """
    right = np.zeros(len(occurrences))
    for rows in _rows_of_lemmas(occurrences):
        unit = vectors[rows].astype(np.float64)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        cosines = unit @ unit.T
        np.fill_diagonal(cosines, -np.inf)
        senses = np.array([occurrences[row].sense for row in rows])
        is_nearest = cosines >= cosines.max(axis=1, keepdims=True) - 1e-6
        is_same = senses[:, None] == senses
        right[rows] = (is_nearest & is_same).sum(axis=1) / is_nearest.sum(axis=1)
    return right


def first_senses_right(occurrences: Sequence[Occurrence]) -> np.ndarray:
    """Whether each occurrence has the sense, of those that occur, that WordNet lists first."""
    right = np.zeros(len(occurrences))
    for rows in _rows_of_lemmas(occurrences):
        senses = np.array([occurrences[row].sense for row in rows])
        right[rows] = senses == senses.min()
    return right


def chance(occurrences: Sequence[Occurrence]) -> np.ndarray:
    """The probability that another occurrence of the lemma, drawn at random, has the same sense."""
    expected = np.zeros(len(occurrences))
    for rows in _rows_of_lemmas(occurrences):
        counts = Counter(occurrences[row].sense for row in rows)
        expected[rows] = [(counts[occurrences[row].sense] - 1) / (len(rows) - 1) for row in rows]
    return expected


def _rows_of_lemmas(occurrences: Sequence[Occurrence]) -> list[list[int]]:
    rows = defaultdict(list)
    for row, occurrence in enumerate(occurrences):
        rows[occurrence.lemma].append(row)
    return list(rows.values())


def results(occurrences: Sequence[Occurrence], vectors: np.ndarray) -> dict[str, np.ndarray]:
    """How right each method is for each occurrence: two baselines, each layer, and their mean."""
    last = vectors.shape[1] - 1
    names = ["word_emb", *(f"layer {layer}" for layer in range(1, last)), "top layer"]
    found = {
        "random neighbour": chance(occurrences),
        "first sense": first_senses_right(occurrences),
    }
    for layer, name in enumerate(names):
        found[name] = neighbours_right(occurrences, vectors[:, layer])
    found["mean of layers"] = neighbours_right(occurrences, vectors.mean(axis=1))
    return found


def interval(right: np.ndarray, occurrences: Sequence[Occurrence]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean, drawing lemmas."""
    rng = np.random.default_rng(0)
    lemmas = _rows_of_lemmas(occurrences)
    sums = np.array([[right[rows].sum(), len(rows)] for rows in lemmas])
    drawn = sums[rng.integers(len(lemmas), size=(NUM_RESAMPLES, len(lemmas)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(low), float(high)


def table(occurrences: Sequence[Occurrence], found: dict[str, np.ndarray]) -> str:
    """The results as Markdown."""
    parts = np.array([each.lemma.rpartition(".")[2] for each in occurrences])
    present = [part for part in PARTS_OF_SPEECH if part in parts]
    counts = [f"{part} ({np.sum(parts == part):,})" for part in present]
    lines = [" | ".join(["| Nearest neighbour by", f"All ({len(parts):,})", *counts]) + " |"]
    lines.append("|---" + "|---:" * (1 + len(present)) + "|")
    for name, right in found.items():
        low, high = interval(right, occurrences)
        cells = [f"{right.mean():.1%} ({low:.1%}–{high:.1%})"]
        cells += [f"{right[parts == part].mean():.1%}" for part in present]
        lines.append(" | ".join([f"| {name}", *cells]) + " |")
    return "\n".join(lines)


def draw(path: Path, occurrences: Sequence[Occurrence], found: dict[str, np.ndarray]) -> None:
    """Writes a bar chart as PNG."""
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    means = np.array([right.mean() for right in found.values()])
    limits = np.array([interval(right, occurrences) for right in found.values()])
    errors = np.abs(limits.T - means)
    colours = ["#BBBBBB"] * 2 + ["#0072B2"] * (len(found) - 2)
    axes.barh(list(found), 100 * means, xerr=100 * errors, color=colours)
    axes.invert_yaxis()
    axes.set_xlabel("right senses, % (lines: 95 % confidence)")
    axes.spines[["top", "right"]].set_visible(False)
    with files.write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints and writes the results; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="A model as ElmoEncoder.from_model takes.")
    parser.add_argument("--output", required=True, type=Path, help="Directory of the results.")
    parser.add_argument(
        "--data", type=Path, default=fetch.default_directory(), help="Directory of fetched data."
    )
    parser.add_argument("--wordnet", type=Path, help="Unpacked package, instead of fetching it.")
    options = parser.parse_args(arguments)
    try:
        directory = options.wordnet or fetch.fetch(fetch.WORDNET, options.data)
        occurrences = wordnet.read_occurrences(directory)
        vectors = occurrence_vectors(ElmoEncoder.from_model(options.model), occurrences)
    except InputError as error:
        print(f"senses: {error}", file=sys.stderr)
        return 1
    found = results(occurrences, vectors)
    text = table(occurrences, found)
    with files.write_atomically(options.output / "senses.md") as temporary:
        Path(temporary).write_text(text + "\n", encoding="utf-8")
    draw(options.output / "senses.png", occurrences, found)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
