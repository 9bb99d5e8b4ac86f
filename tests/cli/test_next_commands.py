"""The suggested commands at the end of a run; tests/test_train.py has those of a simple run."""

import shlex
import sys

from elmo_tf.cli.next_commands import next_commands
from tests.training import tiny


def commands(run, *arguments):
    head, *lines = next_commands(run, *arguments).splitlines()
    assert head == "done; what to do next:"
    return [shlex.split(line) for line in lines]


def test_names_are_quoted_and_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.write_files(tmp_path))
    run = tiny.open_run(tmp_path, "a run", tokenizer="unicode_script", normalize="nfc")
    (tmp_path / "exported").mkdir()
    (tmp_path / "held out").mkdir()
    (tmp_path / "held out" / "c.txt").touch()
    (tmp_path / "vectors.hdf5").touch()
    evaluate, embed, export, logs = commands(run, "held out/*.txt", None)
    best = f"{tmp_path}/a run/best"
    assert evaluate[3:] == [f"--model_dir={best}", "--heldout_files=held out/*.txt"]
    assert embed[3:] == [
        f"--model={best}",
        "--input_file=held out/c.txt",
        "--output_file=vectors-2.hdf5",
    ]
    assert export[3:] == [f"--model={best}", "--output_dir=exported-2"]
    assert logs[-1] == f"--logdir={tmp_path}/a run/logs"


def test_console_scripts_are_named_where_one_was_typed(tmp_path, monkeypatch):
    run = tiny.open_run(tiny.write_files(tmp_path))
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/elmo-train"])
    embed, export, _ = commands(run, None, None)
    assert (embed[0], export[0]) == ("elmo-embed", "elmo-export")


def test_nothing_that_is_done_or_cannot_be_done(tmp_path):
    run = tiny.open_run(tiny.write_files(tmp_path))
    embed, logs = commands(run, None, "exported")
    assert embed[2:4] == ["elmo_tf.embed", f"--model={tmp_path}/run"]
    assert "tensorboard" in logs
