"""Properties of every registered Keras layer; a new layer without a case here fails.

Values equal NumPy's, a configuration contains all constructor arguments, files and checkpoints
contain every weight, dtype policies keep weights in float32, every weight has a gradient, and no
shape depends on values where XLA is supported.
"""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.config.model import ElmoConfig
from elmo_tf.layers.bilm import BiLm
from elmo_tf.layers.char_cnn import CharCnn
from elmo_tf.layers.dictionary_embedding import DictionaryEmbedding
from elmo_tf.layers.elmo_mix import ElmoMix
from elmo_tf.layers.highway import Highway
from elmo_tf.layers.projected_lstm import ProjectedLstm
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.layers.word_embedding import WordEmbedding
from elmo_tf.model.embedding import ElmoEmbedding
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.token_mask import TokenMask
from tests.layers import references

# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ROOMS_WITH_LAYERS = ("layers", "model", "scoring", "training", "vectors")
# Parts of a training run, which are rebuilt from its settings and stored only in checkpoints.
NOT_REGISTERED = {"ElmoLanguageModel", "SharedSoftmax"}
# Affects only initial weights, so it is not part of a configuration.
NOT_CONFIGURED = {"without_initialization"}

COMPUTE = "that of the policy"
SENTENCES = [["The", "cat", "", "sat"], ["one"], ["<S>", "b\xa0c"]]
LENGTHS = np.array([4, 1, 2], np.int32)
WORDS = ["<S>", "</S>", "<UNK>", "cat", "one", "sat"]
LSTM = {
    "dim": 7,
    "projection_dim": 5,
    "n_layers": 2,
    "cell_clip": 0.9,
    "proj_clip": 0.8,
    "use_skip_connections": True,
}
CHARACTERS = {
    "embedding": {"dim": 3},
    "filters": [[1, 4], [2, 6]],
    "n_highway": 1,
    "max_characters_per_token": 8,
    "activation": "tanh",
    "n_characters": 262,
}
CHARACTER_INPUT = ElmoConfig.from_options({"char_cnn": CHARACTERS, "lstm": LSTM}).to_options()
# One layer; the other model covers residuals and clips.
_SMALLEST = {"dim": 6, "projection_dim": 4, "n_layers": 1}
WORD_INPUT = ElmoConfig.from_options({"lstm": _SMALLEST, "n_tokens_vocab": 6}).to_options()


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def integers(low, high, *shape):
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(np.int32)


def character_ids(*around):
    """int32 `[3, tokens, 8]`, with the codes of boundary tokens."""
    edges = around or ((), ())
    return elmo_tf.batch_to_ids([[*edges[0], *s, *edges[1]] for s in SENTENCES], 8)


def word_ids(*around):
    edges = around or ((), ())
    rows = [[*edges[0], *s, *edges[1]] for s in SENTENCES]
    ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for row, words in zip(ids, rows, strict=True):
        row[: len(words)] = [1 + (WORDS.index(w) if w in WORDS else 2) for w in words]
    return ids


def real(layers, extra=0):
    """Sets values past the length of each row to zero."""
    mask = np.arange(layers[0].shape[1]) < (LENGTHS + extra)[:, np.newaxis]
    return [tf.where(mask[..., np.newaxis], layer, 0) for layer in layers]


def encoder_reference(ids_with_boundaries):
    return lambda layer, _: references.encoder_outputs(layer, ids_with_boundaries, LENGTHS + 2)


def embedding_reference(layer, ids):
    ids = (character_ids if ids.ndim == 3 else word_ids)(["<S>"], ["</S>"])
    layers = references.elmo_layers(layer.encoder, ids, LENGTHS + 2)
    mask = np.arange(ids.shape[1]) < (LENGTHS + 2)[:, np.newaxis]
    mixed = [references.scalar_mix(mix, layers, mask) for mix in layer.mix.mixes]
    return mixed if len(mixed) > 1 else mixed[0]


def mask_reference(layer, tokens):
    return np.arange(tokens.shape[1] + 2) < (LENGTHS + 2)[:, np.newaxis]


class Case(NamedTuple):
    """A layer, its inputs, and its expected properties.

    Attributes:
      cls: its class.
      arguments: arguments of the constructor.
      inputs: positional inputs of the call.
      reference: computes the expected results in NumPy, from the layer and the inputs.
      output: dtype of its results.
      static: call arguments with which XLA can compile it; None if it is not supported.
      observed: selects the defined part of the results.
    """

    cls: type
    arguments: dict[str, Any]
    inputs: tuple[Any, ...]
    reference: Callable[..., Any]
    output: str
    static: dict[str, bool] | None = None
    observed: Callable[[Any], Any] = lambda outputs: outputs


STATIC_SHAPES = {"static_shapes": True}
TOKENS = np.array([[t.encode() for t in s] + [b""] * (4 - len(s)) for s in SENTENCES])
MIXED = np.where((np.arange(4) < LENGTHS[:, None])[:, None, :, None], draw(3, 2, 4, 5), 0)
LSTM_ARGUMENTS = {"units": 7, "projection_dim": 5, "cell_clip": 0.9, "projection_clip": 0.8}
MIX_ARGUMENTS = {"num_mixes": 2, "l2_coefficient": 0.3, "dropout": 0.2, "seed": 9}

CASES = {
    "Highway": Case(Highway, {"seed": 4}, (draw(3, 4, 5),), references.highway, COMPUTE, {}),
    "CharCnn": Case(
        CharCnn,
        {
            "embedding_dim": 3,
            "filters": ((1, 4), (2, 6)),
            "num_highway_layers": 2,
            "projection_dim": 7,
            "activation": "tanh",
            "num_characters": 29,
            "filler_id": 28,
            "seed": 4,
        },
        (integers(0, 30, 3, 4, 8),),
        references.char_cnn,
        COMPUTE,
        STATIC_SHAPES,
    ),
    "WordEmbedding": Case(
        WordEmbedding,
        {"vocabulary_size": 11, "projection_dim": 5, "seed": 4},
        (integers(1, 12, 3, 4),),
        references.word_embedding,
        COMPUTE,
        STATIC_SHAPES,
    ),
    "DictionaryEmbedding": Case(
        DictionaryEmbedding,
        {
            "projection_dim": 7,
            "word_dim": 3,
            "num_words": 11,
            "char_dim": 4,
            "num_characters": 13,
            "filters": ((1, 4), (2, 5)),
            "num_highway_layers": 1,
            "activation": "tanh",
            "filler_id": 12,
            "seed": 4,
        },
        (integers(1, 12, 3, 4, 1 + 8),),
        references.dictionary_embedding,
        COMPUTE,
        STATIC_SHAPES,
    ),
    "ProjectedLstm, always projected": Case(
        ProjectedLstm,
        {**LSTM_ARGUMENTS, "projection_dim": 9, "always_projects": True, "seed": 4},
        (draw(3, 4, 6),),
        references.lstm,
        "float32",
        {},
    ),
    "ProjectedLstm": Case(
        ProjectedLstm,
        {**LSTM_ARGUMENTS, "seed": 4},
        (draw(3, 4, 6),),
        references.lstm,
        "float32",
        {},
    ),
    "BiLm, always projected": Case(
        BiLm,
        {**LSTM_ARGUMENTS, "projection_dim": 7, "always_projects": True, "num_layers": 2},
        (draw(3, 4, 7), LENGTHS),
        references.bilm,
        "float32",
        STATIC_SHAPES,
        real,
    ),
    "BiLm": Case(
        BiLm,
        {
            **LSTM_ARGUMENTS,
            "num_layers": 2,
            "use_skip_connections": False,
            "dropout": 0.2,
            "seed": 4,
        },
        (draw(3, 4, 5), LENGTHS),
        references.bilm,
        "float32",
        STATIC_SHAPES,
        real,
    ),
    "SampledSoftmax": Case(
        SampledSoftmax,
        {"vocabulary_size": 11, "seed": 4},
        (draw(7, 5), integers(0, 11, 7)),
        references.full_softmax,
        "float32",
    ),
    "ScalarMix": Case(
        ScalarMix,
        {
            "num_layers": 2,
            "do_layer_norm": True,
            "l2_coefficient": 0.3,
            "initial_weights": (0.4, 0.1),
        },
        (draw(3, 2, 4, 5),),
        lambda layer, layers: references.scalar_mix(layer, layers.swapaxes(0, 1)),
        COMPUTE,
        {},
    ),
    "ScalarMix, top": Case(
        ScalarMix,
        {"num_layers": 2, "use_top_only": True},
        (draw(3, 2, 4, 5),),
        lambda layer, layers: references.scalar_mix(layer, layers.swapaxes(0, 1)),
        COMPUTE,
        {},
    ),
    "ElmoMix": Case(
        ElmoMix,
        {
            **MIX_ARGUMENTS,
            "num_layers": 2,
            "do_layer_norm": True,
            "mix_weights": (None, (0.25, 0.5)),
        },
        (MIXED,),
        references.elmo_mix,
        COMPUTE,
        {},
    ),
    "ElmoMix, top": Case(
        ElmoMix,
        {"num_layers": 2, "use_top_only": True},
        (MIXED,),
        lambda layer, vectors: references.elmo_mix(layer, vectors)[0],
        COMPUTE,
        {},
    ),
    "ElmoEncoder": Case(
        ElmoEncoder,
        {
            "config": CHARACTER_INPUT,
            "dropout": 0.2,
            "seed": 4,
            "tokenizer": "unicode_script",
            "normalize": "nfc",
        },
        (character_ids(),),
        encoder_reference(character_ids(["<S>"], ["</S>"])),
        "float32",
    ),
    "ElmoEncoder, words": Case(
        ElmoEncoder,
        {"config": WORD_INPUT, "vocabulary": WORDS},
        (word_ids(),),
        encoder_reference(word_ids(["<S>"], ["</S>"])),
        "float32",
    ),
    "ElmoEmbedding": Case(
        ElmoEmbedding,
        {
            **MIX_ARGUMENTS,
            "do_layer_norm": True,
            "mix_weights": (None, (0.1, 0.5, 0.2)),
            "keep_boundaries": True,
            "trainable": "all",
        },
        (character_ids(),),
        embedding_reference,
        COMPUTE,
    ),
    "ElmoEmbedding, top": Case(
        ElmoEmbedding,
        {"use_top_only": True, "keep_boundaries": True},
        (word_ids(),),
        embedding_reference,
        COMPUTE,
    ),
    "TokenMask": Case(TokenMask, {"keep_boundaries": True}, (TOKENS,), mask_reference, "bool"),
}


def make(case, dtype="float32"):
    """The layer with weights larger than the initial ones, so that they matter."""
    arguments = dict(case.arguments)
    if case.cls is ElmoEmbedding:
        reads_characters = case.inputs[0].ndim == 3
        options = CHARACTER_INPUT if reads_characters else WORD_INPUT
        arguments["encoder"] = ElmoEncoder(options, vocabulary=WORDS, dtype="float32")
    layer = case.cls(**arguments, dtype=dtype, name="tested")
    if not layer.built:
        layer(*case.inputs)
    rng = np.random.default_rng(5)
    for variable in layer.weights:
        variable.assign(rng.normal(size=variable.shape, scale=0.6))
    return layer


def flat(case, outputs):
    return [np.asarray(part) for part in tf.nest.flatten(case.observed(outputs))]


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_every_registered_layer_has_a_case():
    for room in ROOMS_WITH_LAYERS:
        package = importlib.import_module(f"elmo_tf.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"elmo_tf.{room}."):
            importlib.import_module(module.name)
    registered = {
        found
        for name, found in keras.saving.get_custom_objects().items()
        if name.startswith("elmo_tf>") and issubclass(found, keras.layers.Layer)
    }
    assert registered == {case.cls for case in CASES.values()}
    others = {found for found in subclasses(keras.layers.Layer) if found not in registered}
    ours = {found.__name__ for found in others if found.__module__.startswith("elmo_tf.")}
    assert ours == NOT_REGISTERED


def subclasses(cls):
    for found in cls.__subclasses__():
        yield found
        yield from subclasses(found)


def constructor(cls):
    parameters = inspect.signature(cls.__init__).parameters.values()
    return {
        each.name: each.default
        for each in parameters
        if each.kind is not each.VAR_KEYWORD and each.name not in {"self", *NOT_CONFIGURED}
    }


def plain(value):
    """The JSON form without Keras's ids of shared objects, which are memory addresses."""
    if isinstance(value, keras.layers.Layer):
        value = keras.saving.serialize_keras_object(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k != "shared_object_id"}
    return list(map(plain, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("cls", {each.cls: None for each in CASES.values()})
def test_cases_give_every_argument_a_value_of_its_own(cls):
    for name, default in constructor(cls).items():
        given = [each.arguments.get(name, default) for each in CASES.values() if each.cls is cls]
        assert name == "encoder" or any(value != default for value in given), name


def test_a_configuration_says_all_that_the_constructor_was_told(case):
    layer = make(case, "mixed_bfloat16")
    config = layer.get_config()
    for name, default in constructor(case.cls).items():
        given = layer.encoder if name == "encoder" else case.arguments.get(name, default)
        assert plain(config[name]) == plain(given), name
    assert not NOT_CONFIGURED & set(config)
    stored = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    copy = keras.saving.deserialize_keras_object(stored)
    assert type(copy) is case.cls
    assert plain(copy.get_config()) == plain(config)


def test_values_are_those_of_numpy_and_gradients_reach_every_weight(case):
    layer = make(case)
    expected = tf.nest.flatten(case.reference(layer, *case.inputs))
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(case.observed(layer(*case.inputs)))
        floats = [part for part in outputs if part.dtype.is_floating]
        loss = sum(tf.reduce_sum(part * draw(*part.shape)) for part in floats)
    assert len(outputs) == len(expected)
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=5e-6)
    variables = layer.trainable_variables
    assert bool(variables) == (case.cls is not TokenMask)
    gradients = tape.gradient(loss, [v.value for v in variables]) if variables else []
    for variable, gradient in zip(variables, gradients, strict=True):
        assert gradient is not None, variable.path
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all() and gradient.any(), variable.path


def test_files_and_checkpoints_hold_every_weight(case, tmp_path):
    layer = make(case)
    inputs = [keras.Input(x.shape[1:], dtype=tf.as_dtype(x.dtype).name) for x in case.inputs]
    model = keras.Model(inputs, layer(*inputs))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    path = tf.train.Checkpoint(layer=layer).write(str(tmp_path / "checkpoint"))
    stored = [name for name, _ in tf.train.list_variables(path) if name.startswith("layer/")]
    assert len(stored) == len(layer.weights)

    loaded = keras.models.load_model(tmp_path / "model.keras")
    outputs = flat(case, loaded(list(case.inputs)))
    for ours, theirs in zip(outputs, flat(case, layer(*case.inputs)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    checkpoint = tf.train.Checkpoint(layer=loaded.layers[-1])
    for restore in (
        lambda: loaded.load_weights(tmp_path / "model.weights.h5"),
        lambda: checkpoint.read(path).assert_consumed(),
    ):
        for variable in loaded.weights:
            variable.assign(tf.zeros_like(variable.value))
        restore()
        assert len(loaded.weights) == len(layer.weights)
        for ours, theirs in zip(loaded.weights, layer.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=theirs.path)


@pytest.mark.parametrize("policy,error", [("mixed_float16", 0.01), ("mixed_bfloat16", 0.08)])
def test_mixed_precision_leaves_weights_wide(case, policy, error):
    layer = make(case, policy)
    assert {variable.dtype for variable in layer.weights} <= {"float32"}
    expected = tf.nest.flatten(case.reference(layer, *case.inputs))
    outputs = tf.nest.flatten(case.observed(layer(*case.inputs)))
    dtype = policy.removeprefix("mixed_") if case.output == COMPUTE else case.output
    for ours, theirs in zip(outputs, expected, strict=True):
        assert ours.dtype == (tf.int32 if theirs.dtype.kind == "i" else dtype)
        size = np.abs(theirs).max()
        np.testing.assert_allclose(tf.cast(ours, tf.float32), theirs, atol=error * size)


@pytest.mark.traced
@pytest.mark.parametrize("name", [name for name, each in CASES.items() if each.static is not None])
def test_no_shape_depends_on_values_where_xla_is_promised(name):
    case = CASES[name]
    layer = make(case)
    compiled = tf.function(
        lambda *inputs: layer(*inputs, **case.static), jit_compile=True, autograph=False
    )
    expected = tf.nest.flatten(case.reference(layer, *case.inputs))
    for ours, theirs in zip(flat(case, compiled(*case.inputs)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=5e-6)
