"""Compares the pages of `docs/`, the site and the changelog with the code."""

import importlib.util
import re
from pathlib import Path

import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.formats import catalog
from elmo_tf.model import pipeline
from elmo_tf.model.inputs import boundaries
from elmo_tf.text.tokens import split_and_pad

ROW = re.compile(r"^\| (\d+) \| (.*?) \| `(\[.*?\])` \| `(\[.*?\])` \| `(.*?)` \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def page(project_dir):
    return (project_dir / "docs/how-it-works.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shapes():
    """The shape of each step for "The cat sat" with a model of size "tiny"."""
    config = elmo_tf.ElmoConfig.from_size("tiny")
    encoder = elmo_tf.ElmoEncoder(config, without_initialization=True)
    cnn = encoder.token_layer
    tokens, lengths = split_and_pad(tf.constant(["The cat sat"]))
    bounded = boundaries.add_boundary_tokens(tokens, lengths, encoder.token_input.boundary_tokens)
    ids = encoder.token_input(bounded)
    maxima = tf.reshape(cnn._convolve(tf.reshape(ids, [5, 50]), True), [1, 5, -1])
    embeddings = cnn(ids)
    layers, state = pipeline.run_layers(embeddings, lengths, encoder.bilm, return_state=True)
    forward, _ = encoder.bilm.forward_0(embeddings)
    outputs = encoder(["The cat sat"])
    steps = [
        tokens,
        bounded,
        ids,
        tf.gather(cnn.embedding, tf.zeros_like(ids)),
        maxima,
        cnn.highway_0(maxima),
        embeddings,
        forward,
        state.forward[0].cell,
        encoder.bilm(embeddings, lengths=lengths + 2)[0],
        layers[1],
        outputs["elmo"],
        outputs["default"],
    ]
    return [list(step.shape) for step in steps]


def test_shapes_of_the_steps(page, shapes):
    rows = ROW.findall(page)
    assert [int(number) for number, *_ in rows] == list(range(1, len(shapes) + 1))
    config = elmo_tf.ElmoConfig.from_size("tiny")
    sizes = {
        "batch": 1,
        "tokens": 3,
        "P": config.lstm.projection_dim,
        "F": config.input.num_filters,
        "U": config.lstm.dim,
    }
    for (_, name, symbols, numbers, _), shape in zip(rows, shapes, strict=True):
        assert eval(numbers) == shape, name
        assert eval(symbols, dict(sizes)) == shape, name


def test_figures_in_the_text(page):
    tiny, original = map(elmo_tf.ElmoConfig.from_size, ("tiny", "original"))
    assert f"{tiny.lstm.projection_dim} for `tiny` and {original.lstm.projection_dim} " in page
    assert f"{tiny.lstm.dim} for `tiny` and {original.lstm.dim} for the original" in page
    widths = [width for width, _ in original.input.filters]
    widest = f"{original.input.num_filters} filters of widths {min(widths)} to {max(widths)}"
    assert widest in page
    ids = " ".join(map(str, elmo_tf.batch_to_ids([["cat"]])[0, 0, :7]))
    assert f"`{ids} ...`" in page


def test_files_that_pages_name_are_there(project_dir):
    pages = [project_dir / "README.md", *(project_dir / "docs").rglob("*.md")]
    named = {
        name
        for path in pages
        for name in re.findall(
            r"`((?:elmo_tf|export|tests|benchmarks|examples)/[\w/.]+)`",
            path.read_text(encoding="utf-8"),
        )
    }
    assert len(named) > 15
    assert [name for name in sorted(named) if not (project_dir / name).exists()] == []


def test_diagrams_are_those_of_the_script(project_dir):
    spec = importlib.util.spec_from_file_location("_", project_dir / "docs/site/diagrams.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, draw in script.DIAGRAMS.items():
        committed = (project_dir / "docs/images" / name).read_text(encoding="utf-8")
        assert draw().svg() == committed, "run python docs/site/diagrams.py"
    assert {path.name for path in (project_dir / "docs/images").iterdir()} == set(script.DIAGRAMS)


def test_every_public_name_is_in_the_reference(project_dir):
    pages = sorted((project_dir / "docs/api").glob("*.md"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages}
    entries = re.findall(r"^::: elmo_tf\.(\w+)$", "\n".join(texts.values()), re.MULTILINE)
    assert sorted(entries) == sorted(elmo_tf.__all__), "docs/api/*.md: one line ::: elmo_tf.NAME"
    listed = re.findall(r"^\| \[`\w+`\]\[elmo_tf\.(\w+)\] \|", texts["index.md"], re.MULTILINE)
    assert sorted(listed) == sorted(elmo_tf.__all__), "docs/api/index.md: a row for each name"


def test_published_names_in_the_readme(project_dir):
    text = (project_dir / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| published, by name \| (.*), ...; `elmo-inspect --list`", text, re.M)
    names = [*re.findall("`(.*?)`", row), *re.findall(r'from_model\("(\w+)"\)', text)]
    assert len(names) >= 3
    assert [name for name in names if catalog.find(name) is None] == []


def test_changelog_is_by_version(project_dir):
    text = Path(project_dir, "CHANGELOG.md").read_text(encoding="utf-8")
    first, *released = re.findall("^## (.*)$", text, re.MULTILINE)
    assert first == "Unreleased"
    versions = [re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", each)[1] for each in released]
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(numbers, reverse=True)
    assert versions[:1] in ([], [elmo_tf.__version__])
