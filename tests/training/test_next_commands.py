"""The commands that a run ends with, beyond those of the plainest run (see tests/test_train.py)."""

import shlex

from elmo_tf.training.next_commands import next_commands
from tests.training import tiny


def commands(run, *arguments):
    head, *lines = next_commands(run, *arguments).splitlines()
    assert head == "done; what to do next:"
    return [shlex.split(line) for line in lines]


def test_names_are_quoted_and_free_and_text_is_split_as_in_training(tmp_path, monkeypatch):
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
        "--tokenizer=unicode_script",
        "--normalize=nfc",
    ]
    assert export[3:] == [f"--model={best}", "--output_dir=exported-2"]
    assert logs[-1] == f"--logdir={tmp_path}/a run/logs"


def test_nothing_that_is_done_or_cannot_be_done(tmp_path):
    run = tiny.open_run(tiny.write_files(tmp_path))
    embed, logs = commands(run, None, "exported")
    assert embed[2:4] == ["elmo_tf.embed", f"--model={tmp_path}/run"]
    assert "tensorboard" in logs
