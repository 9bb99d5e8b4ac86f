"""Common code of all commands: parses flags, reports errors in one line, returns an exit status.

A command module has its own `flags.FlagValues`, so that importing it defines no global flag:

    _FLAGS = flags.FlagValues()
    flags.DEFINE_string("input_file", None, "Text, one sentence a line.", _FLAGS, required=True)

    def _run(options: flags.FlagValues) -> None: ...

    def main(argv: Sequence[str] | None = None) -> int:
        return command_line.run(_FLAGS, _run, argv, __doc__)

Exit statuses: 0 success, 1 failure, 2 wrong usage, 130 SIGINT, 129 SIGHUP, 143 SIGTERM (also if a
training run was saved first), 141 the reader of stdout closed the pipe.
A user's mistake is reported in one line on stderr, and with ELMO_TF_TRACEBACK=1 with a traceback.
Any other exception is a bug in elmo_tf and keeps its traceback.
"""

import contextlib
import io
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from absl import flags

from elmo_tf import __version__
from elmo_tf.cli import flag_parsing
from elmo_tf.cli.signals import EndingSignals
from elmo_tf.cli.tensorflow_start import load_tensorflow
from elmo_tf.errors import InputError, UsageError, bounded
from elmo_tf.storage import downloads

FAILED, CALLED_WRONGLY, INTERRUPTED, READER_LEFT = 1, 2, 130, 141

# Flags that determine memory use. TensorFlow does not report which of them was too large.
_MEMORY_FLAGS = (
    "model",
    "size",
    "options_file",
    "batch_size",
    "accumulation_steps",
    "unroll_steps",
    "num_negative_samples",
    "batch_tokens",
)
_MODULE = re.compile(r"python -m (?:elmo_tf|export)\.(\w+)")

_VERSION_ARGUMENT = "--version"
_HELP_ARGUMENTS = {"--help", "-help", "-h", "--helpshort", "--helpfull"}


def run(
    flag_values: flags.FlagValues,
    body: Callable[[flags.FlagValues], None],
    argv: Sequence[str] | None,
    documentation: str,
    *,
    needs_tensorflow: bool = True,
    flags_of_arguments: Mapping[str, str] | None = None,
) -> int:
    """Parses the arguments, runs `body` with the flags' values and returns the exit status.

    Args:
      flag_values: the command's flags. They are copied, so `run` may be called again.
      body: the command's work; the name of its module determines the program's name.
      argv: the arguments without the program's name; None for those of this process.
      documentation: text that `--help` shows before the flags.
      needs_tensorflow: whether to import TensorFlow, without its log lines, after the flags are
        parsed and before `body` runs. A body that needs it only in some cases calls
        `load_tensorflow` itself.
      flags_of_arguments: flag names by library argument, where they differ; see `in_flags`.
    """
    program = _program_name(Path(body.__code__.co_filename).stem)
    argv = list(sys.argv[1:] if argv is None else argv)

    def answer() -> None:
        if flag_parsing.asks_for(argv, _HELP_ARGUMENTS):
            require_stdout("the help text")
            print(_help_text(program, documentation, flag_values))
        elif flag_parsing.asks_for(argv, {_VERSION_ARGUMENT}):
            require_stdout("the version")
            print(program, __version__)
        else:
            options = flag_parsing.parse(flag_values, [program, *argv])
            if "cache_dir" in options and options["cache_dir"].value:
                os.environ[downloads.CACHE_VARIABLE] = options["cache_dir"].value
            try:
                if needs_tensorflow:
                    load_tensorflow()
                body(options)
            except InputError as error:
                raise type(error)(in_flags(error, options, flags_of_arguments or {})) from error
            except Exception as error:
                if not _is_out_of_memory(error):
                    raise
                raise InputError(_what_needs_memory(options)) from error

    with _every_character_printable():
        return _exit_status(program, answer)


def _exit_status(program: str, answer: Callable[[], None]) -> int:
    """Runs `answer` and reports a failure in one line."""
    signals = EndingSignals()
    try:
        with signals:
            answer()
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        return READER_LEFT
    except KeyboardInterrupt as interrupt:
        status = getattr(interrupt, "exit_status", signals.exit_status)
        return _report(program, str(interrupt) or "interrupted", status)
    except UsageError as error:
        return _report(program, str(error), CALLED_WRONGLY)
    except InputError as error:
        return _report(program, str(error), FAILED)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        if isinstance(error.filename, (str, bytes)):
            reason = f"{os.fsdecode(error.filename)}: {reason}"
        return _report(program, reason, FAILED)
    except UnicodeEncodeError as error:
        # Python decodes a file name's invalid UTF-8 bytes as surrogates, which TensorFlow refuses.
        reason = f"{error.object}: is not UTF-8, which TensorFlow needs names to be"
        return _report(program, reason, FAILED)
    return 0


def in_flags(
    error: InputError, options: flags.FlagValues, others: Mapping[str, str] | None = None
) -> str:
    """An error's message with library arguments replaced by the flags that set them.

    The flag of an argument is the one in `others`, or else the flag of the same name. An argument
    without a flag stays in the message.
    """
    message = str(error)
    for argument in error.arguments:
        name = argument.removesuffix("=True")
        flag = (others or {}).get(argument, f"--{name}" if name in options else argument)
        pattern = rf"(?<![\w./-]){re.escape(argument)}(?!\w)"
        if found := re.search(pattern, message):
            message = message[: found.start()] + flag + message[found.end() :]
    return message


def _is_out_of_memory(error: Exception) -> bool:
    """Whether Python, NumPy or TensorFlow ran out of memory, rather than out of disk space."""
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "ResourceExhaustedError" and "alloc" in str(error).lower()


def _what_needs_memory(options: flags.FlagValues) -> str:
    """One line with the values of the flags that determine memory use."""
    values = {name: options[name].value for name in _MEMORY_FLAGS if name in options}
    asked = ", ".join(f"--{name}={value}" for name, value in values.items() if value is not None)
    return f"out of memory with {asked}" if asked else "out of memory"


def require_stdout(result: str) -> None:
    """Raises an `InputError` if stdout is closed, so that `result` cannot be printed."""
    if sys.stdout is None:
        raise InputError(f"stdout is closed, but {result} is printed there")


@contextlib.contextmanager
def _every_character_printable() -> Iterator[None]:
    """Inside, characters that stdout or stderr cannot encode are printed as escapes ("\\xe9").

    Otherwise printing a file name could end a command with an error after its work was done.
    """
    with contextlib.ExitStack() as stack:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stack.callback(stream.reconfigure, errors=stream.errors)
                stream.reconfigure(errors="backslashreplace")
        yield


def warn(message: str) -> None:
    """Prints a warning on stderr, in one line."""
    if sys.stderr is not None:
        print(f"warning: {bounded(message)}", file=sys.stderr)


def define_cache_dir(flag_values: flags.FlagValues) -> None:
    """Defines `--cache_dir`, for a command that takes a model; `run` applies its value."""
    flags.DEFINE_string(
        "cache_dir",
        None,
        "Cache directory for downloaded models. Default: the environment variable "
        f"{downloads.CACHE_VARIABLE}, or else elmo_tf in the user's cache directory.",
        flag_values,
    )


def accept_former_name(flag_values: flags.FlagValues, former: str, name: str) -> None:
    """Makes `--former` an alias of the flag `--name` that `--help` does not show."""
    flag_values[former] = flag_values[name]


def _help_text(program: str, documentation: str, flag_values: flags.FlagValues) -> str:
    parts = [as_typed(documentation.strip()), "", f"Flags of {program}:"]
    for name in flag_values:
        flag = flag_values[name]
        if name == flag.name:  # not an alias
            parts.append(_flag_head(flag))
            meaning = re.sub(r"^<[^>]*>: ", "", flag.help)  # absl prepends an enum's choices
            parts.append(textwrap.indent(textwrap.fill(meaning, 84), " " * 6))
    parts.append("  --flagfile=PATH")
    parts.append("      File with more flags, one per line.")
    parts.append("  --version")
    parts.append("      Print the version of elmo_tf.")
    return "\n".join(parts)


def _flag_head(flag: flags.Flag) -> str:
    """`--name=TYPE (default)`, one line."""
    if flag.boolean and flag.default is None:  # its help explains the default
        return f"  --[no]{flag.name}"
    if flag.boolean:
        return f"  --[no]{flag.name} (default: {str(bool(flag.default)).lower()})"
    values = getattr(flag.parser, "enum_values", None)
    kind = "|".join(values) if values else flag.flag_type().upper()
    if flag_parsing.is_required(flag):
        return f"  --{flag.name}={kind} (required)"
    if flag.default is None:
        return f"  --{flag.name}={kind}"
    default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
    return f"  --{flag.name}={kind} (default: {default})"


def as_typed(text: str) -> str:
    """Replaces `python -m elmo_tf.train` with `elmo-train` if a console script was called."""
    if not os.path.basename(sys.argv[0]).startswith("elmo-"):
        return text
    return _MODULE.sub(lambda module: _program_name(module[1]), text)


def _program_name(module: str) -> str:
    """The console script's name: `vocab` -> `elmo-vocab`, `export_elmo` -> `elmo-export`."""
    return "-".join(["elmo", *(word for word in module.split("_") if word != "elmo")])


def _report(program: str, message: str, status: int) -> int:
    """Prints the message on stderr as one printable line, and returns `status`."""
    if os.environ.get("ELMO_TF_TRACEBACK") == "1":
        traceback.print_exc()
    _discard_stdout()
    line = re.sub(r"\s*[\r\n]+\s*", " ", message.strip())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    line = bounded(line)
    if sys.stderr is not None:
        print(f"{program}: {line}", file=sys.stderr)
    return status


def _discard_stdout() -> None:
    """Flushes stdout; if that fails, discards the rest so that exit does not fail again."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:  # a full disk, or a reader that left
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
