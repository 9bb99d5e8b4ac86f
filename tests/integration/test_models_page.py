"""docs/models.md names every format like its reader, and only existing commands."""

import re
from pathlib import Path

import pytest

from elmo_tf.formats import locate

PAGE = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reader", locate.READERS, ids=lambda reader: reader.name)
def test_each_format_has_a_row(reader):
    section = PAGE.split("## Formats")[1].split("## ")[0]
    assert f"\n| {reader.name} | " in section


def test_commands_and_flags_are_there(project_dir):
    commands = set(re.findall(r"elmo-[a-z-]+", PAGE))
    known = set(re.findall(r'"(elmo-[a-z-]+)=', (project_dir / "setup.py").read_text()))
    assert commands <= known
    assert "elmo-inspect" in commands
