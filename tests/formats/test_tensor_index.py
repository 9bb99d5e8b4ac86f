"""Indexes of checkpoints are checked first, because some make TensorFlow abort the process."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.formats import tensor_index
from elmo_tf.formats.checkpoint import CheckpointFile, DamagedCheckpointError
from tests.formats.tensor_tables import entry, index, masked_crc

VALUES = np.float32([1, 2])


def write(folder, content):
    (folder / "m.index").write_bytes(content)
    (folder / "m.data-00000-of-00001").write_bytes(VALUES.tobytes())
    return folder / "m"


def error_of(prefix):
    with pytest.raises(DamagedCheckpointError) as caught:
        CheckpointFile(prefix)
    start = f"{prefix}: damaged or truncated checkpoint: "
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(start)


def test_tensorflow_reads_what_the_tests_write(tmp_path):
    prefix = write(tmp_path, index({"x": entry(crc=masked_crc(VALUES.tobytes()))}))
    assert CheckpointFile(prefix).stored_arrays()["x"].read().tolist() == [1, 2]


def test_every_name_type_and_shape(tmp_path):
    """An index of several blocks with prefix-compressed keys."""
    rng = np.random.default_rng(2)
    arrays = {
        f"a/{i % 7}/{i}": np.zeros(rng.integers(0, 4, i % 5), "fdil"[i % 4]) for i in range(5000)
    }
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "m"),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=list(arrays.values()),
    )
    found = tensor_index.read_index(tmp_path / "m.index")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name] == (tf.as_dtype(array.dtype).as_datatype_enum, array.shape)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (entry(shape=[-2]), "'x' has the impossible shape [-2]"),
        (entry(shape=[1 << 40, 1 << 40]), "'x' has the impossible shape [1099511627776, 10995"),
        (entry(shape=[1] * 300), "'x' has the impossible shape [1, 1, 1, "),
        (entry(has_unknown_rank=True), "an array of its index has an unknown shape"),
        (entry(kind=0), "'x' has the type 0, which is not a TensorFlow type"),
        (entry(kind=99), "'x' has the type 99, which is not a TensorFlow type"),
        (entry(kind=101), "'x' has the type 101, which is not a TensorFlow type"),
        (b"\xff" * 20, "its index is truncated or changed"),
        (b"\x07", "its index is truncated or changed"),
        (b"\x12\x7f", "its index is truncated or changed"),
    ],
)
def test_what_would_end_the_process(tmp_path, content, message):
    """TensorFlow 2.21 aborts on the first three and on values that are not messages."""
    assert message in error_of(write(tmp_path, index({"x": content})))


def test_a_compressed_index(tmp_path):
    prefix = write(tmp_path, index({"x": entry()}, compression=1))
    assert error_of(prefix) == "its index is compressed, unlike TensorFlow's"


def test_every_change_of_an_index_is_one_of_three(tmp_path):
    """We refuse it, TensorFlow refuses it, or it has no effect; the process survives."""
    entries = {f"a/{i}": entry(shape=[2, 3], size=24, offset=24 * i) for i in range(20)}
    content = index(entries)
    rng = np.random.default_rng(4)
    num_refused = 0
    for number in range(400):
        changed = bytearray(content)
        start = int(rng.integers(len(content)))
        changed[start : start + int(rng.integers(1, 9))] = rng.bytes(int(rng.integers(0, 9)))
        if number % 4 == 0:
            changed = changed[: int(rng.integers(len(changed)))]
        (tmp_path / "m.index").write_bytes(changed)
        try:
            CheckpointFile(tmp_path / "m")
        except DamagedCheckpointError:
            num_refused += 1
    assert num_refused > 350
