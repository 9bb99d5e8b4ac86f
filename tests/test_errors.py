"""Lists, names and shapes in one-line errors are shortened."""

import numpy as np
import pytest

from elmo_tf import errors
from elmo_tf.errors import InputError, OutOfMemoryError, counted, listed, printable, shortened


def test_all_that_fits_is_listed():
    assert listed([]) == ""
    assert listed(["a", "b"]) == "a; b"
    assert listed(iter("abc"), ", ") == "a, b, c"


def test_one_is_singular():
    shown = [counted(number, "line") for number in (0, 1, 2, 1500)]
    assert shown == ["0 lines", "1 line", "2 lines", "1,500 lines"]


def test_what_does_not_fit_is_counted():
    names = [f"array_{number:04}" for number in range(1500)]
    text = listed(names, more="more missing")
    assert text.startswith("array_0000; array_0001; ") and len(text) < 530
    shown = text.split("; ")[:-1]
    assert shown == names[: len(shown)]
    assert text.endswith(f"; and {1500 - len(shown):,} more missing")
    assert listed(["abc", "def"], most_characters=8) == "abc; def"
    assert listed(["abc", "def"], most_characters=7) == "abc; and 1 more"


def test_one_long_item_is_cut():
    assert listed(["x" * 999, "y"], most_characters=10) == "xxxxxxx...; and 1 more"
    assert shortened("x" * 500) == "x" * 500
    assert len(shortened("x" * 501)) == 500


@pytest.mark.parametrize("kind", [InputError, errors.UsageError, OutOfMemoryError])
def test_messages_are_bounded_and_keep_both_ends(kind):
    path = "a" * 2500 + "b" * 2500
    message = str(kind(f"{path}: there is no such file; --help lists the flags"))
    assert len(message) < 400
    assert message.startswith("aaa") and "a...b" in message
    assert message.endswith("b: there is no such file; --help lists the flags")
    assert len(str(kind("a b " * 1000 + "the end"))) == 1499
    assert str(kind("word " * 200)) == "word " * 200
    assert str(kind(f"{'x' * 300} {'y' * 300}")) == f"{'x' * 300} {'y' * 300}"


def test_names_are_quoted_and_cut():
    assert printable("a b") == "a b"
    assert printable("a\nb") == r"'a\nb'"
    assert len(printable("x" * 65_000)) == len(printable("\n" * 65_000)) == 100


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "{{node x}} OOM when allocating tensor with shape[3,5000,1000] and type float on /job:l"
            "ocalhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Fill]",
            "out of memory: no room for an array of shape [3, 5000, 1000], 0.1 GB",
        ),
        (
            "OOM when allocating tensor with shape[1048576,1048576] and type half on /job:loc",
            "out of memory: no room for an array of shape [1048576, 1048576], 2,199.0 GB",
        ),
        (
            "Out of memory\n while trying to allocate 9 bytes.",
            "out of memory: Out of memory while trying to allocate 9 bytes.",
        ),
        ("", "out of memory"),
    ],
)
def test_memory_that_lacks_is_said_in_one_line(message, expected):
    assert errors.out_of_memory(MemoryError(message)) == expected


def test_memory_of_numpy():
    with pytest.raises(MemoryError) as caught:
        np.empty([2**25, 2**25], np.float32)
    assert errors.out_of_memory(caught.value).startswith(
        "out of memory: Unable to allocate 4.00 Pi"
    )


def test_lack_of_memory_is_caught_as_either():
    assert issubclass(OutOfMemoryError, InputError) and issubclass(OutOfMemoryError, MemoryError)


def test_a_size_is_never_long():
    assert errors.gigabytes(376_000_000) == "0.4 GB"
    assert errors.gigabytes(4 * 10**30) == "4.0e+21 GB"
