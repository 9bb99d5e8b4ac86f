"""Occurrences of a word: search, neighbours, layout and excerpts."""

import numpy as np
import pytest

from examples import occurrences
from examples.occurrences import Occurrence, Sentence


def sentence(text, is_heldout=False):
    return Sentence(tuple(text.split()), "1801 Jay", is_heldout)


def found(*texts):
    return occurrences.find_occurrences(map(sentence, texts), "close")


def test_finds_each_occurrence_of_exactly_the_word():
    places = [(each.sentence.tokens[0], each.position) for each in found(
        "a close to close it", "closed Close closes", "close"
    )]  # fmt: skip
    assert places == [("a", 1), ("a", 3), ("close", 0)]


def test_repeated_contexts_count_once():
    several = found("a close to close it", "the close", "a close to close it")
    assert occurrences.distinct_contexts(several) == several[:3]


def test_is_followed_by():
    assert found("we close the gates .")[0].is_followed_by("the gates")
    assert not found("we close the gates .")[0].is_followed_by("gates")


def test_surface_cues_are_chosen_by_what_they_still_explain():
    several = found(
        "the close of", "the close of", "the close and", "to close the", "to close it", "close it"
    )  # fmt: skip
    assert several[0].cues() == ["the close", "close of"]
    assert several[-1].cues() == ["close it"]
    # "close of" is as frequent as "close it", but all its occurrences contain "the close".
    cues = ["the close"] * 3 + [None, "close it", "close it"]
    assert occurrences.surface_cues(several, 2) == cues
    cues[3] = "close the"
    assert occurrences.surface_cues(several, 3) == cues
    assert occurrences.surface_cues(several, 9) == cues
    assert occurrences.surface_cues([Occurrence(sentence("close"), 0)], 2) == [None]


def test_center():
    vectors = np.random.default_rng(0).normal(size=(7, 5)) + 3
    centered = occurrences.center(vectors)
    np.testing.assert_allclose(centered.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(centered[2] - centered[5], vectors[2] - vectors[5])


def test_nearest_by_cosine():
    vectors = np.random.default_rng(1).normal(size=(11, 5))
    candidates = [0, 2, 3, 4, 7, 10]
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = {row: vectors[row] @ vectors[4] / (lengths[row] * lengths[4]) for row in candidates}
    expected = sorted(cosines.items(), key=lambda pair: -pair[1])[1:]  # the first is itself
    nearest = occurrences.nearest(vectors, 4, candidates, 3)
    assert [row for row, _ in nearest] == [row for row, _ in expected[:3]]
    np.testing.assert_allclose([c for _, c in nearest], [c for _, c in expected[:3]])
    assert len(occurrences.nearest(vectors, 4, candidates, 99)) == 5
    longer = vectors * np.linspace(1, 50, 11)[:, np.newaxis]  # the norm must not matter
    assert [row for row, _ in occurrences.nearest(longer, 4, candidates, 3)] == [
        row for row, _ in nearest
    ]


def test_a_vector_of_zeros_is_near_nothing():
    vectors = np.eye(3)
    vectors[2] = 0
    assert occurrences.nearest(vectors, 2, [0, 1], 2) == [(0, 0.0), (1, 0.0)]


def test_principal_components_are_those_of_the_covariance():
    generator = np.random.default_rng(2)
    vectors = generator.normal(size=(23, 5)) * [1, 7, 3, 0.5, 2] + 4
    points, shares = occurrences.principal_components(vectors, 3)
    values, directions = np.linalg.eigh(np.cov(vectors.T))
    expected = (vectors - vectors.mean(axis=0)) @ directions[:, ::-1][:, :3]
    np.testing.assert_allclose(np.abs(points), np.abs(expected), rtol=1e-9)
    np.testing.assert_allclose(shares, values[::-1][:3] / values.sum())
    assert points.shape == (23, 3)
    # The farthest point is on the positive side, whatever sign the library returns.
    assert (points.max(axis=0) == np.abs(points).max(axis=0)).all()


def test_weighted_principal_components_are_those_of_repeated_rows():
    vectors = np.random.default_rng(3).normal(size=(11, 4)) * [1, 5, 2, 3]
    repeats = np.array([1, 3, 1, 1, 2, 1, 4, 1, 1, 1, 2])
    points, shares = occurrences.principal_components(vectors, 2, weights=repeats)
    repeated, repeated_shares = occurrences.principal_components(vectors.repeat(repeats, axis=0))
    np.testing.assert_allclose(points.repeat(repeats, axis=0), repeated)
    np.testing.assert_allclose(shares, repeated_shares)
    assert not np.allclose(points, occurrences.principal_components(vectors)[0], atol=0.1)


def test_cue_weights_bound_what_a_cue_counts_for():
    weights = occurrences.cue_weights(["a", "b", "a", None, "a", "a"], 3)
    np.testing.assert_allclose(weights, [0.75, 1, 0.75, 1, 0.75, 0.75])


def test_excerpts_line_up():
    long = " ".join(["word"] * 30)
    several = found("close", f"{long} close {long}", "a close b", f"close {long}", f"{long} close")
    shown = [occurrences.excerpt(each, 50) for each in several]
    assert len({text.index("[close]") for text in shown}) == 1
    assert max(map(len, shown)) == 50
    assert shown[1].startswith("…") and shown[1].endswith("…")
    assert shown[2].split() == ["a", "[close]", "b"]


def test_snippet():
    each = found("a b c close , d e f")[0]
    assert occurrences.snippet(each, 2) == "b c [close], d"
    assert occurrences.snippet(found("close")[0], 2) == "[close]"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("well , we can ' t .", "well, we can't."),
        ("cost $ 5 ; ( all ) 3 %", "cost $5; (all) 3%"),
        ("self - made", "self-made"),
        ("", ""),
    ],
)
def test_join_tokens(tokens, text):
    assert occurrences.join_tokens(tokens.split()) == text
