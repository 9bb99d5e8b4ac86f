"""Suggestions after a completed run: commands that the user can paste."""

import importlib.util
import itertools
import os
import shlex

from elmo_tf.cli import command_line
from elmo_tf.text import lines
from elmo_tf.training.heldout import BEST
from elmo_tf.training.loop import LOGS
from elmo_tf.training.run_directory import Run


def next_commands(run: Run, heldout_files: str | None, export_dir: str | None) -> str:
    """Suggested commands, one per line.

    Args:
      run: the completed run.
      heldout_files: the value of `--heldout_files`.
      export_dir: the directory of an existing export, or None.
    """
    model, text_file, commands = run.directory, run.text_files[0], []
    if heldout_files:
        model = os.path.join(model, BEST)
        text_file, *_ = lines.expand_globs(heldout_files, "--heldout_files")
        commands.append(_python("elmo_tf.evaluate", model_dir=model, heldout_files=heldout_files))
    commands.append(
        _python(
            "elmo_tf.embed",
            model=model,
            input_file=text_file,
            output_file=_free("vectors", ".hdf5"),
        )
    )
    if not export_dir:
        commands.append(_python("export.export_elmo", model=model, output_dir=_free("exported")))
    logs = f"tensorboard --logdir={shlex.quote(os.path.join(run.directory, LOGS))}"
    if importlib.util.find_spec("tensorboard") is None:
        logs = f"pip install tensorboard && {logs}"
    return "\n".join(["done; what to do next:", *(f"  {each}" for each in [*commands, logs])])


def _python(module: str, **values: str) -> str:
    flags = (f"--{name}={shlex.quote(value)}" for name, value in values.items())
    return " ".join([command_line.as_typed(f"python -m {module}"), *flags])


def _free(name: str, ending: str = "") -> str:
    """An unused path in the working directory: "exported", "exported-2", ..."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(path for each in names if not os.path.exists(path := each + ending))
