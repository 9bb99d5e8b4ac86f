"""Converts a layer's arguments from any Python form to tensors; errors name the position."""

from typing import Any

import keras
import tensorflow as tf

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.text import forms

# In RE2, `.` matches a UTF-8 character and `\\C` a byte.
_HOLDS_WHITE_SPACE = r"\C*[ \t\n\v\f\r]\C*"
_NO_WHITE_SPACE = (
    "a token holds white space; give text as strings [batch], not [batch, 1], or split it into "
    "tokens"
)


def as_tensor(inputs: Any, name: str = "inputs") -> tf.Tensor:
    """Text, tokens or ids as a tensor.

    Args:
      inputs: text or tokens in any form that `elmo_tf.text.forms` lists; integers in any form; or a
        tensor, which may be ragged.
      name: name of the argument in errors.

    Returns:
      Strings as bytes (see `forms.token_bytes`), with rows padded with "" to one width; a single
      string as a batch of one; integers as int32, with ragged rows padded with 0; tensors of other
      dtypes unchanged.

    Raises:
      InputError: the argument has none of these forms; or an element is wrong, and the message
        names its position.
    """
    if isinstance(inputs, tf.RaggedTensor):
        inputs = inputs.to_tensor()
    elif not tf.is_tensor(inputs):
        inputs = _tensor_of_values(inputs, name)
    if inputs.dtype == tf.float32 and inputs.shape.num_elements() == 0:
        inputs = tf.as_string(inputs)  # TensorFlow makes floats of lists without any string
    if inputs.dtype == tf.string and inputs.shape.rank == 0:
        return inputs[tf.newaxis]
    return _as_int32(inputs) if inputs.dtype.is_integer else inputs


def _tensor_of_values(inputs: Any, name: str) -> tf.Tensor:
    if forms.is_numbers(inputs) or _holds_symbolic_tensors(inputs):
        try:
            return tf.convert_to_tensor(inputs)
        except (TypeError, ValueError):
            allowed = "text, tokens, or integers in rows of one length"
            raise checks.refusal(name, allowed, inputs) from None
    rows = forms.strings(inputs, name)
    if not rows or not isinstance(rows[0], list):
        return tf.constant(rows, tf.string, [len(rows)])
    width = max(map(len, rows))
    rows = [row + [b""] * (width - len(row)) for row in rows]
    return tf.constant(rows, tf.string, [len(rows), width])  # dtype and shape for empty lists


def _holds_symbolic_tensors(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and any(
        tf.is_tensor(each) and tf.is_symbolic_tensor(each) for each in inputs
    )


def text_argument(text: Any) -> tf.Tensor:
    """Raw text as string `[batch]`.

    Raises:
      InputError: `text` has another form, or an element is wrong.
    """
    tensor = as_tensor(text, "text")
    if tensor.dtype != tf.string or tensor.shape.rank != 1:
        raise _wrong_shape("text", "strings [batch]", tensor)
    return tensor


def tokens_argument(tokens: Any, sequence_len: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens as string `[batch, max_tokens]`, and the number of tokens per row, int32 `[batch]`.

    Raises:
      InputError: an argument has another form, the two do not fit each other, or a token contains
        white space. In a graph, values are checked when it runs, with InvalidArgumentError.
    """
    tensor = as_tensor(tokens, "tokens")
    if tensor.dtype != tf.string or tensor.shape.rank != 2:
        raise _wrong_shape("tokens", "strings [batch, max_tokens]", tensor)
    lengths = lengths_argument(sequence_len, tensor)
    return refuse_white_space(tensor, lengths, "tokens"), lengths


def lengths_argument(sequence_len: Any, tokens: tf.Tensor) -> tf.Tensor:
    """`sequence_len` as int32 `[batch]`; in a graph, values are not checked here.

    Raises:
      InputError: it is not one integer per row of tokens, from 0 to their width.
    """
    lengths = _as_lengths(sequence_len)
    if _is_value(lengths) and _is_value(tokens):
        batch, width = tokens.shape[:2]
        if lengths.shape != [batch]:
            message = f"sequence_len must hold one length for each row of tokens ({batch})"
            raise InputError(f"{message}, got shape {lengths.shape}")
        for index, length in enumerate(lengths.numpy().tolist()):
            if not 0 <= length <= width:
                raise InputError(
                    "sequence_len must be from 0 to the number of tokens in a row (the width of "
                    f"tokens, {width}), got {length} for row {index}"
                )
    return lengths


def state_argument(state: Any, inputs: tf.Tensor) -> Any:
    """An LSTM state with one row for each row of `inputs`, or None.

    Raises:
      InputError: the numbers of rows differ. In a graph with unknown sizes, it raises
        InvalidArgumentError when it runs.
    """
    if state is None:
        return None
    message = "initial_state must have one row for each row of the input"
    checked = []
    for part in map(tf.convert_to_tensor, tf.nest.flatten(state)):
        if part.shape[0] is not None and inputs.shape[0] is not None:
            if part.shape[0] != inputs.shape[0]:
                raise InputError(f"{message} ({inputs.shape[0]}), got {part.shape[0]}")
        else:
            check = tf.debugging.assert_equal(tf.shape(part)[0], tf.shape(inputs)[0], message)
            with tf.control_dependencies([check]):
                part = tf.identity(part)
        checked.append(part)
    return tf.nest.pack_sequence_as(state, checked)


def refuse_white_space(tokens: tf.Tensor, lengths: tf.Tensor | None, name: str) -> tf.Tensor:
    """Returns `tokens` after a check that none contains ASCII white space.

    Args:
      tokens: string `[batch, max_tokens]`.
      lengths: int32 `[batch]`, number of tokens to check in each row; None for all.
      name: name of the argument in errors.

    Raises:
      InputError: a token contains white space. A graph raises InvalidArgumentError when it runs.
    """
    if _is_value(tokens) and (lengths is None or _is_value(lengths)):
        rows = tokens.numpy().tolist()
        if lengths is not None:
            rows = [row[:n] for row, n in zip(rows, lengths.numpy(), strict=True)]
        forms.check_white_space(rows, name)
        return tokens
    found = tf.strings.regex_full_match(tokens, _HOLDS_WHITE_SPACE)
    if lengths is not None:
        found &= tf.sequence_mask(lengths, tf.shape(tokens)[1])
    check = tf.debugging.Assert(tf.logical_not(tf.reduce_any(found)), [_NO_WHITE_SPACE])
    with tf.control_dependencies([check]):
        return tf.identity(tokens)


def refuse_single_column(inputs: keras.KerasTensor, owner: str) -> None:
    """Refuses `keras.Input([1], dtype="string")`, which tutorials use for text.

    Raises:
      InputError: the input is such a column; the message says what to use.
    """
    shape = tuple(inputs.shape)
    if keras.backend.standardize_dtype(inputs.dtype) == "string" and shape[1:] == (1,):
        raise InputError(
            f"{owner}: inputs must be strings [batch] for text, as of "
            'keras.Input([], dtype="string"), or [batch, time] for tokens, as of '
            f'keras.Input([None], dtype="string"), got shape {shape}'
        )


def _as_lengths(sequence_len: Any) -> tf.Tensor:
    if not tf.is_tensor(sequence_len):
        if _holds_symbolic_tensors(sequence_len):
            sequence_len = tf.stack(sequence_len)
        else:
            sequence_len = tf.constant(forms.integers(sequence_len, "sequence_len"), tf.int64)
    if not sequence_len.dtype.is_integer:
        raise InputError(f"sequence_len must be integers, got {sequence_len.dtype.name}")
    return _as_int32(sequence_len)


def _as_int32(integers: tf.Tensor) -> tf.Tensor:
    """Clips instead of wrapping around: a number beyond int32 must not become a valid one."""
    # A cast of int32 to int32 would add an operation that LiteRT lacks.
    return integers if integers.dtype == tf.int32 else tf.saturate_cast(integers, tf.int32)


def _is_value(tensor: tf.Tensor) -> bool:
    return not tf.is_symbolic_tensor(tensor)


def _wrong_shape(name: str, allowed: str, tensor: tf.Tensor) -> InputError:
    got = f"{tensor.dtype.name} of shape {tensor.shape}"
    return InputError(f"{name} must be {allowed}, got {got}")
