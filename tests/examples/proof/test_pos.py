"""The tagging experiment on a corpus of made-up sentences and a small model."""

from pathlib import Path

import numpy as np
import pytest

from examples.proof import cached_layers, pos, samples


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """60 sentences in which the word after "the" is a noun and the same word after "to" a verb."""
    directory = tmp_path / "brown" / "package"
    directory.mkdir(parents=True)
    rng = np.random.default_rng(5)
    for name, count in (("ca01", 40), ("ca05", 10), ("ca10", 20)):
        lines = []
        for _ in range(count):
            word = rng.choice(["cut", "run", "walk"])
            pairs = [f"the/at {word}/nn", f"to/to {word}/vb"]
            lines.append(" ".join(rng.permutation(pairs)) + " ./.\n")
        (directory / name).write_text("".join(lines))
    return directory.parent


def _arguments(model: Path, corpus: Path, directory: Path) -> list[str]:
    arguments = [f"--model={model}", f"--output={directory / 'proof'}", f"--brown={corpus}"]
    return [*arguments, f"--data={directory / 'data'}", "--quick", "--seeds=1", "--variants"]


def _check(path: Path, num_weights: int) -> None:
    with np.load(path) as result:
        assert result["right"].shape == (20 * 5,)
        assert set(result["seen"]) == {"the", "to", "cut", "run", "walk", "."}
        assert result["mix"].shape == (num_weights,)
        assert not num_weights or result["mix"].sum() == pytest.approx(1.0)


def test_frozen_variants_run_and_are_not_repeated(corpus, small_pair, tmp_path, capsys):
    arguments = [*_arguments(small_pair, corpus, tmp_path), *samples.FROZEN]
    assert pos.main(arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(samples.FROZEN)
    for variant, num_weights in zip(samples.FROZEN, (0, 1, 1, 3), strict=True):
        _check(tmp_path / "proof" / f"{variant}-40-0.npz", num_weights)
    assert pos.main(arguments) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.slow  # traces the training step with the language model in it
def test_the_fine_tuned_variant_runs(corpus, small_pair, tmp_path, capsys):
    assert pos.main([*_arguments(small_pair, corpus, tmp_path), "fine-tuned"]) == 0
    assert capsys.readouterr().out.startswith("fine-tuned 40 0: ")
    _check(tmp_path / "proof" / "fine-tuned-40-0.npz", 3)


def test_a_missing_model_is_named(corpus, tmp_path, capsys):
    arguments = [f"--model={tmp_path / 'none'}", f"--output={tmp_path}", f"--brown={corpus}"]
    assert pos.main(arguments) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err


def test_cached_layers_are_those_of_the_encoder(small_encoder, tmp_path):
    sentences = [["a", "cat"], ["one"], ["the", "cat", "sat"]]
    cached = cached_layers.compute(small_encoder, sentences, tmp_path)
    tokens = [row + [""] * (3 - len(row)) for row in (sentences[2], sentences[0])]
    expected = small_encoder(tokens, sequence_len=[3, 2])
    found = cached.padded([2, 0], [1, 2])
    assert found.shape == (2, 2, 3, 10)
    for index, name in enumerate(("lstm_outputs1", "lstm_outputs2")):
        np.testing.assert_allclose(found[:, index], expected[name], atol=1e-3)
    (path,) = tmp_path.iterdir()
    before = path.stat().st_mtime_ns
    again = cached_layers.compute(small_encoder, sentences, tmp_path)
    np.testing.assert_array_equal(again.vectors, cached.vectors)
    assert path.stat().st_mtime_ns == before
