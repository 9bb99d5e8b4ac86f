"""Answers JSON bodies like TensorFlow Serving's REST interface: PATH BODIES.

Each line of the file BODIES is the body of a request; stdout gets one line per answer, with "error"
for status 400. As in the server, the SignatureDef determines inputs and outputs.
Rules: https://www.tensorflow.org/tfx/serving/api_rest and util/json_tensor.cc of the server.
"""

import base64
import json
import pathlib
import sys

import guard

guard.refuse("elmo_tf", "export", "tensorflow_hub", "tensorflow_text", "tf_keras")

import numpy as np
import tensorflow as tf


class BadRequestError(Exception):
    """The server's error about a body."""


def decode(item):
    """Decodes {"b64": ...}, the form of bytes that are not text."""
    return base64.b64decode(item["b64"]) if set(item) == {"b64"} else item


def columns_of_rows(rows, names):
    """Inputs by name, from "instances": values of the only input, or one object per row."""
    if not rows:
        raise BadRequestError("no values in 'instances'")
    if not isinstance(rows[0], dict):
        if len(names) > 1:
            raise BadRequestError("instances is a plain list, but there are several inputs")
        return {names[0]: rows}
    if any(set(row) != set(names) for row in rows):
        raise BadRequestError(f"keys must be equal to: {','.join(names)}")
    return {name: [row[name] for row in rows] for name in names}


def columns_of_inputs(inputs, names):
    """Inputs by name, from "inputs": the only input, or an object."""
    if isinstance(inputs, dict):
        if not set(names) <= set(inputs):
            raise BadRequestError("missing named input")
        return {name: inputs[name] for name in names}
    if len(names) > 1:
        raise BadRequestError("inputs is a plain value, but there are several inputs")
    return {names[0]: inputs}


def dense(values, dtype):
    """An array; refuses rows of different lengths and elements of a wrong type."""
    is_text = dtype == tf.string
    array = np.array(values, object)
    kinds = (str, bytes) if is_text else (int,)
    if any(not isinstance(value, kinds) for value in array.ravel()):
        raise BadRequestError("expecting tensors of one shape and type")
    return array if is_text else array.astype(dtype.as_numpy_dtype)


def as_json(array):
    """Nested lists."""
    assert array.dtype in (np.float32, np.int32), array.dtype
    return array.tolist()


def rows_of(outputs, num_rows):
    """The answer to "instances"; all outputs must have one row per instance."""
    if any(array.shape[:1] != (num_rows,) for array in outputs.values()):
        raise BadRequestError("inconsistent batch size")
    columns = {name: as_json(array) for name, array in outputs.items()}
    if len(columns) == 1:
        return next(iter(columns.values()))
    return [{name: column[row] for name, column in columns.items()} for row in range(num_rows)]


def answer(session, signatures, body):
    """The answer to one body."""
    request = json.loads(body, object_hook=decode)
    signature = signatures[request.get("signature_name", "serving_default")]
    names, by_row = sorted(signature.inputs), "instances" in request
    if by_row == ("inputs" in request):
        raise BadRequestError("expecting one of 'inputs' or 'instances'")
    if by_row:
        columns = columns_of_rows(request["instances"], names)
    else:
        columns = columns_of_inputs(request["inputs"], names)
    feeds = {
        signature.inputs[name].name: dense(column, tf.as_dtype(signature.inputs[name].dtype))
        for name, column in columns.items()
    }
    outputs = session.run({k: info.name for k, info in signature.outputs.items()}, feeds)
    if by_row:
        return {"predictions": rows_of(outputs, len(request["instances"]))}
    arrays = {name: as_json(array) for name, array in outputs.items()}
    return {"outputs": arrays if len(arrays) > 1 else next(iter(arrays.values()))}


path, bodies = sys.argv[1:]
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    graph = tf.compat.v1.saved_model.load(session, ["serve"], path)
    for line in pathlib.Path(bodies).read_text(encoding="ascii").splitlines():
        try:
            print(json.dumps(answer(session, graph.signature_def, line)))
        except (BadRequestError, tf.errors.InvalidArgumentError) as error:
            print(json.dumps({"error": str(error)}))
