"""Damaged and hostile model files, reader by reader: one line of error, little memory, little time.

Every file of a model is truncated at each tenth of its length and changed at random. Other files
declare impossible contents. `pytest -s` shows the numbers of files and of refused ones.
"""

import resource
import shutil
import time
import zipfile
from collections import Counter

import h5py
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.formats import locate
from tests.formats.tensor_tables import entry, index

# Each format with the files to damage. A `.meta` and a graph are never read.
MODELS = {
    "pair": ("archives/plain/pair_weights.hdf5", "archives/plain/pair_options.json"),
    "zip": ("archives/folder_inside.zip",),
    "tar.gz": ("archives/pair_in_folder.tar.gz",),
    "checkpoint": (
        "tf1_checkpoint/word_shared_softmax/checkpoint_dir/model.ckpt-240.index",
        "tf1_checkpoint/word_shared_softmax/checkpoint_dir/model.ckpt-240.data-00000-of-00001",
        "tf1_checkpoint/word_shared_softmax/checkpoint_dir/options.json",
        "tf1_checkpoint/word_shared_softmax/checkpoint_dir/vocab.txt",
        "tf1_checkpoint/word_shared_softmax/checkpoint_dir/checkpoint",
    ),
    "hub module": (
        "tf1_hub/google_other_sizes/module/variables/variables.index",
        "tf1_hub/google_other_sizes/module/variables/variables.data-00000-of-00002",
    ),
    "hub module in tar.gz": ("archives/tfhub_module.tar.gz",),
}
# Formats in which a checksum or a shape detects every change; text has none.
CHECKED = {"zip", "tar.gz", "hub module", "hub module in tar.gz"}


def named(path):
    """The path to give as the model of a file."""
    if path.name == "pair_weights.hdf5":
        return f"{path.with_name('pair_options.json')},{path}"
    if path.name == "pair_options.json":
        return f"{path},{path.with_name('pair_weights.hdf5')}"
    if path.suffix in (".zip", ".gz"):
        return path
    return path.parent.parent if path.parent.name == "variables" else path.parent


def outcome(model):
    """The error of reading a model like a user, or None."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = None
    try:
        with locate.open_model(model) as opened:
            opened.read(opened.names(), lambda name, values: None)
    except InputError as refused:
        error = str(refused)
        assert "\n" not in error
        assert len(error) < 1500
    assert time.monotonic() - begin < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    return error


def damaged(content, seed):
    """The content truncated at every tenth, and with eight bytes changed at each of 30 offsets."""
    for tenth in range(10):
        yield content[: len(content) * tenth // 10]
    rng = np.random.default_rng(seed)
    for _ in range(30):
        start = int(rng.integers(max(len(content) - 8, 1)))
        yield content[:start] + rng.bytes(8) + content[start + 8 :]


@pytest.mark.parametrize("kind", MODELS)
def test_damaged_files(fixtures_dir, tmp_path, kind):
    first = fixtures_dir / MODELS[kind][0]
    root = next(p for p in first.parents if p.parent in (fixtures_dir, fixtures_dir / "tf1_hub"))
    copy = shutil.copytree(root, tmp_path / "copy", ignore=shutil.ignore_patterns("*.meta"))
    counts = Counter()
    for seed, name in enumerate(MODELS[kind]):
        path = copy / (fixtures_dir / name).relative_to(root)
        path.chmod(0o644)
        whole = path.read_bytes()
        assert outcome(named(path)) is None
        for number, content in enumerate(damaged(whole, seed)):
            path.write_bytes(content)
            error = outcome(named(path))
            counts["cut off" if number < 10 else "changed", error is not None] += 1
        path.write_bytes(whole)
    print(f"{kind}: {dict(counts)}")
    num_files = len(MODELS[kind])
    if kind in CHECKED:
        assert counts["cut off", True] == 10 * num_files
        assert counts["changed", True] >= 20 * num_files
    else:
        assert counts["cut off", True] >= 10


HUGE = entry(shape=[1 << 40], size=1 << 42)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            index({"lm/char_embed": HUGE}),
            "its index declares 4,398,046,511,104 bytes of arrays",
        ),
        (index({f"lm/{i}": entry(shape=[1 << 20]) for i in range(1000)}), "its index declares 4,1"),
        (index({"lm/char_embed": entry(kind=3)}), "not floating point: lm/char_embed is int32"),
        (index({"lm/char_embed": entry(kind=7)}), "not floating point: lm/char_embed is object"),
        (index({"lm/char_embed": entry(offset=1 << 62)}), "does not fit its options: missing: "),
        (index({"lm/x": entry()}, num_shards=1 << 30), "does not fit its options: missing: "),
        (index({"global_step": entry()}), "is not a bilm-tf checkpoint: its variables, global_ste"),
        (index({}), "is not a bilm-tf checkpoint: its variables, none, do not start with lm/"),
    ],
    ids=range(8),
)
def test_indexes_that_say_what_can_not_be(fixtures_dir, tmp_path, content, message):
    source = fixtures_dir / "tf1_checkpoint/one_layer/checkpoint_dir"
    copy = shutil.copytree(source, tmp_path / "copy", ignore=shutil.ignore_patterns("*.meta"))
    path = copy / "model.ckpt-300.index"
    path.chmod(0o644)
    path.write_bytes(content)
    assert message in outcome(copy)
    archive = shutil.make_archive(tmp_path / "a", "gztar", copy)
    assert message in outcome(archive)


@pytest.fixture
def pair(small_pair, tmp_path):
    return shutil.copytree(small_pair, tmp_path / "pair")


def replaced(file, name, **settings):
    shape = file[name].shape
    del file[name]
    return file.create_dataset(name, **{"shape": shape, "dtype": "f4", **settings})


def test_weights_that_say_what_can_not_be(pair, tmp_path):
    """Datasets without values, of any declared size, of wrong types, and with external values."""
    name = "CNN_proj/b_proj"
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = np.zeros(5, "f4")
    layout = h5py.VirtualLayout(shape=(5,), dtype="f4")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "x", shape=(5,))
    cases = {
        "huge": lambda file: replaced(file, name, shape=(1 << 50,), chunks=(1 << 20,)),
        "many dimensions": lambda file: replaced(file, name, shape=(1,) * 32),
        "integers": lambda file: replaced(file, name, dtype="i4", data=np.zeros(5, "i4")),
        "text": lambda file: replaced(file, name, dtype=h5py.string_dtype(), data=["a"] * 5),
        "compound": lambda file: replaced(file, name, dtype=[("a", "f4")]),
        "external": lambda file: replaced(
            file, name, external=[(str(tmp_path / "other.h5"), 0, h5py.h5f.UNLIMITED)]
        ),
        "virtual": lambda file: (file.pop(name), file.create_virtual_dataset(name, layout)),
        "link outside": lambda file: (
            file.pop(name),
            file.__setitem__(name, h5py.ExternalLink(str(tmp_path / "other.h5"), "x")),
        ),
        "link nowhere": lambda file: (file.pop(name), file.__setitem__(name, h5py.SoftLink("/no"))),
        "circle": lambda file: file.__setitem__("CNN/again", h5py.SoftLink("/")),
    }
    whole = (pair / "weights.hdf5").read_bytes()
    for what, change in cases.items():
        (pair / "weights.hdf5").write_bytes(whole)
        with h5py.File(pair / "weights.hdf5", "r+") as file:
            change(file)
        assert outcome(pair) is not None, what
    print(f"HDF5: {len(cases)} refused")


def test_a_small_archive_of_large_files(pair, tmp_path):
    """A decompression bomb of 300 MB under each name that is read, and one that is not read."""
    for name in ("options.json", "weights.hdf5"):
        path = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in pair.iterdir():
                if each.name != name:
                    archive.write(each, each.name)
            with archive.open(name, "w", force_zip64=True) as member:
                for _ in range(300):
                    member.write(bytes(1 << 20))
        error = outcome(path)
        assert "not unpacked" in error or "is too large for a description" in error
