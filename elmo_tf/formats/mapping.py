"""Tables that map the arrays of an external format to our variables, and loops over the tables.

An entry has the name and shape of one of their arrays, the arrays of ours inside it, and functions
for both directions. The functions only move numbers, so a round trip is bitwise exact.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.errors import InputError, listed, printable
from elmo_tf.storage.stored_array import StoredArray

Arrays = dict[str, np.ndarray]
StoredArrays = Mapping[str, StoredArray]
Shapes = Mapping[str, tuple[int, ...] | None]  # None: an HDF5 dataset may have no shape


class Part(NamedTuple):
    """One of our arrays inside one of theirs.

    Attributes:
      path: path of our array, attributes joined by dots: "bilm.forward_0.bias".
      view: returns our array as a view of the selected rows of theirs.
      rows: rows of their first axis; None for all.
    """

    path: str
    view: Callable[[np.ndarray], np.ndarray]
    rows: slice | None = None


class Entry(NamedTuple):
    """One of their arrays, and ours inside it.

    Attributes:
      name: name of their array.
      shape: shape of their array.
      parts: our arrays in it.
      to_theirs: builds their array from ours, in the order of `parts`.
    """

    name: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    to_theirs: Callable[..., np.ndarray]


def same(name: str, shape: tuple[int, ...], path: str) -> Entry:
    """An array with the same layout on both sides."""
    return Entry(name, shape, (Part(path, lambda theirs: theirs),), lambda ours: ours)


def transposed(name: str, shape: tuple[int, int], path: str) -> Entry:
    """A matrix that is transposed between the two; `shape` is theirs."""
    return Entry(name, shape, (Part(path, np.transpose),), np.transpose)


def with_height_one(name: str, shape: tuple[int, ...], path: str) -> Entry:
    """A kernel that they store for images of height 1, we for sequences; `shape` is ours."""
    return Entry(
        name, (1, *shape), (Part(path, lambda theirs: theirs[0]),), lambda ours: ours[None]
    )


def stacked(
    name: str, heights: tuple[int, int], width: int, first_path: str, second_path: str
) -> Entry:
    """One matrix of theirs, `[sum(heights), width]`, that is two of ours, each transposed."""
    border = heights[0]
    return Entry(
        name,
        (sum(heights), width),
        (
            Part(first_path, np.transpose, slice(0, border)),
            Part(second_path, np.transpose, slice(border, sum(heights))),
        ),
        lambda first, second: np.concatenate([first.T, second.T]),
    )


def to_theirs(entries: Iterable[Entry], get: Callable[[str], Any]) -> Arrays:
    """Their arrays by name, built from our arrays, which `get` returns by path.

    Raises:
      InputError: arrays are missing or have wrong shapes; the message lists all of them.
    """
    theirs, problems = {}, []
    for entry in entries:
        ours = [get(part.path) for part in entry.parts]
        together = " with ".join(part.path for part in entry.parts)
        if any(array is None for array in ours):
            problems.append(f"there is no {together}")
            continue
        array = np.ascontiguousarray(entry.to_theirs(*map(np.asarray, ours)))
        if array.shape != entry.shape:
            shapes = f"{_show(array.shape)}, must be {_show(entry.shape)}"
            problems.append(f"{together} gives {entry.name} {shapes}")
        theirs[entry.name] = array
    if problems:
        raise InputError(f"variables do not fit the configuration: {listed(problems)}")
    return theirs


def from_theirs(entries: Sequence[Entry], theirs: StoredArrays) -> dict[str, StoredArray]:
    """Our arrays by path, each read when it is used. Check `theirs` first with `require_fit`."""
    return {
        part.path: theirs[entry.name].view(part.view, part.rows)
        for entry in entries
        for part in entry.parts
    }


def shapes_of(entries: Iterable[Entry]) -> dict[str, tuple[int, ...]]:
    """Shapes of their arrays by name."""
    return {entry.name: entry.shape for entry in entries}


def require_fit(
    source: str,
    expected: Shapes,
    shapes: Shapes,
    problems: Iterable[str] = (),
    to: str = "its options",
) -> None:
    """Compares the names and shapes of arrays with the expected ones.

    Args:
      source: source of the arrays in the error, for example their file.
      expected: expected shapes by name.
      shapes: actual shapes by name.
      problems: other problems; if there are any, an error is raised in any case.
      to: in the error, what the arrays must fit.

    Raises:
      InputError: the arrays differ; one line lists missing, unexpected and wrongly shaped arrays,
        limited to a few hundred characters of each kind and the number of the rest.
    """
    problems = list(problems)
    for name, shape in expected.items():
        if name not in shapes:
            problems.append(f"missing: {name} {_show(shape)}")
        elif shapes[name] != shape:
            problems.append(f"wrong shape: {name} is {_show(shapes[name])}, must be {_show(shape)}")
    for name in shapes.keys() - expected.keys():
        problems.append(f"unexpected: {printable(name)} {_show(shapes[name])}")
    if problems:
        kinds = itertools.groupby(sorted(problems), key=lambda problem: problem.split(":")[0])
        shown = "; ".join(listed(group, more=f"more {kind}") for kind, group in kinds)
        raise InputError(f"{source}: does not fit {to}: {shown}")


def _show(shape: Iterable[int] | None) -> str:
    return "without a shape" if shape is None else str(list(shape))
