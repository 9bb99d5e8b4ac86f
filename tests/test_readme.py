"""Examples of README.md and docs/training.md are run, in the order of the page, where a user's
files would be; what the pages say of flags, sizes and links is compared with the code."""

import ast
import copy
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo_tf import train
from elmo_tf.cli import train_flags
from elmo_tf.config.model import ElmoConfig
from elmo_tf.formats import bilm_tf
from elmo_tf.text.tokens import TOKENIZERS, make_tokenizer
from tests import models

CONFIG = models.small_config(max_characters_per_token=50)
PROJECTION = CONFIG.lstm.projection_dim
SENTENCES = ["The cat sat on the mat .", "Rain fell .", "It was late , so we left the house ."]

# A fenced block is an example; an indented block is not (`make demo` has a separate test).
EXAMPLE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHAPE = re.compile(r"#.*?(\[[^\]]*\])")


MODULES = ("vocab", "train", "evaluate", "score", "embed")


@pytest.fixture(scope="session")
def training_page(project_dir):
    return (project_dir / "docs/training.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory of the examples, with a model in bilm-tf format and text."""
    monkeypatch.chdir(tmp_path)
    models.write_pair(tmp_path, models.small_encoder(CONFIG))
    for path in ("train/1.txt", "train/2.txt", "heldout/1.txt", "text.txt"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    return tmp_path


def run_shell(code, project_dir):
    """Runs a block in a shell with the active environment."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    subprocess.run(
        ["bash", "-e", "-c", code],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(project_dir)},
        check=True,
        timeout=600,
    )


def run_python(code, names, sizes=None):
    """Runs a block and compares the shapes of expressions with their comments."""
    sizes = sizes or {"P": PROJECTION}
    lines = code.splitlines()
    num_compared = 0
    for statement in ast.parse(code).body:
        piece = ast.unparse(statement)
        comment = SHAPE.search(lines[statement.end_lineno - 1])
        if isinstance(statement, ast.Expr) and comment:
            shape = list(np.shape(eval(piece, names)))
            assert shape == eval(comment[1], sizes), piece
            num_compared += 1
        else:
            exec(piece, names)
    return num_compared


@pytest.mark.slow
def test_every_example_of_the_readme(project_dir, folder):
    examples = EXAMPLE.findall((project_dir / "README.md").read_text(encoding="utf-8"))
    names, num_compared = {}, 0
    for language, code in examples:
        if language == "sh":
            run_shell(code, project_dir)
        elif language == "python":
            num_compared += run_python(code, names)
    assert [language for language, _ in examples].count("sh") >= 4
    assert num_compared >= 10
    made = {"run", "exported", "published", "cat.hdf5", "vectors.hdf5"}
    assert made <= set(os.listdir(folder))


def test_wrong_shapes_would_be_noticed():
    assert run_python("x = [[1, 2]] * 5\nx  # a comment, [P, 2]\n", {}) == 1
    with pytest.raises(AssertionError, match="x"):
        run_python("x = [[1, 2]] * 5\nx  # [5, 3]\n", {})


def test_links_lead_somewhere(project_dir):
    pages = ["README.md", "BUILD.md", "CONTRIBUTING.md", "RELEASE.md", "CHANGELOG.md"]
    for page in (*pages, *(f"docs/{path.name}" for path in (project_dir / "docs").glob("*.md"))):
        text = EXAMPLE.sub("", (project_dir / page).read_text(encoding="utf-8"))
        slugs = {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        slugs.update(re.findall(r'<a id="([^"]+)">', text))
        text = re.sub(r"`[^`]*`", "", text)  # f["x"](y) is not a link
        for target, place in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", text):
            is_there = (project_dir / page).parent.joinpath(target).exists()
            assert target.startswith("https://") or is_there, target
            assert target or place in slugs, place


def slug(heading):
    """The name that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_fences_are_examples_of_a_known_kind(project_dir):
    text = (project_dir / "README.md").read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(EXAMPLE.findall(text))
    assert {language for language, _ in EXAMPLE.findall(text)} == {"console", "python", "sh"}
    assert shutil.which("bash")


def test_sizes_are_those_of_the_code(project_dir):
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$",
        (project_dir / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) == 4
    for name, *figures in rows:
        config = ElmoConfig.from_size(name)
        char_cnn, lstm = config.input, config.lstm
        assert [int(figure) for figure in figures] == [
            lstm.dim,
            lstm.projection_dim,
            char_cnn.num_filters,
            char_cnn.num_highway_layers,
        ]


def commands_of(code, project_dir):
    """(module, arguments) of each command of ours in a block."""
    scripts = dict(
        re.findall(r'"(elmo-[\w-]+)=([\w.]+):main"', (project_dir / "setup.py").read_text())
    )
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):  # an environment variable
            words.pop(0)
        if words[:2] == ["python", "-m"]:
            yield importlib.import_module(words[2]), words[3:]
        elif words:
            yield importlib.import_module(scripts[words[0]]), words[1:]


def test_commands_of_the_training_page_are_right(training_page, project_dir):
    """Every flag exists and accepts its value, and no required flag is missing."""
    examples = EXAMPLE.findall(training_page)
    assert training_page.count("```") == 2 * len(examples)
    assert {language for language, _ in examples} == {"sh", "shell", "text"}
    trainings = 0
    for language, code in examples:
        for module, arguments in commands_of(code, project_dir) if language != "text" else ():
            options = copy.deepcopy(module._FLAGS)
            assert options(["", *arguments]) == [""]
            if module is train:
                trainings += 1
                train_flags.settings(options)
                train_flags.model_config(options)
    assert trainings >= 5


def test_flags_that_the_training_page_names_are_there(training_page):
    names = [
        *(f"elmo_tf.{name}" for name in MODULES),
        "export.export_elmo",
        "export.export_weights",
    ]
    defined = {name for each in names for name in importlib.import_module(each)._FLAGS}
    found = set(re.findall(r"--([a-z][a-z_]*)", training_page))
    found = {name.removeprefix("no") if name[2:] in defined else name for name in found}
    assert found - defined == {"help", "logdir"}
    missing = set(train._FLAGS) - found
    assert not missing, f"docs/training.md has to say what these flags of elmo-train do: {missing}"


def test_figures_and_tokens_of_the_training_page_are_those_of_the_code(training_page):
    rows = re.findall(r"^\| `(\w+)` \| ([\d, |]+) \|$", training_page, re.MULTILINE)
    assert [name for name, _ in rows] == ["tiny", "small", "medium", "original"]
    for name, row in rows:
        config = ElmoConfig.from_size(name)
        arrays = bilm_tf.table(config)
        of_lstms = [each for each in arrays if each.name.startswith("RNN")]
        dim = config.lstm.projection_dim
        figures = [int(figure.replace(",", "")) for figure in row.split("|")]
        expected = [config.lstm.dim, dim, num_parameters(arrays), num_parameters(of_lstms)]
        assert figures == [*expected, 10_000 * (dim + 1)]

    (text, table), *_ = re.findall(r'^\| \| "(.*)" becomes \|\n((?:\|.*\n)+)', training_page, re.M)
    shown = dict(re.findall(r"^\| `(\w+)`.*? \| (`.*`|the same.*) \|$", table, re.M))
    assert set(shown) == set(TOKENIZERS)
    for name, cell in shown.items():
        cell = shown["whitespace"] if cell.startswith("the same") else cell
        assert [" ".join(re.findall("`(.*?)`", cell)).encode().split()] == make_tokenizer(name)(
            [text.encode()]
        )


def num_parameters(entries):
    return sum(int(np.prod(entry.shape)) for entry in entries)


@pytest.mark.slow
def test_examples_of_the_training_page_run(training_page, project_dir, folder):
    """Examples in `sh` blocks run; trainings end after two steps."""
    lines = [*SENTENCES, "Снег шёл , и поезд ушёл .", "火车 来 了 。"] * 5
    for path in ("train/1.txt", "train/2.txt", "heldout/1.txt"):
        Path(path).write_text("\n".join(lines), encoding="utf-8")
    for language, code in EXAMPLE.findall(training_page):
        for module, arguments in commands_of(code, project_dir) if language == "sh" else ():
            more = ["--max_steps=2"] if module is train else []
            assert module.main([*arguments, *more]) == 0, arguments
    assert {"run", "exported", "domain", "tuned"} <= set(os.listdir(folder))
    section = training_page.split("\n## Scores and substitutes\n")[1]
    described = set(re.findall(r'[`"](\w+)[`"]', section))
    scores = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert len(scores) == len(lines)
    assert set(scores[0]) | set(scores[0]["substitutes"][0][0]) <= described
