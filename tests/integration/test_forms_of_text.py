"""All forms of text and tokens at every Python entry point: one table of both."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.model.token_mask import TokenMask
from tests.models import small_config

pytestmark = pytest.mark.traced

try:
    import pandas
except ImportError:
    pandas = None

CONFIG = small_config()
WIDTH = CONFIG.input.max_characters_per_token
TEXT = ["The cat sät", "rain", "a\xa0b c"]
TOKENS = [text.split(" ") for text in TEXT]
LENGTHS = list(map(len, TOKENS))
PADDED = [row + [""] * (3 - len(row)) for row in TOKENS]
ENCODED = [text.encode() for text in TEXT]
ENCODED_TOKENS = [[token.encode() for token in row] for row in TOKENS]


class Column:
    """A stand-in for a pandas column, because pandas may not be installed."""

    def __init__(self, values):
        self._values = np.empty(len(values), object)
        self._values[:] = values
        self.shape = self._values.shape

    def __iter__(self):
        return iter(self._values)

    def __array__(self, dtype=None, copy=None):
        return self._values

    def to_list(self):
        return list(self._values)


class Frame:
    """A stand-in for a pandas data frame, whose iterator yields column names."""

    def __init__(self, rows):
        self._values = np.array(rows, object)
        self.shape = self._values.shape

    def __iter__(self):
        return iter(["first", "second"])

    def __array__(self, dtype=None, copy=None):
        return self._values


def uneven(rows):
    """A one-dimensional object array with a list or array per row."""
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


TEXT_FORMS = {
    "list": TEXT,
    "tuple": tuple(TEXT),
    "iterator": lambda: iter(TEXT),
    "bytes": ENCODED,
    "str and bytes": [TEXT[0], *ENCODED[1:]],
    "np.str_": list(np.array(TEXT)),
    "scalar arrays": [np.array(text) for text in TEXT],
    "scalar tensors": [tf.constant(text) for text in TEXT],
    "NumPy U": np.array(TEXT),
    "NumPy S": np.array(ENCODED),
    "NumPy StringDType": np.array(TEXT, np.dtypes.StringDType()),
    "NumPy object": np.array(TEXT, object),
    "tensor": tf.constant(TEXT),
    "column": Column(TEXT),
}
TOKEN_FORMS = {
    "lists": TOKENS,
    "tuples": tuple(map(tuple, TOKENS)),
    "iterators": lambda: iter(list(map(iter, TOKENS))),
    "bytes": ENCODED_TOKENS,
    "rows of NumPy U": [np.array(row) for row in TOKENS],
    "rows of NumPy object": [np.array(row, object) for row in TOKENS],
    "rows of tensors": [tf.constant(row) for row in TOKENS],
    "NumPy U": np.array(PADDED),
    "NumPy object": np.array(PADDED, object),
    "NumPy object of lists": uneven(TOKENS),
    "NumPy object of arrays": uneven(list(map(np.array, TOKENS))),
    "ragged": tf.ragged.constant(TOKENS),
    "tensor": tf.constant(PADDED),
    "column of lists": Column(TOKENS),
    "frame": Frame(PADDED),
}
if pandas is not None:
    TEXT_FORMS["pandas column"] = pandas.Series(TEXT)
    TEXT_FORMS["pandas object column"] = pandas.Series(TEXT, dtype=object)
    TEXT_FORMS["pandas string column"] = pandas.Series(TEXT, dtype="string")
    TEXT_FORMS["pandas category"] = pandas.Series(TEXT, dtype="category")
    TOKEN_FORMS["pandas column of lists"] = pandas.Series(TOKENS)
    TOKEN_FORMS["pandas frame"] = pandas.DataFrame(PADDED)


@pytest.fixture(scope="module")
def encoder():
    encoder = elmo_tf.ElmoEncoder(CONFIG, seed=7)
    rng = np.random.default_rng(3)
    for variable in encoder.bilm.weights:  # with initial weights, outputs hardly depend on inputs
        variable.assign(rng.normal(size=variable.shape, scale=0.6))
    return encoder


@pytest.fixture(scope="module")
def elmo(encoder):
    return elmo_tf.ElmoEmbedding(encoder)


@pytest.fixture(scope="module")
def expected(encoder):
    """The vectors of each sentence, computed from ids, one sentence at a time."""
    ids = [elmo_tf.batch_to_ids([tokens], WIDTH) for tokens in TOKENS]
    return [encoder(each)["elmo"][0].numpy() for each in ids]


# Entry points by name: functions of (encoder, elmo, text) that return `[batch, time, 2 * P]`.
TEXT_ENTRIES = {
    "encoder": lambda encoder, elmo, text: encoder(text)["elmo"],
    "encode_text": lambda encoder, elmo, text: encoder.encode_text(text)["elmo"],
    "ElmoEmbedding": lambda encoder, elmo, text: elmo(text),
    "TokenMask": lambda encoder, elmo, text: TokenMask()(text),
    "embed_sentences": lambda encoder, elmo, text: elmo_tf.embed_sentences(encoder, text),
}
TOKEN_ENTRIES = {
    "encoder": lambda encoder, elmo, tokens: encoder(tokens, sequence_len=LENGTHS)["elmo"],
    "encode_tokens": lambda encoder, elmo, tokens: encoder.encode_tokens(tokens, LENGTHS)["elmo"],
    "ElmoEmbedding": lambda encoder, elmo, tokens: elmo(tokens),
    "TokenMask": lambda encoder, elmo, tokens: TokenMask()(tokens),
    "embed_sentences": lambda encoder, elmo, tokens: elmo_tf.embed_sentences(encoder, tokens),
    "batch_to_ids": lambda encoder, elmo, tokens: encoder(
        elmo_tf.batch_to_ids(tokens, WIDTH), sequence_len=LENGTHS
    )["elmo"],
}


def check(found, expected, entry):
    assert len(found) == len(expected)
    for row, vectors in zip(found, expected, strict=True):
        row = np.asarray(row)
        if entry == "TokenMask":
            assert row.tolist() == [True] * len(vectors) + [False] * (3 - len(vectors))
        else:
            np.testing.assert_allclose(row[: len(vectors)], vectors, atol=2e-6)


@pytest.mark.parametrize("entry", TEXT_ENTRIES)
@pytest.mark.parametrize("form", TEXT_FORMS)
def test_text(encoder, elmo, expected, entry, form):
    text = TEXT_FORMS[form]
    text = text() if callable(text) else text
    check(TEXT_ENTRIES[entry](encoder, elmo, text), expected, entry)


@pytest.mark.parametrize("entry", TOKEN_ENTRIES)
@pytest.mark.parametrize("form", TOKEN_FORMS)
def test_tokens(encoder, elmo, expected, entry, form):
    tokens = TOKEN_FORMS[form]
    tokens = tokens() if callable(tokens) else tokens
    check(TOKEN_ENTRIES[entry](encoder, elmo, tokens), expected, entry)


@pytest.mark.parametrize("entry", TEXT_ENTRIES)
@pytest.mark.parametrize(
    "form", [str, np.str_, str.encode, np.array, tf.constant], ids=lambda form: form.__name__
)
def test_a_single_string_is_a_batch_of_one_text(encoder, elmo, expected, entry, form):
    found = TEXT_ENTRIES[entry](encoder, elmo, form(TEXT[0]))
    check(found, expected[:1], entry)


@pytest.mark.parametrize("entry", sorted({*TEXT_ENTRIES} - {"encode_text"}))
@pytest.mark.parametrize("empty,num_rows", [([], 0), (np.array([], object), 0), ([[]], 1)])
def test_batches_without_tokens(encoder, elmo, entry, empty, num_rows):
    entries = TOKEN_ENTRIES if num_rows else TEXT_ENTRIES
    if num_rows and entry == "encoder":
        found = encoder(empty, sequence_len=[0])["elmo"]
    else:
        found = entries[entry](encoder, elmo, empty)
    assert len(found) == num_rows
    assert all(np.shape(row)[0] == 0 for row in found)


MISSING_TEXT = {
    "None": (["a b", None], "[1]", "None"),
    "NaN": ([float("nan"), "a b"], "[0]", "nan"),
    "NumPy": (np.array(["a b", "c", None], object), "[2]", "None"),
    "NumPy NaN": (np.array(["a b", np.nan], object), "[1]", "nan"),
    "column": (Column(["a b", float("nan")]), "[1]", "nan"),
    "number": (["a b", 3], "[1]", "3"),
    "list": (["bc", ["a", "b"]], "[1]", "['a', 'b']"),
    "dict": ([{"text": "a"}], "[0]", "{'text': 'a'}"),
}
if pandas is not None:
    MISSING_TEXT["pandas"] = (pandas.Series(["a b", None]), "[1]", "nan")
    MISSING_TEXT["pandas string"] = (pandas.Series(["a", None], dtype="string"), "[1]", "<NA>")


def refusal_of(call, *arguments):
    with pytest.raises(InputError) as refused:
        call(*arguments)
    message = str(refused.value)
    assert len(message.splitlines()) == 1 and "\x1b" not in message
    return message


@pytest.mark.parametrize("entry", TEXT_ENTRIES)
@pytest.mark.parametrize("kind", MISSING_TEXT)
def test_wrong_texts_are_named_by_their_position(encoder, elmo, entry, kind):
    text, position, shown = MISSING_TEXT[kind]
    message = refusal_of(TEXT_ENTRIES[entry], encoder, elmo, text)
    assert f"{position} must be text (str or bytes), got {shown}" in message


# Wrong tokens, the error message, and sequence_len where it matters.
WRONG_TOKENS = {
    "None": ([["a"], ["b", None]], "[1][1] must be a token (str or bytes), got None"),
    "NaN": ([["a", float("nan")]], "[0][1] must be a token (str or bytes), got nan"),
    "NumPy": (np.array([["a", None]], object), "[0][1] must be a token (str or bytes), got None"),
    "number": ([["a", 7]], "[0][1] must be a token (str or bytes), got 7"),
    "row": ([["a"], None], "[1] must be a list of tokens, got None"),
    "text": ([["a", "b"], "bc"], "[1] must be a list of tokens, got 'bc'; split it"),
    "depth 3": ([[["a"], ["b"]]], "[0][0] must be a token (str or bytes), got ['a']"),
    "column": (
        [["a b c"], ["d"]],
        "[0][0] must be a token without white space, got 'a b c'; give",
        1,
        1,
    ),
    "tensor": (tf.constant([["d\te"]]), "[0][0] must be a token without white space", 1),
    "frame": (
        Frame([["a"], ["b\n"]]),
        "[1][0] must be a token without white space, got 'b\\n'",
        1,
        1,
    ),
    "not UTF-8": ([[b"a \xff"]], "[0][0] must be a token without white space", 1),
}


@pytest.mark.parametrize("entry", sorted({*TOKEN_ENTRIES} - {"TokenMask"}))
@pytest.mark.parametrize("kind", WRONG_TOKENS)
def test_wrong_tokens_are_named_by_their_position(encoder, elmo, entry, kind):
    tokens, message, *lengths = WRONG_TOKENS[kind]
    calls = {
        **TOKEN_ENTRIES,
        "encoder": lambda encoder, _, tokens: encoder(tokens, sequence_len=lengths),
        "encode_tokens": lambda encoder, _, tokens: encoder.encode_tokens(tokens, lengths),
    }
    assert message in refusal_of(calls[entry], encoder, elmo, tokens)


@pytest.mark.parametrize("entry", ["encoder", "ElmoEmbedding", "embed_sentences", "TokenMask"])
@pytest.mark.parametrize("value", [{"text": ["a"]}, {"a b"}, None, 3.5, object()], ids=type)
def test_what_is_no_text_at_all(encoder, elmo, entry, value):
    message = refusal_of(TEXT_ENTRIES[entry], encoder, elmo, value)
    assert "must be text (str or bytes), or a list of it or of tokens, got " in message


@pytest.mark.parametrize("entry", ["encoder", "ElmoEmbedding", "TokenMask"])
def test_numbers_and_text_are_not_mixed(encoder, elmo, entry):
    for value in ([1, "a"], [[1, 2], [3]]):
        message = refusal_of(TEXT_ENTRIES[entry], encoder, elmo, value)
        assert message.startswith("inputs must be text, tokens, or integers in rows of one length")


def test_padding_may_hold_anything(encoder):
    """`sequence_len` alone decides what is a token."""
    garbage = encoder([["a", "b c"], ["d", "e"]], sequence_len=[1, 2])["elmo"]
    clean = encoder([["a", ""], ["d", "e"]], sequence_len=[1, 2])["elmo"]
    np.testing.assert_array_equal(garbage, clean)


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint8, list, tf.constant])
def test_lengths_of_any_integer_type(encoder, dtype):
    lengths = np.array(LENGTHS, dtype) if isinstance(dtype, type(np.int64)) else dtype(LENGTHS)
    outputs = encoder(PADDED, sequence_len=lengths)
    assert outputs["sequence_len"].numpy().tolist() == LENGTHS
    assert outputs["sequence_len"].dtype == tf.int32


def test_lengths_of_a_ragged_tensor(encoder, expected):
    tokens = tf.ragged.constant(TOKENS)
    assert tokens.row_lengths().dtype == tf.int64
    check(encoder(tokens, sequence_len=tokens.row_lengths())["elmo"], expected, "encoder")


@pytest.mark.parametrize(
    "lengths,message",
    [
        ([1.5, 1, 1], "sequence_len[0] must be an integer, got 1.5"),
        ([1, 1.0, 1], "sequence_len[1] must be an integer, got 1.0"),
        ([1, None, 1], "sequence_len[1] must be an integer, got None"),
        (np.ones(3), "sequence_len[0] must be an integer, got 1.0"),
        (tf.ones([3]), "sequence_len must be integers, got float32"),
        ("abc", "sequence_len[0] must be an integer, got 'abc'"),
        (3, "sequence_len must be a list of integers, got 3"),
        ([1, 1, 4], "(the width of tokens, 3), got 4 for row 2"),
        ([1, -1, 1], "(the width of tokens, 3), got -1 for row 1"),
        ([1], "sequence_len must hold one length for each row of tokens (3), got shape (1,)"),
    ],
)
def test_wrong_lengths(encoder, lengths, message):
    assert message in refusal_of(lambda: encoder(PADDED, sequence_len=lengths))


@pytest.mark.parametrize("num_rows", [1, 2, 4])
@pytest.mark.parametrize("entry", ["encode_text", "encode_tokens", "encode_ids"])
def test_a_state_has_the_rows_of_the_batch(encoder, entry, num_rows):
    arguments = {
        "encode_text": (TEXT,),
        "encode_tokens": (PADDED, LENGTHS),
        "encode_ids": (elmo_tf.batch_to_ids(TOKENS, WIDTH),),
    }[entry]
    state = encoder.zero_state(num_rows)
    call = getattr(encoder, entry)
    message = refusal_of(lambda: call(*arguments, initial_state=state))
    assert message == (
        f"initial_state must have one row for each row of the input (3), got {num_rows}"
    )


def test_a_list_of_words_is_no_string(encoder, tmp_path):
    from elmo_tf.config.inputs import WordInputConfig
    from elmo_tf.model.inputs.words import WordInput
    from export import saved_model

    for argument in ("cached_words", "provenance"):
        message = refusal_of(
            lambda name=argument: saved_model.export(encoder, tmp_path / "e", **{name: "abc"})
        )
        assert message.startswith(f"{argument} must be a list of") and "got 'abc'" in message
    with pytest.raises(InputError, match=r"^cached_words\[1\] must be a word .*, got None"):
        saved_model.export(encoder, tmp_path / "e", cached_words=["a", None])
    with pytest.raises(InputError, match="^vocabulary must be a list of words .*, got 'abc'"):
        WordInput(WordInputConfig(), "abc")


class InGraph:
    """Entry points in a graph, where text is unknown during tracing."""

    def __init__(self, encoder, elmo):
        tokens = tf.TensorSpec([None, None], tf.string)
        lengths = tf.TensorSpec([None], tf.int32)
        self.encoder = tf.function(
            lambda tokens, lengths: encoder(tokens, sequence_len=lengths)["elmo"],
            input_signature=[tokens, lengths],
        )
        self.elmo = tf.function(lambda tokens, _: elmo(tokens), input_signature=[tokens, lengths])


@pytest.fixture(scope="module")
def in_graph(encoder, elmo):
    return InGraph(encoder, elmo)


@pytest.mark.parametrize("entry", ["encoder", "elmo"])
@pytest.mark.parametrize("token", [b"a b", b"\xff\xfe \x80", b"\n", b"a\0\tb", "ü\rx".encode()])
def test_white_space_in_a_graph(in_graph, entry, token):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"white space; give text .* \[batch\]"
    ):
        getattr(in_graph, entry)([[b"c", token]], [2])


@pytest.mark.parametrize("entry", ["encoder", "elmo"])
def test_other_bytes_in_a_graph(in_graph, expected, entry):
    check(getattr(in_graph, entry)(PADDED, LENGTHS), expected, entry)
    getattr(in_graph, entry)([[b"\xff\xfe", b"\0\0", "\u3000\xa0".encode()]], [3])


def test_padding_may_hold_anything_in_a_graph(in_graph):
    assert not in_graph.encoder([["a", "b c"]], [1])[0, 1].numpy().any()


def test_a_single_column_of_text_is_refused_by_keras_inputs(encoder, elmo):
    """Keras's tutorials use it for text; we require `keras.Input([], dtype="string")`."""
    column = keras.Input([1], dtype="string")
    lengths = keras.Input([], dtype="int32")
    for build in (
        lambda: elmo(column),
        lambda: encoder(column, sequence_len=lengths),
        lambda: keras.Sequential([column, elmo]),
    ):
        assert 'keras.Input([], dtype="string")' in refusal_of(build)


def classifier(encoder, shape):
    model = keras.Sequential(
        [
            keras.Input(shape, dtype="string"),
            elmo_tf.ElmoEmbedding(encoder, trainable="none"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def test_a_model_of_text_takes_a_column_as_text(encoder, expected):
    """Keras drops the second dimension of `[batch, 1]` if the input has none."""
    model = classifier(encoder, [])
    column = tf.constant(TEXT)[:, tf.newaxis]
    model.fit(column, np.ones([3, 1]), verbose=0)
    means = np.stack([vectors.mean(axis=0) for vectors in expected])
    (_, _, dense) = model.layers
    by_hand = means @ dense.kernel.numpy() + dense.bias.numpy()
    np.testing.assert_allclose(model.predict(column, verbose=0), by_hand, atol=2e-6)


def test_a_model_of_tokens_refuses_a_column_of_text(encoder):
    column = tf.constant(TEXT)[:, tf.newaxis]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a token holds white space"):
        classifier(encoder, [None]).fit(column, np.ones([3, 1]), verbose=0)


@pytest.mark.traced
def test_ids_of_int32_need_no_cast_that_litert_lacks(encoder):
    traced = tf.function(lambda ids: encoder.encode_ids(ids, static_shapes=True)["elmo"])
    graph = traced.get_concrete_function(tf.TensorSpec([None, None, WIDTH], tf.int32)).graph
    assert "ClipByValue" not in {operation.type for operation in graph.get_operations()}
