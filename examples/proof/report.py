"""Tables and figures of all results in a directory.

    python -m examples.proof.report --output=proof

Prints the tables in Markdown, writes them to `report.md` and the figure to `pos.png` there. A
confidence interval resamples seeds and test sentences together: 1,000 bootstrap samples, 95 %.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np

from elmo_tf.errors import InputError
from elmo_tf.storage import files
from examples.proof import brown, fetch, samples
from examples.proof.brown import Sentence

matplotlib.use("Agg")  # we write only a file; there may be no display

from matplotlib import pyplot

KINDS = ("all", "ambiguous", "unseen")
TITLES = {"all": "all tokens", "ambiguous": "ambiguous tokens", "unseen": "unseen words"}
COLOURS = ("#BBBBBB", "#E69F00", "#56B4E9", "#0072B2", "#D55E00")  # of Okabe and Ito
NUM_RESAMPLES = 1000


class Run(NamedTuple):
    """One run of `pos`.

    Attributes:
      right: bool `[tokens]`.
      seen: the types of its training sentences.
      mix: the mix weights, lowest layer first.
    """

    right: np.ndarray
    seen: frozenset[str]
    mix: np.ndarray


class Figure(NamedTuple):
    """An accuracy with its confidence interval, all fractions."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.mean):
            return "no such token"
        return f"{self.mean:.1%} ({self.low:.1%}–{self.high:.1%})"


Runs = dict[tuple[int, str], list[Run]]


def read_runs(directory: Path) -> Runs:
    """The runs by size and variant."""
    runs: Runs = defaultdict(list)
    for path in sorted(directory.glob("*-*-*.npz")):
        variant, size, _ = path.stem.rsplit("-", 2)
        with np.load(path) as result:
            seen = frozenset(result["seen"].tolist())
            runs[int(size), variant].append(Run(result["right"], seen, result["mix"]))
    if not runs:
        raise InputError(f"{directory}: must hold results of examples.proof.pos, got none")
    return dict(runs)


def figures(
    runs: Sequence[Run], sentences: Sequence[Sentence], ambiguous: set[str]
) -> dict[str, Figure]:
    """The accuracy over each kind of tokens."""
    tokens = [token for sentence in sentences for token in sentence.tokens]
    starts = np.cumsum([0, *(len(sentence.tokens) for sentence in sentences)])[:-1]
    is_ambiguous = np.array([token in ambiguous for token in tokens])
    found = {}
    for kind in KINDS:
        counts = []  # of each run: [right or asked, sentences]
        for run in runs:
            asked = np.ones(len(tokens), bool)
            if kind == "ambiguous":
                asked = is_ambiguous
            elif kind == "unseen":
                asked = np.array([token not in run.seen for token in tokens])
            both = np.stack([run.right & asked, asked]).astype(np.int64)
            counts.append(np.add.reduceat(both, starts, axis=1))
        found[kind] = _interval(np.array(counts))
    return found


def _interval(counts: np.ndarray) -> Figure:
    """From `[runs, 2, sentences]`: numbers of right tokens and of all that are asked for."""
    rng = np.random.default_rng(0)
    num_runs, _, num_sentences = counts.shape
    sums = counts.sum(axis=-1)
    if not sums[:, 1].all():
        return Figure(np.nan, np.nan, np.nan)
    mean = (sums[:, 0] / sums[:, 1]).mean()
    means = []
    for _ in range(NUM_RESAMPLES):
        chosen = rng.integers(num_sentences, size=num_sentences)
        weights = np.bincount(chosen, minlength=num_sentences)
        sums = counts[rng.integers(num_runs, size=num_runs)] @ weights  # [runs, 2]
        if sums[:, 1].all():  # few sentences may all be without such tokens
            means.append((sums[:, 0] / sums[:, 1]).mean())
    low, high = np.quantile(means, [0.025, 0.975])
    return Figure(float(mean), float(low), float(high))


def tables(results: dict[tuple[int, str], dict[str, Figure]], runs: Runs) -> str:
    """The results as Markdown."""
    lines = ["| Sentences | Vectors | Runs | " + " | ".join(map(str.capitalize, TITLES.values()))]
    lines[0] += " | Errors removed of `static`, ambiguous |"
    lines.append("|---:|---|---:|---:|---:|---:|---:|")
    for (size, variant), found in results.items():
        static = results.get((size, "static"))
        removed = "" if static is None else f"{errors_removed(static, found):.0%}"
        cells = [f"{size:,}", variant, len(runs[size, variant]), *found.values(), removed]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| Sentences | Vectors | Learned weights, lowest layer first |", "|---:|---|---|"]
    for size, variant in results:
        mixes = [run.mix for run in runs[size, variant] if len(run.mix) > 1]
        if mixes:
            weights = ", ".join(f"{weight:.2f}" for weight in np.mean(mixes, axis=0))
            lines.append(f"| {size:,} | {variant} | {weights} |")
    return "\n".join(lines)


def errors_removed(baseline: dict[str, Figure], found: dict[str, Figure]) -> float:
    """The fraction of the baseline's errors on ambiguous tokens that are gone."""
    errors = 1 - baseline["ambiguous"].mean
    return 1 - (1 - found["ambiguous"].mean) / errors if errors else 0.0


def draw(path: Path, results: dict[tuple[int, str], dict[str, Figure]]) -> None:
    """Writes a plot of the accuracy over the size of the training sample, for each kind."""
    sizes = sorted({size for size, _ in results})
    figure, all_axes = pyplot.subplots(1, len(KINDS), figsize=(13, 4.6), layout="constrained")
    for axes, kind in zip(all_axes, KINDS, strict=True):
        for number, variant in enumerate(samples.VARIANTS):
            mine = [
                (size, results[size, variant][kind]) for size in sizes if (size, variant) in results
            ]
            if not mine:
                continue
            # Next to each other, so that the intervals don't hide each other.
            x = [size * 1.04 ** (number - 2) for size, _ in mine]
            means = np.array([each.mean for _, each in mine])
            bars = [means - [each.low for _, each in mine], [each.high for _, each in mine] - means]
            axes.errorbar(
                x,
                100 * means,
                100 * np.array(bars),
                color=COLOURS[number],
                marker="o",
                label=variant,
            )
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.set_title(TITLES[kind], loc="left")
        axes.set_xlabel("training sentences")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#DDDDDD")
    all_axes[0].set_ylabel("right tags, % (bars: 95 % confidence)")
    all_axes[0].legend(frameon=False)
    with files.write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the report; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, type=Path, help="Directory of the results.")
    parser.add_argument(
        "--data", type=Path, default=fetch.default_directory(), help="Directory of fetched data."
    )
    parser.add_argument("--brown", type=Path, help="Unpacked corpus, instead of fetching it.")
    parser.add_argument("--quick", action="store_true", help="For results of pos --quick.")
    options = parser.parse_args(arguments)
    try:
        corpus = brown.read_corpus(options.brown or fetch.fetch(fetch.BROWN, options.data))
        text = report(corpus, options.output, options.quick)
    except InputError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0


def report(corpus: brown.Split, output: Path, is_quick: bool) -> str:
    """Writes report.md and pos.png; returns the text of the former."""
    sample = samples.draw(corpus, samples.QUICK_SIZES if is_quick else samples.SIZES)
    counts = brown.tag_counts(corpus.train)
    ambiguous = brown.ambiguous_types(counts)
    runs = read_runs(output)
    order = sorted(runs, key=lambda key: (key[0], samples.VARIANTS.index(key[1])))
    results = {key: figures(runs[key], sample.test, ambiguous) for key in order}
    text = f"{baseline(corpus, counts, ambiguous)}\n\n{tables(results, runs)}"
    with files.write_atomically(output / "report.md") as temporary:
        Path(temporary).write_text(text + "\n", encoding="utf-8")
    draw(output / "pos.png", results)
    return text


def baseline(corpus: brown.Split, counts: dict, ambiguous: set[str]) -> str:
    """A sentence about the most frequent tag, over the whole training and test parts."""
    gold = [tag for sentence in corpus.test for tag in sentence.tags]
    tokens = [token for sentence in corpus.test for token in sentence.tokens]
    found = brown.most_frequent_tags(counts, corpus.test)
    right = np.array([tag == expected for tag, expected in zip(found, gold, strict=True)])
    rates = brown.accuracies(right, tokens, ambiguous, set(counts))
    shown = ", ".join(f"{TITLES[kind]} {rate:.2%}" for kind, rate in rates.items())
    return f"Most frequent tag, counted in all {len(corpus.train):,} training sentences: {shown}."


if __name__ == "__main__":
    sys.exit(main())
