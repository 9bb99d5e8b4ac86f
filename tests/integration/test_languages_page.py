"""Examples of docs/languages.md are run with a model of ELMoForManyLangs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import elmo_tf
from tests.test_readme import EXAMPLE

PAGE = (Path(__file__).parents[2] / "docs/languages.md").read_text(encoding="utf-8")


@pytest.fixture
def names(fixtures_dir, tmp_path, monkeypatch):
    """The names that the examples define, after all of them ran."""
    shutil.copytree(fixtures_dir / "manylangs/word_char", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    names = {}
    for _, code in EXAMPLE.findall(PAGE):
        exec(code, names)
    return names


def test_examples(names, fixtures_dir):
    """The sentence has the vectors of ELMoForManyLangs."""
    encoder = names["encoder"]
    dim = 2 * encoder.config.lstm.projection_dim
    expected = np.load(fixtures_dir / "manylangs/word_char/expected.npz")
    sentences = json.loads((fixtures_dir / "manylangs/sentences.json").read_text(encoding="utf-8"))
    number = sentences.index(names["words"])
    np.testing.assert_allclose(
        names["vectors"], expected[f"alone/{number:02}/average"], rtol=0, atol=1e-5
    )
    assert "".join(names["words"]) == names["sentence"]
    by_character = elmo_tf.embed_sentences(encoder, [list(names["sentence"])])[0]
    assert by_character.shape == (7, dim)
    outputs = encoder(encoder.token_input.batch(names["tokens"]))
    assert outputs["elmo"].shape == (1, 2, dim)


def test_what_the_page_says_of_tokenizers():
    from elmo_tf.text.tokens import make_tokenizer

    tokenize = make_tokenizer("unicode_punctuation")
    han, kana, thai = (
        [token.decode() for token in tokenize([text.encode()])[0]]
        for text in ("今天好。", "ありがとう", "สวัสดี")
    )
    assert han == ["今", "天", "好", "。"]
    assert kana == ["ありがとう"]
    assert thai == ["สวัสดี"]


def test_two_spellings_of_an_accent():
    ids = elmo_tf.batch_to_ids([["é", "e\u0301"]])
    assert (ids[0, 0] != ids[0, 1]).any()
