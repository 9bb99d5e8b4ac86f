"""MkDocs hooks that add the repository's top-level pages to those of `docs/`.

Pages are written for readers of the repository. On the site, README.md is the first page, and links
to files that are not pages, such as source files, are shown as text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
FIRST = "README.md"
PAGES = (FIRST, "BUILD.md", "CONTRIBUTING.md", "RELEASE.md", "CHANGELOG.md")

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)]*)?\)")
# Fenced blocks and inline code, in which brackets are not links. Links with code as text are kept.
_CODE = re.compile(r"(^```.*?^```$|(?<!\[)`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Adds each page of `docs/` that is missing in `nav` of mkdocs.yml to the guides."""
    guides = next(entry["Guides"] for entry in config.nav if "Guides" in entry)
    known = {name for entry in guides for name in entry.values()}
    pages = sorted(path.name for path in Path(config.docs_dir).glob("*.md"))
    guides.extend(name for name in pages if name not in known)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the repository's top-level pages."""
    for name in PAGES:
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, _page(name), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turns links between files of the repository into links between pages."""
    name = page.file.src_uri
    folder = "" if name == "index.md" or name in PAGES else posixpath.join("docs", _dir(name))
    parts = _CODE.split(markdown)

    def on_site(match: re.Match) -> str:
        text, target, place = match[1], match[2], match[3] or ""
        if re.match(r"\w+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        uri = path.removeprefix("docs/") if path.startswith("docs/") else _page(path)
        if files.get_file_from_path(uri) is None:
            if (ROOT / path).exists():
                return text
            return match[0]  # MkDocs reports it as broken
        return f"[{text}]({posixpath.relpath(uri, _dir(name) or '.')}{place})"

    # Every other part is code.
    return "".join(part if n % 2 else _LINK.sub(on_site, part) for n, part in enumerate(parts))


def _page(name: str) -> str:
    return "index.md" if name == FIRST else name


def _dir(name: str) -> str:
    return posixpath.dirname(name)
