"""Exports with cached word embeddings give the same outputs as exports without."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.export import export_elmo, saved_model
from elmo_tf.export.cached_words import CachedWords
from elmo_tf.model import pipeline
from elmo_tf.model.loading import load_encoder
from tests.export.small import CONFIG, difference, make_encoder, trace_counts
from tests.export.test_saved_model import graph_operations, private_texts

DIM = CONFIG.lstm.projection_dim
# Tokens are truncated after 9 bytes, so the CNN sees the last of these like others.
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "größeres", "\N{BLACK STAR}", "abcdefghijk"]
CACHED = [word.encode() for word in WORDS]
TOKENS = [
    ["the", "cat", "the", "größeres"],  # all cached
    ["The", "dog", "The", "größer"],  # none
    ["abcdefghijk", "abcdefghijX", "abcdefghi", "abcdefgh"],
    [b"\xff\xfe", b"\xe2\x98\x85", b"\xe2\x98", b"\xc3"],  # of these only the second is UTF-8
    [b"a\0b", b"\0", b"cat\0", b""],
    ["<S>", "</S>", "<UNK>", "<s>"],
    ["", "cat", "", ""],
    ["", "", "", ""],
]
LENGTHS = [4, 4, 4, 4, 4, 4, 3, 0]
INPUTS = {"tokens": tf.constant(TOKENS), "sequence_len": tf.constant(LENGTHS)}
TEXTS = [
    ["the cat", "the größeres"],
    ["The  dog\tThe ", "", "the abcdefghijX <S> \0 cat \u3000"],
    [b"\xff the", b"\xe2\x98\x85 </S>"],
    [""],
    [],
]


@pytest.fixture(scope="module")
def path(exported, tmp_path_factory):
    """An export made by the command, with a vocabulary file of words to cache."""
    folder = tmp_path_factory.mktemp("cached")
    (folder / "my_words.txt").write_bytes(b"\n".join(CACHED))
    arguments = {
        "model": exported,
        "output_dir": folder / "exported",
        "cache_vocab_file": folder / "my_words.txt",
        "archive": True,
    }
    assert export_elmo.main([f"--{name}={value}" for name, value in arguments.items()]) == 0
    return folder / "exported"


@pytest.fixture(scope="module")
def cached(path):
    return tf.saved_model.load(str(path))


def test_tokens_are_the_same(cached, loaded):
    expected = loaded.tokens(INPUTS)
    assert difference(cached.tokens(INPUTS), expected) <= 1e-6
    assert difference(cached.signatures["tokens"](**INPUTS), expected) <= 1e-6


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_the_same(cached, loaded, text):
    text = tf.constant(text, tf.string, [len(text)])
    for training in (False, True):
        assert difference(cached(text, training=training), loaded(text)) <= 1e-6
    for name in ("default", "elmo", "serving_default", "serve"):
        actual = cached.signatures[name](text=text)
        assert difference(actual, loaded.signatures[name](text=text)) <= 1e-6


def test_a_session_gives_the_same(path, loaded):
    """Loads the export like TF Serving and saved_model_cli, with its table initializer."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta_graph.signature_def["tokens"]
        feed = {signature.inputs[name].name: value.numpy() for name, value in INPUTS.items()}
        names = {name: tensor.name for name, tensor in signature.outputs.items()}
        outputs = session.run(names, feed)
    assert difference(outputs, loaded.tokens(INPUTS)) <= 1e-6


def test_words_are_really_looked_up(path):
    model = tf.saved_model.load(str(path))
    embeddings = model.cached_words.embeddings
    before = model.tokens(INPUTS)["word_emb"].numpy()
    embeddings.assign(tf.zeros_like(embeddings))
    after = model.tokens(INPUTS)["word_emb"].numpy()
    for row, length in enumerate(LENGTHS):
        for place in range(length):
            is_cached = tf.compat.as_bytes(TOKENS[row][place]) in CACHED
            expected = np.zeros(DIM) if is_cached else before[row, place]
            np.testing.assert_array_equal(after[row, place], expected)
    assert np.abs(before[0]).min() > 0  # the values really differed


def test_only_distinct_unknown_words_are_computed(encoder):
    seen = []

    def embed(words):
        seen.extend(words.numpy().tolist())
        return pipeline.embed_words(words, encoder.parts)

    words = tf.constant([b"x", b"cat", b"<S>", b"cat\0", b"", b"\xff"])
    cache = CachedWords(encoder, CACHED)
    actual = cache.embed(words, embed)
    assert seen == [b"x", b"cat\0", b"", b"\xff"]
    np.testing.assert_allclose(
        actual, pipeline.embed_words(words, encoder.parts), rtol=0, atol=1e-6
    )
    # The cache gets each word of a batch once.
    seen.clear()
    pipeline.embed_tokens(
        tf.constant([["x", "x", "cat"], ["x", "y", "q"]]),
        tf.constant([3, 2]),
        encoder.parts,
        lambda words: cache.embed(words, embed),
    )
    assert seen == [b"x", b"y"]


def test_more_words_than_are_computed_together(encoder):
    words = [f"word{number}".encode() for number in range(2500)]
    cache = CachedWords(encoder, [*words, b"word7"])  # duplicates are ignored
    assert cache.embeddings.shape == (2500, DIM)
    expected = pipeline.embed_words(tf.constant(words), encoder.parts)
    np.testing.assert_allclose(cache.embeddings, expected, rtol=0, atol=1e-6)


def test_char_ids_are_left_alone(path, loaded, cached):
    types = {
        name: {node.op for node in graph_operations(path, name)} for name in ("tokens", "char_ids")
    }
    assert "LookupTableFindV2" in types["tokens"]
    assert not {kind for kind in types["char_ids"] if "Table" in kind}
    ids = tf.constant(np.random.default_rng(5).integers(0, 262, [3, 4, 11]), tf.int32)
    assert difference(cached.char_ids(ids), loaded.char_ids(ids)) == 0.0


def test_needs_core_operations_and_no_file(path):
    known = {name for name in dir(tf.raw_ops) if not name.startswith("_")}
    assert {node.op for node in graph_operations(path, "default")} <= known
    assert list((path / "assets").iterdir()) == []
    files = [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        content = file.read_bytes()
        private = [*private_texts(path), "my_words", str(path.parent)]
        assert [text for text in private if text.encode() in content] == [], file


def test_variables(cached, loaded):
    names = [variable.name for variable in cached.variables]
    assert names == [*(v.name for v in loaded.variables), "cached_words/embeddings:0"]
    assert len(cached.trainable_variables) == 2
    assert not cached.variables[-1].trainable
    with tf.GradientTape() as tape:
        tape.watch(cached.variables)
        loss = tf.reduce_sum(cached.tokens(INPUTS)["elmo"] ** 2)
    gradients = tape.gradient(loss, cached.variables)
    moved = [v.name for v, g in zip(cached.variables, gradients, strict=True) if g is not None]
    assert moved == [variable.name for variable in cached.trainable_variables]


@pytest.mark.traced
def test_one_trace(cached):
    for text in (["a b"], ["a", "b c"]):
        cached(text)
        cached.tokens({"tokens": [text], "sequence_len": [len(text)]})
    assert trace_counts(cached)[:2] == [1, 1]


def test_it_is_a_model_like_others(path, encoder):
    text = tf.constant(TEXTS[1])
    assert difference(load_encoder(path)(text), encoder(text)) == 0.0


def test_the_model_card_tells(path):
    card = (path / "assets.extra/README.md").read_text()
    assert "the word embeddings of 8 words are stored (0.0 MB)" in card


def test_what_the_user_has_to_mend(path, tmp_path, capsys):
    (tmp_path / "blank.txt").write_text("<S>\n</S>\n<UNK>\n\ncat\n")
    flags = [f"--model={path}", f"--output_dir={tmp_path / 'new'}"]
    for more, status, message in (
        (
            ["--cache_vocab_file=x.txt", "--trainable=all"],
            2,
            "--cache_vocab_file: needs --trainable=mix",
        ),
        ([f"--cache_vocab_file={tmp_path}/blank.txt"], 1, "blank.txt: line 4 is blank"),
        ([f"--cache_vocab_file={tmp_path}/gone.txt"], 1, "gone.txt: cannot be read"),
        (["--cache_vocab_file="], 2, "--cache_vocab_file: must not be empty"),
    ):
        assert export_elmo.main([*flags, *more]) == status
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert message in err
    with pytest.raises(InputError, match="cached words need trainable=mix"):
        saved_model.export(make_encoder(), tmp_path / "new", trainable="all", cached_words=[b"a"])
    assert not (tmp_path / "new").exists()
