"""Checks of single values, and dataclass fields that carry their check and their JSON key.

A check takes a value and the name to show in errors, and returns the value to store. If the value
is not allowed, it raises a one-line `InputError`: the name, what is allowed, and the value.
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
# Limit of a single dimension. The original models have 4,096 LSTM units and up to 1,024 filters of
# one width.
WIDEST = 1 << 16
# Limit of the numbers of LSTM layers, highway layers and filter widths: the graph grows with each.
# The original models have 2, 2 and 7.
MOST_LAYERS = 100


def refusal(name: str, allowed: str, value: Any) -> InputError:
    """The error for a value that is not allowed: one line of bounded length."""
    return InputError(f"{name} must be {allowed}, got {shown(value)}", name)


def shown(value: Any) -> str:
    """The value as errors show it: its `repr` on one line, truncated if it is long."""
    try:
        text = " ".join(repr(value).splitlines())  # the repr of an array has several lines
    except ValueError:  # an integer of more digits than Python prints
        text = "an integer of thousands of digits"
    return shortened(text, _SHOWN_CHARACTERS)


def integer(minimum: int, maximum: int | None = None, limit: int | None = None) -> Check:
    """An integer within bounds. Unlike in Python, `True` is not an integer.

    Args:
      minimum: smallest allowed value.
      maximum: largest allowed value; every error names it.
      limit: a bound far above every useful value, so that absurd values are rejected before
        anything is built from them. Only the error for a value above it names it.
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
    if not _LEAST_FLOAT32 <= value <= _GREATEST_FLOAT32:  # as float32 it would be 0 or infinite
        raise refusal(name, "a number > 0 that float32 holds, from 1.2e-38 to 3.4e+38", value)
    return float(value)


def fraction(value: Any, name: str) -> float:
    """A number in [0, 1)."""
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
    """True or False; other truthy or falsy values are rejected."""
    if not isinstance(value, bool):
        raise refusal(name, "true or false", value)
    return value


def text(value: Any, name: str) -> str:
    """A string that is not empty."""
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
    """One of `choices`, with the same type: 262.0 is not 262."""

    def check(value: Any, name: str) -> Any:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        raise refusal(name, "one of " + ", ".join(map(repr, choices)), value)

    return check


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """A mapping, such as a parsed JSON object."""
    if not isinstance(value, Mapping):
        raise refusal(name, "an object {...}", value)
    return value


def filters(value: Any, name: str) -> tuple[tuple[int, int], ...]:
    """At least one pair (width, number of filters). Returns them as tuples."""
    if not _is_list(value) or not value:
        raise refusal(name, "a list of pairs [width, number], not empty", value)
    if len(value) > MOST_LAYERS:
        raise refusal(name, f"a list of at most {MOST_LAYERS} pairs", value)
    pairs = []
    for index, pair in enumerate(value):
        pair_name = f"{name}[{index}]"
        if not _is_list(pair) or len(pair) != 2:
            raise refusal(pair_name, "a pair [width, number of filters]", pair)
        check = integer(minimum=1, limit=WIDEST)
        width, count = (check(part, f"{pair_name}[{i}]") for i, part in enumerate(pair))
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
    """A dataclass field with its check and, for `options.json`, its key and the meaning of absence.

    Args:
      default: the value if the constructor is called without the argument.
      check: called with a value and the name to show; returns the value to store, or raises.
      key: the key within its section of `options.json`, "a.b" for a nested one.
      absent: the value if `options.json` lacks the key. It can differ from `default`: a file
        without `n_highway` describes a model without highway layers.
      null_is_absent: whether `null` in the file means the same as a missing key.
      omit_absent: whether to omit the key from the written file if the value equals `absent`.
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
    """Checks each field of a frozen dataclass and stores the value that its check returns.

    Args:
      config: an instance whose fields are all made by `field`; call this in `__post_init__`.
      section: prefix of the field names in errors, such as "lstm.".
    """
    for item in dataclasses.fields(config):
        value = item.metadata["check"](getattr(config, item.name), f"{section}{item.name}")
        object.__setattr__(config, item.name, value)  # the class is frozen


def read_section(kind: type, options: Mapping[str, Any], section: str) -> Any:
    """Builds the dataclass `kind` from one section of `options`; "" is the top level.

    Raises:
      InputError: a key is missing, or its value is not allowed; the message has the full key.
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
    """The inverse of `read_section`: the section of `options.json` for a dataclass."""
    section: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if item.metadata["omit_absent"] and value == item.metadata["absent"]:
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # bilm-tf writes 3, not 3.0
        elif isinstance(value, tuple):
            value = [list(pair) for pair in value]
        *outer, last = item.metadata["key"].split(".")
        target = section
        for part in outer:
            target = target.setdefault(part, {})
        target[last] = value
    return section
