"""Models of ELMoForManyLangs, compared with the results of its own code."""

import json
import shutil
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.export import export_weights, saved_model
from elmo_tf.formats import locate
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.loading import load_language_model
from tests.integration.zoo import layers_of

MODELS = ["word_char", "char_only", "word_only", "three_layers"]
# NumPy, from the same files, differs from ELMoForManyLangs by as much.
TOLERANCE = 5e-6


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "manylangs"


@pytest.fixture(scope="module")
def sentences(folder):
    return json.loads((folder / "sentences.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=MODELS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def encoder(folder, name):
    return ElmoEncoder.from_model(folder / name)


@pytest.fixture(scope="module")
def expected(folder, name):
    return np.load(folder / name / "expected.npz")


def stacked(outputs, row=0):
    """All layers of a row, `[layers, tokens, 2 * P]`, without padding."""
    return layers_of(outputs, row, int(outputs["sequence_len"][row]))


def test_ids(encoder, expected, sentences):
    ids = encoder.token_input.batch(sentences) - 1
    has_words = "alone/00/word_ids" in expected
    for k, tokens in enumerate(sentences):
        row = ids[k, : len(tokens)]
        if has_words:
            np.testing.assert_array_equal(row[:, 0], expected[f"alone/{k:02}/word_ids"][1:-1])
            row = row[:, 1:]
        if f"alone/{k:02}/char_ids" in expected:
            np.testing.assert_array_equal(row, expected[f"alone/{k:02}/char_ids"][1:-1])
    begin_and_end = encoder.token_input.boundaries - 1
    if has_words:
        ends = expected["alone/00/word_ids"][[0, -1]]
        np.testing.assert_array_equal(begin_and_end[:, 0], ends)


def test_every_layer_of_each_sentence_alone(encoder, expected, sentences):
    for k, tokens in enumerate(sentences):
        outputs = encoder([tokens], sequence_len=[len(tokens)])
        np.testing.assert_allclose(
            stacked(outputs), expected[f"alone/{k:02}/all"], rtol=0, atol=TOLERANCE
        )
        np.testing.assert_allclose(
            outputs["elmo"][0], expected[f"alone/{k:02}/average"], rtol=0, atol=TOLERANCE
        )


def test_all_sentences_in_one_batch(encoder, expected, sentences):
    outputs = encoder(encoder.token_input.batch(sentences), sequence_len=list(map(len, sentences)))
    vectors = elmo_tf.embed_sentences(encoder, without_white_space(sentences), layers="all")
    for k, tokens in enumerate(sentences):
        right = expected[f"one_batch/{k:02}"]
        np.testing.assert_allclose(stacked(outputs, k), right, rtol=0, atol=TOLERANCE)
        if without_white_space([tokens]) == [tokens]:
            np.testing.assert_allclose(vectors[k], right, rtol=0, atol=TOLERANCE)


def without_white_space(sentences):
    return [["".join(token.split(" ")) for token in tokens] for tokens in sentences]


@pytest.mark.parametrize("name", ["word_char"], scope="module")
def test_exported(encoder, expected, sentences, tmp_path, name):
    """The SavedModel gives equal outputs, and can be read as a model."""
    saved_model.export(encoder, tmp_path / "exported")
    model = hub.load(str(tmp_path / "exported"))
    again = ElmoEncoder.from_model(tmp_path / "exported")
    width = max(map(len, sentences))
    tokens = tf.constant([row + [""] * (width - len(row)) for row in sentences])
    lengths = tf.constant(list(map(len, sentences)))
    ids = tf.constant(encoder.token_input.batch(sentences))
    for outputs in (
        model.tokens({"tokens": tokens, "sequence_len": lengths}),
        model.signatures["tokens"](tokens=tokens, sequence_len=lengths),
        model.signatures["token_ids"](token_ids=ids),
        again(tokens, sequence_len=lengths),
    ):
        for k in range(len(sentences)):
            right = expected[f"one_batch/{k:02}"]
            np.testing.assert_allclose(stacked(outputs, k), right, rtol=0, atol=TOLERANCE)
    text = " ".join(sentences[0])
    np.testing.assert_allclose(
        model([text])["elmo"][0], expected["alone/00/average"], rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("name", ["word_char"], scope="module")
def test_in_a_keras_model(encoder, expected, sentences, name):
    layer = elmo_tf.ElmoEmbedding(encoder)
    tokens = tf.constant([sentences[0]])
    with tf.GradientTape() as tape:
        outputs = layer(tokens)
        loss = tf.reduce_sum(outputs**2)
    np.testing.assert_allclose(outputs[0], expected["alone/00/average"], rtol=0, atol=TOLERANCE)
    assert len(layer.trainable_variables) == 2
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert all(np.any(np.asarray(gradient)) for gradient in gradients)
    again = type(encoder).from_config(encoder.get_config())
    assert again.token_input.identity() == encoder.token_input.identity()


@pytest.mark.traced
@pytest.mark.parametrize("name", ["word_char"], scope="module")
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")
def test_on_litert(encoder, expected, sentences, tmp_path, name):
    """Only from ids: LiteRT has no string tables, and the converter refuses those of an export."""
    function = tf.function(
        lambda token_ids: encoder.encode_ids(token_ids, static_shapes=True),
        input_signature=[encoder.token_input.ids_spec],
    )
    module = tf.Module()
    module.variables_of_layers = [variable.value for variable in encoder.variables]
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=function.get_concrete_function())
    converted = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "m")).convert()
    run = tf.lite.Interpreter(model_content=converted).get_signature_runner()
    outputs = run(token_ids=encoder.token_input.batch(sentences[:3]))
    for k in range(3):
        right = expected[f"one_batch/{k:02}"]
        np.testing.assert_allclose(stacked(outputs, k), right, rtol=0, atol=TOLERANCE)


def test_archive_without_the_configuration_file(folder, fixtures_dir, tmp_path):
    """Like the public archives, but these models have a different configuration."""
    path = fixtures_dir / "archives/144.zip"
    arrays = []
    for each in (path, folder / "word_char"):
        with locate.find_model(each).open() as model:
            arrays.append({key: array.read() for key, array in model.arrays.items()})
    assert arrays[0].keys() == arrays[1].keys()
    for key, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][key])
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "config.json").write_text('{"config_path": "/Users/u/cnn_50_100_512_4096.json"}')
    assert "does not fit its configuration: " in error_of(tmp_path)


def error_of(path):
    with pytest.raises(InputError) as caught, locate.find_model(path).open() as model:
        model.read(model.names(), lambda name, array: None)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 2000
    return str(caught.value)


def test_the_encoder_that_is_no_language_model(folder):
    assert error_of(folder / "lstm_encoder").endswith(
        "encoder.name must be 'elmo', got 'lstm'; the encoder 'lstm' is no bidirectional language "
        "model"
    )


def test_what_the_model_is_not_good_for(folder, tmp_path, capsys):
    model = folder / "word_char"
    with pytest.raises(InputError, match="has no softmax to predict words with"):
        load_language_model(model)
    assert export_weights.main([f"--model={model}", f"--output_dir={tmp_path}/pair"]) == 1
    assert capsys.readouterr().err.startswith(
        "elmo-export-weights: the bilm-tf format cannot store this model: "
    )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder / "word_char", tmp_path / "copy")


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("file", ["encoder.pkl", "token_embedder.pkl", "char.dic", "word.dic"])
def test_cut_off_at_every_tenth(copy, file, tenth):
    path = copy / file
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * tenth // 10])
    assert error_of(copy)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("char.dic", b"a\t0\na\t1\n", "char.dic: a occurs twice"),
        ("char.dic", b"a\t0\nb\t2\n", "char.dic: has 2 entries, but none with id 1"),
        ("char.dic", b"a\tx\n", "char.dic: line 1: must be an entry, a tab and its id"),
        ("char.dic", b"a\t99999999999\n", "char.dic: line 1: id 99999999999 can't be used"),
        ("char.dic", b"\xff\t0\n", "char.dic: line 1: is not UTF-8"),
        ("word.dic", b"a\t0\n", "word.dic: has no entry <oov>"),
        ("config.json", b"{}", "config.json: config_path must be a string"),
        ("config.json", b"[]", "config.json: "),
    ],
)
def test_damaged_text_files(copy, file, content, message):
    (copy / file).write_bytes(content)
    assert f"{copy}/{message}" in error_of(copy)


def test_configurations_that_lead_out_of_the_model(copy):
    """Such a path is not followed; its base name inside the model's directory is used."""
    shutil.move(copy / "configs/cnn_6_8_7_10.json", copy.parent / "cnn_6_8_7_10.json")
    (copy / "config.json").write_text('{"config_path": "../cnn_6_8_7_10.json"}')
    assert "the configuration of ELMoForManyLangs' public models" not in error_of(copy)
    assert "does not fit its configuration: " in error_of(copy)
