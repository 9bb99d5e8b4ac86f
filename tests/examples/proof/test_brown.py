"""Reading Brown: tags, the split by file number, and the three kinds of tokens."""

import numpy as np
import pytest

from elmo_tf.errors import InputError
from examples.proof import brown


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("nn-tl", "NOUN"),
        ("nn$-tl-hl", "NOUN"),
        ("fw-in+nn-tl", "X"),
        ("ppss+hv", "PRON"),
        ("bez*", "VERB"),
        ("*-hl", "ADV"),
        ("pp$", "DET"),
        ("pp$$", "PRON"),
        ("to", "PRT"),
        ("--", "."),
        ("cs-nc", "ADP"),
    ],
)
def test_universal_tags(tag, expected):
    assert brown.universal_tag(tag) == expected


def test_an_unknown_tag_is_named():
    with pytest.raises(InputError, match="got 'zz-hl'"):
        brown.universal_tag("zz-hl")


def test_sentences_are_split_by_the_last_digit_of_their_file(tmp_path):
    (tmp_path / "package").mkdir()
    for name in ("ca01", "ca05", "cb10", "cr09", "README"):
        line = f"\n\t``/`` {name}/nn either/or/cc ''/''\n\n"
        (tmp_path / "package" / name).write_text(line)
    split = brown.read_corpus(tmp_path)
    assert [[each.file for each in part] for part in split] == [
        ["ca01", "cr09"],
        ["ca05"],
        ["cb10"],
    ]
    assert split.test[0].tokens == ('"', "cb10", "either/or", '"')
    assert split.test[0].tags == (".", "NOUN", "CONJ", ".")


def _sentence(text: str) -> brown.Sentence:
    pairs = [pair.split("/") for pair in text.split()]
    return brown.Sentence(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), "ca01")


def test_most_frequent_tags_and_ambiguous_types():
    train = [
        _sentence("saw/NOUN saw/VERB saw/VERB"),
        _sentence(" ".join(["the/DET"] * 20 + ["the/ADV"])),
    ]
    counts = brown.tag_counts(train)
    assert brown.ambiguous_types(counts) == {"saw"}  # "the": 1 of 21 is below 5 %
    test = [_sentence("the/DET saw/NOUN new/ADJ")]
    found = brown.most_frequent_tags(counts, test)
    assert found == ["DET", "VERB", "NOUN"]
    right = np.array([tag == gold for tag, gold in zip(found, test[0].tags, strict=True)])
    assert brown.accuracies(right, test[0].tokens, {"saw"}, set(counts)) == {
        "all": pytest.approx(1 / 3),
        "ambiguous": 0.0,
        "unseen": 0.0,
    }
