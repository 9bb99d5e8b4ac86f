"""TF1 modules of TensorFlow Hub, compared with their own outputs through `hub.load`."""

import io
import json
import shutil
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.model.encoder import ElmoEncoder
from tests.hdf5_arrays import read_arrays

NAMES = ["google_full", "google_other_sizes", "deeppavlov"]
OUTPUTS = ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"]
TOLERANCE = 5e-6  # for values up to 3; NumPy differs from the modules by as much


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "tf1_hub"


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


def test_arrays_are_those_of_its_source(folder, name):
    weights = read_arrays(folder / name / "source/lm_weights.hdf5")
    weights = {bilm_tf.current_name(key): array for key, array in weights.items()}
    mix = json.loads((folder / name / "mix.json").read_text())
    with locate.find_model(folder / name / "module").open() as model:
        expected = bilm_tf.from_bilm_tf(model.config, weights)
        assert set(model.names(scalar_mix=False)) == set(expected)
        for path, array in expected.items():
            np.testing.assert_array_equal(model.arrays[path].read(), array)
        assert set(model.arrays) - set(expected) == {
            "scalar_mix.gamma",
            "scalar_mix.layer_weights",
        }
        values = {
            key: model.arrays[f"scalar_mix.{key}"].read() for key in ("gamma", "layer_weights")
        }
    flat = np.concatenate([np.ravel(each) for each in mix.values()]).astype(np.float32)
    assert sorted(flat) == sorted([*values["layer_weights"], values["gamma"]])


def test_outputs_are_those_of_its_signatures(folder, name):
    """Compares all rows except two, the fifth of each signature.

    The modules read the tokens "<S>" and "</S>" as bytes, bilm-tf and we as boundaries. They split
    text only at spaces, we also at tabs.
    """
    sentences = json.loads((folder / "sentences.json").read_text())
    expected = np.load(folder / name / "expected.npz")
    encoder = ElmoEncoder.from_model(folder / name / "module")
    lengths = [len(tokens) for tokens in sentences["tokens"]]
    rows = [tokens + [""] * (max(lengths) - len(tokens)) for tokens in sentences["tokens"]]
    of_tokens = encoder(tf.constant(rows), sequence_len=lengths)
    of_text = encoder(sentences["text"])
    gamma = encoder.scalar_mix.gamma.numpy() if name == "deeppavlov" else 1.0
    for signature, outputs in (("tokens", of_tokens), ("default", of_text)):
        assert not {"<S>", "\t"}.isdisjoint(sentences["tokens"][4] + list(sentences["text"][4]))
        lengths = dict(enumerate(outputs["sequence_len"].numpy()))
        del lengths[4]
        for output in OUTPUTS:
            for row, length in lengths.items():
                np.testing.assert_allclose(
                    outputs[output][row, :length],
                    expected[f"{signature}/{output}"][row, :length],
                    rtol=0,
                    atol=TOLERANCE,
                )
        real = [row for row, length in lengths.items() if length]  # a mean of nothing is undefined
        np.testing.assert_allclose(
            outputs["default"].numpy()[real] / gamma,
            expected[f"{signature}/default"][real],
            rtol=0,
            atol=TOLERANCE,
        )


def test_a_default_without_gamma_is_said(folder, caplog):
    ElmoEncoder.from_model(folder / "deeppavlov/module")
    assert "its own `default` leaves out gamma, " in caplog.text
    caplog.clear()
    ElmoEncoder.from_model(folder / "google_full/module")
    assert not caplog.messages


@pytest.mark.parametrize("root", ["", "./", "elmo/3/"])
def test_archive(folder, tmp_path, root):
    module = folder / "google_other_sizes/module"
    with tarfile.open(tmp_path / "module.tar.gz", "w:gz") as archive:
        archive.add(module, root or ".")
    arrays = []
    for path in (module, tmp_path / "module.tar.gz"):
        with locate.find_model(path).open() as model:
            arrays.append({key: array.read() for key, array in model.arrays.items()})
    assert arrays[0].keys() == arrays[1].keys()
    for key, array in arrays[0].items():
        np.testing.assert_array_equal(arrays[1][key], array)


def error_of(path):
    with pytest.raises(InputError) as caught, locate.find_model(path).open() as model:
        model.read(model.names(), lambda name, array: None)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1200
    return str(caught.value)


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder / "google_other_sizes/module", tmp_path / "copy")


def test_files_that_are_missing(copy):
    shard = copy / "variables/variables.data-00001-of-00002"
    shard.unlink()
    prefix = copy / "variables/variables"
    assert error_of(copy) == f"{prefix}.index: there is no variables/{shard.name}"
    (copy / "variables/variables.index").unlink()
    assert "is a SavedModel, but not an export of elmo_tf" in error_of(copy)


@pytest.mark.parametrize("file", ["index", "data-00000-of-00002", "data-00001-of-00002"])
@pytest.mark.parametrize("tenth", range(10))
def test_cut_off_at_every_tenth(copy, file, tenth):
    path = copy / f"variables/variables.{file}"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * tenth // 10])
    assert "variables: damaged or truncated checkpoint: " in error_of(copy)


def test_a_module_that_is_no_elmo(copy):
    variable = tf.Variable([1.0, 2.0])
    for path in (copy / "variables").iterdir():
        path.unlink()
    tf.raw_ops.SaveV2(
        prefix=str(copy / "variables/variables"),
        tensor_names=["module/embeddings"],
        shape_and_slices=[""],
        tensors=[variable],
    )
    assert error_of(copy) == (
        f"{copy}: is a TensorFlow Hub module but not ELMo: it has variables module/embeddings"
    )


def test_an_archive_that_is_larger_than_its_variables(copy, tmp_path):
    """An archive with more bytes than its variables is not unpacked."""
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as archive:
        archive.add(copy, ".")
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("tfhub_module.pb", "saved_model.pb", "variables/variables.index"):
            archive.add(copy / name, name)
        archive.add(copy / "variables/variables.data-00000-of-00002", "variables/x")
        for shard in range(2):
            entry = tarfile.TarInfo(f"variables/variables.data-{shard:05}-of-00002")
            entry.size = 50_000_000
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    assert "not unpacked" in error_of(path)


def write_variables(path, arrays):
    """Replaces the variables of a module."""
    for each in (path / "variables").iterdir():
        each.unlink()
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(path / "variables/variables"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[arrays[name] for name in names],
    )
    return path


@pytest.fixture(scope="module")
def variables(folder):
    reader = tf.train.load_checkpoint(str(folder / "google_other_sizes/module/variables/variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_names_with_a_prefix(variables, folder, copy):
    prefixed = {f"module/{name}": array for name, array in variables.items()}
    write_variables(copy, {**prefixed, "global_step": np.int64(3)})
    plain = folder / "google_other_sizes/module"
    with locate.open_model(copy) as model, locate.open_model(plain) as expected:
        assert model.config == expected.config
        assert model.names() == expected.names()
        for name in expected.names():
            np.testing.assert_array_equal(model.arrays[name].read(), expected.arrays[name].read())
        assert model.notes == (
            f"{copy}: has variables that are not known and not used: global_step",
        )


def test_what_does_not_fit_is_listed_together(variables, copy):
    cell = "bilm/RNN_0/RNN/MultiRNNCell/Cell1/rnn/lstm_cell"
    arrays = {**variables, "bilm/RNN_2/x": np.float32(1)}
    del arrays[f"{cell}/bias"]
    arrays[f"{cell}/kernel"] = arrays[f"{cell}/kernel"][:, :-4]
    arrays["bilm/CNN/b_cnn_1"] = arrays["bilm/CNN/b_cnn_1"].astype(np.int32)
    published = "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell"
    assert error_of(write_variables(copy, arrays)) == (
        f"{copy}: does not fit its options: missing: {published}/B [36]; "
        "not floating point: CNN/b_cnn_1 is int32; unexpected: RNN_2/x []; "
        f"wrong shape: {published}/W_0 is [10, 32], must be [10, 36]"
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bilm/char_embed", None, "no variable char_embed with 2 dimensions"),
        ("bilm/char_embed", np.float32([1]), "no variable char_embed with 2 dimensions"),
        ("bilm/char_embed", np.float32(1), "no variable char_embed with 2 dimensions"),
        ("bilm/CNN/W_cnn_0", np.zeros((1, 0, 7, 3), "f"), "filters[0][0] must be an integer >= 1"),
        ("bilm/CNN_high_9999/b_carry", np.float32(1), "unexpected: CNN_high_9999/b_carry []"),
        ("aggregation/weights", np.float32([1, 2]), "layer_weights is [2], must be [3]"),
        ("aggregation/scaling", np.float32([1, 2]), "gamma is [2], must be []"),
        ("aggregation/scaling", b"x", "not floating point: gamma is object"),
        ("aggregation/scaling", None, "missing: gamma []"),
    ],
)
def test_modules_with_a_fault(variables, copy, name, value, message):
    arrays = {**variables, name: value}
    if value is None:
        del arrays[name]
    assert message in error_of(write_variables(copy, arrays))
