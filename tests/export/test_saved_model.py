"""The exported object, used with only TensorFlow."""

import json
import os
import pathlib
import shutil
import socket
import tarfile

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.export import saved_model
from elmo_tf.formats import checkpoint
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.variables import named_variables
from tests.export.small import CONFIG, VOCABULARY, difference, make_encoder, trace_counts

DIM = CONFIG.lstm.projection_dim
WIDTH = CONFIG.input.max_characters_per_token
TEXT = ["The  cat\tsat ", "", "ein größeres Wort", "<S> one \x00 \u3000"]
TOKENS = [["The", "cat", "sat"], ["", "b", ""], ["c", "", ""], ["", "", ""]]
LENGTHS = [3, 2, 1, 0]
OUTPUTS = {
    "word_emb": [None, None, DIM],
    "lstm_outputs1": [None, None, 2 * DIM],
    "lstm_outputs2": [None, None, 2 * DIM],
    "elmo": [None, None, 2 * DIM],
    "default": [None, 2 * DIM],
    "sequence_len": [None],
}
SIGNATURES = ("default", "tokens", "elmo", "char_ids", "serving_default", "serve")


def token_inputs(tokens=TOKENS, lengths=LENGTHS):
    width = max(map(len, tokens), default=0)
    return {
        "tokens": tf.constant(tokens, tf.string, [len(tokens), width]),
        "sequence_len": tf.constant(lengths, tf.int32, [len(lengths)]),
    }


@pytest.mark.parametrize("name", ["default", "serving_default", "serve"])
def test_text_signatures_equal_the_encoder(loaded, encoder, name):
    outputs = loaded.signatures[name](text=tf.constant(TEXT))
    assert difference(outputs, encoder(tf.constant(TEXT))) <= 1e-6


def test_tokens_signature_equals_the_encoder(loaded, encoder):
    outputs = loaded.signatures["tokens"](**token_inputs())
    expected = encoder(tf.constant(TOKENS), sequence_len=LENGTHS)
    assert difference(outputs, expected) <= 1e-6


def test_elmo_signature_equals_the_encoder(loaded, encoder):
    outputs = loaded.signatures["elmo"](text=tf.constant(TEXT))
    expected = encoder(tf.constant(TEXT))
    expected = {name: expected[name] for name in ("elmo", "sequence_len")}
    assert difference(outputs, expected) <= 1e-6


def test_char_ids_signature_equals_the_encoder(loaded, encoder):
    sentences = [["The", "größeres", "cat"], [], ["one"]]
    ids = elmo_tf.batch_to_ids(sentences, WIDTH)
    outputs = loaded.signatures["char_ids"](char_ids=tf.constant(ids))
    assert difference(outputs, encoder(ids)) <= 1e-6
    same_text = encoder(tf.constant([" ".join(sentence) for sentence in sentences]))
    assert difference(outputs, same_text) <= 1e-5


@pytest.mark.parametrize("training", [{}, {"training": False}, {"training": True}])
def test_call(loaded, encoder, training):
    expected = encoder(tf.constant(TEXT))
    assert difference(loaded(tf.constant(TEXT), **training), expected) <= 1e-6
    assert difference(loaded(TEXT, **training), expected) <= 1e-6


def test_attribute_functions(loaded, encoder):
    expected = encoder(tf.constant(TOKENS), sequence_len=LENGTHS)
    assert difference(loaded.tokens(token_inputs()), expected) <= 1e-6
    ids = elmo_tf.batch_to_ids([["a", "b"], ["c"]], WIDTH)
    assert difference(loaded.char_ids(ids), encoder(ids)) <= 1e-6


def test_repeated_calls_give_equal_bits(loaded):
    first, second = (loaded(tf.constant(TEXT)) for _ in range(2))
    assert difference(first, second) == 0.0


def test_signatures_say_what_they_take_and_give(loaded):
    assert set(loaded.signatures) == set(SIGNATURES)
    inputs = {
        name: {key: (spec.dtype, spec.shape.as_list()) for key, spec in arguments[1].items()}
        for name in SIGNATURES
        for arguments in [loaded.signatures[name].structured_input_signature]
    }
    text = {"text": (tf.string, [None])}
    assert inputs == {
        **dict.fromkeys(("default", "serving_default", "serve", "elmo"), text),
        "tokens": {
            "tokens": (tf.string, [None, None]),
            "sequence_len": (tf.int32, [None]),
        },
        "char_ids": {"char_ids": (tf.int32, [None, None, WIDTH])},
    }
    for name in SIGNATURES:
        wanted = ["elmo", "sequence_len"] if name == "elmo" else list(OUTPUTS)
        specs = loaded.signatures[name].structured_outputs
        assert {key: spec.shape.as_list() for key, spec in specs.items()} == {
            key: OUTPUTS[key] for key in wanted
        }
        for key, spec in specs.items():
            assert spec.dtype == (tf.int32 if key == "sequence_len" else tf.float32)


@pytest.mark.traced
@pytest.mark.parametrize("name", ["loaded", "loaded_trainable"])
def test_one_trace_serves_every_shape_and_value(name, request):
    model = request.getfixturevalue(name)
    for batch, length in ((1, 1), (3, 2), (2, 17), (0, 0), (1, 0)):
        text = [" ".join(["w"] * length)] * batch
        tokens = token_inputs([["w"] * length] * batch, [length] * batch)
        ids = np.ones([batch, length, WIDTH], np.int32)
        for outputs in (
            model(text),
            model(tf.constant(text, tf.string, [batch]), training=length > 2),
            model.tokens(tokens),
            model.tokens({key: value.numpy() for key, value in tokens.items()}),
            model.char_ids(ids),
        ):
            assert outputs["elmo"].shape == (batch, length if batch else 0, 2 * DIM)
    model.tokens({"tokens": [["a", "b"]], "sequence_len": [2]})
    assert trace_counts(model) == [1, 1, 1]


@pytest.mark.parametrize("text", [[], [""], ["", " \t\r\n"], ["a", ""]])
def test_empty_rows_and_batches(loaded, text):
    outputs = loaded.signatures["default"](text=tf.constant(text, tf.string, [len(text)]))
    lengths = [len(row.split()) for row in text]
    assert outputs["sequence_len"].numpy().tolist() == lengths
    for name in ("default", "elmo", "word_emb", "lstm_outputs1", "lstm_outputs2"):
        values = outputs[name].numpy()
        assert np.isfinite(values).all()
        for row, length in enumerate(lengths):
            assert values[row].any() == (length > 0)


@pytest.mark.parametrize("text", [[], [""], ["a", ""]])
def test_empty_rows_and_batches_in_training(loaded_trainable, text):
    text = tf.constant(text, tf.string, [len(text)])
    with tf.GradientTape() as tape:
        outputs = loaded_trainable(text, training=True)
        loss = tf.reduce_sum(outputs["elmo"]) + tf.reduce_sum(outputs["default"])
    assert difference(outputs, loaded_trainable(text)) <= 1e-6
    for gradient in tape.gradient(loss, loaded_trainable.trainable_variables):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


@pytest.mark.parametrize("lengths", [[3, -1], [4, 1], [3, 2**31 - 1]])
def test_sequence_len_out_of_range(loaded, lengths):
    inputs = token_inputs([["a", "b", "c"], ["d", "", ""]], lengths)
    for function in (loaded.tokens, lambda given: loaded.signatures["tokens"](**given)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="sequence_len must be from 0"):
            function(inputs)


def test_one_length_for_each_row(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="one length for each row"):
        loaded.tokens(token_inputs([["a"], ["b"]], [1]))


def test_padding_tokens_do_not_matter(loaded):
    clean = loaded.tokens(token_inputs([["a", "b", ""]], [2]))
    filled = loaded.tokens(token_inputs([["a", "b", "x"]], [2]))
    assert difference(filled, clean) == 0.0


def test_only_the_mix_is_trainable(loaded):
    names = [variable.name for variable in loaded.trainable_variables]
    assert names == ["scalar_mix/layer_weights:0", "scalar_mix/gamma:0"]
    # Keras 3's TFSMLayer uses each variable's `trainable` flag, not the list.
    assert [v.name for v in loaded.variables if v.trainable] == names
    assert [v.shape.as_list() for v in loaded.trainable_variables] == [[3], []]
    with tf.GradientTape() as tape:
        tape.watch(loaded.variables)
        loss = tf.reduce_sum(loaded(TEXT, training=True)["elmo"] ** 2)
    gradients = tape.gradient(loss, loaded.variables)
    moved = [v.name for v, g in zip(loaded.variables, gradients, strict=True) if g is not None]
    assert moved == names
    assert all(np.abs(g).max() > 0 for g in gradients if g is not None)


def test_mix_gradient_equals_the_encoders(loaded, encoder):
    mix = encoder.scalar_mix
    weights = [mix.layer_weights.value, mix.gamma.value]
    gradients = []
    for model, variables in ((encoder, weights), (loaded, loaded.trainable_variables)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.constant(TEXT))["default"] ** 2)
        gradients.append(tape.gradient(loss, variables))
    for expected, actual in zip(*gradients, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_everything_is_trainable_if_asked_for(loaded_trainable, encoder, training):
    model = loaded_trainable
    assert len(model.trainable_variables) == len(model.variables) == len(encoder.variables)
    named = named_variables(encoder)
    gradients = []
    for call, variables in (
        (lambda: model(TEXT, training=training), [model.model[name] for name in named]),
        (lambda: encoder(tf.constant(TEXT)), list(named.values())),
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call()["elmo"] ** 2)
        gradients.append(tape.gradient(loss, variables))
    for name, actual, expected in zip(named, *gradients, strict=True):
        actual, expected = (tf.convert_to_tensor(g).numpy() for g in (actual, expected))
        assert np.abs(actual).max() > 0, name
        np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=1e-4, err_msg=name)


def test_forward_values_do_not_depend_on_what_is_trainable(loaded, loaded_trainable):
    assert difference(loaded_trainable(TEXT), loaded(TEXT)) == 0.0
    assert difference(loaded_trainable(TEXT, training=True), loaded(TEXT)) <= 1e-6


def test_dropout_of_the_encoder_is_not_exported(tmp_path):
    encoder = ElmoEncoder(CONFIG, seed=3, dropout=0.5)
    saved_model.export(encoder, tmp_path / "exported", trainable="all")
    model = tf.saved_model.load(str(tmp_path / "exported"))
    assert difference(model(TEXT, training=True), encoder(tf.constant(TEXT))) <= 1e-6


def test_assigned_variables_take_effect(loaded_trainable, loaded):
    before = loaded(TEXT)["elmo"]
    gamma = loaded_trainable.model["scalar_mix.gamma"]
    gamma.assign(2.0 * gamma)
    doubled = loaded_trainable(TEXT)["elmo"]
    gamma.assign(0.5 * gamma)
    np.testing.assert_allclose(doubled, 2.0 * before, rtol=1e-6)


def test_regularization_losses(tmp_path, loaded):
    assert len(loaded.regularization_losses) == 0
    encoder = make_encoder()
    encoder.scalar_mix.l2_coefficient = 0.25
    saved_model.export(encoder, tmp_path / "exported")
    model = tf.saved_model.load(str(tmp_path / "exported"))
    (loss,) = model.regularization_losses
    assert loss().numpy() == pytest.approx(0.25 * (0.5**2 + 1.0 + 0.25**2))
    with tf.GradientTape() as tape:
        value = loss()
    gradient = tape.gradient(value, model.model["scalar_mix.layer_weights"])
    np.testing.assert_allclose(gradient, [0.25, -0.5, 0.125], rtol=1e-6)


def test_variables_can_be_read_by_name(exported, loaded, encoder):
    named = named_variables(encoder)
    assert list(loaded.model) == list(named)
    read = checkpoint.CheckpointReader(exported / "variables/variables").model_arrays()
    assert set(read) == set(named)
    for name, variable in named.items():
        np.testing.assert_array_equal(read[name].read(), variable)
    # HDF5 files of Keras 2 models need unique names.
    assert len({variable.name for variable in loaded.variables}) == len(named)


def test_the_encoder_can_be_used_on(encoder, exported):
    fresh = make_encoder()
    assert difference(encoder(tf.constant(TEXT)), fresh(tf.constant(TEXT))) == 0.0
    assert all(variable.trainable for variable in encoder.variables)


def graph_operations(path, signature):
    """The operation types in a signature's graph, including the functions that it calls."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "saved_model.pb").read_bytes())
    (meta_graph,) = saved.meta_graphs
    functions = {
        function.signature.name: function for function in meta_graph.graph_def.library.function
    }
    output = next(iter(meta_graph.signature_def[signature].outputs.values())).name.split(":")[0]
    (start,) = (node for node in meta_graph.graph_def.node if node.name == output)
    seen, found, pending = set(), [], [start]
    while pending:
        node = pending.pop()
        found.append(node)
        for attribute in node.attr.values():
            for name in (attribute.func.name, *(each.name for each in attribute.list.func)):
                if name in functions and name not in seen:
                    seen.add(name)
                    pending.extend(functions[name].node_def)
    return found


@pytest.mark.parametrize("signature", SIGNATURES)
def test_graph_has_core_operations_only(exported, signature):
    types = {node.op for node in graph_operations(exported, signature)}
    assert {"MatMul", "StatelessWhile"} & types  # the graph is not empty
    assert not {kind for kind in types if kind.startswith(("PyFunc", "EagerPyFunc", "Text"))}
    known = {name for name in dir(tf.raw_ops) if not name.startswith("_")}
    assert types <= known


def test_char_ids_has_no_string_operation(exported):
    def string_nodes(signature):
        return [
            node.name
            for node in graph_operations(exported, signature)
            if any(value.type == tf.string.as_datatype_enum for value in node.attr.values())
            or any(tf.string.as_datatype_enum in value.list.type for value in node.attr.values())
        ]

    assert string_nodes("tokens")
    assert string_nodes("char_ids") == []


def private_texts(exported):
    """Texts that no file of an export may contain."""
    private = {
        os.getcwd(),
        str(pathlib.Path.home()),
        str(exported),
        str(pathlib.Path(saved_model.__file__).parent),
        os.path.dirname(tf.__file__),
        socket.gethostname(),
        ".py",
        "words.txt",
    }
    return {text for text in private if len(text) > 2}  # not "/", or a host name like "vm"


def test_nothing_of_this_machine_is_inside(exported):
    private = private_texts(exported)
    files = [path for path in exported.rglob("*") if path.is_file()]
    assert len(files) >= 6
    for path in files:
        content = path.read_bytes()
        found = [text for text in private if text.encode() in content]
        assert found == [], path.name


def test_functions_have_names_in_profiles(exported):
    content = (exported / "saved_model.pb").read_bytes()
    assert b"from_tokens" in content
    assert b"lambda" not in content


def test_extra_assets(exported):
    extras = exported / "assets.extra"
    assert sorted(path.name for path in extras.iterdir()) == [
        "README.md",
        "options.json",
        "tf_serving_warmup_requests",
        "vocab.txt",
    ]
    assert json.loads((extras / "options.json").read_text()) == CONFIG.to_options()
    assert (extras / "vocab.txt").read_bytes() == VOCABULARY
    assert "Drawn at random." in (extras / "README.md").read_text()


def test_archive_loads(exported, encoder, tmp_path):
    with tarfile.open(f"{exported}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    model = tf.saved_model.load(str(tmp_path))
    assert difference(model(TEXT), encoder(tf.constant(TEXT))) <= 1e-6


@pytest.fixture
def former(exported, tmp_path):
    """A copy of the export and its archive, to be replaced."""
    path = tmp_path / "exported"
    shutil.copytree(exported, path)
    shutil.copy(f"{exported}.tar.gz", f"{path}.tar.gz")
    return path


def test_existing_export_is_refused(former, encoder):
    with pytest.raises(InputError, match="exported: already exists; overwrite=True"):
        saved_model.export(encoder, former)
    assert (former / "saved_model.pb").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "data/a.csv", "variables/mine/a", "assets/mine"])
def test_nothing_of_the_users_is_deleted_with_an_export(former, encoder, name):
    (former / name).parent.mkdir(exist_ok=True)
    (former / name).write_text("years of work")
    shown = {"data/a.csv": "data", "variables/mine/a": "variables/mine"}.get(name, name)
    with pytest.raises(InputError, match=f"exported: not replaced: it holds {shown}, "):
        saved_model.export(encoder, former, overwrite=True)
    assert (former / name).read_text() == "years of work"


def test_nothing_of_the_users_is_deleted_with_an_archive(former, encoder):
    packed = f"{former}.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(former / "saved_model.pb", "saved_model.pb")
        archive.add(former / "saved_model.pb", "home/thesis.tex")
    with pytest.raises(InputError, match="not replaced: it holds home/thesis.tex, "):
        saved_model.export(encoder, former, overwrite=True, archive=True)
    with tarfile.open(packed) as archive:
        assert archive.getnames() == ["saved_model.pb", "home/thesis.tex"]


def test_existing_export_is_replaced_if_asked_for(former):
    other = ElmoEncoder(CONFIG, seed=4)
    saved_model.export(other, former, archive=True, overwrite=True)
    folder = former.parent
    assert sorted(child.name for child in folder.iterdir()) == ["exported", "exported.tar.gz"]
    assert tarfile.is_tarfile(folder / "exported.tar.gz")
    model = tf.saved_model.load(str(former))
    assert difference(model(TEXT), other(tf.constant(TEXT))) <= 1e-6


def test_existing_archive_is_refused(tmp_path):
    (tmp_path / "exported.tar.gz").write_text("one")
    with pytest.raises(InputError, match=r"exported\.tar\.gz: already exists"):
        saved_model.export(make_encoder(), tmp_path / "exported", archive=True)
    assert [child.name for child in tmp_path.iterdir()] == ["exported.tar.gz"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interrupted_export_leaves_nothing(encoder, tmp_path, monkeypatch, error):
    def interrupted(module, path, signatures):
        (pathlib.Path(path) / "variables").mkdir()
        raise error

    monkeypatch.setattr(tf.saved_model, "save", interrupted)
    with pytest.raises(error):
        saved_model.export(encoder, tmp_path / "exported", archive=True)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_overwrite_keeps_the_former(encoder, exported, former, monkeypatch):
    def full(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(InputError, match="exported: cannot be written: No space left on device"):
        saved_model.export(encoder, former, archive=True, overwrite=True)
    folder = former.parent
    assert sorted(child.name for child in folder.iterdir()) == ["exported", "exported.tar.gz"]
    former_archive = pathlib.Path(f"{exported}.tar.gz").read_bytes()
    assert (folder / "exported.tar.gz").read_bytes() == former_archive
    assert (former / "saved_model.pb").read_bytes() == (exported / "saved_model.pb").read_bytes()


def test_unknown_trainable(encoder, tmp_path):
    with pytest.raises(InputError, match="trainable must be one of mix, all, got 'some'"):
        saved_model.export(encoder, tmp_path / "exported", trainable="some")
    assert list(tmp_path.iterdir()) == []


def test_missing_vocabulary(encoder, tmp_path):
    with pytest.raises(InputError, match=r"gone\.txt: cannot be read: No such file"):
        saved_model.export(encoder, tmp_path / "exported", vocabulary_file=tmp_path / "gone.txt")
    assert list(tmp_path.iterdir()) == []


def test_provenance_in_any_script(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.saved_model, "save", lambda *_: None)
    saved_model.export(encoder, tmp_path / "exported", provenance=["Aus K\xf6ln, r\udcff."])
    card = (tmp_path / "exported/assets.extra/README.md").read_text(encoding="utf-8")
    assert "Aus K\xf6ln, r\\udcff." in card
    with pytest.raises(InputError, match="provenance must be a list of sentences, got 'Cologne'"):
        saved_model.export(encoder, tmp_path / "another", provenance="Cologne")
