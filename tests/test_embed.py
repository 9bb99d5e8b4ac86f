"""The command elmo-embed: vectors compared with bilm-tf's, and its terminal output."""

import functools
import io
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from elmo_tf import embed
from elmo_tf.cli import command_line
from elmo_tf.vectors import embed_file as embed_file_module
from elmo_tf.vectors.vector_file import VectorFile
from tests.integration.zoo import CONFIGURATIONS, TOLERANCE

TEXT = b"the cat sat\r\n\r\non  the\tmat\nthe cat sat\nit rained \xff\n"
SUMMARY = (
    r"5 lines, 12 tokens; [\d,]+ tokens/s; "
    r"wrote \[3, tokens, 10\] float32 for each line to 'out.hdf5'\n"
)


def run(*arguments, model="model", text="text.txt", output="out.hdf5"):
    flags = [f"--model={model}", f"--input_file={text}", f"--output_file={output}"]
    return embed.main([*flags, *arguments])


def read(path="out.hdf5"):
    with h5py.File(path) as file:
        return {name: file[name][...] for name in file if name != "sentence_to_index"}


@pytest.fixture(scope="module")
def model(small_pair):
    return small_pair


@pytest.fixture
def folder(tmp_path, monkeypatch, model):
    """A working directory with a text and a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(TEXT)
    (tmp_path / "model").symlink_to(model)
    return tmp_path


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_configuration_as_bilm_tf_computed_it(fixtures_dir, folder, name):
    zoo = fixtures_dir / "config_zoo"
    sentences = json.loads((zoo / "sentences.json").read_text())
    lines = [" ".join(s) for s in sentences["batch1"] + sentences["batch2"]]
    (folder / "text.txt").write_text("\n".join(lines), "utf-8")
    assert run(model=zoo / name / "model") == 0
    with h5py.File(zoo / name / "expected.hdf5") as file:
        expected = [
            file[f"{batch}/{k}"][...]
            for batch in ("batch1", "batch2")
            for k in range(len(sentences[batch]))
        ]
    with h5py.File("out.hdf5") as file:
        index = json.loads(file["sentence_to_index"][0])
        for line, right in zip(lines, expected, strict=True):
            np.testing.assert_allclose(file[index[line]][...], right, atol=TOLERANCE)


@pytest.mark.traced
@pytest.mark.parametrize("number", [0, 1, 2])
def test_stateful_as_bilm_tf_dumped_it(fixtures_dir, folder, number):
    fixture = fixtures_dir / "bilm_tf"
    lines = json.loads((fixture / "lm_embeddings_sentences.json").read_text())[number]
    (folder / "text.txt").write_text("\n".join(lines), "utf-8")
    assert run("--stateful", model=fixture / "model") == 0
    assert len(read()) == len(lines)
    with h5py.File(fixture / f"lm_embeddings_{number}.hdf5") as expected:
        for name, vectors in read().items():
            top = np.stack(np.split(vectors[-1], 2, axis=-1))  # [2 directions, tokens, P]
            np.testing.assert_allclose(top, expected[name], atol=1e-6)


@pytest.mark.traced
def test_what_is_said_and_written(folder, capfd):
    assert run() == 0
    output, errors = capfd.readouterr()
    assert re.fullmatch(SUMMARY, output)
    assert errors == ""
    assert sorted(os.listdir(folder)) == ["model", "out.hdf5", "text.txt"]
    vectors = read()
    assert [vectors[name].shape[1] for name in "01234"] == [3, 0, 3, 3, 3]
    np.testing.assert_allclose(vectors["0"], vectors["3"], atol=1e-6)
    with h5py.File("out.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {
            "the cat sat": "3",
            "": "1",
            "on  the\tmat": "2",
            "it rained \udcff": "4",
        }


def test_a_pipe(folder, project_dir):
    environment = {**os.environ, "PYTHONPATH": str(project_dir)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # as in a user's shell
    command = [sys.executable, "-m", "elmo_tf.embed", "--model=model", "--input_file=/dev/stdin"]
    result = subprocess.run(
        [*command, "--output_file=out.hdf5", "--layers=word", "--dtype=float16"],
        env=environment,
        input=TEXT,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(b"5 lines, 12 tokens; ")
    vectors = read()
    assert {name: values.shape for name, values in vectors.items()} == {
        "0": (3, 5),
        "1": (0, 5),
        "2": (3, 5),
        "3": (3, 5),
        "4": (3, 5),
    }
    assert vectors["1"].dtype == np.float16


def test_plain_lines_tell_how_far_it_is(folder, capfd, monkeypatch):
    monkeypatch.setattr(embed, "_SECONDS_PER_LINE", 0)
    assert run("--layers=word") == 0
    *lines, last = capfd.readouterr().out.splitlines()
    assert last.startswith("5 lines, 12 tokens; ")
    assert lines
    for line in lines:
        assert re.fullmatch(r"\d+\.\d%: \d lines?, [\d,]+ tokens/s", line)
    assert lines[-1].startswith("100.0%: 5 lines, ")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal(folder, capfd, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run("--layers=word") == 0
    assert re.search(r"100%.*\| 51\.0/51\.0.* 5 lines, [\d,]+ tokens/s\]", terminal.getvalue())
    assert capfd.readouterr().out.startswith("5 lines, 12 tokens; ")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ({"text": "none"}, 1, "--input_file: there is no file none"),
        ({"text": "."}, 1, "--input_file: . is a directory"),
        ({"text": "binary"}, 1, "binary: is compressed with gzip; unpack it first"),
        (
            {"output": "text.txt/o"},
            1,
            "text.txt/o: can't be made, since {folder}/text.txt is not a directory",
        ),
        ({"output": "."}, 1, ".: is a directory, not a file to write to"),
        ({"output": "old"}, 1, "old: exists; --overwrite replaces it"),
        ({"output": "text.txt"}, 2, "--output_file: text.txt is --input_file too"),
        ({"model": "none"}, 1, "none: there is no such file or directory"),
    ],
)
def test_files_that_will_not_do(folder, capfd, arguments, status, message):
    (folder / "old").write_bytes(b"old")
    (folder / "binary").write_bytes(b"\x1f\x8b\0")
    before = sorted(os.listdir(folder))
    assert run(**arguments) == status
    assert capfd.readouterr() == ("", f"elmo-embed: {message.format(folder=folder)}\n")
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--layers=last", "--layers=last: value should be one of <all|elmo|top|average|word>"),
        ("--dtype=int8", "--dtype=int8: value should be one of <float32|float16>"),
        ("--batch_tokens=0", "--batch_tokens=0: 0 is not a positive integer"),
        ("--batch_size=3", "--batch_size: unknown flag, did you mean --batch_tokens?"),
    ],
)
def test_flags_that_will_not_do(folder, capfd, flag, message):
    assert run(flag) == 2
    assert capfd.readouterr() == ("", f"elmo-embed: {message}\n")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--layers=word", "--stateful: --layers=word has no state, as no LSTM is run"),
        ("--batch_tokens=64", "--batch_tokens: --stateful computes one line at a time"),
    ],
)
def test_stateful_refuses_what_has_no_effect(folder, capfd, flag, message):
    assert run("--stateful", flag) == 2
    assert capfd.readouterr() == ("", f"elmo-embed: {message}\n")


def test_overwrite(folder):
    (folder / "out.hdf5").write_bytes(b"old")
    assert run("--overwrite", "--layers=word") == 0
    assert len(read()) == 5


@pytest.mark.usefixtures("terminal_signals")
def test_sigterm_keeps_what_was_computed(folder, capfd, monkeypatch):
    (folder / "text.txt").write_bytes(TEXT * 9)
    monkeypatch.setattr(embed_file_module, "_CHUNK_BYTES_PER_TOKEN", 20)
    commit = VectorFile.commit

    def commit_and_receive(file, progress):
        commit(file, progress)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(VectorFile, "commit", commit_and_receive)
        patch.setattr(time, "monotonic", functools.partial(next, itertools.count(step=60)))
        assert run("--batch_tokens=20", "--layers=word") == 143
    errors = capfd.readouterr().err
    message = r"elmo-embed: stopped by SIGTERM; the same command continues after line (\d+)\n"
    lines = re.fullmatch(message, errors)[1]
    assert int(lines) > 0
    assert run("--layers=word") == 0
    assert capfd.readouterr().out.startswith(f"continuing after line {lines}\n45 lines, ")
    assert len(read()) == 45


def test_an_interrupted_run_is_continued_with_the_same_flags_only(folder, capfd, monkeypatch):
    (folder / "text.txt").write_bytes(TEXT * 9)
    monkeypatch.setattr(embed_file_module, "_CHUNK_BYTES_PER_TOKEN", 20)
    commit = VectorFile.commit

    def interrupted_commit(file, progress):
        commit(file, progress)
        if file.progress.num_lines < 45:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(VectorFile, "commit", interrupted_commit)
        patch.setattr(time, "monotonic", functools.partial(next, itertools.count(step=60)))
        assert run("--batch_tokens=20", "--layers=word") == command_line.INTERRUPTED
    lines = r"[1-4]\d"
    message = f"elmo-embed: interrupted; the same command continues after line {lines}\n"
    assert re.fullmatch(message, capfd.readouterr().err)
    assert run("--layers=top") == 1
    assert re.fullmatch(
        "elmo-embed: .*out.hdf5.partial: an unfinished run with layers=word, and now it is "
        "layers=top; continue it as it was begun, or start anew with --overwrite\n",
        capfd.readouterr().err,
    )
    assert run("--layers=word") == 0
    assert re.match(
        rf"continuing after line {lines}\n45 lines, 108 tokens; ", capfd.readouterr().out
    )
    assert len(read()) == 45


PROGRAM = """
import functools, sys
from elmo_tf import embed
from elmo_tf.cli.tensorflow_start import load_tensorflow
load_tensorflow()
from elmo_tf.vectors import embed_file as module
module.embed_file = functools.partial(module.embed_file, commit_seconds=0.0)
sys.exit(embed.main(sys.argv[1:]))
"""


def has_changed(path, since):
    return os.path.exists(path) and os.path.getmtime(path) > since


@pytest.mark.slow
def test_kills_at_random_moments(folder, project_dir):
    """SIGKILL at random moments, from the first import on; the final file is not affected."""
    choose, num_lines = random.Random(11), 30_000
    text = b"".join(b"line %d" % n + b" of it" * (n % 5) + b"\n" for n in range(num_lines))
    (folder / "text.txt").write_bytes(text)
    command = [sys.executable, "-c", PROGRAM, "--model=model", "--input_file=text.txt"]
    command += ["--output_file=killed", "--layers=top", "--batch_tokens=300"]
    journal = "killed.partial/vectors.hdf5.journal"
    begins = []
    while not os.path.exists("killed"):
        started = time.time()
        environment = {**os.environ, "PYTHONPATH": str(project_dir)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        with process:
            if len(begins) in (0, 4):  # at any moment: imports, loading, the first lines
                time.sleep(choose.uniform(0.5, 6))
                process.kill()
            elif len(begins) < 8:  # soon after some progress, independent of the machine's speed
                while process.poll() is None and not has_changed(journal, started):
                    time.sleep(0.01)
                time.sleep(choose.uniform(0, 0.4))
                process.kill()
            output, _ = process.communicate()
        continued = re.search(r"continuing after line ([\d,]+)", output)
        begins.append(int(continued[1].replace(",", "")) if continued else 0)
    assert max(begins) > 0, "no killed process left anything"
    assert run("--layers=top", "--batch_tokens=300", output="whole") == 0
    killed, whole = read("killed"), read("whole")
    assert len(killed) == len(whole) == num_lines
    for name, vectors in whole.items():
        np.testing.assert_array_equal(killed[name], vectors)
