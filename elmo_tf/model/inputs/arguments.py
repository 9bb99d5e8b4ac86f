"""What users hand to a layer, in any of Python's forms, as tensors; mistakes by their position."""

from typing import Any

import keras
import tensorflow as tf

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.text import forms

# RE2 takes `.` for a character of UTF-8 and `\\C` for a byte, whatever the text is.
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
      name: what errors call them.

    Returns:
      Strings as their bytes (see `forms.token_bytes`), rows padded with "" to one width; a single
      string as a batch of one; integers as int32, ragged ones padded with 0; tensors of other
      types as they are.

    Raises:
      InputError: an element is wrong, with its position, or nothing of the above came.
    """
    if isinstance(inputs, tf.RaggedTensor):
        inputs = inputs.to_tensor()
    elif not tf.is_tensor(inputs):
        inputs = _tensor_of_values(inputs, name)
    if inputs.dtype == tf.float32 and inputs.shape.num_elements() == 0:
        inputs = tf.as_string(inputs)  # what TensorFlow makes of lists without any string
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
    return tf.constant(rows, tf.string, [len(rows), width])  # without strings it had no type


def _holds_symbolic_tensors(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and any(
        tf.is_tensor(each) and tf.is_symbolic_tensor(each) for each in inputs
    )


def text_argument(text: Any) -> tf.Tensor:
    """Raw text as string `[batch]`.

    Raises:
      InputError: `text` is anything else, or an element is wrong.
    """
    tensor = as_tensor(text, "text")
    if tensor.dtype != tf.string or tensor.shape.rank != 1:
        raise _wrong_shape("text", "strings [batch]", tensor)
    return tensor


def tokens_argument(tokens: Any, sequence_len: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens as string `[batch, max_tokens]`, and how many of each row are real, int32 `[batch]`.

    Raises:
      InputError: either is anything else, they don't fit each other, or a real token holds white
        space. Tensors of a graph are checked when it runs, with InvalidArgumentError.
    """
    tensor = as_tensor(tokens, "tokens")
    if tensor.dtype != tf.string or tensor.shape.rank != 2:
        raise _wrong_shape("tokens", "strings [batch, max_tokens]", tensor)
    lengths = lengths_argument(sequence_len, tensor)
    return refuse_white_space(tensor, lengths, "tokens"), lengths


def lengths_argument(sequence_len: Any, tokens: tf.Tensor) -> tf.Tensor:
    """`sequence_len` as int32 `[batch]`; values of a graph are not checked here.

    Raises:
      InputError: it is not one integer for each row of tokens, from 0 to their width.
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
    """An LSTM state, unless None with a row for each row of `inputs`.

    Raises:
      InputError: it has more or fewer rows. In a graph where sizes are not known it is
        InvalidArgumentError, when it runs.
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
    """`tokens` themselves, none of which holds ASCII white space.

    Args:
      tokens: string `[batch, max_tokens]`.
      lengths: int32 `[batch]`, how many of each row are checked; None for all.
      name: what errors call the tokens.

    Raises:
      InputError: a token holds white space. In a graph it is InvalidArgumentError, when it runs.
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
      InputError: with what to use.
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
    """Clipped, not wrapped around: a number beyond int32 must not become another valid one."""
    # The cast would add an operation that LiteRT lacks, even where there is nothing to clip.
    return integers if integers.dtype == tf.int32 else tf.saturate_cast(integers, tf.int32)


def _is_value(tensor: tf.Tensor) -> bool:
    return not tf.is_symbolic_tensor(tensor)


def _wrong_shape(name: str, allowed: str, tensor: tf.Tensor) -> InputError:
    got = f"{tensor.dtype.name} of shape {tensor.shape}"
    return InputError(f"{name} must be {allowed}, got {got}")
