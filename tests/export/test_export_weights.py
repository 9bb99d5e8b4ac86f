"""The command `python -m export.export_weights`: bitwise exact conversion."""

import json
import os
import re
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.export import export_weights
from elmo_tf.formats import bilm_tf
from elmo_tf.model.loading import load_language_model
from elmo_tf.training.loop import Trainer
from tests.export.small import CONFIG, difference, make_encoder
from tests.hdf5_arrays import read_arrays
from tests.integration.zoo import CONFIGURATIONS
from tests.training import tiny


def run(capsys, **flags):
    """Exit status, stdout and stderr of the command in this process."""
    status = export_weights.main([f"--{name}={value}" for name, value in flags.items()])
    return status, *capsys.readouterr()


def test_an_export_gives_the_weights_it_was_made_of(exported, encoder, tmp_path, capsys):
    path = tmp_path / "published"
    status, out, err = run(capsys, model=exported, output_dir=path)
    assert (status, err) == (0, "")
    assert out.startswith("left out: the scalar mix, which was trained (layer weights [0.5, -1.0")
    assert f"wrote {path}: 0.0 MB" in out
    assert sorted(file.name for file in path.iterdir()) == ["options.json", "weights.hdf5"]
    assert json.loads((path / "options.json").read_text()) == CONFIG.to_options()
    expected = bilm_tf.collect_arrays(encoder)
    written = read_arrays(path / "weights.hdf5")
    assert set(written) == set(expected)
    for name, array in expected.items():
        assert written[name].tobytes() == array.tobytes()


def test_the_printed_lines_load_what_was_written(exported, tmp_path, capsys):
    status, out, _ = run(capsys, model=exported, output_dir=tmp_path / "published")
    assert status == 0
    names = {}
    exec(out.split("\n\n")[1], names)
    text = tf.constant(["the cat"])
    untrained = make_encoder()
    untrained.scalar_mix.layer_weights.assign([0.0] * 3)
    untrained.scalar_mix.gamma.assign(1.0)
    assert difference(names["encoder"](text), untrained(text)) == 0.0


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_published_weights_come_out_byte_for_byte(fixtures_dir, tmp_path, capsys, name):
    source = fixtures_dir / "config_zoo" / name / "model"
    status, out, err = run(capsys, model=source, output_dir=tmp_path / "published")
    assert (status, err) == (0, "")
    assert "left out" not in out
    before = read_arrays(source / "lm_weights.hdf5")
    after = read_arrays(tmp_path / "published/weights.hdf5")
    before = {bilm_tf.current_name(key): array for key, array in before.items()}
    assert set(after) == set(before)
    for key, array in before.items():
        assert after[key].dtype == array.dtype
        assert after[key].tobytes() == array.tobytes()


def test_a_softmax_that_came_along_is_kept(encoder, tmp_path, capsys):
    arrays = bilm_tf.collect_arrays(encoder)
    arrays["softmax/W"] = np.arange(5 * 6, dtype=np.float32).reshape(5, 6)
    arrays["softmax/b"] = np.arange(5, dtype=np.float32)
    CONFIG.write(tmp_path / "options.json")
    bilm_tf.write_weights(tmp_path / "weights.hdf5", arrays, CONFIG)
    with zipfile.ZipFile(tmp_path / "elmo.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(tmp_path / name, name)
    assert run(capsys, model=tmp_path / "elmo.zip", output_dir=tmp_path / "out")[0] == 0
    written = tmp_path / "out/weights.hdf5"
    assert written.read_bytes() == (tmp_path / "weights.hdf5").read_bytes()


def test_the_tokenizer_of_the_text_goes_along(encoder, tmp_path, capsys):
    CONFIG.write(tmp_path / "options.json")
    bilm_tf.write_weights(tmp_path / "weights.hdf5", bilm_tf.collect_arrays(encoder), CONFIG)
    settings = {"tokenizer": "unicode_script", "normalize": "nfkc"}
    (tmp_path / "text.json").write_text(json.dumps(settings))
    for _ in range(2):  # the second replaces the first, text.json included
        assert run(capsys, model=tmp_path, output_dir=tmp_path / "out", overwrite=True)[0] == 0
    assert json.loads((tmp_path / "out/text.json").read_text()) == settings
    read = elmo_tf.ElmoEncoder.from_model(tmp_path / "out")
    assert (read.tokenizer, read.normalize) == ("unicode_script", "nfkc")


def test_what_exists_is_refused_and_replaced_only_if_asked_for(exported, tmp_path, capsys):
    path = tmp_path / "published"
    path.mkdir()
    for name in ("options.json", "weights.hdf5"):
        (path / name).write_text("the former")
    status, _, err = run(capsys, model=exported, output_dir=path)
    assert status == 1
    assert err == (f"elmo-export-weights: {path}: already exists; --overwrite replaces it\n")
    assert (path / "weights.hdf5").read_text() == "the former"
    assert run(capsys, model=exported, output_dir=path, overwrite=True)[0] == 0
    assert h5py.is_hdf5(path / "weights.hdf5")


@pytest.mark.parametrize("more", ["training.json", "saved_model.pb"])
def test_a_directory_with_more_in_it_is_never_replaced(exported, tmp_path, capsys, more):
    for name in ("options.json", "weights.hdf5", more):
        (tmp_path / name).write_text("mine")
    status, _, err = run(capsys, model=exported, output_dir=tmp_path, overwrite=True)
    assert status == 1
    assert "not replaced" in err
    assert (tmp_path / more).read_text() == "mine"


def test_an_interrupted_write_leaves_nothing(exported, tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bilm_tf, "write_weights", interrupted)
    status, _, err = run(capsys, model=exported, output_dir=tmp_path / "models/published")
    assert (status, err) == (130, "elmo-export-weights: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(exported, tmp_path, capsys, monkeypatch):
    """HDF5 would crash with a segmentation fault if it got the write error itself."""
    pwrite, limit = os.pwrite, 2000

    def full(descriptor, content, offset):
        if offset + len(content) > limit:
            raise OSError(28, "No space left on device")
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", full)
    path = tmp_path / "models/published"
    status, _, err = run(capsys, model=exported, output_dir=path)
    message = f"{path}/weights.hdf5: cannot be written: No space left on device"
    assert (status, err) == (1, f"elmo-export-weights: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_published_weights_need_no_tensorflow(encoder, tmp_path, project_dir):
    bilm_tf.write_weights(tmp_path / "weights.hdf5", bilm_tf.collect_arrays(encoder), CONFIG)
    CONFIG.write(tmp_path / "options.json")
    code = (
        "import sys; from elmo_tf.export import export_weights; status = export_weights.main(); "
        "sys.exit(status or 'tensorflow' in sys.modules)"
    )
    flags = ["--model=options.json,weights.hdf5", "--output_dir=published"]
    finished = subprocess.run(
        [sys.executable, "-c", code, *flags], cwd=tmp_path, env={"PYTHONPATH": str(project_dir)}
    )
    assert finished.returncode == 0
    read = elmo_tf.ElmoEncoder.from_weights(
        tmp_path / "published/options.json", tmp_path / "published/weights.hdf5"
    )
    assert read.config == CONFIG


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with a run of two steps, `run`, and its text."""
    folder = tiny.write_files(tmp_path_factory.mktemp("trained"))
    Trainer(tiny.open_run(folder, max_steps=2)).train()
    return folder


def test_the_softmax_of_a_run_is_written_if_asked_for(trained, tmp_path, capsys):
    run_dir = trained / "run"
    status, *_ = run(capsys, model=run_dir, output_dir=tmp_path / "pair", softmax=True)
    assert status == 0
    files = ["options.json", "text.json", "vocab.txt", "weights.hdf5"]
    assert sorted(file.name for file in (tmp_path / "pair").iterdir()) == files
    assert (tmp_path / "pair/vocab.txt").read_bytes() == (run_dir / "vocab.txt").read_bytes()
    expected, actual = load_language_model(run_dir).model, load_language_model(tmp_path / "pair")
    assert len(expected.weights) == len(actual.model.weights)
    for ours, theirs in zip(expected.weights, actual.model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)

    assert run(capsys, model=run_dir, output_dir=tmp_path / "without")[0] == 0
    assert "softmax" not in read_arrays_of(tmp_path / "without")
    # A format that always has a softmax keeps it by default.
    assert run(capsys, model=tmp_path / "pair", output_dir=tmp_path / "again")[0] == 0
    assert "softmax" in read_arrays_of(tmp_path / "again")
    flags = {"model": tmp_path / "pair", "output_dir": tmp_path / "none", "softmax": False}
    assert run(capsys, **flags)[0] == 0
    assert "softmax" not in read_arrays_of(tmp_path / "none")


def read_arrays_of(directory):
    """The first components of the names in a directory's weight file."""
    return {name.split("/")[0] for name in read_arrays(directory / "weights.hdf5")}


def test_half_precision_rounds_each_number_to_the_nearest(encoder, tmp_path, capsys):
    arrays = bilm_tf.collect_arrays(encoder)
    CONFIG.write(tmp_path / "options.json")
    bilm_tf.write_weights(tmp_path / "weights.hdf5", arrays, CONFIG)
    assert run(capsys, model=tmp_path, output_dir=tmp_path / "half", dtype="float16")[0] == 0
    written = read_arrays(tmp_path / "half/weights.hdf5")
    assert {array.dtype for array in written.values()} == {np.dtype(np.float16)}
    for name, array in arrays.items():
        np.testing.assert_array_equal(written[name], array.astype(np.float16))
    read = elmo_tf.ElmoEncoder.from_model(tmp_path / "half")
    for name, array in bilm_tf.collect_arrays(read).items():
        np.testing.assert_array_equal(array, arrays[name].astype(np.float16).astype(np.float32))


def test_numbers_too_large_for_half_precision_are_named(encoder, tmp_path, capsys):
    arrays = bilm_tf.collect_arrays(encoder)
    arrays["CNN_proj/b_proj"] = np.full_like(arrays["CNN_proj/b_proj"], 7e4)
    CONFIG.write(tmp_path / "options.json")
    bilm_tf.write_weights(tmp_path / "weights.hdf5", arrays, CONFIG)
    flags = {"model": tmp_path, "output_dir": tmp_path / "half", "dtype": "float16"}
    message = "CNN_proj/b_proj has values beyond the range of float16, as float32"
    status, _, err = run(capsys, **flags)
    assert (status, err) == (1, f"elmo-export-weights: {message}\n")
    assert not (tmp_path / "half").exists()


def test_a_softmax_that_is_not_there_is_refused(exported, encoder, tmp_path, capsys):
    status, _, err = run(capsys, model=exported, output_dir=tmp_path / "out", softmax=True)
    assert status == 1
    assert re.fullmatch(r"elmo-export-weights: --softmax: .* has no softmax\n", err)

    arrays = bilm_tf.collect_arrays(encoder)
    arrays["softmax/W"], arrays["softmax/b"] = np.ones([5, 6], np.float32), np.ones(5, np.float32)
    CONFIG.write(tmp_path / "options.json")
    bilm_tf.write_weights(tmp_path / "weights.hdf5", arrays, CONFIG)
    status, _, err = run(capsys, model=tmp_path, output_dir=tmp_path / "out", softmax=True)
    assert status == 1
    assert "does not say which words its softmax predicts; put vocab.txt beside it" in err
