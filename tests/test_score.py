"""The command: a trained run and a text in, JSON lines out, and what it refuses."""

import json
import math
import os
import subprocess
import sys

import pytest

from elmo_tf import evaluate, score
from elmo_tf.scoring import scores as scoring
from elmo_tf.training.loop import Trainer
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("shared_steps")

TEXT = (
    "a0 b1 c2\r\n\n  d3\tnever-seen жук <UNK>\n \t\nb1\n<S> a0 </S> e4 東京\u2028x f5 g6 h7 i8 j9"
)
TOKENS = [line.encode().split() for line in TEXT.split("\n")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of some steps in it."""
    folder = tiny.write_files(tmp_path_factory.mktemp("trained"))
    assert Trainer(tiny.open_run(folder, max_steps=4)).train().signal is None
    return folder


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    """The working directory, with a text in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "run").symlink_to(trained / "run")
    return tmp_path


def run(*arguments, model="run", text="text.txt"):
    return score.main([f"--model_dir={model}", f"--input_file={text}", *arguments])


def entries(text):
    """The lines of the output as JSON, each of them valid."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text[:-1].split("\n")]


@pytest.mark.traced
def test_a_line_of_json_for_each_line_of_text(folder, capsys):
    assert run() == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    assert "жук" in output and "東京" in output
    found = entries(output)
    assert [[token.encode() for token in entry["tokens"]] for entry in found] == TOKENS
    assert found[2]["is_unknown"] == [False, True, True, True]
    assert not any(found[0]["is_unknown"])
    for entry, tokens in zip(found, TOKENS, strict=True):
        assert list(entry) == [
            "tokens",
            "is_unknown",
            "forward",
            "backward",
            "forward_boundary",
            "backward_boundary",
        ]
        assert len(entry["is_unknown"]) == len(entry["forward"]) == len(entry["backward"])
        assert len(entry["forward"]) == len(tokens)
        assert all(-20 < number < 0 for number in entry["forward"] + entry["backward"])
        for way in ("forward_boundary", "backward_boundary"):
            assert (entry[way] is None) == (not tokens)


@pytest.mark.parametrize("arguments", [[], ["--batch_size=1"], ["--substitutes=2"]])
def test_perplexity_is_that_of_evaluate(folder, capsys, arguments):
    assert evaluate.main(["--model_dir=run", "--heldout_files=text.txt"]) == 0
    expected = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert run(*arguments) == 0
    numbers = {"forward": [], "backward": []}
    for entry in entries(capsys.readouterr().out):
        for way, all_numbers in numbers.items():
            boundary = entry[f"{way}_boundary"]
            all_numbers += entry[way] + ([] if boundary is None else [boundary])
    for way, all_numbers in numbers.items():
        assert len(all_numbers) == expected["num_tokens"]
        perplexity = math.exp(-math.fsum(all_numbers) / len(all_numbers))
        assert perplexity == pytest.approx(expected[f"{way}_perplexity"], rel=1e-6)
    total = math.fsum(numbers["forward"] + numbers["backward"])
    perplexity = math.exp(-total / (2 * expected["num_tokens"]))
    assert perplexity == pytest.approx(expected["perplexity"], rel=1e-6)


def test_substitutes_go_to_a_file(folder, capsys):
    (folder / "scores").write_text("old")
    assert run("--substitutes=3", "--output_file=scores") == 0
    assert capsys.readouterr() == ("scored 18 tokens on 6 lines; wrote 'scores'\n", "")
    assert sorted(os.listdir(folder)) == ["run", "scores", "text.txt"]
    for entry in entries((folder / "scores").read_text("utf-8")):
        assert len(entry["substitutes"]) == len(entry["tokens"])
        for words in entry["substitutes"]:
            assert len({word["token"] for word in words} - {"<S>", "</S>", "<UNK>"}) == 3
            scores = [word["score"] for word in words]
            assert scores == sorted(scores, reverse=True)
            for word in words:
                total = word["forward"] + word["backward"]
                assert word["score"] == pytest.approx(total, abs=1e-5)


def test_a_token_among_its_substitutes_has_its_own_scores(folder, capsys):
    assert run("--substitutes=1000") == 0
    found = entries(capsys.readouterr().out)
    for place, token in enumerate(found[0]["tokens"]):
        words = {word["token"]: word for word in found[0]["substitutes"][place]}
        assert len(words) == len(tiny.WORDS)
        for way in ("forward", "backward"):
            assert words[token][way] == pytest.approx(found[0][way][place], abs=1e-5)


def test_text_is_split_as_it_was_in_training_or_as_asked(folder, capsys):
    (folder / "text.txt").write_text("a0, b1\u00a0cafe\u0301\n", "utf-8")
    assert run() == 0
    assert run("--tokenizer=unicode_punctuation", "--normalize=nfkc") == 0
    trained, asked = entries(capsys.readouterr().out)
    assert trained["tokens"] == ["a0,", "b1\u00a0cafe\u0301"]
    assert asked["tokens"] == ["a0", ",", "b1", "caf\u00e9"]


@pytest.mark.parametrize("content,count", [(b"", 0), (b"\xef\xbb\xbf", 0), (b"\n", 1), (b"a0", 1)])
def test_short_files(folder, capsys, content, count):
    (folder / "text.txt").write_bytes(content)
    assert run("--substitutes=2") == 0
    output = capsys.readouterr().out
    assert output.count("\n") == count
    assert [entry["tokens"] for entry in entries(output or "{}\n") if entry] == [
        line.decode().split() for line in content.splitlines()[:count]
    ]


@pytest.mark.parametrize("arguments", [[], ["--output_file=scores"]])
def test_text_that_is_not_utf8_is_refused_by_its_line(folder, capsys, arguments):
    (folder / "text.txt").write_bytes(b"a0\n\nb1 caf\xe9\nc2\n")
    (folder / "scores").write_text("old")
    assert run(*arguments) == 1
    message = "text.txt:3: is not UTF-8: byte 0xe9 at byte 7 of the line"
    assert capsys.readouterr() == ("", f"elmo-score: {message}\n")
    assert (folder / "scores").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["run", "scores", "text.txt"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ({"text": "none.txt"}, 1, "--input_file: no file matches none.txt"),
        ({"text": "run"}, 1, "--input_file: run is a directory; for its files give run/*"),
        ({"text": "*.t*"}, 2, "--input_file: takes one file, and *.t* is 2 files"),
        (
            {"output": "text.txt/s"},
            1,
            "text.txt/s: can't be made, since {}/text.txt is not a directory",
        ),
        ({"output": "text.txt"}, 2, "--output_file: text.txt is --input_file too"),
    ],
)
def test_wrong_places_are_found_before_the_model_is_loaded(
    folder, capsys, arguments, status, message
):
    (folder / "more.txt").write_text("")
    output = arguments.pop("output", None)
    assert (
        run(*([f"--output_file={output}"] if output else []), model="none", **arguments) == status
    )
    assert capsys.readouterr() == ("", f"elmo-score: {message.format(folder)}\n")


def test_a_directory_that_is_no_run_is_refused(folder, capsys):
    assert run(model=".") == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("elmo-score: ") and errors.count("\n") == 1


@pytest.mark.parametrize(
    "flag", ["--substitutes=-1", "--substitutes=x", "--batch_size=0", "--subs=3", "--normalize=nfd"]
)
def test_wrong_use_is_status_2(folder, capsys, flag):
    assert run(flag) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith(f"elmo-score: {flag.split('=')[0]}") and errors.count("\n") == 1


def test_a_failure_in_the_midst_leaves_the_old_file(folder, capsys, monkeypatch):
    to_json = scoring.to_json

    def fail_at_the_third(scores, vocabulary):
        if len(scores.tokens) == 4:
            raise OSError(28, "No space left on device")
        return to_json(scores, vocabulary)

    monkeypatch.setattr(scoring, "to_json", fail_at_the_third)
    (folder / "scores").write_text("old")
    assert run("--output_file=scores") == 1
    assert capsys.readouterr() == (
        "",
        "elmo-score: scores: cannot be written: No space left on device\n",
    )
    assert (folder / "scores").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["run", "scores", "text.txt"]


def test_as_a_shell_sees_it(folder, project_dir):
    """Quiet, and UTF-8 whatever the locale says."""
    environment = {**os.environ, "PYTHONPATH": str(project_dir), "PYTHONIOENCODING": "latin-1"}
    del environment["TF_CPP_MIN_LOG_LEVEL"]  # set for the tests; it would show log lines
    result = subprocess.run(
        [sys.executable, "-m", "elmo_tf.score", "--model_dir=run", "--input_file=text.txt"],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    found = entries(result.stdout.decode("utf-8"))
    assert [[token.encode() for token in entry["tokens"]] for entry in found] == TOKENS
