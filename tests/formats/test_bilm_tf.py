import dataclasses
import os
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config.model import CharCnnConfig, ElmoConfig, LstmConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf
from elmo_tf.model.variables import named_variables

CONFIG = ElmoConfig(
    CharCnnConfig(
        embedding_dim=4,
        filters=((1, 3), (2, 5), (4, 6)),
        num_highway_layers=2,
        max_characters_per_token=9,
    ),
    LstmConfig(dim=11, projection_dim=7, num_layers=3),
)
VARIANTS = {
    "full": CONFIG,
    "one layer": dataclasses.replace(CONFIG, lstm=LstmConfig(13, 5, num_layers=1)),
    "no highway": dataclasses.replace(
        CONFIG, input=dataclasses.replace(CONFIG.input, num_highway_layers=0)
    ),
    "no LSTM projection": dataclasses.replace(CONFIG, lstm=LstmConfig(9, 9)),
    "filters equal projection": dataclasses.replace(CONFIG, lstm=LstmConfig(17, 14)),
}
every_variant = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())


def random_arrays(config, seed=0, vocabulary_size=None):
    rng = np.random.default_rng(seed)
    return {
        entry.name: rng.normal(size=entry.shape).astype(np.float32)
        for entry in bilm_tf.table(config, vocabulary_size)
    }


def write_raw(path, arrays):
    """Writes a file without our code, so that it can be wrong."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def error_of(path, config=CONFIG):
    with pytest.raises(InputError) as caught:
        bilm_tf.read_weights(path, config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def assert_same_bits(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype == np.float32
        assert array.shape == right[name].shape
        assert array.tobytes() == right[name].tobytes(), name


# The table.


def test_names_and_shapes_are_those_of_bilm_tf():
    assert bilm_tf.expected_shapes(CONFIG) == {
        "char_embed": (261, 4),
        "CNN/W_cnn_0": (1, 1, 4, 3),
        "CNN/b_cnn_0": (3,),
        "CNN/W_cnn_1": (1, 2, 4, 5),
        "CNN/b_cnn_1": (5,),
        "CNN/W_cnn_2": (1, 4, 4, 6),
        "CNN/b_cnn_2": (6,),
        **{
            f"CNN_high_{i}/{name}": shape
            for i in range(2)
            for name, shape in {
                "W_carry": (14, 14),
                "b_carry": (14,),
                "W_transform": (14, 14),
                "b_transform": (14,),
            }.items()
        },
        "CNN_proj/W_proj": (14, 7),
        "CNN_proj/b_proj": (7,),
        **{
            f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}": shape
            for direction in range(2)
            for layer in range(3)
            for name, shape in {"W_0": (14, 44), "B": (44,), "W_P_0": (11, 7)}.items()
        },
    }


def test_what_a_variant_lacks():
    full = bilm_tf.expected_shapes(CONFIG).keys()

    def lacks(name):
        return {n.split("/")[0] for n in full - bilm_tf.expected_shapes(VARIANTS[name]).keys()}

    assert lacks("no highway") == {"CNN_high_0", "CNN_high_1"}
    assert lacks("filters equal projection") == {"CNN_proj", "RNN_0", "RNN_1"}  # has two layers
    assert not any("W_P_0" in n for n in bilm_tf.expected_shapes(VARIANTS["no LSTM projection"]))
    assert not any("Cell1" in name for name in bilm_tf.expected_shapes(VARIANTS["one layer"]))


def test_each_number_of_ours_lies_where_theirs_does():
    theirs = random_arrays(CONFIG, vocabulary_size=17)
    ours = bilm_tf.from_bilm_tf(CONFIG, theirs)
    for direction, stack in enumerate(("forward", "backward")):
        for layer in range(3):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            path = f"bilm.{stack}_{layer}"
            joint = theirs[f"{name}/W_0"]
            np.testing.assert_array_equal(ours[f"{path}.input_kernel"], joint[:7].transpose())
            np.testing.assert_array_equal(ours[f"{path}.recurrent_kernel"], joint[7:].transpose())
            np.testing.assert_array_equal(ours[f"{path}.bias"], theirs[f"{name}/B"])
            np.testing.assert_array_equal(
                ours[f"{path}.projection_kernel"], theirs[f"{name}/W_P_0"].transpose()
            )
    for i in range(3):
        np.testing.assert_array_equal(
            ours[f"char_cnn.convolution_kernel_{i}"], theirs[f"CNN/W_cnn_{i}"][0]
        )
        np.testing.assert_array_equal(
            ours[f"char_cnn.convolution_bias_{i}"], theirs[f"CNN/b_cnn_{i}"]
        )
    for path, name in {
        "char_cnn.embedding": "char_embed",
        "char_cnn.highway_0.gate_bias": "CNN_high_0/b_carry",
        "char_cnn.highway_1.candidate_bias": "CNN_high_1/b_transform",
        "char_cnn.projection_kernel": "CNN_proj/W_proj",
        "char_cnn.projection_bias": "CNN_proj/b_proj",
        "softmax.kernel": "softmax/W",
        "softmax.bias": "softmax/b",
    }.items():
        np.testing.assert_array_equal(ours[path], theirs[name])
    for path, name in {
        "char_cnn.highway_0.gate_matrix": "CNN_high_0/W_carry",
        "char_cnn.highway_1.candidate_matrix": "CNN_high_1/W_transform",
    }.items():
        np.testing.assert_array_equal(ours[path], theirs[name].transpose())
    assert len(ours) == 1 + 3 * 2 + 2 * 4 + 2 + 2 * 3 * 4 + 2


@every_variant
@pytest.mark.parametrize("vocabulary_size", [None, 19])
def test_there_and_back_is_equal_bit_for_bit(config, vocabulary_size):
    theirs = random_arrays(config, vocabulary_size=vocabulary_size)
    ours = bilm_tf.from_bilm_tf(config, theirs)
    assert all(array.flags.c_contiguous for array in ours.values())
    assert_same_bits(bilm_tf.to_bilm_tf(config, ours.get, vocabulary_size), theirs)


def test_arrays_that_do_not_make_the_published_ones():
    ours = bilm_tf.from_bilm_tf(CONFIG, random_arrays(CONFIG))
    ours["bilm.forward_0.recurrent_kernel"] = np.zeros((44, 8))
    del ours["char_cnn.embedding"]
    with pytest.raises(InputError) as caught:
        bilm_tf.to_bilm_tf(CONFIG, ours.get)
    assert str(caught.value) == (
        "variables do not fit the configuration: there is no char_cnn.embedding; "
        "bilm.forward_0.input_kernel with bilm.forward_0.recurrent_kernel gives "
        "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0 [15, 44], must be [14, 44]"
    )


def test_arrays_that_do_not_fit_the_configuration():
    arrays = random_arrays(CONFIG)
    del arrays["char_embed"]
    arrays["CNN/b_cnn_1"] = np.zeros(4)
    with pytest.raises(InputError) as caught:
        bilm_tf.from_bilm_tf(CONFIG, arrays)
    assert str(caught.value) == (
        "weights: does not fit its options: missing: char_embed [261, 4]; "
        "wrong shape: CNN/b_cnn_1 is [4], must be [5]"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("char_embed", "char_embed"),
        ("lm/char_embed:0", "char_embed"),
        ("lm/CNN/W_cnn_0:0", "CNN/W_cnn_0"),
        (
            "RNN_1/RNN/MultiRNNCell/Cell12/LSTMCell/W_P_0",
            "RNN_1/RNN/MultiRNNCell/Cell12/LSTMCell/W_P_0",
        ),
        ("RNN_0/RNN/LSTMCell/W_0", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"),
        ("RNN_1/RNN/LSTMCell/B", "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/B"),
        ("RNN_1/rnn/lstm_cell/bias", "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/B"),
        (
            "lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel:0",
            "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_0",
        ),
        (
            "RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel",
            "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0",
        ),
        ("RNN_2/RNN/LSTMCell/B", "RNN_2/RNN/LSTMCell/B"),
        ("RNN_0/RNN/LSTMCell/W_1", "RNN_0/RNN/LSTMCell/W_1"),
        ("other/RNN_0/RNN/LSTMCell/B", "other/RNN_0/RNN/LSTMCell/B"),
    ],
)
def test_current_name(name, expected):
    assert bilm_tf.current_name(name) == expected


# Files.


@every_variant
@pytest.mark.parametrize("vocabulary_size", [None, 19])
def test_read_write_read(config, vocabulary_size, tmp_path):
    arrays = random_arrays(config, vocabulary_size=vocabulary_size)
    arrays["char_embed"].view(np.uint32)[0, :3] = [0x7FC00001, 0xFF800001, 0x80000000]  # NaNs, -0
    write_raw(tmp_path / "1.hdf5", arrays)
    read = bilm_tf.read_weights(tmp_path / "1.hdf5", config)
    assert_same_bits(read, arrays)
    bilm_tf.write_weights(tmp_path / "2.hdf5", read, config)
    assert_same_bits(bilm_tf.read_weights(tmp_path / "2.hdf5", config), arrays)
    bilm_tf.write_weights(tmp_path / "3.hdf5", dict(reversed(read.items())), config)
    assert (tmp_path / "2.hdf5").read_bytes() == (tmp_path / "3.hdf5").read_bytes()


def test_fixtures_read_write_read(fixtures_dir, tmp_path):
    weight_files = sorted(fixtures_dir.glob("**/model/lm_weights.hdf5"))
    assert len(weight_files) == 13
    for path in weight_files:
        config = ElmoConfig.from_file(path.parent / "options.json")
        arrays = bilm_tf.read_weights(path, config)
        with h5py.File(path) as file:
            assert_same_bits(arrays, {name: file[name][...] for name in arrays})
        bilm_tf.write_weights(tmp_path / "w.hdf5", arrays, config)
        assert_same_bits(bilm_tf.read_weights(tmp_path / "w.hdf5", config), arrays)


def test_training_fixture_has_the_same_arrays_under_other_names(fixtures_dir):
    config = ElmoConfig.from_file(fixtures_dir / "training" / "training_options.json")
    with h5py.File(fixtures_dir / "training" / "trajectory.hdf5") as file:
        for group in ("initial", "final", "final_accumulator"):
            arrays = {}
            file[group].visititems(
                lambda name, item, arrays=arrays: (
                    arrays.update({bilm_tf.current_name(name): item[...]})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
            ours = bilm_tf.from_bilm_tf(config, arrays)
            assert ours["softmax.kernel"].shape == (74, 8)
            assert ours["bilm.backward_1.input_kernel"].shape == (48, 8)


def test_older_file_of_one_layer(tmp_path):
    config = VARIANTS["one layer"]
    arrays = random_arrays(config)
    older = {name.replace("MultiRNNCell/Cell0/", ""): a for name, a in arrays.items()}
    assert older.keys() != arrays.keys()
    write_raw(tmp_path / "w.hdf5", older)
    assert_same_bits(bilm_tf.read_weights(tmp_path / "w.hdf5", config), arrays)


def test_older_names_beside_newer_ones(tmp_path):
    config = VARIANTS["one layer"]
    arrays = random_arrays(config)
    arrays["RNN_0/RNN/LSTMCell/B"] = arrays["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"]
    write_raw(tmp_path / "w.hdf5", arrays)
    assert error_of(tmp_path / "w.hdf5", config).endswith(
        "w.hdf5: does not fit its options: twice, under two names: "
        "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"
    )


def test_many_differences_are_counted_by_kind(tmp_path):
    deep = dataclasses.replace(CONFIG, lstm=dataclasses.replace(CONFIG.lstm, num_layers=100))
    arrays = random_arrays(CONFIG)
    arrays["x" * 9_000] = np.float32(1)
    arrays |= {f"odd{number}": np.float32(1) for number in range(1000)}
    write_raw(tmp_path / "w.hdf5", arrays)
    with pytest.raises(InputError) as caught:
        bilm_tf.read_weights(tmp_path / "w.hdf5", deep)
    missing = 2 * 3 * (100 - CONFIG.lstm.num_layers)
    message = str(caught.value).removeprefix(str(tmp_path))
    assert len(message) < 1200 and "xxxx" not in message
    assert "missing: RNN_0/RNN/MultiRNNCell/Cell10/LSTMCell/B [" in message
    listed = message.count("missing: ")
    assert f"; and {missing - listed} more missing; unexpected: odd0 []; " in message
    assert message.endswith(f"; and {1001 - message.count('unexpected: ')} more unexpected")


def test_one_error_lists_all_that_is_wrong(tmp_path):
    arrays = random_arrays(CONFIG)
    del arrays["CNN_proj/b_proj"], arrays["char_embed"]
    arrays["CNN_high_2/W_carry"] = np.zeros((14, 14), np.float32)
    arrays["odd\nname"] = np.float32(3)
    arrays["CNN/W_cnn_1"] = arrays["CNN/W_cnn_1"][..., :4]
    arrays["CNN/b_cnn_0"] = h5py.Empty("f")
    arrays["CNN/b_cnn_2"] = np.arange(6)
    write_raw(tmp_path / "w.hdf5", arrays)
    assert error_of(tmp_path / "w.hdf5") == (
        f"{tmp_path}/w.hdf5: does not fit its options: "
        "missing: CNN_proj/b_proj [7]; "
        "missing: char_embed [261, 4]; "
        "not floating point: CNN/b_cnn_2 is int64; "
        "unexpected: 'odd\\nname' []; "
        "unexpected: CNN_high_2/W_carry [14, 14]; "
        "wrong shape: CNN/W_cnn_1 is [1, 2, 4, 4], must be [1, 2, 4, 5]; "
        "wrong shape: CNN/b_cnn_0 is without a shape, must be [3]"
    )


@pytest.mark.parametrize("kind", ["layers", "highways", "projection"])
def test_options_of_another_model(kind, tmp_path):
    other = {
        "layers": dataclasses.replace(CONFIG, lstm=LstmConfig(11, 7, num_layers=2)),
        "highways": VARIANTS["no highway"],
        "projection": dataclasses.replace(CONFIG, lstm=LstmConfig(11, 11, num_layers=3)),
    }[kind]
    bilm_tf.write_weights(tmp_path / "w.hdf5", random_arrays(other), other)
    assert "does not fit its options: " in error_of(tmp_path / "w.hdf5")


def test_embedding_with_a_row_for_padding_is_refused(tmp_path):
    arrays = random_arrays(CONFIG)
    arrays["char_embed"] = np.zeros((262, 4), np.float32)
    write_raw(tmp_path / "w.hdf5", arrays)
    assert error_of(tmp_path / "w.hdf5").endswith(
        ": wrong shape: char_embed is [262, 4], must be [261, 4]"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"softmax/b": None}, "missing: softmax/b [19]"),
        ({"softmax/W": None}, "missing: softmax/W [19, 7]"),
        ({"softmax/b": np.zeros(18)}, "wrong shape: softmax/b is [18], must be [19]"),
        ({"softmax/W": np.zeros((19, 8))}, "wrong shape: softmax/W is [19, 8], must be [19, 7]"),
        ({"softmax/W": np.zeros(19)}, "wrong shape: softmax/W is [19], must be [19, 7]"),
        ({"softmax/c": np.zeros(19)}, "unexpected: softmax/c [19]"),
    ],
)
def test_softmax_that_does_not_fit(changes, message, tmp_path):
    arrays = random_arrays(CONFIG, vocabulary_size=19)
    arrays.update(changes)
    write_raw(tmp_path / "w.hdf5", {n: a for n, a in arrays.items() if a is not None})
    assert error_of(tmp_path / "w.hdf5").endswith(f"w.hdf5: does not fit its options: {message}")


def test_half_precision_is_widened_exactly(tmp_path):
    arrays = {name: array.astype(np.float16) for name, array in random_arrays(CONFIG).items()}
    write_raw(tmp_path / "w.hdf5", arrays)
    read = bilm_tf.read_weights(tmp_path / "w.hdf5", CONFIG)
    assert_same_bits(read, {name: array.astype(np.float32) for name, array in arrays.items()})


@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">f4"])
def test_other_floats_are_rounded_to_the_nearest(dtype, tmp_path):
    exact = random_arrays(CONFIG)
    arrays = {name: array.astype(dtype) for name, array in exact.items()}
    if dtype != ">f4":
        arrays["CNN/b_cnn_0"] += 1e-12  # less than half a unit in the last place
    arrays["CNN/b_cnn_0"][0] = exact["CNN/b_cnn_0"][0] = np.inf  # infinity is allowed
    write_raw(tmp_path / "w.hdf5", arrays)
    assert_same_bits(bilm_tf.read_weights(tmp_path / "w.hdf5", CONFIG), exact)


def test_values_beyond_float32_are_refused(tmp_path):
    arrays = {name: array.astype(np.float64) for name, array in random_arrays(CONFIG).items()}
    arrays["CNN/b_cnn_0"][1] = -1e39
    write_raw(tmp_path / "w.hdf5", arrays)
    assert error_of(tmp_path / "w.hdf5") == (
        f"{tmp_path}/w.hdf5: CNN/b_cnn_0 has values beyond the range of float32, as float64"
    )


def test_error_has_the_name_given_for_the_file(tmp_path):
    (tmp_path / "w.hdf5").write_bytes(b"no")
    with pytest.raises(InputError, match=r"^elmo\.zip/model\.hdf5: is not an HDF5 file"):
        bilm_tf.read_weights(tmp_path / "w.hdf5", CONFIG, "elmo.zip/model.hdf5")


def test_wrong_arrays_are_not_written(tmp_path):
    arrays = random_arrays(CONFIG)
    arrays["char_embed"] = arrays["char_embed"][1:]
    with pytest.raises(InputError, match=r"w\.hdf5: does not fit its options: wrong shape: char_"):
        bilm_tf.write_weights(tmp_path / "w.hdf5", arrays, CONFIG)
    assert os.listdir(tmp_path) == []


# Layers.


def build_layers(config):
    from elmo_tf.layers.bilm import BiLm
    from elmo_tf.layers.char_cnn import CharCnn

    cnn, lstm = config.input, config.lstm
    encoder = SimpleNamespace(
        config=config,
        char_cnn=CharCnn(
            cnn.embedding_dim, cnn.filters, cnn.num_highway_layers, lstm.projection_dim
        ),
        bilm=BiLm(lstm.num_layers, lstm.dim, lstm.projection_dim),
    )
    encoder.char_cnn.build((None, cnn.max_characters_per_token))
    encoder.bilm.build((None, None, lstm.projection_dim))
    return encoder


@every_variant
def test_every_variable_of_the_layers_is_collected(config):
    encoder = build_layers(config)
    arrays = random_arrays(config, seed=1)
    ours = bilm_tf.from_bilm_tf(config, arrays)
    variables = named_variables(encoder.char_cnn, "char_cnn.")
    variables |= named_variables(encoder.bilm, "bilm.")
    assert variables.keys() == ours.keys()
    for name, array in ours.items():
        variables[name].assign(array)
    collected = bilm_tf.collect_arrays(encoder)
    assert_same_bits(collected, arrays)
    # Collected arrays are copies: later assignments to the variables do not change them.
    for variable in variables.values():
        variable.assign(tf.zeros_like(variable))
    assert_same_bits(collected, arrays)


def test_layers_that_are_not_built_cannot_be_collected():
    encoder = SimpleNamespace(config=CONFIG, char_cnn=SimpleNamespace(), bilm=None)
    with pytest.raises(InputError) as caught:
        bilm_tf.collect_arrays(encoder)
    problems = str(caught.value).split(": ", 1)[1].split("; ")
    assert problems[0] == "there is no char_cnn.embedding"
    shown = len(problems) - 1
    assert problems[-1] == f"and {len(bilm_tf.expected_shapes(CONFIG)) - shown} more"


def test_softmax_is_collected_with_its_layer():
    encoder = build_layers(CONFIG)
    rng = np.random.default_rng(4)
    kernel, bias = rng.normal(size=(19, 7)).astype("f"), rng.normal(size=19).astype("f")
    collected = bilm_tf.collect_arrays(encoder, SimpleNamespace(kernel=kernel, bias=bias))
    without = bilm_tf.collect_arrays(encoder)
    assert_same_bits(collected, {**without, "softmax/W": kernel, "softmax/b": bias})


def test_a_long_difference_is_cut():
    """A thousand unexpected layers: the error lists some of them and their number."""
    arrays = random_arrays(CONFIG)
    arrays |= {f"more_{n:04}": np.zeros(2) for n in range(1000)}
    with pytest.raises(InputError) as error:
        bilm_tf.from_bilm_tf(CONFIG, arrays)
    message = str(error.value)
    shown = message.count("more_")
    assert f"unexpected: more_{shown - 1:04} [2]; and {1000 - shown} more unexpected" in message
    assert len(message) < 600
