"""Senses by nearest neighbours: vectors set by hand, and a WordNet of two lemmas."""

from pathlib import Path

import numpy as np
import pytest

from examples.proof import senses, wordnet
from examples.proof.wordnet import Occurrence


def _occurrences(senses_of_lemmas: dict[str, list[int]]) -> list[Occurrence]:
    return [
        Occurrence(lemma, sense, ("a", lemma, str(index)), 1)
        for lemma, found in senses_of_lemmas.items()
        for index, sense in enumerate(found)
    ]


def test_the_nearest_other_occurrence_of_the_lemma_decides():
    occurrences = _occurrences({"run.verb": [1, 1, 2, 2], "dry.adj": [1, 3]})
    vectors = np.array([[1, 0], [5, 0.1], [0, 2], [3, 1], [1, 0], [0, 2]])
    # The last of "run" is nearest to a sense 1; no lemma looks at the other's occurrences.
    assert senses.neighbours_right(occurrences, vectors).tolist() == [1, 1, 1, 0, 0, 0]


def test_equally_near_occurrences_share_the_decision():
    occurrences = _occurrences({"run.verb": [1, 1, 2, 2, 2]})
    right = senses.neighbours_right(occurrences, np.ones([5, 3]))
    np.testing.assert_allclose(right, [1 / 4, 1 / 4, 1 / 2, 1 / 2, 1 / 2])
    np.testing.assert_allclose(right, senses.chance(occurrences))


def test_the_first_sense_is_the_first_that_occurs():
    occurrences = _occurrences({"run.verb": [4, 2, 2, 4], "dry.adj": [1, 1, 5]})
    assert senses.first_senses_right(occurrences).tolist() == [0, 1, 1, 0, 1, 1, 0]


def test_inflections():
    assert {"running", "runs"} <= wordnet.inflections("run")
    assert {"carried", "carries", "carrying"} <= wordnet.inflections("carry")
    assert {"moved", "moving"} <= wordnet.inflections("move")
    assert "boxxed" not in wordnet.inflections("box")


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A WordNet with two senses of "run"; of two senses of "drive" one has a single example."""
    directory = tmp_path / "wordnet" / "usr/share/wordnet"
    directory.mkdir(parents=True)
    for part in wordnet.PARTS_OF_SPEECH:
        for name in (f"data.{part}", f"index.{part}", f"{part}.exc"):
            (directory / name).write_text("  1 licence\n" if "." in name else "")
    (directory / "verb.exc").write_text("ran run\ndrove drive\n")
    (directory / "index.verb").write_text(
        "run v 2 1 @ 2 1 00000002 00000001  \ndrive v 2 1 @ 2 1 00000001 00000003  \n"
    )
    (directory / "data.verb").write_text(
        '  1 licence "not an example"\n'
        '00000001 29 v 02 Run 0 drive 1 000 | move; "He ran home."; "they run, and run";'
        ' "I drove off"; "she is running"\n'
        '00000002 29 v 01 run 0 000 | manage; "to run a shop"; "Running a firm"; "no such word"\n'
        '00000003 29 v 01 drive 0 000 | urge; "drive them"; "she drives me mad"\n'
    )
    return tmp_path / "wordnet"


def test_occurrences_are_found_in_examples(unpacked):
    found = wordnet.read_occurrences(unpacked)
    # Not the sentence that has the word twice, and no lemma of which one sense has two examples.
    assert found == [
        Occurrence("run.verb", 1, ("to", "run", "a", "shop"), 1),
        Occurrence("run.verb", 1, ("Running", "a", "firm"), 0),
        Occurrence("run.verb", 2, ("He", "ran", "home", "."), 1),
        Occurrence("run.verb", 2, ("she", "is", "running"), 2),
    ]


def test_the_script_compares_layers_with_baselines(unpacked, small_pair, tmp_path, capsys):
    arguments = [f"--model={small_pair}", f"--output={tmp_path}", f"--wordnet={unpacked}"]
    assert senses.main(arguments) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "senses.md").read_text(encoding="utf-8") == text
    names = [line.split(" | ")[0] for line in text.splitlines()[2:]]
    assert [name.removeprefix("| ") for name in names] == [
        *("random neighbour", "first sense", "word_emb", "layer 1", "top layer", "mean of layers"),
    ]
    assert "| random neighbour | 33.3% (33.3%–33.3%) | 33.3% |" in text
    assert (tmp_path / "senses.png").read_bytes().startswith(b"\x89PNG")


def test_vectors_are_those_of_the_token(small_encoder):
    tokens = ("to", "run", "a", "shop")
    found = senses.occurrence_vectors(small_encoder, [Occurrence("run.verb", 1, tokens, 1)])
    expected = small_encoder([list(tokens)], sequence_len=[4])
    np.testing.assert_allclose(found[0, 2], expected["lstm_outputs2"][0, 1], atol=1e-5)
