"""Only one place in the source depends on the kind of a model's input layer."""

import ast
from pathlib import Path

import pytest

from elmo_tf.config.inputs import CharCnnConfig, WordInputConfig
from elmo_tf.model.inputs.kinds import make_input
from elmo_tf.model.inputs.token_input import TokenInput

# The definitions of the kinds, the formats that store two of them and the third, and the layer of
# the third, which combines those of the others.
HOMES = (
    "elmo_tf/config/",
    "elmo_tf/model/inputs/",
    "elmo_tf/formats/bilm_tf.py",
    "elmo_tf/formats/manylangs",
    "elmo_tf/layers/dictionary_embedding.py",
)
# `text` may test whether it has a vocabulary: it knows no models, so this is not about a model's
# input layer.
WITHOUT_MODELS = ("elmo_tf/text/",)
KIND_NAMES = {
    "CharCnnConfig",
    "WordInputConfig",
    "DictionaryInputConfig",
    "CharacterInput",
    "WordInput",
    "DictionaryInput",
}
KIND_ATTRIBUTES = {"char_cnn", "word_input", "word_embedding"}
# The flag --word_input creates such a model without testing one. A description has the number of
# known words, which may be those of the softmax.
ALLOWED = {
    "elmo_tf/cli/train_flags.py": {"options.word_input", "inputs.WordInputConfig"},
    "elmo_tf/formats/description.py": {"opened.vocabulary is not None"},
    "export/export_weights.py": {"model.vocabulary is None"},  # the words of a softmax
}
# Attributes that differ between kinds and could identify them.
TELLTALE = ("vocabulary", "input", "token_input", "ids_name", "layer_name", "word_list")


def branches_on_the_kind(source: str) -> list[str]:
    """The expressions in a module that test the kind of an input layer."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in KIND_ATTRIBUTES | KIND_NAMES:
            found.append(node)
        elif isinstance(node, ast.ImportFrom):
            found += [alias for alias in node.names if alias.name in KIND_NAMES]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "type"):
            found += [node] if _tells(node.args[0], {"input", "token_input"}) else []
        elif isinstance(node, ast.Compare):
            compared = not isinstance(node.ops[0], ast.In | ast.NotIn)
            found += [node] if compared and any(map(_tells, (node.left, *node.comparators))) else []
        elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            found += [node.test] if _tells(node.test) else []
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found += [node] if _tells(node.operand) else []
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            found += [node] if any(map(_tells, node.values)) else []
    return [ast.unparse(node) for node in found]


def _tells(node: ast.AST, names: tuple[str, ...] | set[str] = TELLTALE) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and _last_name(node) in names


def _last_name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def test_nothing_asks_for_the_kind_outside_its_home(project_dir):
    read, found = 0, []
    for path in (*project_dir.glob("elmo_tf/**/*.py"), *project_dir.glob("export/**/*.py")):
        name = path.relative_to(project_dir).as_posix()
        if not name.startswith((*HOMES, *WITHOUT_MODELS)):
            read += 1
            branches = branches_on_the_kind(path.read_text(encoding="utf-8"))
            found += [f"{name}: {each}" for each in branches if each not in ALLOWED.get(name, ())]
    assert found == []
    assert read > 60


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("if config.word_input: pass", ["config.word_input"]),
        ("x = encoder.char_cnn(ids)", ["encoder.char_cnn"]),
        ("if encoder.vocabulary is not None: pass", ["encoder.vocabulary is not None"]),
        ("x = 1 if vocabulary is None else 2", ["vocabulary is None"]),
        ("x = self.vocabulary and 1", ["self.vocabulary and 1"]),
        ("if not vocabulary: pass", ["not vocabulary"]),
        ("if run.vocabulary: pass", ["run.vocabulary"]),
        ("from a import WordInput, ElmoConfig", ["WordInput"]),
        ("isinstance(config.input, inputs.WordInputConfig)", ["inputs.WordInputConfig"]),
        ("kind = type(self.config.input)", ["type(self.config.input)"]),
        ("if token_input.ids_name == 'char_ids': pass", ["token_input.ids_name == 'char_ids'"]),
        ("x = vocabulary.words == other.words", []),
        ("if word in vocabulary: pass", []),
        ("x = config.input.needs_vocabulary and a or b", []),
        ("x = make(vocabulary=encoder.vocabulary)", []),
    ],
)
def test_the_reader_finds_each_form(source, found):
    assert set(found) <= set(branches_on_the_kind(source))
    assert bool(found) == bool(branches_on_the_kind(source))


WORDS = ["<S>", "</S>", "<UNK>", "a"]


@pytest.mark.parametrize("config", [CharCnnConfig(), WordInputConfig()])
def test_every_kind_answers_every_question(config):
    found = make_input(config, WORDS)
    abstract = {name for name in vars(TokenInput) if not name.startswith("_")}
    assert abstract <= set(dir(found)) and found.config.fits(config.with_vocabulary_size(4))
    assert found.boundaries.shape == (2, *found.shape)
    assert found.batch([["a"], []]).shape == (2, 1, *found.shape)
    assert found.make_layer(3, seed=1, dtype="float32").name == found.layer_name
    assert tuple(found.ids_spec.shape) == (None, None, *found.shape)
    assert found.ids_spec.name == found.ids_name
    assert found.ids_shape.startswith("[batch, max_tokens")
    assert all(isinstance(each, str) and each for each in found.card())
    assert (found.vocabulary is not None) == config.needs_vocabulary == bool(found.word_list())


def test_words_are_written_by_the_kind_that_reads_them(tmp_path: Path):
    assert make_input(CharCnnConfig(), WORDS).write_words(tmp_path) == []
    assert make_input(WordInputConfig(), WORDS).write_words(tmp_path) == ["vocab.txt"]
    assert (tmp_path / "vocab.txt").read_text() == "<S>\n</S>\n<UNK>\na\n"
