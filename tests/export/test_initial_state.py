"""Exports with a stored initial state give the encoder's outputs from that state."""

import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.export import export_elmo
from elmo_tf.formats import checkpoint
from elmo_tf.model.initial_state import mean_initial_state, repeat_state
from elmo_tf.model.loading import load_encoder
from elmo_tf.text.tokens import split_line
from tests.export.small import CONFIG, difference, make_encoder, trace_counts
from tests.export.test_saved_model import private_texts

LINES = ["the cat sat", "one", "", "größere \u00a0 words , and  more of them"]
TEXT = tf.constant(["the  cat", "", "one two three four"])
TOKENS = {
    "tokens": tf.constant([["the", "cat", "x"], ["", "b", ""], ["", "", ""]]),
    "sequence_len": tf.constant([2, 3, 0]),
}
WIDTH = CONFIG.input.max_characters_per_token
LAYERS = ("forward_0", "forward_1", "backward_0", "backward_1")
IDS = tf.constant(elmo_tf.batch_to_ids([["the", "cat"], [], ["größeres"]], WIDTH))


@pytest.fixture(scope="module", params=["mix", pytest.param("all", marks=pytest.mark.slow)])
def path(request, exported, tmp_path_factory):
    """Exports by the command: one with cached words, one in which everything is trainable."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "my_start.txt").write_text("\n".join(LINES))
    (folder / "my_words.txt").write_bytes(b"<S>\n</S>\n<UNK>\nthe\ncat\n")
    more = "--trainable=all"
    if request.param == "mix":
        more = f"--cache_vocab_file={folder / 'my_words.txt'}"
    flags = [f"--model={exported}", f"--initial_state_files={folder / 'my_*art.txt'}", more]
    assert export_elmo.main([*flags, f"--output_dir={folder / 'exported'}"]) == 0
    return folder / "exported"


@pytest.fixture(scope="module")
def warm(path):
    return tf.saved_model.load(str(path))


@pytest.fixture(scope="module")
def encode(encoder):
    """The encoder's outputs from the mean state over `LINES`."""
    start = mean_initial_state(encoder, [split_line(line) for line in LINES])
    assert start.num_sentences == 3

    def encode(inputs, **kwargs):
        return encoder(inputs, initial_state=repeat_state(start.state, inputs.shape[0]), **kwargs)

    return encode


def test_every_way_in(warm, encode, loaded):
    text = encode(TEXT)
    tokens = encode(TOKENS["tokens"], sequence_len=TOKENS["sequence_len"])
    assert np.abs(text["lstm_outputs1"] - loaded(TEXT)["lstm_outputs1"]).max() > 1e-3
    for training in (False, True):
        assert difference(warm(TEXT, training=training), text) <= 1e-6
    signatures = warm.signatures
    for name in ("default", "serving_default", "serve"):
        assert difference(signatures[name](text=TEXT), text) <= 1e-6
    elmo = signatures["elmo"](text=TEXT)
    assert difference(elmo, {name: text[name] for name in elmo}) <= 1e-6
    assert difference(warm.tokens(TOKENS), tokens) <= 1e-6
    assert difference(signatures["tokens"](**TOKENS), tokens) <= 1e-6
    assert difference(warm.char_ids(IDS), encode(IDS)) <= 1e-6
    assert difference(signatures["char_ids"](char_ids=IDS), encode(IDS)) <= 1e-6


def test_pure_and_zero_at_padding(warm):
    first, second = warm.tokens(TOKENS), warm.tokens(TOKENS)
    assert difference(first, second) == 0.0
    for row, length in enumerate([2, 3, 0]):
        for name in ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"):
            assert np.any(first[name][row, :length]) == (length > 0)
            assert not np.any(first[name][row, length:])
    assert not np.any(first["default"][2])
    alone = warm(tf.constant(["the cat"]))["elmo"][0]
    beside = warm(tf.constant(["the cat", "one two three"]))["elmo"][0, :2]
    np.testing.assert_allclose(alone, beside, rtol=0, atol=1e-5)
    nothing = warm(tf.constant([], tf.string))
    assert nothing["elmo"].shape == (0, 0, 2 * CONFIG.lstm.projection_dim)


@pytest.mark.traced
def test_one_trace(warm):
    for text in (["a b"], ["a", "b c"]):
        warm(text)
        words = " ".join(text).split()
        warm.tokens({"tokens": [words], "sequence_len": [len(words)]})
        warm.char_ids(elmo_tf.batch_to_ids([words], CONFIG.input.max_characters_per_token))
    assert trace_counts(warm) == [1, 1, 1]


def test_a_session_gives_the_same(path, encode):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta_graph.signature_def["default"]
        feed = {signature.inputs["text"].name: TEXT.numpy()}
        names = {name: tensor.name for name, tensor in signature.outputs.items()}
        outputs = session.run(names, feed)
    assert difference(outputs, encode(TEXT)) <= 1e-6


def test_variables(warm, loaded, path):
    names = {variable.name for variable in warm.variables}
    assert len(names) == len(warm.variables)
    parts = [f"{layer}/{part}" for layer in LAYERS for part in ("hidden", "cell")]
    assert {name for name in names if "state" in name} == {f"initial_state/{p}:0" for p in parts}
    assert names >= {variable.name for variable in loaded.variables}
    assert not [v.name for v in warm.trainable_variables if "state" in v.name]
    read = checkpoint.CheckpointReader(path / "variables/variables").arrays("initial_state")
    assert set(read) == {part.replace("/", ".") for part in parts}


def test_read_as_a_model_it_starts_from_zeros_and_says_so(path, encoder, caplog):
    again = load_encoder(path)
    assert difference(again(TEXT), encoder(TEXT)) == 0.0
    said = [record.getMessage() for record in caplog.records if record.name.startswith("elmo_tf")]
    assert said == [
        f"{path}: has a stored initial state, which is ignored: the loaded model starts from zeros"
    ]


def test_card_and_privacy(path):
    card = (path / "assets.extra/README.md").read_text()
    assert "Each row starts from a stored state" in card
    assert "final states on 3 sentences of a text, in both directions" in card
    private = [*private_texts(path), "my_start", str(path.parent)]
    for file in path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert [text for text in private if text.encode() in content] == [], file


@pytest.mark.slow
def test_text_is_split_as_the_user_says(exported, tmp_path, encode):
    (tmp_path / "start.txt").write_text("\n".join(LINES))
    flags = [f"--model={exported}", f"--output_dir={tmp_path / 'new'}"]
    flags += [f"--initial_state_files={tmp_path / 'start.txt'}", "--normalize=nfkc"]
    assert export_elmo.main(flags) == 0
    model = tf.saved_model.load(str(tmp_path / "new"))
    assert difference(model(TEXT), encode(TEXT)) > 1e-6  # the no-break space was replaced


def test_what_the_user_has_to_mend(exported, tmp_path, capsys):
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"fine\nna\xefve\n")
    flags = [f"--model={exported}", f"--output_dir={tmp_path / 'new'}"]
    for value, status, message in (
        (f"{tmp_path}/gone*", 1, "--initial_state_files: no file matches"),
        (f"{tmp_path}/blank.txt", 1, "--initial_state_files: no sentence"),
        (f"{tmp_path}/latin.txt", 1, "latin.txt:2: is not UTF-8"),
        ("", 2, "--initial_state_files: must not be empty"),
    ):
        assert export_elmo.main([*flags, f"--initial_state_files={value}"]) == status
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert message in err
    assert not (tmp_path / "new").exists()


def test_the_encoder_is_left_alone(encoder):
    assert difference(encoder(TEXT), make_encoder()(TEXT)) == 0.0
