"""Tables between the arrays of an outside format and our variables, and the loops over them.

An entry says: this array of theirs, of this name and shape, holds these arrays of ours, and these
two functions lead there and back. The functions only move numbers, they never compute with them,
so what goes there and back is equal bit for bit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.errors import InputError, printable

Arrays = dict[str, np.ndarray]
Shapes = Mapping[str, tuple[int, ...] | None]  # None: HDF5 also knows arrays without any shape


class Entry(NamedTuple):
    """One array of theirs, and what we make of it.

    Attributes:
      name: theirs.
      shape: theirs.
      paths: where ours lie, as attributes joined by dots: "bilm.forward_0.bias".
      to_theirs: given our arrays in the order of `paths`, returns theirs.
      from_theirs: given their array, returns ours in the order of `paths`.
    """

    name: str
    shape: tuple[int, ...]
    paths: tuple[str, ...]
    to_theirs: Callable[..., np.ndarray]
    from_theirs: Callable[[np.ndarray], tuple[np.ndarray, ...]]


def same(name: str, shape: tuple[int, ...], path: str) -> Entry:
    """An array both sides store alike."""
    return Entry(name, shape, (path,), lambda ours: ours, lambda theirs: (theirs,))


def transposed(name: str, shape: tuple[int, int], path: str) -> Entry:
    """A matrix they multiply from the right and we from the left; `shape` is theirs."""
    return Entry(name, shape, (path,), lambda ours: ours.T, lambda theirs: (theirs.T,))


def with_height_one(name: str, shape: tuple[int, ...], path: str) -> Entry:
    """A kernel they store for images of one row and we for sequences; `shape` is ours."""
    return Entry(name, (1, *shape), (path,), lambda ours: ours[None], lambda theirs: (theirs[0],))


def stacked(
    name: str, heights: tuple[int, int], width: int, first_path: str, second_path: str
) -> Entry:
    """A matrix they store as one, `[sum(heights), width]`, and we as two, each transposed."""
    border = heights[0]
    return Entry(
        name,
        (sum(heights), width),
        (first_path, second_path),
        lambda first, second: np.concatenate([first.T, second.T]),
        lambda theirs: (theirs[:border].T, theirs[border:].T),
    )


def to_theirs(entries: Iterable[Entry], get: Callable[[str], Any]) -> Arrays:
    """Their arrays by name, made from what `get` returns for each of our paths.

    Raises:
      InputError: what `get` returned for some paths does not make arrays of the right shape; the
        message lists all of them.
    """
    theirs, problems = {}, []
    for entry in entries:
        ours = [get(path) for path in entry.paths]
        together = " with ".join(entry.paths)
        if any(array is None for array in ours):
            problems.append(f"there is no {together}")
            continue
        array = np.ascontiguousarray(entry.to_theirs(*map(np.asarray, ours)))
        if array.shape != entry.shape:
            shapes = f"{_show(array.shape)}, must be {_show(entry.shape)}"
            problems.append(f"{together} gives {entry.name} {shapes}")
        theirs[entry.name] = array
    if problems:
        raise InputError("variables do not fit the configuration: " + "; ".join(problems))
    return theirs


def from_theirs(entries: Sequence[Entry], theirs: Mapping[str, np.ndarray], source: str) -> Arrays:
    """Our arrays by path.

    Raises:
      InputError: `theirs` does not fit; see `require_fit`.
    """
    require_fit(source, entries, {name: np.shape(array) for name, array in theirs.items()})
    ours: Arrays = {}
    for entry in entries:
        parts = entry.from_theirs(np.asarray(theirs[entry.name]))
        ours.update(zip(entry.paths, map(np.ascontiguousarray, parts), strict=True))
    return ours


def assign(
    find: Callable[[str], Any],
    entries: Sequence[Entry],
    theirs: Mapping[str, Any],
    source: str,
) -> None:
    """Assigns their arrays to the variables that `find` returns for our paths: all, or none.

    One array after the other, so that what is read only when it is asked for, and what is made of
    it, is in memory for one array at a time.

    Args:
      find: given one of our paths, returns its variable, or None.
      entries: the table.
      theirs: by name, arrays or what NumPy can make one of that has a `shape`.
      source: what to call `theirs` in errors.

    Raises:
      InputError: `theirs` does not fit, or variables are missing (None) or have other shapes; the
        message lists all.
    """
    require_fit(source, entries, {name: np.shape(array) for name, array in theirs.items()})
    pairs, problems = [], []
    for entry in entries:
        shapes = [part.shape for part in entry.from_theirs(np.broadcast_to(0.0, entry.shape))]
        variables = [find(path) for path in entry.paths]
        for path, variable, shape in zip(entry.paths, variables, shapes, strict=True):
            if variable is None:
                problems.append(f"there is no {path}")
            elif tuple(variable.shape) != shape:
                problems.append(f"{path} is {_show(variable.shape)}, not {_show(shape)}")
        pairs.append((entry, variables))
    if problems:
        raise InputError("weights do not fit the variables: " + "; ".join(problems))
    for entry, variables in pairs:
        parts = entry.from_theirs(np.asarray(theirs[entry.name]))
        for variable, part in zip(variables, parts, strict=True):
            variable.assign(np.ascontiguousarray(part))


def require_fit(
    source: str, entries: Iterable[Entry], shapes: Shapes, problems: Iterable[str] = ()
) -> None:
    """Compares their arrays, by name and shape, with the table.

    Args:
      source: what to call the arrays in the error, for instance their file.
      entries: the table.
      shapes: shapes of what came, by name.
      problems: what else was found; if there is any, it is an error even if all else fits.

    Raises:
      InputError: one line that lists every missing, unexpected and wrongly shaped array.
    """
    problems = list(problems)
    expected = {entry.name: entry.shape for entry in entries}
    for name, shape in expected.items():
        if name not in shapes:
            problems.append(f"missing: {name} {_show(shape)}")
        elif shapes[name] != shape:
            problems.append(f"wrong shape: {name} is {_show(shapes[name])}, must be {_show(shape)}")
    for name in shapes.keys() - expected.keys():
        problems.append(f"unexpected: {printable(name)} {_show(shapes[name])}")
    if problems:
        raise InputError(f"{source}: does not fit its options: {'; '.join(sorted(problems))}")


def _show(shape: Iterable[int] | None) -> str:
    return "without a shape" if shape is None else str(list(shape))
