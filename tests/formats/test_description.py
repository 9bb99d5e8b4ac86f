"""`describe`: the properties of a model, and anything unusual about it."""

import dataclasses
import json
import sys

import h5py
import numpy as np
import pytest

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf
from tests.formats.test_locate import CONFIG, random_arrays


@pytest.fixture
def pair(tmp_path):
    directory = tmp_path / "m"
    directory.mkdir()
    options = {**CONFIG.to_options(), "n_tokens_vocab": 5}
    (directory / "options.json").write_text(json.dumps(options))
    write(directory, random_arrays(5))
    (directory / "vocab.txt").write_text("<S>\n</S>\n<UNK>\na\nb\n")
    return directory


def write(directory, arrays):
    bilm_tf.write_weights(directory / "weights.hdf5", arrays, CONFIG)


def test_a_pair(pair):
    found = elmo_tf.describe(pair)
    assert (found.path, found.format) == (str(pair), "bilm-tf pair")
    assert found.files == {path.name: path.stat().st_size for path in pair.iterdir()}
    assert found.options == CONFIG.to_options()
    of_bilm = [array.size for name, array in random_arrays().items()]
    assert found.num_parameters == sum(of_bilm)
    assert (found.num_layers, found.width, found.num_words, found.num_softmax_words) == (
        1,
        10,
        5,
        5,
    )
    assert found.arrays["softmax.kernel"] == (5, 5)
    assert (found.scalar_mix, found.optimizer, found.odd, found.problem) == (None, (), (), None)


def test_what_is_odd(pair):
    arrays = random_arrays(5)
    arrays["CNN_high_0/W_carry"][...] = 0
    arrays["softmax/b"][2] = np.nan
    write(pair, arrays)
    (pair / "vocab.txt").write_text("<S>\n</S>\n<UNK>\na\n")
    assert elmo_tf.describe(pair).odd == (
        "words: the softmax predicts 5, the vocabulary has 4, n_tokens_vocab of the options is 5",
        "NaN or infinity in softmax.bias",
        "all values are zero in char_cnn.highway_0.gate_matrix",
    )
    (pair / "vocab.txt").write_text("a\n")
    found = elmo_tf.describe(pair)
    assert (found.problem, found.num_words) == (None, None)
    assert found.odd[0].startswith(f"not read: {pair}/vocab.txt: the line <S> is missing")


def test_a_vocabulary_that_a_model_does_not_need(pair):
    write(pair, random_arrays())
    assert elmo_tf.describe(pair).num_words == 5
    (pair / "vocab.txt").write_text("a\n")
    found = elmo_tf.describe(pair)
    assert (found.num_words, found.problem) == (None, None)
    assert "vocab.txt: the line <S> is missing" in found.odd[0]


def test_a_model_that_can_not_be_read(pair):
    arrays = random_arrays()
    with h5py.File(pair / "weights.hdf5", "r+") as file:
        del file["char_embed"]
    found = elmo_tf.describe(pair)
    assert found.format == "bilm-tf pair"
    assert found.files.keys() == {"options.json", "vocab.txt", "weights.hdf5"}
    shape = list(arrays["char_embed"].shape)
    assert found.problem == (
        f"{pair}/weights.hdf5: does not fit its options: missing: char_embed {shape}"
    )
    assert str(found).splitlines()[-1].startswith("problem       ")
    (pair / "weights.hdf5").unlink()
    with pytest.raises(InputError, match="holds no model"):
        elmo_tf.describe(pair)


def test_json_and_lines_tell_the_same(pair):
    found = elmo_tf.describe(pair)
    stored = json.loads(found.to_json())
    assert stored.keys() == {field.name for field in dataclasses.fields(found)}
    assert stored["options"] == found.options
    assert stored["arrays"]["softmax.bias"] == [5]
    text = str(found)
    assert f"parameters    {found.num_parameters:,} of the biLM" in text
    assert "softmax       over 5 words" in text
    assert "odd           nothing" in text
    odd = dataclasses.replace(
        found, scalar_mix={"layer_weights": [0.5, float("nan")], "gamma": 1.0}
    )
    assert json.loads(odd.to_json())["scalar_mix"]["layer_weights"] == [0.5, "nan"]


def test_each_fixture(fixtures_dir):
    """Format, parameters and other contents of a model in each format."""
    for path, expected in (
        ("tf1_checkpoint/one_layer/checkpoint_dir", ("TensorFlow 1 checkpoint of bilm-tf", 40, 40)),
        ("tf1_hub/deeppavlov/module", ("TF1 hub module", None, None)),
        ("archives/193.zip", ("bilm-tf pair", 14, None)),
        ("archives/144.zip", ("ELMoForManyLangs", 61, None)),
    ):
        found = elmo_tf.describe(fixtures_dir / path)
        assert (found.format, found.num_words, found.num_softmax_words) == expected
        assert found.problem is None
        of_bilm = {n: s for n, s in found.arrays.items() if not n.startswith(("softm", "scalar_"))}
        if found.format != "ELMoForManyLangs":
            assert found.num_parameters == sum(map(int, map(np.prod, of_bilm.values())))
        assert sum(found.files.values()) > 0
        if found.format.startswith("TensorFlow"):
            assert found.optimizer == ("accumulator",)
            assert found.unroll_steps == 3
        if found.format == "TF1 hub module":
            np.testing.assert_allclose(found.scalar_mix["layer_weights"], [0.5, -0.2, 0.1])
            assert "leaves out gamma, 0.7" in found.odd[0]


def test_tensorflow_is_not_needed_to_describe_a_pair(pair, monkeypatch):
    for name in ("tensorflow", "keras"):
        monkeypatch.setitem(sys.modules, name, None)  # makes an import fail
    assert elmo_tf.describe(pair).problem is None
