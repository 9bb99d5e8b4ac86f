"""Checks of single values, and dataclass fields that carry their check and their JSON key.

A check takes a value and the name to show, and returns the value to keep. One that fails
raises an `InputError` of one line: the name, what is allowed, what came.
Standard library only.
"""

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elmo_tf.errors import InputError, shortened

Check = Callable[[Any, str], Any]

_SHOWN_CHARACTERS = 80
_REQUIRED = object()
_LEAST_FLOAT32, _GREATEST_FLOAT32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127
# Limits of single dimensions. The greatest published: 4,096 LSTM units, 1,024 filters of a width.
WIDEST = 1 << 16
# The graph grows with each LSTM layer, highway layer and filter width. The published models have
# 2, 2 and 7 of them.
MOST_LAYERS = 100


def refusal(name: str, allowed: str, value: Any) -> InputError:
    """The error to raise for a value that is not allowed: always one line, never a long one."""
    return InputError(f"{name} must be {allowed}, got {shown(value)}", name)


def shown(value: Any) -> str:
    """A value as errors show it, cut off where it is long."""
    try:
        text = " ".join(repr(value).splitlines())  # arrays show their rows in lines
    except ValueError:  # an integer of more digits than Python prints
        text = "an integer of thousands of digits"
    return shortened(text, _SHOWN_CHARACTERS)


def integer(minimum: int, maximum: int | None = None, limit: int | None = None) -> Check:
    """An integer within the bounds. `True` is not an integer here, though Python says it is.

    Args:
      minimum: the least value.
      maximum: the greatest value, which errors always name.
      limit: a bound far above all that makes sense, so that nonsense is refused before anything is
        built from it; named only where it is passed.
    """
    allowed = f"an integer >= {minimum}"
    if maximum is not None:
        allowed = f"an integer from {minimum} to {maximum}"

    def check(value: Any, name: str) -> int:
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_integer or value < minimum or (maximum is not None and value > maximum):
            raise refusal(name, allowed, value)
        if limit is not None and value > limit:
            raise refusal(name, f"an integer <= {limit}", value)
        return int(value)

    return check


def positive_number(value: Any, name: str) -> float:
    """A finite number above 0."""
    if not _is_finite(value) or value <= 0:
        raise refusal(name, "a finite number > 0", value)
    if not _LEAST_FLOAT32 <= value <= _GREATEST_FLOAT32:  # it would become 0 or infinite there
        raise refusal(name, "a number > 0 that float32 holds, from 1.2e-38 to 3.4e+38", value)
    return float(value)


def share(value: Any, name: str) -> float:
    """A number from 0 up to, but not, 1."""
    if not _is_finite(value) or not 0 <= value < 1:
        raise refusal(name, "a number >= 0 and < 1", value)
    return float(value)


def _is_finite(value: Any) -> bool:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def boolean(value: Any, name: str) -> bool:
    """True or False, and nothing that merely counts as one."""
    if not isinstance(value, bool):
        raise refusal(name, "true or false", value)
    return value


def text(value: Any, name: str) -> str:
    """A string with something in it."""
    if not isinstance(value, str) or not value:
        raise refusal(name, "a string that is not empty", value)
    return value


def optional(check: Check) -> Check:
    """None (`null` in JSON), or a value that passes `check`."""

    def check_unless_none(value: Any, name: str) -> Any:
        if value is None:
            return None
        try:
            return check(value, name)
        except InputError as error:
            raise InputError(f"{error} (null for none)", *error.arguments) from None

    return check_unless_none


def one_of(*choices: Any) -> Check:
    """One of the values given, of the same type: 262.0 is not 262."""

    def check(value: Any, name: str) -> Any:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        raise refusal(name, "one of " + ", ".join(map(repr, choices)), value)

    return check


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """An object of JSON, a dict of Python."""
    if not isinstance(value, Mapping):
        raise refusal(name, "an object {...}", value)
    return value


def filters(value: Any, name: str) -> tuple[tuple[int, int], ...]:
    """Pairs (width, number of filters), at least one, as tuples."""
    if not _is_list(value) or not value:
        raise refusal(name, "a list of pairs [width, number], not empty", value)
    if len(value) > MOST_LAYERS:
        raise refusal(name, f"a list of at most {MOST_LAYERS} pairs", value)
    pairs = []
    for index, pair in enumerate(value):
        place = f"{name}[{index}]"
        if not _is_list(pair) or len(pair) != 2:
            raise refusal(place, "a pair [width, number of filters]", pair)
        check = integer(minimum=1, limit=WIDEST)
        width, count = (check(part, f"{place}[{i}]") for i, part in enumerate(pair))
        pairs.append((width, count))
    return tuple(pairs)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def field(
    default: Any,
    check: Check,
    key: str = "",
    absent: Any = _REQUIRED,
    null_is_absent: bool = False,
    omit_absent: bool = False,
) -> Any:
    """A dataclass field with its check and, for `options.json`, its key and how it is left out.

    Args:
      default: the value when Python code leaves the argument out.
      check: called with a value and the name to show; returns the value to keep, or raises.
      key: the key within its section of `options.json`, "a.b" for a nested one.
      absent: the value when `options.json` lacks the key. Not always `default`: a file that
        says nothing of highways has none.
      null_is_absent: whether `null` in the file means the same as leaving the key out.
      omit_absent: whether a value equal to `absent` is left out of what is written.
    """
    metadata = {
        "check": check,
        "key": key,
        "absent": absent,
        "null_is_absent": null_is_absent,
        "omit_absent": omit_absent,
    }
    return dataclasses.field(default=default, metadata=metadata)


def check_fields(config: Any, section: str) -> None:
    """Checks each field of a frozen dataclass and keeps what its check returns.

    Args:
      config: an instance whose fields are all made by `field`; call this in `__post_init__`.
      section: prefix of the names to show, such as "lstm.".
    """
    for item in dataclasses.fields(config):
        value = item.metadata["check"](getattr(config, item.name), f"{section}{item.name}")
        object.__setattr__(config, item.name, value)  # the way to set a field of a frozen class


def read_section(kind: type, options: Mapping[str, Any], section: str) -> Any:
    """Builds the dataclass `kind` from one section of `options`, or "" for no section, key by key.

    Raises:
      InputError: a key is missing, or its value is not allowed; the message has the key in full.
    """
    values = {}
    for item in dataclasses.fields(kind):
        rules = item.metadata
        key = f"{section}.{rules['key']}" if section else rules["key"]
        value = _look_up(options, key)
        if value is _REQUIRED or (value is None and rules["null_is_absent"]):
            value = rules["absent"]
        if value is _REQUIRED:
            raise InputError(f"{key} is missing")
        values[item.name] = rules["check"](value, key)
    return kind(**values)


def _look_up(options: Mapping[str, Any], key: str) -> Any:
    value: Any = options
    passed = ""
    for part in key.split("."):
        value = mapping(value, passed.lstrip(".")).get(part, _REQUIRED)
        if value is _REQUIRED:
            break
        passed = f"{passed}.{part}"
    return value


def write_section(config: Any) -> dict[str, Any]:
    """The section of `options.json` that `read_section` reads as an equal dataclass."""
    section: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if item.metadata["omit_absent"] and value == item.metadata["absent"]:
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # published files say 3, not 3.0
        elif isinstance(value, tuple):
            value = [list(pair) for pair in value]
        *outer, last = item.metadata["key"].split(".")
        target = section
        for part in outer:
            target = target.setdefault(part, {})
        target[last] = value
    return section
