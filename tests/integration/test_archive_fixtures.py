"""Archives as users have them: the vectors equal bilm-tf's from the same files."""

import gzip
import json
import tarfile

import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.formats import locate
from tests.integration import peers

ARCHIVES = {
    "193.zip": "nlpl",
    "folder_inside.zip": "nlpl",
    "pair.tar.gz": "pair",
    "pair_in_folder.tar.gz": "pair",
}


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "archives"


def arrays_of(path):
    arrays = {}
    with locate.open_model(path) as model:
        model.read(model.names(), arrays.__setitem__)
    return model.config, arrays


@pytest.mark.parametrize(("name", "plain"), ARCHIVES.items())
def test_an_archive_is_the_pair_in_it(folder, name, plain):
    options, weights = (folder / "plain" / f"{plain}_{f}" for f in ("options.json", "weights.hdf5"))
    config, arrays = arrays_of(folder / name)
    pair_config, pair_arrays = arrays_of(f"{options},{weights}")
    assert config == pair_config
    assert arrays.keys() == pair_arrays.keys()
    for key, array in pair_arrays.items():
        np.testing.assert_array_equal(arrays[key], array)


@pytest.mark.parametrize("name", ["193.zip", "pair_in_folder.tar.gz"])
def test_vectors(folder, name):
    expected = np.load(folder / "plain" / f"{ARCHIVES[name]}_expected.npz")
    outputs_of = peers.through_python(folder / name)
    difference = peers.largest_difference(outputs_of, folder / "sentences.json", expected)
    assert difference < peers.TOLERANCE


def test_a_hub_module_in_a_tar(folder, fixtures_dir):
    config, arrays = arrays_of(folder / "tfhub_module.tar.gz")
    module_config, module_arrays = arrays_of(fixtures_dir / "tf1_hub/google_other_sizes/module")
    assert config == module_config
    assert arrays.keys() == module_arrays.keys()
    for key, array in module_arrays.items():
        np.testing.assert_array_equal(arrays[key], array)


def test_a_checkpoint_of_bilm_tf_in_a_tar(fixtures_dir, tmp_path):
    """The model has word input, so its gzipped vocabulary is required."""
    source = fixtures_dir / "tf1_checkpoint/word_shared_softmax/checkpoint_dir"
    (tmp_path / "vocab.txt.gz").write_bytes(gzip.compress((source / "vocab.txt").read_bytes()))
    path = tmp_path / "run.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for each in sorted(source.iterdir()):
            if each.name != "vocab.txt":
                archive.add(each, f"run/{each.name}")
        archive.add(tmp_path / "vocab.txt.gz", "run/vocab.txt.gz")
    config, arrays = arrays_of(path)
    plain_config, plain_arrays = arrays_of(source)
    assert config == plain_config
    for key, array in plain_arrays.items():
        np.testing.assert_array_equal(arrays[key], array)


def test_an_archived_checkpoint_larger_than_its_options_imply_is_not_unpacked(
    fixtures_dir, tmp_path
):
    """Only the index is unpacked; its shapes are checked before the rest."""
    source = fixtures_dir / "tf1_checkpoint/one_layer/checkpoint_dir"
    options = json.loads((source / "options.json").read_text())
    options["lstm"]["dim"] = 11
    (tmp_path / "options.json").write_text(json.dumps(options))
    path = tmp_path / "run.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "options.json", "options.json")
        archive.add(source / "model.ckpt-300.index", "model.ckpt-300.index")
        info = tarfile.TarInfo("model.ckpt-300.data-00000-of-00001")
        info.size = 1 << 20
        with open("/dev/zero", "rb") as zeros:
            archive.addfile(info, zeros)
    with pytest.raises(InputError, match="run.tar/model.ckpt-300: does not fit its options: wrong"):
        arrays_of(path)
    (tmp_path / "options.json").write_bytes((source / "options.json").read_bytes())
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "options.json", "options.json")
        archive.add(source / "model.ckpt-300.index", "model.ckpt-300.index")
        info.size = 2 << 20
        with open("/dev/zero", "rb") as zeros:
            archive.addfile(info, zeros)
    with pytest.raises(
        InputError, match="has 2,097,152 bytes, and a file that fits the options at"
    ):
        arrays_of(path)


def test_a_gzipped_vocabulary_that_is_damaged(fixtures_dir, tmp_path):
    source = fixtures_dir / "tf1_checkpoint/word_shared_softmax/checkpoint_dir"
    for each in source.iterdir():
        if each.name != "vocab.txt":
            (tmp_path / each.name).write_bytes(each.read_bytes())
    with pytest.raises(
        InputError, match=r"vocabulary, which is not there; put vocab.txt beside them"
    ):
        arrays_of(tmp_path)
    packed = gzip.compress((source / "vocab.txt").read_bytes())
    for content in (b"", b"no gzip", packed[:-20]):
        (tmp_path / "vocab.txt.gz").write_bytes(content)
        with pytest.raises(
            InputError, match=r"vocab.txt.gz: (damaged or trunc|the line <S> is mi)"
        ):
            arrays_of(tmp_path)
