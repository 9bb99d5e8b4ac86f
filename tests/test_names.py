"""Rules of names that hold in the whole source, read with `ast`."""

import ast
from pathlib import Path

import pytest


def fields_that_hide_methods(source: str) -> list[str]:
    """Fields of named tuples that would take the place of `tuple.index` or `tuple.count`."""
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
