"""Every example of README.md is run, in the order of the page, where a user's files would be."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo_tf.config import CharCnnConfig, ElmoConfig, LstmConfig
from elmo_tf.encoder import ElmoEncoder
from elmo_tf.weights import bilm_tf

PROJECTION = 5
CONFIG = ElmoConfig(
    CharCnnConfig(embedding_dim=3, filters=((1, 4), (2, 7)), num_highway_layers=1),
    LstmConfig(dim=8, projection_dim=PROJECTION, num_layers=2),
)
SENTENCES = ["The cat sat on the mat .", "Rain fell .", "It was late , so we left the house ."]

# A fenced block is an example; what is only indented is not (`make demo` has its own test).
EXAMPLE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHAPE = re.compile(r"#.*?(\[[^\]]*\])")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory of the examples: a published model, and text."""
    monkeypatch.chdir(tmp_path)
    CONFIG.write("options.json")
    arrays = bilm_tf.collect_arrays(ElmoEncoder(CONFIG, seed=1))
    bilm_tf.write_weights("weights.hdf5", arrays, CONFIG)
    for path in ("train/1.txt", "train/2.txt", "heldout/1.txt", "text.txt"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    return tmp_path


def run_shell(code, project_dir):
    """As in a shell where the environment is active."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    subprocess.run(
        ["bash", "-e", "-c", code],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(project_dir)},
        check=True,
        timeout=600,
    )


def run_python(code, names, sizes=None):
    """Runs a block, and compares what expressions give with the shapes in their comments."""
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
    assert [language for language, _ in examples].count("sh") >= 3
    assert num_compared >= 9
    assert {"run", "exported", "published", "vectors.hdf5"} <= set(os.listdir(folder))


def test_wrong_shapes_would_be_noticed():
    assert run_python("x = [[1, 2]] * 5\nx  # a comment, [P, 2]\n", {}) == 1
    with pytest.raises(AssertionError, match="x"):
        run_python("x = [[1, 2]] * 5\nx  # [5, 3]\n", {})


def test_links_lead_somewhere(project_dir):
    for page in ("README.md", "BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = EXAMPLE.sub("", (project_dir / page).read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("https://") or (project_dir / target).exists(), target


def test_fences_are_examples_of_a_known_kind(project_dir):
    text = (project_dir / "README.md").read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(EXAMPLE.findall(text))
    assert {language for language, _ in EXAMPLE.findall(text)} == {"python", "sh", "text"}
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
        char_cnn, lstm = config.char_cnn, config.lstm
        assert [int(figure) for figure in figures] == [
            lstm.dim,
            lstm.projection_dim,
            char_cnn.num_filters,
            char_cnn.num_highway_layers,
        ]
