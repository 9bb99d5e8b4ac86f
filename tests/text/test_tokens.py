"""Tokenizers: the graph and Python give equal tokens, and no text is lost."""

import random
import subprocess
import sys
import unicodedata

import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.text import tokens
from elmo_tf.text.tokens import make_tokenizer, split_line, split_text, tokenize_lines

AWKWARD = [
    b"",
    b" ",
    b" \t\n\v\f\r ",
    b"\ta\n\vb\fc\rd  ",
    b"a\0b \0 c\0",
    b"a\x1cb\x1dc\x1ed\x1fe\x7f",
    "a\u00a0b\u3000c\u0085d\u2028e\u200b".encode(),
    b"\xff \xfe\x80 a\xc3",
    b"\x85 \xa0",
]


def random_line(generator):
    alphabet = [0, 9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 32, 32, 0x85, 0xA0, 0xC2, 0xE3, 97]
    return bytes(
        generator.choice(alphabet) if generator.random() < 0.7 else generator.randrange(256)
        for _ in range(generator.randint(0, 40))
    )


@pytest.mark.traced
def test_graph_and_python_split_alike_on_any_bytes():
    generator = random.Random(8)
    lines = AWKWARD + [random_line(generator) for _ in range(2000)]
    split = tf.function(split_text, input_signature=[tf.TensorSpec([None], tf.string)])
    assert split(tf.constant(lines)).to_list() == [split_line(line) for line in lines]
    assert split(tf.constant([], tf.string)).to_list() == []


def test_splits_at_six_bytes_only():
    splitting = [byte for byte in range(256) if len(split_line(b"a%cb" % byte)) == 2]
    assert bytes(splitting) == b"\t\n\v\f\r "


def test_split_line_takes_str_too():
    assert split_line("é\u00a0\u3000b\x1fc  d") == ["é\u00a0\u3000b\x1fc".encode(), b"d"]
    assert split_line(b"caf\xe9 x".decode("utf-8", "surrogateescape")) == [b"caf\xe9", b"x"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("whitespace", ["Don't\u00a0pay", "$5.50,", "東京だ!"]),
        ("unicode_whitespace", ["Don't", "pay", "$5.50,", "東京だ!"]),
        (
            "unicode_script",
            ["Don", "'", "t", "pay", "$5.50,", "東京", "だ", "!"],
        ),
        (
            "unicode_punctuation",
            ["Don", "'", "t", "pay", "$", "5", ".", "50", ",", "東", "京", "だ", "!"],
        ),
    ],
)
def test_tokenizers(name, expected):
    line = "  Don't\u00a0pay $5.50,\t東京だ! ".encode()
    result = make_tokenizer(name, "none")([line, b"", line, b" \t"])
    words = [token.encode() for token in expected]
    assert result == [words, [], words, []]


@pytest.mark.parametrize("space", "\u0085\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000")
@pytest.mark.parametrize("name", ["unicode_whitespace", "unicode_script", "unicode_punctuation"])
def test_unicode_white_space_leaves_no_bytes_behind(name, space):
    """`WhitespaceTokenizer` of tensorflow_text 2.21 fails this."""
    line = f"{space}ab{space}{space}cd{space}".encode()
    assert make_tokenizer(name, "none")([line]) == [[b"ab", b"cd"]]


@pytest.mark.parametrize("normalize", tokens.NORMALIZATIONS)
@pytest.mark.parametrize("name", tokens.TOKENIZERS)
def test_tokenizers_keep_every_byte_of_awkward_text(name, normalize):
    generator = random.Random(9)
    lines = AWKWARD + [random_line(generator) for _ in range(200)] + [b"\xff.\xfe a\0.b c.d"]
    tokenizer = make_tokenizer(name, normalize)
    for line, found in zip(lines, tokenizer(lines), strict=True):
        assert all(found), "no token is empty"
        assert all(token.split() == [token] for token in found)
        if normalize == "none" and name == "whitespace":
            assert found == line.split()
        # Pieces with invalid UTF-8 or a NUL are returned unchanged.
        for piece in line.split():
            if b"\0" in piece or piece.decode("utf-8", "ignore").encode() != piece:
                assert normalize != "none" or piece in found
    assert tokenizer([]) == []


@pytest.mark.parametrize(("normalize", "form"), [("nfc", "NFC"), ("nfkc", "NFKC")])
def test_normalization(normalize, form):
    text = "e\u0301 \ufb01n \uff21 \u00bd a\u00a0b"
    (found,) = make_tokenizer("whitespace", normalize)([text.encode()])
    assert found == unicodedata.normalize(form, text).encode().split()
    assert found[0] == "é".encode()
    assert (b"fin" in found) == (normalize == "nfkc")


def test_normalization_leaves_bytes_that_are_not_utf8():
    (found,) = make_tokenizer("whitespace", "nfc")([b"caf\xe9 e\xcc\x81\xff\xcc\x81 \0"])
    assert found == [b"caf\xe9", "é".encode() + b"\xff\xcc\x81", b"\0"]


def test_without_normalization_text_is_left_alone():
    line = "e\u0301 \ufb01 \uff21".encode()
    assert make_tokenizer("whitespace", "none")([line]) == [line.split()]


def test_tokenize_lines_works_in_batches_and_keeps_order(monkeypatch):
    monkeypatch.setattr(tokens, "_BATCH_BYTES", 10)
    sizes = []

    def tokenizer(batch):
        sizes.append(len(batch))
        return [line.split() for line in batch]

    lines = [b"a b", b"", b"c", b"d e f g h i", b"", b"j"]
    assert list(tokenize_lines(iter(lines), tokenizer)) == [line.split() for line in lines]
    assert sizes == [4, 2]
    assert list(tokenize_lines([], tokenizer)) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("spaces", "none"), r"^tokenizer must be one of 'whitespace', .*, got 'spaces'$"),
        (("whitespace", "NFC"), r"^normalize must be one of 'none', 'nfc', 'nfkc', got 'NFC'$"),
    ],
)
def test_unknown_names(arguments, message):
    with pytest.raises(InputError, match=message):
        make_tokenizer(*arguments)


def test_missing_tensorflow_text_is_said_in_a_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(InputError, match=r"^tokenizer unicode_script needs tensorflow_text: "):
        make_tokenizer("unicode_script", "none")


def test_default_tokenizer_does_not_import_tensorflow():
    program = (
        "import sys; from elmo_tf.text.tokens import make_tokenizer; "
        "assert make_tokenizer('whitespace', 'nfc')([b'a b']) == [[b'a', b'b']]; "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
