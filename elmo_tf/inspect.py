"""Describes a model: format, files, sizes, layers, vocabulary, mix, softmax, and anything unusual.

    python -m elmo_tf.inspect --model=elmo.zip
    python -m elmo_tf.inspect --model=options.json,weights.hdf5 --json
    python -m elmo_tf.inspect --list

Every array is read once, so that NaN, all-zero weights and damaged files are found. No vectors are
computed. If a model is recognized but damaged, the command prints what could be read and fails.
--list shows the models that have names; each name can be the value of --model.
"""

import json
import sys
from collections.abc import Sequence

from absl import flags

from elmo_tf.cli import command_line, tensorflow_start
from elmo_tf.errors import InputError, UsageError
from elmo_tf.formats import catalog, locate
from elmo_tf.formats.description import describe

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model",
    None,
    "Model to describe: its files, directory, zip or tar in any supported format, its URL or its "
    "name.",
    _FLAGS,
)
flags.DEFINE_bool("json", False, "Print a JSON object instead of lines.", _FLAGS)
flags.DEFINE_bool("list", False, "Print the models that have names.", _FLAGS)
command_line.define_cache_dir(_FLAGS)

_COLUMNS = ("name", "language", "size", "licence", "source")


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__, needs_tensorflow=False)


def _run(options: flags.FlagValues) -> None:
    if bool(options.model) == options.list:
        raise UsageError("--model and --list: give one of them")
    command_line.require_stdout("the description")
    if options.list:
        print(_published(options.json))
        return
    found = locate.find_model(options.model)
    if found.needs_tensorflow:
        tensorflow_start.load_tensorflow()
    description = describe(found)
    print(description.to_json() if options.json else description)
    if description.problem is not None:
        raise InputError(description.problem)


def _published(as_json: bool) -> str:
    models = catalog.models()
    if as_json:
        return json.dumps([model._asdict() for model in models], indent=2)
    rows = [_COLUMNS, *([getattr(model, name) for name in _COLUMNS] for model in models)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]

    def line(row: Sequence[str]) -> str:
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))


if __name__ == "__main__":
    sys.exit(main())
