import json
import os
import shutil
import tempfile
import zipfile

import h5py
import numpy as np
import pytest

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, locate, text_settings
from elmo_tf.vectors.vector_file import Progress, VectorFile
from tests.models import small_config

CONFIG = small_config(num_layers=1)


def random_arrays(vocabulary_size=None):
    rng = np.random.default_rng(11)
    entries = bilm_tf.table(CONFIG, vocabulary_size)
    return {entry.name: rng.normal(size=entry.shape).astype(np.float32) for entry in entries}


@pytest.fixture
def pair(tmp_path):
    """A directory "m" that holds a model in bilm-tf format."""
    directory = tmp_path / "m"
    directory.mkdir()
    CONFIG.write(directory / "options.json")
    bilm_tf.write_weights(directory / "weights.hdf5", random_arrays(), CONFIG)
    return directory


@pytest.fixture
def make_zip(pair, tmp_path):
    """Makes a zip of the model's files under the given names, and of other files."""

    def make(options="options.json", weights="model.hdf5", others=(), name="elmo.zip", **kwargs):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", **{"compression": zipfile.ZIP_DEFLATED, **kwargs}) as file:
            if options:
                file.write(pair / "options.json", options)
            if weights:
                file.write(pair / "weights.hdf5", weights)
            for other in others:
                file.writestr(other, b"{}")
        return path

    return make


def read(*named):
    """The configuration and the arrays of a model, and the opened model."""
    arrays = {}
    with locate.find_model(*named).open() as model:
        model.read(model.names(), arrays.__setitem__)
    return model, arrays


def error_of(*named):
    with pytest.raises(InputError) as caught:
        read(*named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def assert_is_the_model(*named, vocabulary_size=None):
    model, arrays = read(*named)
    expected = bilm_tf.from_bilm_tf(CONFIG, random_arrays(vocabulary_size))
    assert model.config == CONFIG
    assert arrays.keys() == expected.keys() == set(model.names())
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])
        assert array.flags.c_contiguous
        assert model.arrays[name].shape == array.shape
        assert model.arrays[name].dtype == array.dtype == np.float32


# Pairs and directories.


def test_pair_in_all_its_spellings(pair):
    options, weights = str(pair / "options.json"), str(pair / "weights.hdf5")
    for arguments in (
        (pair,),
        (str(pair) + "/",),
        (f"{options},{weights}",),
        (f"{options}, {weights}",),
        (options, weights),
        (pair / "options.json", pair / "weights.hdf5"),
    ):
        assert_is_the_model(*arguments)
    assert locate.find_model(f"{options}, {weights}").path == f"{options},{weights}"


def test_home_directory(pair, monkeypatch):
    monkeypatch.setenv("HOME", str(pair.parent))
    for path in ("~/m", "~/m/options.json,~/m/weights.hdf5"):
        assert_is_the_model(path)
    assert_is_the_model("~/m/options.json", "~/m/weights.hdf5")


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ((None,), "path must be a path (str or os.PathLike), got None"),
        ((b"m",), "path must be a path (str or os.PathLike), got b'm'"),
        ((5, "w"), "path must be a path (str or os.PathLike), got 5"),
        (("o", 5), "weights must be a path (str or os.PathLike), got 5"),
        (("o", "w", ["a"]), "vocabulary must be a path (str or os.PathLike), got ['a']"),
    ],
)
def test_what_is_no_path(named, message):
    assert error_of(*named) == message


def test_names_with_commas(pair):
    directory = pair.rename(pair.parent / "m, of, commas")
    assert_is_the_model(directory)
    assert_is_the_model(f"{directory}/options.json,{directory}/weights.hdf5")


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ("elmo_2x1024_128_2048cnn_1xhighway_options.json", "elmo_2x1024_weights.hdf5"),
        ("options.json", "model.h5"),
        ("my_options.json", "WEIGHTS.HDF5"),
    ],
)
def test_directory_with_other_names(pair, options, weights):
    (pair / "options.json").rename(pair / options)
    (pair / "weights.hdf5").rename(pair / weights)
    for other in ("vocab.txt", "meta.json", ".options.json", "README", ".hidden.hdf5"):
        (pair / other).write_text("{}")
    (pair / "old.hdf5").mkdir()
    assert_is_the_model(pair)


def test_fixture_directories(fixtures_dir):
    for options in fixtures_dir.glob("**/model/options.json"):
        with locate.open_model(options.parent) as model:
            assert model.config == ElmoConfig.from_file(options)
            assert "bilm.forward_0.input_kernel" in model.arrays


def test_softmax(pair):
    bilm_tf.write_weights(pair / "weights.hdf5", random_arrays(vocabulary_size=17), CONFIG)
    assert_is_the_model(pair, vocabulary_size=17)
    model, _ = read(pair)
    softmax = {"softmax.kernel", "softmax.bias"}
    assert set(model.names()) - set(model.names(softmax=False)) == softmax
    assert model.softmax_is_passed_on


@pytest.mark.parametrize("has_sentences", [True, False])
def test_vectors_beside_the_weights(pair, has_sentences):
    """Vector files of elmo-embed, bilm-tf and AllenNLP have the extension of weight files."""
    with h5py.File(pair / "vectors.hdf5", "w") as file:
        file["0"] = np.zeros((3, 4, 14), np.float32)
        if has_sentences:
            file["sentence_to_index"] = ['{"the cat": "0"}']
    assert_is_the_model(pair)
    vectors, options = pair / "vectors.hdf5", pair / "options.json"
    expected = f"{vectors}: holds vectors, as elmo-embed writes them, and no weights"
    assert error_of(f"{options},{vectors}") == expected
    (pair / "weights.hdf5").unlink()
    assert error_of(pair) == expected


@pytest.mark.parametrize("content", [b"", b"no HDF5 at all"])
def test_files_that_are_no_hdf5_beside_the_weights(pair, content):
    (pair / "a.hdf5").write_bytes(content)
    assert_is_the_model(pair)
    (pair / "weights.hdf5").unlink()
    assert error_of(pair).startswith(f"{pair}/a.hdf5: ")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_arrays_that_are_not_finite_are_named_once(pair, caplog, value):
    arrays = random_arrays()
    names = list(arrays)[1:3]
    for name in names:
        arrays[name].flat[-1] = value
    arrays[names[0]].flat[0] = -value
    bilm_tf.write_weights(pair / "weights.hdf5", arrays, CONFIG)
    ours = [
        name
        for name, array in bilm_tf.from_bilm_tf(CONFIG, arrays).items()
        if not np.isfinite(array).all()
    ]
    assert len(ours) >= 2
    read(pair)
    assert caplog.messages == [f"{pair}/weights.hdf5: NaN or infinity in {', '.join(ours)}"]


def test_what_elmo_embed_writes_is_recognized(pair):
    with VectorFile(str(pair / "vectors.hdf5"), {"layers": "top"}) as file:
        file.write(0, np.zeros((2, 14), np.float32))
        file.add_sentence(0, b"the cat")
        file.commit(Progress(num_lines=1))
        file.finish()
    assert_is_the_model(pair)


def test_text_settings_beside_a_pair(pair):
    model, _ = read(pair)
    assert (model.tokenizer, model.normalize) == (None, None)
    settings = text_settings.TextSettings("unicode_punctuation", "nfc")
    settings.write(pair / "text.json")
    for named in ((pair,), (pair / "options.json", pair / "weights.hdf5")):
        model, _ = read(*named)
        assert (model.tokenizer, model.normalize) == ("unicode_punctuation", "nfc")
    (pair / "text.json").write_text('{"tokenizer": "moses"}')
    assert error_of(pair).startswith(f"{pair}/text.json: tokenizer must be one of 'whitespace', ")


def test_ambiguous_directory_lists_its_candidates(pair):
    shutil.copy(pair / "weights.hdf5", pair / "b.hdf5")
    assert error_of(pair) == (
        f"{pair}: more than one weight file (*.hdf5): b.hdf5, weights.hdf5; "
        "name both files as OPTIONS.json,WEIGHTS.hdf5"
    )
    (pair / "a_options.json").write_bytes(b"")
    assert error_of(pair) == (
        f"{pair}: more than one options.json: a_options.json, options.json; "
        "name both files as OPTIONS.json,WEIGHTS.hdf5"
    )


LOOKED_FOR = f"looked for {'; '.join(reader.looks_for for reader in locate.READERS)}"


def test_what_is_looked_for_is_said_for_each_format():
    for files in (
        "training.json with options.json (a training run)",
        "options.json or *_options.json with one *.hdf5 (bilm-tf format)",
        "*.ckpt-*.index with options.json (a training of bilm-tf)",
    ):
        assert files in LOOKED_FOR


def test_directory_without_a_model(pair, tmp_path):
    (tmp_path / "empty").mkdir()
    assert error_of(tmp_path / "empty") == (
        f"{tmp_path}/empty: holds no model: {LOOKED_FOR}; it holds no files"
    )
    (pair / "weights.hdf5").rename(pair / "model.ckpt.data-00000-of-00001")
    assert error_of(pair) == (
        f"{pair}: holds no model: {LOOKED_FOR}; "
        "it holds model.ckpt.data-00000-of-00001, options.json"
    )
    for i in range(2000):
        (pair / f"x{i}").write_text("")
    assert error_of(pair).endswith(" and 1,992 more")
    assert len(error_of(pair)) < len(LOOKED_FOR) + 300


def test_what_is_not_there(pair, tmp_path):
    here = f"{pair}/options.json"
    for arguments, message in (
        (("no/such",), "no/such: there is no such file or directory"),
        (("",), "'': there is no such file or directory"),
        ((f"{here},no.hdf5",), "no.hdf5: there is no such file"),
        ((f"no.json,{here}",), "no.json: there is no such file"),
        ((f"{here},",), "a file name before or after the comma: there is no such file"),
        ((here, tmp_path), f"{tmp_path}: is not a file"),
        ((pair, here), f"{pair}: is not a file"),
    ):
        assert error_of(*arguments) == message


def test_one_file_of_the_pair_alone(pair):
    for name in ("options.json", "weights.hdf5"):
        assert error_of(pair / name) == (
            f"{pair}/{name}: is not a model by itself: name both files as "
            "OPTIONS.json,WEIGHTS.hdf5, or a directory, zip or tar that holds them"
        )


def test_pair_the_wrong_way_round(pair):
    assert error_of(pair / "weights.hdf5", pair / "options.json").endswith(
        f"the options come first: {pair}/options.json,{pair}/weights.hdf5"
    )


def test_damaged_files_are_named(pair):
    options = (pair / "options.json").read_text()
    (pair / "options.json").write_text(options.replace("{", "", 1))
    assert error_of(pair).startswith(f"{pair}/options.json:")
    (pair / "options.json").write_text(options)
    (pair / "weights.hdf5").write_text("version https://git-lfs.github.com/spec/v1")
    assert error_of(pair) == (
        f"{pair}/weights.hdf5: is not an HDF5 file: it begins with b'version https://'"
    )


def test_options_of_any_size_are_not_read_whole(pair):
    (pair / "options.json").write_text('{"a": "' + "x" * 2_000_000 + '"}')
    assert error_of(pair) == (
        f"{pair}/options.json: is too large for a description of a model, over 1 MiB"
    )


# Zips.


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_as_the_repository_makes_it(make_zip, compression):
    path = make_zip(others=["vocab.txt", "meta.json", "README"], compression=compression)
    assert_is_the_model(path)


def test_zip_with_a_folder_and_what_other_systems_add(make_zip):
    path = make_zip(
        "195/a/options.json",
        "195/a/model.hdf5",
        others=["__MACOSX/195/a/._options.json", "__MACOSX/195/a/._model.hdf5", "195/", "195/a/"],
    )
    assert_is_the_model(path)


def test_zip_need_not_be_called_so(make_zip):
    assert_is_the_model(make_zip(name="195"))


@pytest.mark.parametrize("name", ["../../escaped_options.json", "../b_options.json"])
def test_names_that_lead_out_of_a_zip_are_refused(make_zip, name):
    path = make_zip(name)
    assert error_of(path) == (
        f"{path}: holds {name}, a name that leads out of the archive; not read"
    )


def test_temporary_file_goes_when_the_weights_are_wrong(make_zip, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = make_zip(weights=None, others=["a/model.hdf5"])
    assert error_of(path) == (f"{path}/a/model.hdf5: is not an HDF5 file: it begins with b'{{}}'")
    assert os.listdir(tmp_path / "temporary") == []


def test_a_zip_with_more_than_the_options_imply_is_not_unpacked(make_zip):
    """A compressed file of 100 MiB is 100 KB."""
    path = make_zip(weights=None)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.hdf5", bytes(100 << 20), compresslevel=1)
    assert f"{path}/model.hdf5: has 104,857,600 bytes, and a file that fits the" in error_of(path)


def test_zip_without_a_model_or_with_two(make_zip):
    path = make_zip(weights=None, others=["encoder.pkl"])
    assert error_of(path) == (
        f"{path}: holds no model: {LOOKED_FOR}; it holds encoder.pkl, options.json"
    )
    path = make_zip(options=None, others=["config.json"])
    assert error_of(path).endswith("; it holds config.json, model.hdf5")
    path = make_zip("a/options.json", others=["b/options.json"])
    assert "more than one options.json: a/options.json, b/options.json; " in error_of(path)


def test_one_name_twice_in_a_zip(make_zip):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = make_zip(others=["options.json"])
    assert error_of(path) == f"{path}: has two files named options.json"


def test_wrong_options_in_a_zip(make_zip, tmp_path):
    path = make_zip(options=None, others=["x/options.json"])
    assert error_of(path).startswith(f"{path}/x/options.json: lstm.dim is missing")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("options.json", json.dumps({"a": " " * 2_000_000}))
        archive.writestr("model.hdf5", b"")
    assert (
        error_of(path)
        == f"{path}/options.json: is too large for a description of a model, over 1 MiB"
    )


def test_what_is_no_zip(tmp_path):
    path = tmp_path / "elmo.zip"
    for content in (b"", b"PK\x03\x04 and no more", b"<html>"):
        path.write_bytes(content)
        assert error_of(path).startswith(f"{path}: damaged or truncated zip: ")


def test_zip_that_needs_a_password(make_zip):
    path = make_zip()
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = 0
        while (start := content.find(signature, start)) >= 0:
            content[start + offset] |= 1  # the flag for encryption
            start += 4
    path.write_bytes(content)
    assert f"{path}: zip that can't be read: " in error_of(path)
    assert "encrypted" in error_of(path)


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_damaged_zips_never_give_another_kind_of_error(make_zip, compression):
    path = make_zip(compression=compression)
    content = path.read_bytes()
    rng = np.random.default_rng(13)
    messages = []
    for i in range(120):
        damaged = bytearray(content)
        if i % 2:
            damaged = damaged[: int(rng.integers(1, len(content)))]
        else:
            at_end = i % 4 == 0  # in the zip's directory
            start = int(rng.integers(len(content) - 220 if at_end else 0, len(content) - 8))
            damaged[start : start + 8] = rng.bytes(8)
        path.write_bytes(damaged)
        try:
            read(path)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 60
    assert not any("\n" in message for message in messages)
