"""A model stores the tokenizer and normalization of its training in every format."""

import json

import h5py
import numpy as np
import pytest

import elmo_tf
from elmo_tf import embed, train
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.loading import load_encoder
from export import export_elmo
from tests.training import tiny

TEXT = "a0,b1 c2!"
TOKENS = ["a0", ",", "b1", "c2", "!"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run and its export, trained on text with attached punctuation."""
    folder = tiny.write_files(tmp_path_factory.mktemp("text"))
    tiny.CONFIG.write(folder / "options.json")
    flags = [f"--train_files={folder}/[ab].txt", f"--vocab_file={folder}/vocab"]
    flags += [f"--model_dir={folder}/run", f"--options_file={folder}/options.json"]
    flags += ["--batch_size=3", "--unroll_steps=4", "--num_negative_samples=5", "--max_steps=1"]
    flags += ["--tokenizer=unicode_punctuation", f"--export_dir={folder}/exported"]
    assert train.main(flags) == 0
    (folder / "text.txt").write_text(TEXT + "\n")
    return folder


@pytest.mark.parametrize("model", ["run", "exported"])
def test_a_model_knows_them_after_loading(folder, model):
    encoder = load_encoder(folder / model)
    assert (encoder.tokenizer, encoder.normalize) == ("unicode_punctuation", "none")
    copy = ElmoEncoder.from_config(encoder.get_config())
    assert (copy.tokenizer, copy.normalize) == ("unicode_punctuation", "none")


def test_an_export_holds_them_for_people_and_programs(folder):
    extras = folder / "exported" / "assets.extra"
    stored = {"tokenizer": "unicode_punctuation", "normalize": "none"}
    assert json.loads((extras / "text.json").read_text()) == stored
    assert "tokenized by unicode_punctuation" in (extras / "README.md").read_text()


def test_raw_text_in_python_is_tokenized_as_in_training(folder, caplog):
    encoder = load_encoder(folder / "run")
    (raw,) = elmo_tf.embed_sentences(encoder, [TEXT])
    (tokens,) = elmo_tf.embed_sentences(encoder, [TOKENS])
    assert raw.shape == (5, 4)
    np.testing.assert_allclose(raw, tokens, atol=1e-6)
    assert caplog.records == []
    for _ in range(2):  # the graph splits at white space; the warning appears once
        assert encoder([TEXT])["sequence_len"].numpy() == [2]
    (record,) = caplog.records
    assert "tokenizer=unicode_punctuation, normalize=none" in record.getMessage()


def test_commands_take_them_by_default_and_warn_of_others(folder, capfd):
    flags = [f"--model={folder}/exported", f"--input_file={folder}/text.txt", "--layers=word"]
    assert embed.main([*flags, f"--output_file={folder}/own.hdf5"]) == 0
    assert capfd.readouterr().err == ""
    other = [*flags, f"--output_file={folder}/other.hdf5", "--tokenizer=whitespace"]
    assert embed.main(other) == 0
    warning = "warning: --tokenizer=whitespace: the model was trained with unicode_punctuation\n"
    assert capfd.readouterr().err == warning
    with h5py.File(folder / "own.hdf5") as own, h5py.File(folder / "other.hdf5") as other:
        assert (len(own["0"]), len(other["0"])) == (5, 2)


def test_an_export_can_be_told(folder, capfd):
    flags = [f"--model={folder}/exported", f"--output_dir={folder}/told", "--normalize=nfc"]
    assert export_elmo.main(flags) == 0
    assert "--normalize=nfc: the model was trained with none" in capfd.readouterr().err
    told = load_encoder(folder / "told")
    assert (told.tokenizer, told.normalize) == ("unicode_punctuation", "nfc")


@pytest.mark.parametrize(
    ("more", "tokenizer", "errors"),
    [
        ([], "unicode_punctuation", ""),
        (
            ["--tokenizer=unicode_whitespace"],
            "unicode_whitespace",
            "warning: --tokenizer=unicode_whitespace: --initial_weights has unicode_punctuation\n",
        ),
    ],
)
def test_fine_tuning_tokenizes_as_its_model(folder, capfd, more, tokenizer, errors):
    run = folder / f"tuned-{tokenizer}"
    flags = [f"--train_files={folder}/a.txt", f"--vocab_file={folder}/vocab", *more]
    flags += [f"--model_dir={run}", f"--initial_weights={folder}/exported"]
    assert train.main([*flags, "--batch_size=3", "--unroll_steps=4", "--max_steps=1"]) == 0
    assert capfd.readouterr().err == errors
    assert json.loads((run / "training.json").read_text())["settings"]["tokenizer"] == tokenizer


def test_training_says_what_the_vocabulary_knows(folder, capfd):
    words = [b" ".join(tiny.sentence(k)) for k in range(tiny.NUM_SENTENCES)]
    (folder / "commas.txt").write_bytes(b"\n".join(words[:3] + [each + b"," for each in words[3:]]))
    flags = [f"--train_files={folder}/commas.txt", f"--vocab_file={folder}/vocab"]
    flags += [f"--model_dir={folder}/commas", f"--options_file={folder}/options.json"]
    flags += ["--batch_size=3", "--unroll_steps=4", "--max_steps=1"]
    assert train.main(flags) == 0
    output, errors = capfd.readouterr()
    num_words = tiny.NUM_TOKENS - tiny.NUM_SENTENCES
    unknown = (tiny.NUM_SENTENCES - 3) / num_words
    assert f", which has {1 - unknown:.2%} of the text's" in output
    assert errors.startswith(f"warning: {unknown:.1%} of the text's words are not in --vocab_file")
    assert errors.count("\n") == 1
