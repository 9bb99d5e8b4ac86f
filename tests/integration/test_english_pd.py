"""The included model: its files, its name in every entry point, and that it knows English."""

import json

import h5py
import numpy as np
import pytest

import elmo_tf
from elmo_tf import evaluate, inspect
from elmo_tf.formats import catalog

NAME = "english-pd"
SENTENCES = [
    "The President of the United States sent a message to Congress.",
    "She looked at him with great surprise, and did not know what to say.",
    "And the king said to his servants, Go and bring me the man.",
    "It was the duty of every citizen to obey the laws of his country.",
]


@pytest.fixture(scope="module")
def encoder():
    return elmo_tf.ElmoEncoder.from_model(NAME)


def test_files_are_small_and_in_half_precision():
    model = catalog.find(NAME)
    directory = catalog.included_directory(model)
    with h5py.File(f"{directory}/weights.hdf5") as file:
        assert file["softmax/W"].shape == (44956, 128)
        assert file["softmax/W"].dtype == np.float16
    assert float(model.size.removesuffix(" MB")) <= 20
    assert elmo_tf.models()[0] == model


def test_inspect(capsys):
    assert inspect.main([f"--model={NAME}", "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    assert description["num_softmax_words"] == 44956 and description["odd"] == []
    assert (description["tokenizer"], description["normalize"]) == ("unicode_punctuation", "none")


def test_raw_text_is_tokenized_like_the_training_text(encoder):
    raw, split = (
        elmo_tf.embed_sentences(encoder, text, layers="top")
        for text in (["The cat, it sat."], [["The", "cat", ",", "it", "sat", "."]])
    )
    assert raw[0].shape == (6, 256)
    np.testing.assert_array_equal(raw[0], split[0])


def test_senses_are_apart(encoder):
    """The sense of "light" decides on the nearest of three, and not the word itself."""
    sentences = [
        "It was no light task for him .",
        "It is no light matter for us .",
        "The light of the sun was shining .",
    ]
    vectors = elmo_tf.embed_sentences(encoder, [each.split() for each in sentences], layers="top")
    positions = [each.split().index("light") for each in sentences]
    rows = np.stack([v[i] for v, i in zip(vectors, positions, strict=True)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    same, other = rows[0] @ rows[1], max(rows[0] @ rows[2], rows[1] @ rows[2])
    assert same > other + 0.1


def test_english_is_more_probable_than_its_words_in_random_order(tmp_path, capsys):
    rng = np.random.default_rng(0)
    shuffled = [" ".join(rng.permutation(each.split())) for each in SENTENCES]
    perplexities = []
    for name, lines in (("english.txt", SENTENCES), ("shuffled.txt", shuffled)):
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        assert evaluate.main([f"--model={NAME}", f"--heldout_files={tmp_path / name}"]) == 0
        perplexities.append(json.loads(capsys.readouterr().out.splitlines()[-1])["perplexity"])
    assert 3 * perplexities[0] < perplexities[1]
