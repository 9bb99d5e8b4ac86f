"""Sentences that two texts share, whatever their tokenizers."""

from examples.proof import overlap


def test_sentences_are_compared_by_letters():
    test = [
        ["He", "didn't", "see", "the", "red", "barn", "there", "."],
        ["Not", "one", "of", "these", "six", "words", "came", "back"],
        ["Thank", "you", "very", "much", "."],
    ]
    lines = [
        "He didn ' t see \" the red barn there",
        "thank you very much .",
        "Not one of these six words came",
    ]
    assert overlap.shared(test, lines) == ["He didn't see the red barn there ."]
