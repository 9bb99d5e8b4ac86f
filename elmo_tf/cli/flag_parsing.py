"""Parses a command's arguments into flag values; each mistake is reported in one line."""

import copy
import difflib
import locale
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from absl import flags

from elmo_tf.errors import UsageError

_HINT = "--help lists the flags"


def parse(flag_values: flags.FlagValues, argv: list[str]) -> flags.FlagValues:
    """A copy of the flags with the values from the arguments.

    Args:
      flag_values: the flags as defined; they are not changed.
      argv: the program's name and its arguments.

    Raises:
      UsageError: a flag is unknown, missing or has a wrong value, or an argument is not a flag.
    """
    options = copy.deepcopy(flag_values)
    options.set_gnu_getopt(True)  # a stray argument must not hide the flags after it
    stray, failure = [], None
    try:
        stray = options(argv)[1:]
    except flags.UnrecognizedFlagError as error:
        near = difflib.get_close_matches(error.flagname, list(options), n=1)
        hint = f", did you mean --{near[0]}?" if near else f"; {_HINT}"
        raise UsageError(f"--{error.flagname}: unknown flag{hint}") from error
    except UnicodeDecodeError as error:
        raise UsageError(_undecodable_flag_file(argv) or f"--flagfile: {error}") from error
    except (flags.Error, ValueError) as error:
        failure = error
    if options.is_parsed():
        missing = [f"--{name}" for name in options if _is_missing(options[name])]
        if missing:
            raise UsageError(f"{', '.join(missing)}: required; {_HINT}")
    if failure:
        raise UsageError(re.sub("^(ERROR::|flags?) ", "", str(failure))) from failure
    if stray:
        raise UsageError(f"unexpected argument {stray[0]!r}; a glob needs quotes; {_HINT}")
    _check_text(options)
    return options


def _undecodable_flag_file(argv: Sequence[str]) -> str | None:
    """The message for a flag file that is not text in the locale's encoding, with its line."""
    waiting = _flag_files(argv)
    seen = set()
    while waiting:
        path = waiting.pop(0)
        if path in seen or not os.path.isfile(path):
            continue
        seen.add(path)
        lines = Path(path).read_bytes().splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(locale.getencoding())
            except UnicodeDecodeError:
                return f"--flagfile: {path}, line {number}: is not text in {locale.getencoding()}"
        waiting += _flag_files(os.fsdecode(line).strip() for line in lines)
    return None


def _flag_files(arguments: Iterable[str]) -> list[str]:
    """The values of `--flagfile=PATH`, and of `--flagfile PATH`, among arguments."""
    found, is_next = [], False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if is_next:
            found.append(os.path.expanduser(argument))
        elif equals and name.lstrip("-") == "flagfile":
            found.append(os.path.expanduser(value))
        is_next = argument in ("--flagfile", "-flagfile")
    return found


def _check_text(options: flags.FlagValues) -> None:
    for name in options:
        value = options[name].value
        if value == "" and options[name].present:
            raise UsageError(f"--{name}: must not be empty")
        if any("\0" in part for part in (value if isinstance(value, list) else [str(value)])):
            raise UsageError(f"--{name}: holds a NUL character")  # from a flag file


def _is_missing(flag: flags.Flag) -> bool:
    return is_required(flag) and flag.value in (None, "", [])


def is_required(flag: flags.Flag) -> bool:
    """Whether the flag was defined with `required=True`; absl stores that only as a validator."""
    return any("must have a value" in validator.message for validator in flag.validators)


def asks_for(argv: Sequence[str], wanted: set[str]) -> bool:
    """Whether one of the arguments is in `wanted`, such as `--help`.

    Call it before `parse`, which would report missing required flags first.
    """
    arguments = argv[: argv.index("--")] if "--" in argv else argv
    return not wanted.isdisjoint(arguments)
