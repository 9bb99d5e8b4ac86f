"""Tables between the arrays of an outside format and our variables, and the loops over them.

An entry says: this array of theirs, of this name and shape, holds these arrays of ours, and these
functions lead there and back. The functions only move numbers, they never compute with them, so
what goes there and back is equal bit for bit.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.errors import InputError, listed, printable
from elmo_tf.storage.stored_array import StoredArray

Arrays = dict[str, np.ndarray]
StoredArrays = Mapping[str, StoredArray]
Shapes = Mapping[str, tuple[int, ...] | None]  # None: HDF5 also knows arrays without any shape


class Part(NamedTuple):
    """One array of ours inside one of theirs.

    Attributes:
      path: ours, as attributes joined by dots: "bilm.forward_0.bias".
      view: given those rows of theirs, returns a view of them that is ours.
      rows: of their first axis; None for all.
    """

    path: str
    view: Callable[[np.ndarray], np.ndarray]
    rows: slice | None = None


class Entry(NamedTuple):
    """One array of theirs, and what we make of it.

    Attributes:
      name: theirs.
      shape: theirs.
      parts: our arrays in it.
      to_theirs: given our arrays in the order of `parts`, returns theirs.
    """

    name: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    to_theirs: Callable[..., np.ndarray]


def same(name: str, shape: tuple[int, ...], path: str) -> Entry:
    """An array both sides store alike."""
    return Entry(name, shape, (Part(path, lambda theirs: theirs),), lambda ours: ours)


def transposed(name: str, shape: tuple[int, int], path: str) -> Entry:
    """A matrix they multiply from the right and we from the left; `shape` is theirs."""
    return Entry(name, shape, (Part(path, np.transpose),), np.transpose)


def with_height_one(name: str, shape: tuple[int, ...], path: str) -> Entry:
    """A kernel they store for images of one row and we for sequences; `shape` is ours."""
    return Entry(
        name, (1, *shape), (Part(path, lambda theirs: theirs[0]),), lambda ours: ours[None]
    )


def stacked(
    name: str, heights: tuple[int, int], width: int, first_path: str, second_path: str
) -> Entry:
    """A matrix they store as one, `[sum(heights), width]`, and we as two, each transposed."""
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
    """Their arrays by name, made from what `get` returns for each of our paths.

    Raises:
      InputError: what `get` returned for some paths does not make arrays of the right shape; the
        message lists all of them.
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
    """Our arrays by path, read when they are asked for. `theirs` has to fit: see `require_fit`."""
    return {
        part.path: theirs[entry.name].view(part.view, part.rows)
        for entry in entries
        for part in entry.parts
    }


def shapes_of(entries: Iterable[Entry]) -> dict[str, tuple[int, ...]]:
    """The shapes of their arrays by name."""
    return {entry.name: entry.shape for entry in entries}


def require_fit(
    source: str,
    expected: Shapes,
    shapes: Shapes,
    problems: Iterable[str] = (),
    to: str = "its options",
) -> None:
    """Compares arrays, by name and shape, with those that are expected.

    Args:
      source: what to call the arrays in the error, for instance their file.
      expected: shapes of what should come, by name.
      shapes: shapes of what came, by name.
      problems: what else was found; if there is any, it is an error even if all else fits.
      to: what the arrays have to fit, in the error.

    Raises:
      InputError: one line that lists missing, unexpected and wrongly shaped arrays: of each kind as
        many as a few hundred characters hold, and the number of the others.
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
