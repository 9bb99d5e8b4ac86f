"""Text in every Python form becomes the same tensor."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.model.inputs.arguments import as_tensor

TEXT = ["a b", "", "c\xa0ü"]
TEXT_BYTES = [b"a b", b"", b"c\xc2\xa0\xc3\xbc"]
TOKENS = [["a", "ü", "c"], [], [b"d"]]
TOKEN_BYTES = [[b"a", b"\xc3\xbc", b"c"], [b"", b"", b""], [b"d", b"", b""]]


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        tuple(TEXT),
        TEXT_BYTES,
        np.array(TEXT),
        np.array(TEXT, object),
        np.array(TEXT_BYTES, object),
        np.array(TEXT_BYTES),
        tf.constant(TEXT),
    ],
    ids=str,
)
def test_text(text):
    tensor = as_tensor(text)
    assert (tensor.dtype, tensor.shape) == (tf.string, [3])
    assert list(tensor.numpy()) == TEXT_BYTES


@pytest.mark.parametrize(
    "tokens",
    [
        TOKENS,
        tuple(map(tuple, TOKENS)),
        np.array([["a", "ü", "c"], [""] * 3, ["d", "", ""]]),
        np.array([["a", "ü", "c"], [""] * 3, ["d", "", ""]], object),
        tf.ragged.constant([["a", "ü", "c"], [], ["d"]]),
        tf.constant(TOKEN_BYTES),
    ],
    ids=str,
)
def test_tokens_are_filled_up_to_one_width(tokens):
    tensor = as_tensor(tokens)
    assert tensor.dtype == tf.string
    assert tensor.numpy().tolist() == TOKEN_BYTES


def test_strings_that_tensorflow_refuses():
    text = ["a\udcff", "b\ud800c"]  # an invalid UTF-8 byte, and half of a surrogate pair
    assert list(as_tensor(text).numpy()) == [b"a\xff", b"bc"]
    assert as_tensor([text, ["d"]]).numpy().tolist() == [[b"a\xff", b"bc"], [b"d", b""]]
    assert list(as_tensor(np.array(text, object)).numpy()) == [b"a\xff", b"bc"]


@pytest.mark.parametrize("empty,shape", [([], [0]), ([[]], [1, 0]), ([[], []], [2, 0])])
def test_lists_without_strings_are_strings(empty, shape):
    tensor = as_tensor(empty)
    assert (tensor.dtype, tensor.shape) == (tf.string, shape)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_integers_become_int32(dtype):
    tensor = as_tensor(np.full([2, 3, 5], 7, dtype))
    assert (tensor.dtype, tensor.shape) == (tf.int32, [2, 3, 5])


def test_other_things_stay_what_they_are():
    assert as_tensor(np.ones([2, 3])).dtype == tf.float64
    assert as_tensor(tf.ones([2, 3])).dtype == tf.float32
