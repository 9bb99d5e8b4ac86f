"""An extension of griffe, the parser that reads our docstrings for the site.

`elmo_tf` imports its public names at their first use, from the table `_MODULES`. griffe imports no
module, so it would not find them. It also has other names for the sections of docstrings.
"""

import ast
import re
import textwrap
from typing import Any

import griffe

TABLE = "_MODULES"
SECTIONS = {
    "Example": "Examples",
    "Call arguments": "Other Parameters: Call arguments",
}
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
_REFERENCE = re.compile(r"^(References?):\n((?:  .+(?:\n|$))+)", re.MULTILINE)
_RETURNS = re.compile(r"^(Returns):\n((?:(?:  .+)?(?:\n|$))+)", re.MULTILINE)
# "units, projection_dim: as for `ProjectedLstm`.", with the lines that continue it.
_JOINT_ENTRY = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)$", re.MULTILINE)


class PublicNames(griffe.Extension):
    """Adds the public names to the package, and links to them in docstrings."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        if pkg.name != "elmo_tf":
            return
        modules = ast.literal_eval(str(pkg[TABLE].value))
        for name, module in modules.items():
            pkg.set_member(name, griffe.Alias(name, f"{module}.{name}"))
        link = re.compile(rf"(?<![\w\[])`({'|'.join(map(re.escape, modules))})`(?!\])")
        for each in _objects(pkg):
            if each.docstring is not None:
                text = _SECTION.sub(lambda match: f"{SECTIONS[match[1]]}:", each.docstring.value)
                text = _JOINT_ENTRY.sub(_entries, text)
                text = _REFERENCE.sub(_paragraph, text)
                if each.is_class:  # the result of a call has no annotation
                    text = _RETURNS.sub(_text, text)
                each.docstring.value = link.sub(r"[`\1`][elmo_tf.\1]", text)


def _entries(joint: re.Match) -> str:
    """An entry for each of several names, with the first sentence; the last has the full text."""
    *names, last = joint[2].split(", ")
    first = joint[3].split(". ")[0].rstrip(".")
    return "\n".join(
        [*(f"{joint[1]}{name}: {first}." for name in names), f"{joint[1]}{last}: {joint[3]}"]
    )


def _paragraph(section: re.Match) -> str:
    """A section as a paragraph instead of griffe's coloured box."""
    return f"**{section[1]}:** {' '.join(section[2].split())}"


def _text(section: re.Match) -> str:
    """A section as text below its title."""
    return f"**{section[1]}:**\n\n{textwrap.dedent(section[2])}"


def _objects(parent: griffe.Object) -> Any:
    yield parent
    for member in parent.members.values():
        if not member.is_alias:
            yield from _objects(member)
