"""Figures and tables from results whose right tokens are set by hand."""

from pathlib import Path

import numpy as np
import pytest

from elmo_tf.errors import InputError
from examples.proof import brown, report, samples

TEST = [
    brown.Sentence(("the", "saw"), ("DET", "NOUN"), "ca10"),
    brown.Sentence(("saw", "new", "."), ("VERB", "ADJ", "."), "ca10"),
]


def _save(path: Path, right: list[int], mix: tuple[float, ...] = ()) -> None:
    np.savez(path, right=np.array(right, bool), seen=np.array(["the", "saw", "."]), mix=mix)


def test_accuracies_count_the_tokens_of_their_kind(tmp_path):
    _save(tmp_path / "static-40-0.npz", [1, 0, 1, 0, 1])
    _save(tmp_path / "static-40-1.npz", [1, 1, 1, 1, 1])
    runs = report.read_runs(tmp_path)[40, "static"]
    found = report.figures(runs, TEST, {"saw"})
    assert found["all"].mean == pytest.approx((3 / 5 + 1) / 2)
    assert found["ambiguous"].mean == pytest.approx((1 / 2 + 1) / 2)
    assert found["unseen"].mean == pytest.approx((0 + 1) / 2)
    assert found["all"].low < found["all"].mean < found["all"].high


def test_the_interval_of_equal_sentences_and_runs_is_one_point(tmp_path):
    for seed in range(3):
        _save(tmp_path / f"mix-40-{seed}.npz", [1, 0, 1, 0])
    pairs = [TEST[0], TEST[0]]
    found = report.figures(report.read_runs(tmp_path)[40, "mix"], pairs, {"saw"})
    assert found["all"] == report.Figure(0.5, 0.5, 0.5)
    assert found["ambiguous"] == report.Figure(0.0, 0.0, 0.0)


def test_the_report_has_errors_removed_mix_weights_and_a_figure(tmp_path):
    _save(tmp_path / "static-40-0.npz", [0, 0, 0, 0, 0])
    _save(tmp_path / "mix-40-0.npz", [1, 1, 0, 1, 1], (0.5, 0.25, 0.25))
    _save(tmp_path / "fine-tuned-40-0.npz", [1, 1, 1, 1, 1], (0.125, 0.25, 0.625))
    train = [brown.Sentence(("saw", "saw"), ("NOUN", "VERB"), "ca01")]
    # The sample shuffles the test part, so results are for its order.
    split = brown.Split(train, [], TEST)
    sample = samples.draw(split, samples.QUICK_SIZES)
    assert sorted(sample.test) == sorted(TEST)
    text = report.report(brown.Split(train, [], sample.test), tmp_path, is_quick=True)
    rows = [line for line in text.splitlines() if line.startswith("| 40 ")]
    assert [row.split("|")[2].strip() for row in rows[:3]] == ["static", "mix", "fine-tuned"]
    assert rows[3:] == ["| 40 | mix | 0.50, 0.25, 0.25 |", "| 40 | fine-tuned | 0.12, 0.25, 0.62 |"]
    assert rows[2].endswith("| 100% |")
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == text + "\n"
    assert (tmp_path / "pos.png").read_bytes().startswith(b"\x89PNG")


def test_a_directory_without_results_is_named(tmp_path):
    with pytest.raises(InputError, match="must hold results"):
        report.read_runs(tmp_path)
