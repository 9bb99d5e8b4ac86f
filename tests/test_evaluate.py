"""The command: one line of JSON, the same for every batch size; mistakes are one line."""

import json
import math
import re

import pytest

from elmo_tf import evaluate
from elmo_tf.training.loop import Trainer
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("shared_steps")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of a few steps, and held-out text that is spaced oddly."""
    folder = tiny.write_files(tmp_path_factory.mktemp("evaluate"))
    Trainer(tiny.open_run(folder, max_steps=5)).train()
    (folder / "odd.txt").write_bytes(b"\r\n a0  b1\tc2 \r\n\n\nunknown")
    return folder


@pytest.fixture
def folder(trained, monkeypatch):
    monkeypatch.chdir(trained)
    return trained


def run(capfd, *flags, heldout="heldout.txt", warning=""):
    capfd.readouterr()
    assert evaluate.main(["--model_dir=run", f"--heldout_files={heldout}", *flags]) == 0
    output, errors = capfd.readouterr()
    assert errors == warning
    return json.loads(output.splitlines()[-1])


@pytest.mark.traced
def test_keys_and_consistency(folder, capfd):
    result = run(capfd)
    names = ["perplexity", "forward_perplexity", "backward_perplexity", "num_tokens"]
    assert list(result) == names
    text = (folder / "heldout.txt").read_bytes().splitlines()
    assert result["num_tokens"] == sum(len(line.split()) + 1 for line in text)
    product = result["forward_perplexity"] * result["backward_perplexity"]
    assert result["perplexity"] == pytest.approx(math.sqrt(product))
    assert 5 < result["perplexity"] < 50


def test_the_figure_does_not_depend_on_the_batch_size(folder, capfd):
    first, *others = (run(capfd, f"--batch_size={size}") for size in (1, 2, 5, 100))
    for other in others:
        assert other == pytest.approx(first, rel=1e-6)


def test_carried_state_is_another_figure_over_the_same_tokens(folder, capfd):
    alone, carried = run(capfd), run(capfd, "--carry_state", "--batch_size=2")
    assert carried["num_tokens"] == alone["num_tokens"]
    assert carried["perplexity"] != pytest.approx(alone["perplexity"], rel=1e-4)


def test_initial_state_is_another_figure_over_the_same_tokens(folder, capfd):
    zero, mean = run(capfd), run(capfd, "--initial_state_files=[ab].txt")
    assert mean["num_tokens"] == zero["num_tokens"]
    for way in ("forward_perplexity", "backward_perplexity"):
        assert mean[way] != pytest.approx(zero[way], rel=1e-4)


def test_blank_lines_and_line_ends_count_for_nothing(folder, capfd):
    assert run(capfd, heldout="odd.txt")["num_tokens"] == 4 + 2
    assert run(capfd, "--carry_state", heldout="odd.txt")["num_tokens"] == 4 + 2


def test_text_is_tokenized_as_the_run_was_unless_told(folder, capfd):
    (folder / "accent.txt").write_bytes("e\u0301\u00a0a0\n".encode())
    plain = run(capfd, heldout="accent.txt")
    warning = "warning: --normalize=nfkc: the model was trained with none\n"
    split = run(capfd, "--normalize=nfkc", heldout="accent.txt", warning=warning)
    assert (plain["num_tokens"], split["num_tokens"]) == (2, 3)


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--heldout_files=none*"], 1, r"--heldout_files: no file matches none\*"),
        (["--heldout_files=empty.txt"], 1, "--heldout_files: no sentence to evaluate"),
        (["--batch_size=0"], 2, "--batch_size=0: .*"),
        (["--model_dir=."], 1, r"\.: holds no model: looked for .*; it holds .*"),
        (["--initial_state_files=none*"], 1, r"--initial_state_files: no file matches none\*"),
        (["--initial_state_files=empty.txt"], 1, "--initial_state_files: no sentence with a token"),
        (
            ["--initial_state_files=a.txt", "--carry_state"],
            2,
            "--initial_state_files: --carry_state .*",
        ),
        (["--model_dir=new"], 1, "new: is a training directory without a checkpoint so far"),
    ],
)
def test_mistakes_are_one_line(folder, capfd, flags, status, message):
    (folder / "empty.txt").touch()
    tiny.open_run(folder, "new")
    capfd.readouterr()
    assert evaluate.main(["--model_dir=run", "--heldout_files=heldout.txt", *flags]) == status
    output, errors = capfd.readouterr()
    assert output == ""
    assert re.fullmatch(f"elmo-evaluate: {message}\n", errors)


def test_model_is_another_name_of_the_flag(folder, capfd):
    expected = run(capfd)
    assert evaluate.main(["--model=run", "--heldout_files=heldout.txt"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1]) == expected
