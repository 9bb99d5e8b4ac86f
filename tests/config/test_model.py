import copy
import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from elmo_tf.config.inputs import CharCnnConfig, WordInputConfig
from elmo_tf.config.model import SIZES, ElmoConfig, LstmConfig
from elmo_tf.errors import InputError

OPTIONS = {
    "lstm": {
        "cell_clip": 3,
        "dim": 37,
        "n_layers": 2,
        "proj_clip": 2.5,
        "projection_dim": 11,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "tanh",
        "embedding": {"dim": 5},
        "filters": [[1, 4], [3, 6], [7, 8]],
        "max_characters_per_token": 13,
        "n_characters": 262,
        "n_highway": 1,
    },
}
CONFIG = ElmoConfig(
    CharCnnConfig(
        embedding_dim=5,
        filters=((1, 4), (3, 6), (7, 8)),
        num_highway_layers=1,
        max_characters_per_token=13,
        activation="tanh",
    ),
    LstmConfig(
        dim=37,
        projection_dim=11,
        num_layers=2,
        use_skip_connections=True,
        cell_clip=3.0,
        projection_clip=2.5,
    ),
)
LEFT_OUT = object()


def options_with(key, value):
    """A copy of OPTIONS in which the dotted `key` has `value`, or is missing."""
    options = copy.deepcopy(OPTIONS)
    *sections, last = key.split(".")
    target = options
    for section in sections:
        target = target[section]
    if value is LEFT_OUT:
        del target[last]
    else:
        target[last] = value
    return options


def test_every_key_is_read():
    assert ElmoConfig.from_options(OPTIONS) == CONFIG


def test_every_key_is_written():
    assert CONFIG.to_options() == OPTIONS


def test_properties():
    assert CONFIG.input.num_filters == 18
    assert CONFIG.input.widest_filter == 7
    assert CONFIG.lstm.has_projection
    assert not LstmConfig(dim=9, projection_dim=9).has_projection
    assert CharCnnConfig(filters=((5, 2), (2, 3))).widest_filter == 5


def test_defaults_are_the_original_size():
    assert ElmoConfig() == SIZES["original"]


@pytest.mark.parametrize(
    ("size", "dim", "projection_dim", "num_highway_layers"),
    [
        ("small", 1024, 128, 1),
        ("medium", 2048, 256, 1),
        ("original", 4096, 512, 2),
        ("original_5.5b", 4096, 512, 2),
    ],
)
def test_published_sizes(size, dim, projection_dim, num_highway_layers):
    assert ElmoConfig.from_size(size).to_options() == {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": projection_dim,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": dim,
            "n_layers": 2,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
            "n_highway": num_highway_layers,
            "embedding": {"dim": 16},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }


def test_tiny_is_small_and_of_the_same_kind():
    tiny, small = ElmoConfig.from_size("tiny"), ElmoConfig.from_size("small")
    assert tiny.lstm.dim < small.lstm.dim
    assert tiny.input.num_filters < small.input.num_filters
    assert tiny.lstm.has_projection
    assert tiny.lstm.use_skip_connections


@pytest.mark.parametrize("size", ["huge", "", None, "Small"])
def test_unknown_size(size):
    with pytest.raises(
        InputError, match=r"^size must be one of 'tiny', 'small', .* got "
    ) as caught:
        ElmoConfig.from_size(size)
    assert repr(size) in str(caught.value)


@pytest.mark.parametrize("size", SIZES)
def test_options_round_trip(size, tmp_path):
    config = ElmoConfig.from_size(size)
    config.write(tmp_path / "options.json")
    assert ElmoConfig.from_file(tmp_path / "options.json") == config


def test_fixtures_round_trip(fixtures_dir):
    paths = sorted(fixtures_dir.glob("**/*options.json"))
    assert len(paths) >= 14
    for path in paths:
        config = ElmoConfig.from_file(path)
        assert ElmoConfig.from_options(config.to_options()) == config
        written, read = config.to_options(), json.loads(path.read_text())
        for key in {"dim", "projection_dim", "n_layers", "cell_clip", "proj_clip"} & set(
            read["lstm"]
        ):
            assert written["lstm"][key] == read["lstm"][key]
        keys = {"filters", "embedding", "n_highway", "activation", "max_characters_per_token"}
        for key in keys & set(read.get("char_cnn", {})):
            assert written["char_cnn"][key] == read["char_cnn"][key]


def test_variants_of_the_zoo(fixtures_dir):
    def read(name):
        return ElmoConfig.from_file(fixtures_dir / "config_zoo" / name / "model" / "options.json")

    assert read("no_clips").lstm.cell_clip is None
    assert read("no_clips").lstm.projection_clip is None
    assert read("tight_clips").lstm.cell_clip == 0.4
    assert read("tight_clips").lstm.projection_clip == 0.15
    assert not read("noskip").lstm.use_skip_connections
    assert read("no_highway").input.num_highway_layers == 0
    assert not read("no_lstm_projection").lstm.has_projection
    assert read("filters_equal_projection").input.num_filters == 8
    assert read("long_words").input.max_characters_per_token == 16


@pytest.mark.parametrize(
    ("key", "value", "section", "field", "expected"),
    [
        # The defaults of bilm-tf for missing keys.
        ("lstm.n_layers", LEFT_OUT, "lstm", "num_layers", 1),
        ("lstm.cell_clip", LEFT_OUT, "lstm", "cell_clip", None),
        ("lstm.proj_clip", LEFT_OUT, "lstm", "projection_clip", None),
        ("lstm.use_skip_connections", LEFT_OUT, "lstm", "use_skip_connections", False),
        ("char_cnn.n_highway", LEFT_OUT, "input", "num_highway_layers", 0),
        ("lstm.cell_clip", None, "lstm", "cell_clip", None),
        ("lstm.proj_clip", None, "lstm", "projection_clip", None),
        ("lstm.use_skip_connections", None, "lstm", "use_skip_connections", False),
        ("char_cnn.n_highway", None, "input", "num_highway_layers", 0),
        ("char_cnn.n_highway", 0, "input", "num_highway_layers", 0),
        ("lstm.cell_clip", 0.25, "lstm", "cell_clip", 0.25),
        ("lstm.use_skip_connections", False, "lstm", "use_skip_connections", False),
        ("char_cnn.activation", "relu", "input", "activation", "relu"),
        ("char_cnn.max_characters_per_token", 7, "input", "max_characters_per_token", 7),
    ],
)
def test_values_and_what_their_absence_means(key, value, section, field, expected):
    config = ElmoConfig.from_options(options_with(key, value))
    expected_section = dataclasses.replace(getattr(CONFIG, section), **{field: expected})
    assert config == dataclasses.replace(CONFIG, **{section: expected_section})


@pytest.mark.parametrize("value", [261, 262, LEFT_OUT])
def test_number_of_characters_means_the_same(value):
    assert ElmoConfig.from_options(options_with("char_cnn.n_characters", value)) == CONFIG


def test_three_positions_are_enough_for_narrow_filters():
    options = options_with("char_cnn.filters", [[1, 4], [2, 8]])
    options["char_cnn"]["max_characters_per_token"] = 3
    assert ElmoConfig.from_options(options).input.max_characters_per_token == 3


def test_options_of_training_are_left_aside(fixtures_dir):
    config = ElmoConfig.from_file(fixtures_dir / "training" / "training_options.json")
    assert config.lstm.dim == 12
    assert config.input.filters == ((1, 4), (2, 6), (3, 8))


WORD_OPTIONS = {"lstm": OPTIONS["lstm"], "n_tokens_vocab": 99, "share_embedding_softmax": True}


def test_options_without_char_cnn_are_those_of_word_input():
    config = ElmoConfig.from_options(WORD_OPTIONS)
    assert config.input == WordInputConfig(vocabulary_size=99, share_softmax=True)
    assert config.lstm == ElmoConfig.from_options(OPTIONS).lstm
    assert config.to_options() == WORD_OPTIONS
    plain = ElmoConfig.from_options({"lstm": OPTIONS["lstm"]})
    assert plain.input == WordInputConfig(None, share_softmax=False)
    assert ElmoConfig.from_options(plain.to_options()) == plain


def test_an_open_vocabulary_size_fits_any_and_is_settled_once():
    lstm = {"lstm": OPTIONS["lstm"]}
    settled = ElmoConfig.from_options(WORD_OPTIONS)
    opened = ElmoConfig.from_options({**lstm, "share_embedding_softmax": True})
    assert opened.with_vocabulary_size(99) == settled == settled.with_vocabulary_size(99)
    assert opened.fits(settled) and opened.fits(opened) and settled.fits(settled)
    assert not settled.fits(opened)
    assert not ElmoConfig.from_options(lstm).fits(settled)
    with pytest.raises(InputError, match="n_tokens_vocab is 99, but the vocabulary has 7 words"):
        settled.with_vocabulary_size(7)
    characters = ElmoConfig.from_options(OPTIONS)
    assert characters.with_vocabulary_size(7) is characters
    assert not characters.fits(settled) and not opened.fits(characters)


def test_options_are_not_changed_by_reading():
    options = copy.deepcopy(OPTIONS)
    ElmoConfig.from_options(options)
    assert options == OPTIONS


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lstm", LEFT_OUT, "lstm.dim is missing"),
        ("lstm", [1], "lstm must be an object {...}, got [1]"),
        ("lstm.dim", LEFT_OUT, "lstm.dim is missing"),
        ("lstm.dim", 0, "lstm.dim must be an integer >= 1, got 0"),
        ("lstm.dim", True, "lstm.dim must be an integer >= 1, got True"),
        ("lstm.dim", "37", "lstm.dim must be an integer >= 1, got '37'"),
        ("lstm.dim", 37.0, "lstm.dim must be an integer >= 1, got 37.0"),
        ("lstm.dim", None, "lstm.dim must be an integer >= 1, got None"),
        ("lstm.dim", 10, "lstm.projection_dim must be an integer from 1 to 10 (lstm.dim), got 11"),
        ("lstm.projection_dim", LEFT_OUT, "lstm.projection_dim is missing"),
        ("lstm.projection_dim", -1, "lstm.projection_dim must be an integer >= 1, got -1"),
        (
            "lstm.projection_dim",
            19,
            "char_cnn.filters must hold at least 19 filters in all (lstm.projection_dim; "
            "bilm-tf format only projects down), got 18",
        ),
        ("lstm.n_layers", 10**7, "lstm.n_layers must be an integer <= 100, got 10000000"),
        ("lstm.dim", 10**9, "lstm.dim must be an integer <= 65536, got 1000000000"),
        (
            "lstm.projection_dim",
            10**9,
            "lstm.projection_dim must be an integer <= 65536, got 1000000000",
        ),
        (
            "lstm.cell_clip",
            1e-300,
            "lstm.cell_clip must be a number > 0 that float32 holds, from 1.2e-38 to 3.4e+38, got "
            "1e-300 (null for none)",
        ),
        ("char_cnn.n_highway", 10**7, "char_cnn.n_highway must be an integer <= 100, got 10000000"),
        (
            "char_cnn.embedding.dim",
            10**9,
            "char_cnn.embedding.dim must be an integer <= 65536, got 1000000000",
        ),
        (
            "char_cnn.max_characters_per_token",
            10**9,
            "char_cnn.max_characters_per_token must be an integer <= 10000, got 1000000000",
        ),
        (
            "char_cnn.filters",
            [[1, 10**9]],
            "char_cnn.filters[0][1] must be an integer <= 65536, got 1000000000",
        ),
        (
            "char_cnn.filters",
            [[1, 2]] * 101,
            "char_cnn.filters must be a list of at most 100 pairs, got "
            + str([[1, 2]] * 9)[:-1]
            + ", [1, ...",
        ),
        ("lstm.n_layers", 0, "lstm.n_layers must be an integer >= 1, got 0"),
        ("lstm.n_layers", None, "lstm.n_layers must be an integer >= 1, got None"),
        (
            "lstm.use_skip_connections",
            1,
            "lstm.use_skip_connections must be true or false, got 1",
        ),
        (
            "lstm.use_skip_connections",
            "false",
            "lstm.use_skip_connections must be true or false, got 'false'",
        ),
        (
            "lstm.cell_clip",
            0,
            "lstm.cell_clip must be a finite number > 0, got 0 (null for none)",
        ),
        (
            "lstm.proj_clip",
            float("nan"),
            "lstm.proj_clip must be a finite number > 0, got nan (null for none)",
        ),
        (
            "lstm.proj_clip",
            float("inf"),
            "lstm.proj_clip must be a finite number > 0, got inf (null for none)",
        ),
        (
            "lstm.proj_clip",
            True,
            "lstm.proj_clip must be a finite number > 0, got True (null for none)",
        ),
        (
            "share_embedding_softmax",
            True,
            "share_embedding_softmax is for models with word input, which have no char_cnn",
        ),
        ("char_cnn", None, "char_cnn must be an object {...}, got None"),
        ("char_cnn.activation", LEFT_OUT, "char_cnn.activation is missing"),
        (
            "char_cnn.activation",
            "gelu",
            "char_cnn.activation must be one of 'relu', 'tanh', got 'gelu'",
        ),
        ("char_cnn.embedding", LEFT_OUT, "char_cnn.embedding.dim is missing"),
        ("char_cnn.embedding", 4, "char_cnn.embedding must be an object {...}, got 4"),
        ("char_cnn.embedding.dim", LEFT_OUT, "char_cnn.embedding.dim is missing"),
        ("char_cnn.embedding.dim", 0, "char_cnn.embedding.dim must be an integer >= 1, got 0"),
        ("char_cnn.n_highway", -1, "char_cnn.n_highway must be an integer >= 0, got -1"),
        ("char_cnn.n_highway", False, "char_cnn.n_highway must be an integer >= 0, got False"),
        ("char_cnn.n_characters", 260, "char_cnn.n_characters must be one of 261, 262, got 260"),
        (
            "char_cnn.n_characters",
            262.0,
            "char_cnn.n_characters must be one of 261, 262, got 262.0",
        ),
        ("char_cnn.n_characters", None, "char_cnn.n_characters must be one of 261, 262, got None"),
        (
            "char_cnn.max_characters_per_token",
            LEFT_OUT,
            "char_cnn.max_characters_per_token is missing",
        ),
        (
            "char_cnn.max_characters_per_token",
            2,
            "char_cnn.max_characters_per_token must be an integer >= 3, got 2",
        ),
        (
            "char_cnn.max_characters_per_token",
            6,
            "char_cnn.max_characters_per_token must be an integer >= 7 (the widest of "
            "char_cnn.filters), got 6",
        ),
        ("char_cnn.filters", LEFT_OUT, "char_cnn.filters is missing"),
        (
            "char_cnn.filters",
            [],
            "char_cnn.filters must be a list of pairs [width, number], not empty, got []",
        ),
        (
            "char_cnn.filters",
            "ab",
            "char_cnn.filters must be a list of pairs [width, number], not empty, got 'ab'",
        ),
        (
            "char_cnn.filters",
            [[1, 4], [2, 6], [3]],
            "char_cnn.filters[2] must be a pair [width, number of filters], got [3]",
        ),
        (
            "char_cnn.filters",
            [[1, 4], "ab"],
            "char_cnn.filters[1] must be a pair [width, number of filters], got 'ab'",
        ),
        (
            "char_cnn.filters",
            [[1, 40], [0, 6]],
            "char_cnn.filters[1][0] must be an integer >= 1, got 0",
        ),
        (
            "char_cnn.filters",
            [[1, 40], [2, 6.5]],
            "char_cnn.filters[1][1] must be an integer >= 1, got 6.5",
        ),
        ("bidirectional", False, "bidirectional must be true, or left out, got False"),
    ],
)
def test_wrong_values_are_named(key, value, message, tmp_path):
    options = options_with(key, value)
    with pytest.raises(InputError) as caught:
        ElmoConfig.from_options(options)
    assert str(caught.value) == f"options.json: {message}"
    path = tmp_path / "my_options.json"
    path.write_text(json.dumps(options))
    with pytest.raises(InputError) as caught:
        ElmoConfig.from_file(path)
    assert str(caught.value) == f"{path}: {message}"


def test_options_must_be_an_object():
    with pytest.raises(InputError, match=r"^options\.json: the options must be an object"):
        ElmoConfig.from_options([OPTIONS])


def test_long_and_many_line_values_give_one_short_line():
    for value in ("a\nb" * 500, list(range(9999))):
        with pytest.raises(InputError) as caught:
            ElmoConfig.from_options(options_with("lstm.dim", value))
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)


def test_syntax_error_has_file_and_line(tmp_path):
    path = tmp_path / "options.json"
    path.write_text('{"lstm": {},\n "char_cnn": {},\n}')
    with pytest.raises(InputError, match=r"options\.json:\d: is not JSON: "):
        ElmoConfig.from_file(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CharCnnConfig(embedding_dim=0), "char_cnn.embedding_dim must be an integer >= 1"),
        (lambda: CharCnnConfig(filters=[(1, 2), 3]), r"char_cnn.filters\[1\] must be a pair"),
        (lambda: CharCnnConfig(max_characters_per_token=6), "must be an integer >= 7"),
        (lambda: LstmConfig(projection_clip=0.0), "lstm.projection_clip must be a finite number"),
        (lambda: LstmConfig(dim=4, projection_dim=5), "lstm.projection_dim must be .* 1 to 4"),
        (lambda: ElmoConfig(lstm={"dim": 3}), "lstm must be a LstmConfig, got {'dim': 3}"),
        (
            lambda: ElmoConfig(input=None),
            "input must be a CharCnnConfig or a WordInputConfig or a DictionaryInputConfig, got",
        ),
        (lambda: WordInputConfig(0), "word_input.vocabulary_size must be an integer >= 1"),
        (lambda: dataclasses.replace(LstmConfig(), num_layers=0), "lstm.num_layers must be"),
    ],
)
def test_configurations_made_in_python_are_checked_too(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_vocabulary_has_a_limit():
    with pytest.raises(InputError, match="n_tokens_vocab must be an integer <= 2147483646, got 1"):
        ElmoConfig.from_options({"lstm": OPTIONS["lstm"], "n_tokens_vocab": 10**10})


def test_an_integer_too_long_to_write_is_named_all_the_same():
    expected = "lstm.dim must be an integer <= 65536, got an integer of thousands of digits"
    with pytest.raises(InputError, match=expected):
        LstmConfig(dim=10**5000)


def test_a_large_file_is_no_options(tmp_path):
    path = tmp_path / "options.json"
    path.write_bytes(json.dumps(OPTIONS).encode().ljust(2**20 + 1))
    expected = "options.json: is too large for what it should hold, over 1,048,576 bytes"
    with pytest.raises(InputError, match=expected):
        ElmoConfig.from_file(path)
    path.write_bytes(json.dumps(OPTIONS).encode().ljust(2**20))
    assert ElmoConfig.from_file(path) == CONFIG


def test_values_take_one_form():
    config = CharCnnConfig(filters=[[np.int64(1), 2], (3, 4)], embedding_dim=np.int32(7))
    assert config == CharCnnConfig(filters=((1, 2), (3, 4)), embedding_dim=7)
    assert isinstance(hash(config), int)
    assert type(config.embedding_dim) is int
    assert type(LstmConfig(cell_clip=3).cell_clip) is float
    json.dumps(ElmoConfig(config, LstmConfig(dim=6, projection_dim=6)).to_options())


def test_configurations_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.lstm.dim = 3


def test_import_needs_no_library():
    code = (
        "import sys, elmo_tf.config.model, elmo_tf.config.training; "
        "print({'tensorflow', 'numpy', 'keras'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
