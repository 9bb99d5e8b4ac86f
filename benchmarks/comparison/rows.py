"""Results, and the table that shows them."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

OURS = "elmo_tf"
BILM_TF = "bilm-tf"
PYTORCH = "PyTorch loop"
FLOOR = "floor"
COLUMNS = (FLOOR, OURS, BILM_TF, PYTORCH)


class Row(NamedTuple):
    """One row of the table.

    Attributes:
      work: description of the work.
      unit: unit of the values.
      more_is_better: true for rates, false for times and sizes.
      values: the values of all repetitions, by system.
      has_ratios: false for values that may be zero.
    """

    work: str
    unit: str
    more_is_better: bool
    values: dict[str, list[float]]
    has_ratios: bool = True

    def ratio(self, system: str) -> float | None:
        """By what factor elmo_tf is better than `system`: the median over repetitions.

        Both values of a ratio come from the same repetition, so other load on the machine affects
        both.
        """
        if not (self.has_ratios and self.values.get(OURS) and self.values.get(system)):
            return None
        pairs = zip(self.values[OURS], self.values[system], strict=True)
        ratios = [ours / theirs if self.more_is_better else theirs / ours for ours, theirs in pairs]
        return statistics.median(ratios)


def to_table(title: str, rows: Sequence[Row]) -> str:
    """The rows as a Markdown table: medians, ranges and ratios."""
    header = ["work", "unit", *COLUMNS, "of the floor", "times bilm-tf", "times PyTorch"]
    lines = [f"### {title}", "", _line(header), _line(["---"] * 2 + ["---:"] * (len(header) - 2))]
    for row in rows:
        cells = [row.work, row.unit, *(_values(row.values.get(name)) for name in COLUMNS)]
        share = row.ratio(FLOOR)
        cells.append("" if share is None else f"{share:.0%}")
        for name in (BILM_TF, PYTORCH):
            ratio = row.ratio(name)
            cells.append("" if ratio is None else f"**{ratio:.2f}**")
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _values(values: Sequence[float] | None) -> str:
    if not values:
        return ""
    low, middle, high = (_number(f(values)) for f in (min, statistics.median, max))
    return middle if low == high else f"{middle} ({low} - {high})"


def _number(value: float) -> str:
    """The value with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
