"""Only the list of readers knows the formats."""

import ast
import importlib
import inspect
import pkgutil

import pytest

from elmo_tf import formats
from elmo_tf.formats import locate
from elmo_tf.formats.reader import Reader

MODULES = {type(reader).__module__ for reader in locate.READERS}
CLASSES = {type(reader).__name__ for reader in locate.READERS}
# Attributes of a located model that only `formats/` may use.
INSIDE = {"reader", "recognizes", "looks_for"}


def asks_of_a_format(source):
    """The lines that name a reader or use the reader of a model."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = set()
        if isinstance(node, ast.Import):
            names = {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        if names & MODULES:
            found.append(node.lineno)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            located = isinstance(node, ast.Attribute) and ast.unparse(node.value) in (
                "found",
                "located",
                "model",
            )
            if name in CLASSES or (located and name in INSIDE):
                found.append(node.lineno)
    return found


def test_nothing_outside_asks_for_the_format(project_dir):
    found = {
        str(path.relative_to(project_dir)): lines
        for folder in ("elmo_tf", "export", "examples", "benchmarks")
        for path in sorted((project_dir / folder).rglob("*.py"))
        if path.parent != project_dir / "elmo_tf/formats"
        and (lines := asks_of_a_format(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "from elmo_tf.formats import training_run",
        "from elmo_tf.formats.saved_model import SavedModel",
        "import elmo_tf.formats.bilm_tf_pair",
        "isinstance(anything, TrainingRun)",
        "found.reader.looks_for",
    ],
)
def test_each_way_to_ask_is_seen(line):
    assert asks_of_a_format(line) == [1] * len(asks_of_a_format(line)) != []


def test_every_reader_is_in_the_list():
    defined = {
        f"{module.__name__}.{name}"
        for info in pkgutil.iter_modules(formats.__path__)
        for module in [importlib.import_module(f"elmo_tf.formats.{info.name}")]
        for name, each in vars(module).items()
        if inspect.isclass(each) and each.__module__ == module.__name__ and each is not Reader
        if hasattr(each, "recognizes")
    }
    assert defined == {f"{type(r).__module__}.{type(r).__name__}" for r in locate.READERS}
