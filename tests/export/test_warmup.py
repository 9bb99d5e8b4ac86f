"""Warm-up requests, read with TensorFlow Serving's own classes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from elmo_tf.export import warmup


def read(path):
    """(signature, inputs) of each request."""
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        yield request.model_spec.signature_name, inputs


@pytest.mark.parametrize("length", [1, 127, 128, 20_000])  # one, one, two and three bytes of length
def test_requests_are_those_that_were_written(tmp_path, length):
    requests = {
        "default": {"text": tf.constant(["a" * length, "b"])},
        "tokens": {
            "tokens": tf.constant([["c", "d"]]),
            "sequence_len": tf.constant([2], tf.int32),
        },
    }
    warmup.write(tmp_path / "requests", requests)
    found = dict(read(tmp_path / "requests"))
    assert list(found) == list(requests)
    for signature, inputs in requests.items():
        assert set(found[signature]) == set(inputs)
        for name, tensor in inputs.items():
            np.testing.assert_array_equal(found[signature][name], tensor)
            assert found[signature][name].dtype in (tensor.numpy().dtype, object)


def test_every_signature_of_an_export_answers_its_request(exported):
    path = exported / "assets.extra" / warmup.FILE
    model = tf.saved_model.load(str(exported))
    requests = dict(read(path))
    assert set(requests) == set(model.signatures)
    for name, inputs in requests.items():
        outputs = model.signatures[name](**{key: tf.constant(x) for key, x in inputs.items()})
        assert np.isfinite(outputs["elmo"]).all()
        assert outputs["elmo"].shape[0] == 1
