import errno
import itertools
import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.vectors import embed_file as embed_file_module
from elmo_tf.vectors.embed_file import embed_file
from tests import models

pytestmark = pytest.mark.traced  # many small batches through one model

P = models.small_config().lstm.projection_dim
LINES = [
    *(b" ".join([b"w%d" % (n * n % 11)] * (n % 7)) for n in range(60)),
    b"  caf\xc3\xa9 \xff \t \xc2\xa0 ",
    b"long " * 300,
    b"the end",
]
NUM_TOKENS = sum(len(line.split()) for line in LINES)
SMALL = {"batch_tokens": 8, "commit_seconds": 0.0}  # chunks of 512 bytes, each one committed


@pytest.fixture(scope="module")
def encoder(small_encoder):
    return small_encoder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(LINES)
    return tmp_path


def write_text(lines):
    with open("text", "wb") as file:
        file.write(b"\n".join(lines) + b"\n")


def read(path="out"):
    with h5py.File(path) as file:
        index = json.loads(file["sentence_to_index"][0])
        return {name: file[name][...] for name in file if name != "sentence_to_index"}, index


@pytest.fixture(scope="module")
def right(encoder, tmp_path_factory):
    """The vectors of all lines from an uninterrupted run."""
    folder = tmp_path_factory.mktemp("right")
    (folder / "text").write_bytes(b"\n".join(LINES))
    embed_file(encoder, str(folder / "text"), str(folder / "out"), **SMALL)
    return read(folder / "out")


def assert_equal(found, right):
    (vectors, index), (right_vectors, right_index) = found, right
    assert (set(vectors), index) == (set(right_vectors), right_index)
    for name, values in right_vectors.items():
        np.testing.assert_array_equal(vectors[name], values, strict=True)


class Interrupting:
    """Interrupts a run after a number of lines, and records the reports."""

    def __init__(self, num_lines):
        self.num_lines = num_lines
        self.reports = []

    def __call__(self, *figures):
        self.reports.append(figures)
        if figures[0] - self.reports[0][0] >= self.num_lines:
            raise KeyboardInterrupt


def test_every_line_has_its_vectors(encoder, folder, right):
    vectors, index = right
    assert set(vectors) == set(map(str, range(len(LINES))))
    for number, line in enumerate(LINES):
        tokens = line.split()
        values = vectors[str(number)]
        assert values.shape == (3, len(tokens), 2 * P)
        if tokens:
            outputs = encoder([tokens], sequence_len=[len(tokens)])
            np.testing.assert_allclose(values[2], outputs["lstm_outputs2"][0], atol=1e-6)
            np.testing.assert_allclose(values[0, :, P:], outputs["word_emb"][0], atol=1e-6)
    assert index["w4 w4"] == "9"
    assert index["caf\u00e9 \udcff"] == "60"


@pytest.mark.parametrize("batch_tokens", [1, 100_000])
def test_batches_move_nothing_by_more_than_rounding(encoder, folder, right, batch_tokens):
    summary = embed_file(encoder, "text", "out", batch_tokens=batch_tokens)
    assert summary.num_lines == len(LINES)
    assert (summary.num_tokens, summary.tokens_before) == (NUM_TOKENS, 0)
    assert (summary.shape, summary.is_indexed) == ((3, None, 2 * P), True)
    for name, values in read()[0].items():
        np.testing.assert_allclose(values, right[0][name], atol=1e-5)


@pytest.mark.parametrize("is_stateful", [False, True])
def test_an_interrupted_run_goes_on_to_the_same_bits(
    encoder, folder, right, is_stateful, monkeypatch
):
    monkeypatch.setattr(embed_file_module, "_STATEFUL_CHUNK_BYTES", 256)
    options = {"is_stateful": is_stateful, **SMALL}
    if is_stateful:
        embed_file(encoder, "text", "whole", **options)
        right = read("whole")
    begins = []
    for _ in range(2):
        interrupting = Interrupting(num_lines=23)
        with pytest.raises(KeyboardInterrupt):
            embed_file(encoder, "text", "out", report=interrupting, **options)
        assert not os.path.exists("out")
        begins.append(interrupting.reports[0][0])
    summary = embed_file(encoder, "text", "out", **options)
    assert_equal(read(), right)
    assert 0 == begins[0] < begins[1]
    assert 0 < summary.tokens_before < NUM_TOKENS
    assert not os.path.exists("out.partial")


def test_a_full_disk_names_the_output_and_how_to_continue(encoder, folder, right, monkeypatch):
    def embed():
        with pytest.raises(InputError) as caught:
            embed_file(encoder, "text", "out", **SMALL)
        return str(caught.value)

    pwrite = os.pwrite

    def full(descriptor, content, offset):
        if offset + len(content) > allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", full)
    allowed = 100
    message = "out: cannot be written: No space left on device; "
    assert embed() == message + "the same command starts at the first line"
    assert not os.path.exists("out.partial")
    allowed = 40_000
    assert re.fullmatch(message + r"the same command continues after line \d+", embed())
    allowed = 10**9
    embed_file(encoder, "text", "out", **SMALL)
    assert_equal(read(), right)


@pytest.fixture(scope="module")
def unfinished(encoder, tmp_path_factory):
    """A folder with an unfinished run."""
    folder = tmp_path_factory.mktemp("unfinished")
    (folder / "text").write_bytes(b"\n".join(LINES) + b"\n")
    with pytest.raises(KeyboardInterrupt, match="interrupted; the same command continues after"):
        embed_file(
            encoder, str(folder / "text"), str(folder / "out"), report=Interrupting(50), **SMALL
        )
    return folder


@pytest.fixture
def interrupted(unfinished, folder):
    """The working directory, with a copy of it."""
    shutil.copytree(unfinished, folder, dirs_exist_ok=True)


def test_reports_come_to_all_lines_tokens_and_bytes(encoder, folder):
    reports = []
    embed_file(encoder, "text", "out", report=lambda *figures: reports.append(figures), **SMALL)
    assert reports[0] == (0, 0, 0)
    assert reports[-1] == (len(LINES), NUM_TOKENS, os.path.getsize("text"))
    for before, after in itertools.pairwise(reports):
        assert all(a <= b for a, b in zip(before, after, strict=True))


def test_other_budget_and_a_longer_text_are_no_hindrance(encoder, interrupted, right):
    write_text([*LINES, b"more"])
    summary = embed_file(encoder, "text", "out", batch_tokens=64)
    assert summary.num_lines == len(LINES) + 1
    assert summary.tokens_before > 0
    vectors, index = read()
    assert index == {**right[1], "more": str(len(LINES))}
    for name, values in right[0].items():
        np.testing.assert_allclose(vectors[name], values, atol=1e-5)


@pytest.mark.parametrize(
    "lines", [[b"other", *LINES[1:]], LINES[:2], [], [b"", LINES[1] + b" ", *LINES[2:]]]
)
def test_another_text_is_refused_or_starts_anew(encoder, interrupted, lines):
    write_text(lines)
    with pytest.raises(
        InputError, match=r"text: its first [\d]+ lines are not those of the unfinished run in .*"
    ):
        embed_file(encoder, "text", "out")
    summary = embed_file(encoder, "text", "out", overwrite=True)
    assert summary.tokens_before == 0
    assert summary.num_lines == len(lines) or not lines
    assert len(read()[0]) == summary.num_lines


def test_another_model_is_refused(encoder, interrupted):
    with pytest.raises(InputError, match="an unfinished run with model=[0-9a-f]{32}, and now it"):
        embed_file(models.small_encoder(seed=7), "text", "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": "word"}, "with layers=all, and now it is layers=word;"),
        ({"dtype": "float16"}, "with dtype=float32, and now it is dtype=float16;"),
        ({"normalize": "nfc"}, "with normalize=none, and now it is normalize=nfc;"),
        ({"tokenizer": "unicode_script"}, "now it is tokenizer=unicode_script;"),
        ({"is_stateful": True}, "with stateful=false, and now it is stateful=true;"),
    ],
)
def test_other_arguments_are_refused(encoder, interrupted, arguments, message):
    with pytest.raises(InputError, match=message):
        embed_file(encoder, "text", "out", **arguments)


def test_with_overwrite_too_a_run_that_fits_is_continued(encoder, interrupted, right):
    summary = embed_file(encoder, "text", "out", overwrite=True, **SMALL)
    assert summary.tokens_before > 0
    assert_equal(read(), right)


def test_float16(encoder, folder, right):
    embed_file(encoder, "text", "out", dtype="float16", **SMALL)
    for name, values in read()[0].items():
        np.testing.assert_array_equal(values, right[0][name].astype(np.float16), strict=True)


def test_a_vector_beyond_float16_is_said_with_its_line(folder):
    encoder = models.small_encoder()
    encoder.scalar_mix.gamma.assign(1e9)
    with pytest.raises(InputError, match=r"text:\d+: a vector is beyond the range of float16"):
        embed_file(encoder, "text", "out", layers="elmo", dtype="float16")
    assert os.listdir(folder) == ["text"]
    embed_file(encoder, "text", "out", layers="elmo")


def test_tokenizer_and_normalization(encoder, folder):
    write_text(["Don\u2019t \ufb01x!".encode()])
    embed_file(
        encoder, "text", "out", layers="word", tokenizer="unicode_punctuation", normalize="nfkc"
    )
    vectors, index = read()
    tokens = [token.encode() for token in ("Don", "\u2019", "t", "fix", "!")]
    right = encoder([tokens], sequence_len=[5])["word_emb"][0]
    np.testing.assert_allclose(vectors["0"], right, atol=1e-6)
    assert index == {"Don\u2019t \ufb01x!": "0"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": "last"}, "layers must be one of 'all', "),
        ({"dtype": "float64"}, "dtype must be one of 'float32', 'float16', got 'float64'"),
        ({"batch_tokens": 0}, "batch_tokens must be an integer >= 1, got 0"),
        ({"tokenizer": "moses"}, "tokenizer must be one of "),
        ({"normalize": "nfd"}, "normalize must be one of "),
    ],
)
def test_wrong_arguments_leave_nothing(encoder, folder, arguments, message):
    with pytest.raises(InputError, match=message):
        embed_file(encoder, "text", "out", **arguments)
    assert os.listdir(folder) == ["text"]


def test_a_text_that_is_not_there(encoder, folder):
    with pytest.raises(InputError, match="none: cannot be read: No such file or directory"):
        embed_file(encoder, "none", "out")
    assert os.listdir(folder) == ["text"]
