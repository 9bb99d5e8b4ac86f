"""Warm-up requests, which TensorFlow Serving sends to a model before it reports it as loaded.

The first call of a signature takes about a second, because TensorFlow then optimizes its graph.
With these requests no client waits for that. The file is a TFRecord of `PredictionLog` messages at
`assets.extra/tf_serving_warmup_requests`, see
https://www.tensorflow.org/tfx/serving/saved_model_warmup.

We encode the messages here, because they need only five fields and the package with TensorFlow
Serving's message classes depends on gRPC.
"""

import os
from collections.abc import Mapping

import tensorflow as tf

FILE = "tf_serving_warmup_requests"

# Field numbers of tensorflow_serving/apis/{prediction_log,predict,model}.proto.
_PREDICT_LOG = 6  # of PredictionLog
_REQUEST = 1  # of PredictLog
_MODEL_SPEC, _INPUTS = 1, 2  # of PredictRequest
_SIGNATURE_NAME = 3  # of ModelSpec
_KEY, _VALUE = 1, 2  # of an entry of a map
_LENGTH_DELIMITED = 2  # wire type of strings and messages


def write(path: str | os.PathLike, requests: Mapping[str, Mapping[str, tf.Tensor]]) -> None:
    """Writes the file.

    Args:
      path: the file; TensorFlow Serving expects `assets.extra/tf_serving_warmup_requests`.
      requests: by the name of a signature, its inputs by name.
    """
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for signature, inputs in requests.items():
            writer.write(_prediction_log(signature, inputs))


def _prediction_log(signature: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
    request = _field(_MODEL_SPEC, _field(_SIGNATURE_NAME, signature.encode()))
    for name, tensor in inputs.items():
        value = tf.make_tensor_proto(tensor).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, name.encode()) + _field(_VALUE, value))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """One field of a protocol buffer: its key, the length of its content, its content."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits per byte, lowest first; the high bit means that another byte follows."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
