import errno
import json
import os
import random
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import journaled_file
from elmo_tf.vectors import vector_file
from elmo_tf.vectors.vector_file import Progress, VectorFile

SETTINGS = {"layers": "all", "dtype": "float32", "model": "abc"}


def vectors_of(number, dtype=np.float32):
    """Vectors `[2, tokens, 3]`, for some lines with no tokens."""
    values = np.random.default_rng(number).normal(size=(2, number % 4, 3))
    return values.astype(dtype)


def sentence_of(number):
    return b"sentence %d" % (number // 2)


def write(file, numbers):
    for number in numbers:
        file.write(number, vectors_of(number))
        file.add_sentence(number, sentence_of(number))


def write_whole(path, num_lines=7, **arguments):
    with VectorFile(str(path), SETTINGS, **arguments) as file:
        write(file, range(file.progress.num_lines, num_lines))
        file.commit(Progress(num_lines))
        return file.finish()


def check(path, num_lines=7):
    with h5py.File(path) as file:
        assert set(file) == {*map(str, range(num_lines)), "sentence_to_index"}
        for number in range(num_lines):
            np.testing.assert_array_equal(file[str(number)], vectors_of(number), strict=True)
        index = json.loads(file["sentence_to_index"][0])
        assert index == {sentence_of(n).decode(): str(n) for n in range(num_lines)}
        assert dict(file.attrs) == SETTINGS


def test_written_as_readers_of_allennlp_files_expect(tmp_path):
    assert write_whole(tmp_path / "out.hdf5")
    check(tmp_path / "out.hdf5")
    assert os.listdir(tmp_path) == ["out.hdf5"]
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert file["sentence_to_index"].shape == (1,)
        assert file["4"].shape == (2, 0, 3)
        # Of equal lines each has its dataset, and the last one is in the index.
        assert json.loads(file.get("sentence_to_index")[0])["sentence 1"] == "3"
        assert json.loads(file["sentence_to_index"].asstr()[0])["sentence 1"] == "3"


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2"])
@pytest.mark.parametrize("shape", [(5, 4), (0, 4), (3, 0, 4), (3, 5, 4)])
def test_any_type_and_shape_of_floats(tmp_path, dtype, shape):
    vectors = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        file.write(0, vectors)
        file.write(1, np.flip(vectors, 0))
        file.commit(Progress(2))
        file.finish()
    with h5py.File(tmp_path / "out") as file:
        assert file["0"].dtype == np.dtype(dtype).newbyteorder("<")
        np.testing.assert_array_equal(file["0"], vectors)
        np.testing.assert_array_equal(file["1"], np.flip(vectors, 0))


def test_an_empty_text(tmp_path):
    write_whole(tmp_path / "out", num_lines=0)
    check(tmp_path / "out", num_lines=0)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b"  the cat\t", "the cat"),
        (b"", ""),
        ("caf\u00e9 \u3000".encode(), "caf\u00e9"),
        (b'a "quoted" \\ word', 'a "quoted" \\ word'),
        (b"bytes \xff\xc3 here", "bytes \udcff\udcc3 here"),
        (b"nul \0 here", "nul \0 here"),
    ],
)
def test_keys_of_the_index(tmp_path, line, key):
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        file.add_sentence(0, line)
        file.commit(Progress(1))
        file.finish()
    with h5py.File(tmp_path / "out") as file:
        text = file["sentence_to_index"][0]
    assert text.isascii()
    assert json.loads(text) == {key: "0"}
    assert key.encode("utf-8", "surrogateescape") == line.decode(
        "utf-8", "surrogateescape"
    ).strip().encode("utf-8", "surrogateescape")


def test_an_index_too_long_for_numpy_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_file, "_LONGEST_STRING", 20)
    assert not write_whole(tmp_path / "out")
    with h5py.File(tmp_path / "out") as file:
        assert set(file) == set(map(str, range(7)))


def test_nothing_is_at_the_output_before_it_is_whole(tmp_path):
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        write(file, range(3))
        file.commit(Progress(3))
    assert os.listdir(tmp_path) == ["out.partial"]


def test_an_unfinished_file_goes_on_after_its_last_commit(tmp_path):
    progress = Progress(num_lines=3, num_tokens=8, text_digest="d", state=[1, "x"])
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        assert file.progress == Progress()
        write(file, range(3))
        file.commit(progress)
        write(file, range(3, 5))  # lost
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        assert file.progress == progress
    write_whole(tmp_path / "out")
    check(tmp_path / "out")


def test_without_a_commit_nothing_is_left(tmp_path):
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        write(file, range(3))
    assert os.listdir(tmp_path) == []


def test_other_settings_are_refused_and_named(tmp_path):
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        write(file, range(3))
        file.commit(Progress(3))
    other = {**SETTINGS, "layers": "top", "model": "xyz"}
    expected = (
        f"{tmp_path}/out.partial: an unfinished run with layers=all, model=abc, and now it is "
        "layers=top, model=xyz; continue it as it was begun, or start anew with overwrite=True"
    )
    with pytest.raises(InputError) as caught:
        VectorFile(str(tmp_path / "out"), other)
    assert str(caught.value) == expected
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        assert file.progress.num_lines == 3
    with VectorFile(str(tmp_path / "out"), other, overwrite=True) as file:
        assert file.progress == Progress()
    write_whole(tmp_path / "out")
    check(tmp_path / "out")


def test_restart(tmp_path):
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        file.write(0, np.ones((1, 1)))
        file.add_sentence(0, b"old")
        file.commit(Progress(1))
        file.restart()
        assert file.progress == Progress()
        write(file, range(7))
        file.commit(Progress(7))
        file.finish()
    check(tmp_path / "out")


def test_a_finished_file_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(InputError, match=f"{tmp_path}/out: exists; overwrite=True replaces it"):
        VectorFile(str(tmp_path / "out"), SETTINGS)
    with VectorFile(str(tmp_path / "out"), SETTINGS, overwrite=True) as file:
        write(file, range(3))
        file.commit(Progress(3))
        assert (tmp_path / "out").read_bytes() == b"old"
    write_whole(tmp_path / "out", overwrite=True)
    check(tmp_path / "out")


def test_one_writer_at_a_time(tmp_path):
    with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        write(file, range(2))
        with pytest.raises(InputError, match="out.partial/vectors.hdf5: another process"):
            VectorFile(str(tmp_path / "out"), SETTINGS, overwrite=True)
        write(file, range(2, 7))
        file.commit(Progress(7))
        file.finish()
    check(tmp_path / "out")


def test_killed_between_completion_and_move(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, VectorFile(str(tmp_path / "out"), SETTINGS) as file:
        patch.setattr(journaled_file.JournaledFile, "move_to", lambda *_: 1 // 0)
        write(file, range(5))
        file.commit(Progress(5))
        with pytest.raises(ZeroDivisionError):
            file.finish()
    write_whole(tmp_path / "out", num_lines=5)
    check(tmp_path / "out", num_lines=5)


def test_a_full_disk_is_said_and_costs_nothing_that_was_committed(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    for commit in (False, True):  # the disk is full at HDF5's metadata, or at a vector
        with VectorFile(str(tmp_path / "out"), SETTINGS) as file, monkeypatch.context() as patch:
            write(file, range(file.progress.num_lines, 3))
            file.commit(Progress(3))
            if commit:
                write(file, range(3, 7))
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space left"):
                file.commit(Progress(7)) if commit else write(file, range(3, 7))
    write_whole(tmp_path / "out")
    check(tmp_path / "out")


@pytest.mark.parametrize("call", ["pwrite", "fsync", "ftruncate", "replace"])
def test_a_disk_that_is_full_from_the_beginning_leaves_nothing(tmp_path, monkeypatch, call):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    def run():
        with VectorFile(str(tmp_path / "out"), SETTINGS) as file:
            monkeypatch.setattr(os, call, full)
            write(file, range(3))
            file.commit(Progress(3))

    with pytest.raises(OSError, match="No space left"):
        run()
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_what_others_put_beside_an_unfinished_file_stays(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial/thesis.tex").write_text("years of work")
    write_whole(tmp_path / "out")
    check(tmp_path / "out")
    assert os.listdir(tmp_path / "out.partial") == ["thesis.tex"]


WRITER = """
import sys
from tests.vectors.test_vector_file import *
path, num_lines, commit_every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with VectorFile(path, SETTINGS) as file:
    print("begin", file.progress.num_lines, flush=True)
    for number in range(file.progress.num_lines, num_lines):
        write(file, [number])
        if number % commit_every == 0:
            file.commit(Progress(number + 1))
    file.commit(Progress(num_lines))
    file.finish()
import resource
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def start(project_dir, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, arguments)],
        cwd=project_dir,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_kills_at_random_moments(tmp_path, project_dir):
    """SIGKILL of a process that commits continuously; each new process resumes."""
    choose = random.Random(7)
    num_lines, begins = 800, []
    while not (tmp_path / "out").exists():
        with start(project_dir, tmp_path / "out", num_lines, 3) as process:
            begins.append(int(process.stdout.readline().split()[1]))
            if len(begins) < 5:
                time.sleep(choose.uniform(0.05, 0.3))
                process.kill()
            process.communicate()
    check(tmp_path / "out", num_lines)
    assert begins == sorted(begins)
    assert len(set(begins)) > 2, "no killed process left anything"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path, project_dir):
    peaks = []
    for name, num_lines in (("a", 10_000), ("b", 100_000)):
        with start(project_dir, tmp_path / name, num_lines, 1000) as process:
            output, _ = process.communicate()
        peaks.append(int(output.split()[-1]))  # kilobytes
    assert peaks[1] < peaks[0] + 40_000  # HDF5's own cache takes up to 32 MB
