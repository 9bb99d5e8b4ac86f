"""The demo's picture: occurrences of a word as dots, coloured by the neighbouring token."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")  # we write only a file; there may be no display

from matplotlib import pyplot
from matplotlib.axes import Axes

# The palette of Okabe and Ito, which is safe for colour-blind readers, and a dark violet.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5E3C99")
OTHER_COLOUR = "#BBBBBB"


class Mark(NamedTuple):
    """A dot to highlight.

    Attributes:
      row: row of the dot.
      label: a short label next to it.
      text: text below the plot.
    """

    row: int
    label: str
    text: str


def draw(
    path: str | Path,
    points: np.ndarray,
    cues: Sequence[str | None],
    marks: Sequence[Mark],
    title: str,
    axis_labels: Sequence[str],
) -> None:
    """Writes a scatter plot as PNG.

    Args:
      path: the file to write.
      points: `[dots, 2]`.
      cues: the category of each dot, up to `len(COLOURS)` different ones; None is grey.
      marks: dots to highlight.
      title: title of the plot.
      axis_labels: labels of the x and y axes.
    """
    figure, axes = pyplot.subplots(figsize=(11, 8), layout="constrained")
    _scatter(axes, points, cues)
    for mark in marks:
        _point_out(axes, points, mark)
    axes.set_title(title, loc="left", fontsize=13, pad=14)
    axes.set_xlabel(axis_labels[0])
    axes.set_ylabel(axis_labels[1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=11)
    figure.supxlabel("\n".join(mark.text for mark in marks), fontsize=10, x=0.02, ha="left")
    figure.savefig(path, dpi=120, format="png")
    pyplot.close(figure)


def _scatter(axes: Axes, points: np.ndarray, cues: Sequence[str | None]) -> None:
    counts = Counter(cues)
    frequent = sorted((cue for cue in counts if cue is not None), key=lambda cue: -counts[cue])
    colours = dict(zip(frequent, COLOURS, strict=False)) | {None: OTHER_COLOUR}
    for cue, colour in colours.items():
        members = points[[other == cue for other in cues]]  # [dots of this colour, 2]
        label = f"{cue or 'anything else'} ({len(members)})"
        if len(members):
            axes.scatter(*members.T, s=26, c=colour, alpha=0.8, linewidths=0, label=label)


def _point_out(axes: Axes, points: np.ndarray, mark: Mark) -> None:
    """Draws a star, with its label on the side that faces away from the centre."""
    x, y = points[mark.row]
    axes.scatter([x], [y], s=260, marker="*", c="black", edgecolors="white", zorder=3)
    away = np.sign(x - points[:, 0].mean()) or 1
    axes.annotate(
        mark.label,
        (x, y),
        xytext=(16 * away, 12),
        textcoords="offset points",
        ha="left" if away > 0 else "right",
        fontsize=11,
        fontweight="bold",
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "#777777"},
        zorder=4,
    )
