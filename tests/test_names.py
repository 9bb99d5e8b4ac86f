"""Naming rules for the whole source, checked with `ast`."""

import ast
import re
from pathlib import Path

import pytest


def fields_that_hide_methods(source: str) -> list[str]:
    """Fields of named tuples that would hide `tuple.index` or `tuple.count`."""
    return [
        f"{cls.name}.{field.target.id}"
        for cls in ast.walk(ast.parse(source))
        if isinstance(cls, ast.ClassDef) and any(b.endswith("NamedTuple") for b in bases(cls))
        for field in cls.body
        if isinstance(field, ast.AnnAssign) and field.target.id in ("index", "count")
    ]


def bases(cls: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in cls.bases]


def test_no_named_tuple_hides_a_method_of_tuples(project_dir: Path):
    paths = [
        p for top in ("elmo_tf", "export", "examples") for p in (project_dir / top).rglob("*.py")
    ]
    assert len(paths) > 50
    found = {path: fields_that_hide_methods(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: fields for path, fields in found.items() if fields} == {}


@pytest.mark.parametrize("base", ["NamedTuple", "typing.NamedTuple"])
def test_a_field_that_hides_a_method_is_found(base):
    source = f"class A({base}):\n    index: int\n    other: int\n    count: str = 'x'\n"
    assert fields_that_hide_methods(source) == ["A.index", "A.count"]


def flags_in_strings(source: str) -> list[str]:
    """Names of flags in strings other than docstrings, such as error messages."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        flag
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings
        for flag in re.findall(r"--[a-z_]+", node.value)
    ]


def test_the_library_knows_no_flags(project_dir: Path):
    """Errors of the library name arguments, which commands replace with flags."""
    paths = [
        path for path in (project_dir / "elmo_tf").glob("*/**/*.py") if path.parts[-2] != "cli"
    ]
    paths += (project_dir / "export").glob("*.py")
    paths = [path for path in paths if not path.name.startswith("export_")]  # doors
    assert len(paths) > 50
    found = {path: flags_in_strings(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: flags for path, flags in found.items() if flags} == {}


def test_a_flag_in_a_message_is_found():
    source = '"""Of --a."""\ndef f():\n    """Of --b."""\n    raise E(f"--c_d: {x} --e")\n'
    assert flags_in_strings(source) == ["--c_d", "--e"]
