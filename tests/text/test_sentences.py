"""Sentences from files: skipped lines, orders, and resuming at any position."""

import collections
import itertools
import json
import tracemalloc

import pytest

from elmo_tf.errors import InputError
from elmo_tf.text import sentences, tokens
from elmo_tf.text.sentences import SentenceReader

split = tokens.make_tokenizer("whitespace")


def write_shards(directory, *contents):
    """Writes each content (bytes) to a file and returns their names."""
    paths = []
    for i, content in enumerate(contents):
        path = directory / f"shard{i}.txt"
        path.write_bytes(content)
        paths.append(str(path))
    return paths


def numbered(*sizes):
    """Contents of shards with the given numbers of sentences, labelled by shard and number."""
    return [
        b"".join(f"s{shard} n{i}\n".encode() for i in range(size))
        for shard, size in enumerate(sizes)
    ]


@pytest.fixture
def small_chunks(monkeypatch):
    """Block sizes so small that a few lines take several blocks."""
    monkeypatch.setattr(sentences, "_CHUNK_LINES", 3)
    monkeypatch.setattr(sentences, "_CHUNK_BYTES", 17)


def test_order_of_files_and_lines_is_kept(tmp_path, small_chunks):
    paths = write_shards(tmp_path, b"a b\nc\n", b"d\n", b"e f g\nh\ni\nj")
    read = list(SentenceReader(paths, split, passes=2))
    once = [[b"a", b"b"], [b"c"], [b"d"], [b"e", b"f", b"g"], [b"h"], [b"i"], [b"j"]]
    assert read == once + once


def test_blank_lines_empty_shards_line_ends_and_marks_are_no_sentences(tmp_path):
    paths = write_shards(
        tmp_path, b"", b"\xef\xbb\xbfa\r\n\r\n \t\r\nb\n\n", b"\n\n", b"\xef\xbb\xbf", b"\x0b\nc"
    )
    assert list(SentenceReader(paths, split, passes=1)) == [[b"a"], [b"b"], [b"c"]]


def test_only_ascii_white_space_is_blank(tmp_path):
    paths = write_shards(tmp_path, "\u00a0\n\u3000\n".encode())
    assert list(SentenceReader(paths, split, passes=1)) == [
        ["\u00a0".encode()],
        ["\u3000".encode()],
    ]


def test_a_line_longer_than_a_chunk_is_one_sentence(tmp_path, small_chunks):
    long = [b"word%d" % i for i in range(5000)]
    paths = write_shards(tmp_path, b"a\n" + b" ".join(long) + b"\nb\n")
    assert list(SentenceReader(paths, split, passes=1)) == [[b"a"], long, [b"b"]]


def test_lines_for_which_the_tokenizer_finds_nothing_are_passed_over(tmp_path, small_chunks):
    paths = write_shards(tmp_path, b"a\n.\n.\n.\n.\nb\n")
    without_dots = lambda batch: [line.replace(b".", b"").split() for line in batch]  # noqa: E731
    assert list(SentenceReader(paths, without_dots, passes=1)) == [[b"a"], [b"b"]]


def test_tokenizer_gets_batches_across_shards(tmp_path):
    batches = []

    def watched(batch):
        batches.append(len(batch))
        return split(batch)

    paths = write_shards(tmp_path, *numbered(2, 1, 4))
    assert len(list(SentenceReader(paths, watched, passes=1))) == 7
    assert batches == [7]


def test_long_lines_are_tokenized_a_few_at_a_time(tmp_path, small_chunks):
    batches = []

    def watched(batch):
        batches.append([len(line) for line in batch])
        return split(batch)

    paths = write_shards(tmp_path, b"123456789\n" * 3 + b"1\n" * 4 + b"1234567890 1234567890\n1\n")
    assert len(list(SentenceReader(paths, watched, passes=1))) == 9
    assert batches == [[9, 9], [9, 1, 1], [1, 1, 21], [1]]


def test_endless_reader_never_ends(tmp_path):
    paths = write_shards(tmp_path, b"a\nb\n")
    read = itertools.islice(SentenceReader(paths, split), 5)
    assert list(read) == [[b"a"], [b"b"], [b"a"], [b"b"], [b"a"]]


@pytest.mark.parametrize("shuffle_buffer", [0, 4])
def test_endless_reader_without_sentences_is_an_error(tmp_path, shuffle_buffer):
    paths = write_shards(tmp_path, b"\n\n", b"", b" \n")
    reader = SentenceReader(paths, split, shuffle_buffer)
    with pytest.raises(InputError, match=r"no sentence in .*shard0\.txt and 2 other files$"):
        next(reader)


def test_finite_reader_without_sentences_ends(tmp_path):
    assert list(SentenceReader(write_shards(tmp_path, b"\n"), split, passes=3)) == []


# Two shards in a buffer, a buffer that spans shards, one larger than the corpus.
@pytest.mark.parametrize("shuffle_buffer", [2, 7, 1000])
def test_shuffled_passes_are_different_permutations(tmp_path, small_chunks, shuffle_buffer):
    paths = write_shards(tmp_path, *numbered(5, 0, 13, 11, 3))
    kept = list(SentenceReader(paths, split, passes=1))
    read = list(SentenceReader(paths, split, shuffle_buffer, seed=3, passes=3))
    passes = [read[:32], read[32:64], read[64:]]
    for one in passes:
        assert sorted(one) == sorted(kept)
        assert one != kept
    assert passes[0] != passes[1] != passes[2] != passes[0]


def test_shards_change_places_and_a_buffer_mixes_only_what_it_holds(tmp_path):
    paths = write_shards(tmp_path, *numbered(4, 4, 4, 4, 4))
    read = list(SentenceReader(paths, split, shuffle_buffer=4, seed=1, passes=2))
    shards = [sentence[0] for sentence in read]
    blocks = [set(shards[i : i + 4]) for i in range(0, 40, 4)]
    assert all(len(block) == 1 for block in blocks)
    assert blocks[:5] != blocks[5:]


def test_every_place_of_a_buffer_is_reached(tmp_path):
    paths = write_shards(tmp_path, b"a\nb\nc\n")
    read = list(SentenceReader(paths, split, shuffle_buffer=3, passes=300))
    orders = collections.Counter(
        tuple(token for (token,) in read[i : i + 3]) for i in range(0, 900, 3)
    )
    assert len(orders) == 6
    assert min(orders.values()) > 25  # 50 each on average


def test_order_depends_on_the_seed_alone(tmp_path):
    paths = write_shards(tmp_path, *numbered(9, 8))

    def read(seed):
        return list(SentenceReader(paths, split, 17, seed=seed, passes=1))

    assert read(5) == read(5)
    seeds = [0, 5, -5, 5 + (1 << 32), 1 << 32]
    assert len({str(read(seed)) for seed in seeds}) == len(seeds)


def test_order_of_a_seed_stays_as_it_is(tmp_path):
    # With a different order, runs of earlier releases would silently continue with other data.
    paths = write_shards(tmp_path, b"a\nb\nc\nd\ne\n", b"f\ng\n")
    read = list(SentenceReader(paths, split, shuffle_buffer=4, seed=7, passes=1))
    assert b"".join(token for (token,) in read) == b"cabdgfe"


@pytest.mark.parametrize("shuffle_buffer", [0, 1, 5, 1000])
def test_resumes_from_every_position(tmp_path, small_chunks, shuffle_buffer):
    contents = [b"\n\na b\n", b"c\r\n\r\nd e f g h i j\nk\nl\nm", b"", b"\xef\xbb\xbfn\no\np\n\n\n"]
    paths = write_shards(tmp_path, *contents)

    def reader():
        return SentenceReader(paths, split, shuffle_buffer, seed=11, passes=3)

    whole = list(reader())
    assert len(whole) == 27
    unbroken = reader()
    for num_read in range(len(whole) + 1):
        state = json.loads(json.dumps(unbroken.state()))
        resumed = reader()
        resumed.restore(state)
        assert list(resumed) == whole[num_read:]
        assert next(unbroken, None) == (whole[num_read] if num_read < 27 else None)


def test_going_back_reads_one_block_and_no_more(tmp_path, small_chunks):
    paths = write_shards(tmp_path, *numbered(40))
    reader = SentenceReader(paths, split, passes=1)
    for _ in range(30):
        next(reader)
    lines_read = []

    def watched(batch):
        lines_read.extend(batch)
        return split(batch)

    resumed = SentenceReader(paths, watched, passes=1)
    resumed.restore(reader.state())
    assert len(lines_read) <= 3
    assert next(resumed) == [b"s0", b"n30"]


def test_position_survives_a_move_of_the_files(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = SentenceReader(write_shards(tmp_path / "old", b"a\nb\n"), split)
    next(old)
    new = SentenceReader(write_shards(tmp_path / "new", b"a\nb\n"), split)
    new.restore(old.state())
    assert next(new) == [b"b"]


@pytest.mark.parametrize(
    ("contents", "settings", "message"),
    [
        ([b"a b\nc\n"], {}, "number of text files changed .*: was 2, is 1"),
        ([b"a b\nc\n", b"d"], {}, "size of the text files in bytes changed .*: was 9, is 7"),
        ([b"a b\nc\nd\n", b"e"], {}, r"names and sizes of the text files \(SHA-256\) changed"),
        ([b"a b\nc\n", b"d\ne"], {"seed": 6}, "seed changed .*: was 5, is 6"),
        ([b"a b\nc\n", b"d\ne"], {"shuffle_buffer": 2}, "shuffle_buffer changed .*: was 0, is 2"),
    ],
)
def test_position_in_other_data_is_refused(tmp_path, contents, settings, message):
    reader = SentenceReader(write_shards(tmp_path, b"a b\nc\n", b"d\ne"), split, seed=5)
    state = reader.state()
    other = SentenceReader(write_shards(tmp_path, *contents), split, **{"seed": 5, **settings})
    with pytest.raises(InputError, match=message):
        other.restore(state)


@pytest.mark.parametrize(
    ("num_read", "content"),
    [
        (5, b"a\nb\nccc\ne\n"),  # where the block began is now inside a line
        (2, b"a b c d e\n"),  # the block holds fewer sentences than were taken
    ],
)
def test_edited_file_of_the_same_size_is_refused(tmp_path, small_chunks, num_read, content):
    original = b"a\nb\nc\nd\ne\n"
    assert len(content) == len(original)
    reader = SentenceReader(write_shards(tmp_path, original), split)
    for _ in range(num_read):
        next(reader)
    edited = SentenceReader(write_shards(tmp_path, content), split)
    with pytest.raises(InputError, match=r"shard0\.txt changed since the position"):
        edited.restore(reader.state())


def test_file_that_changes_while_in_use_is_an_error(tmp_path):
    paths = write_shards(tmp_path, b"a\nb\n")
    reader = SentenceReader(paths, split)
    assert [next(reader), next(reader)] == [[b"a"], [b"b"]]
    write_shards(tmp_path, b"a\n")
    with pytest.raises(InputError, match=r"shard0\.txt changed its size while it was in use"):
        next(reader)


def test_text_that_is_not_utf8_is_named(tmp_path):
    paths = write_shards(tmp_path, b"a\n", "ü\n\nna\xefve b\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"shard1\.txt:1: is not UTF-8: byte 0xfc at byte 1 of"):
        list(SentenceReader(paths, split, passes=1))
    paths = write_shards(tmp_path, b"a\n", b"fine\n\nna\xefve b\n")
    with pytest.raises(InputError, match=r"shard1\.txt:3: is not UTF-8: byte 0xef at byte 3 of"):
        list(SentenceReader(paths, split, passes=1))


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ([], {}, "no files to read sentences from"),
        (["."], {}, r"\. is not a regular file"),
        (["/dev/null"], {}, "/dev/null is not a regular file"),
        (["absent.txt"], {}, "absent.txt: cannot be read: No such file"),
        ([__file__], {"shuffle_buffer": -1}, "shuffle_buffer must be an integer >= 0, got -1"),
        ([__file__], {"passes": 0}, "passes must be an integer >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(files, settings, message):
    with pytest.raises(InputError, match=message):
        SentenceReader(files, split, **settings)


def test_memory_does_not_grow_with_the_shard(tmp_path):
    path = tmp_path / "large.txt"
    line = b"the same eight words on each line again\n"
    path.write_bytes(line * 150_000)  # 6 MB, as lists of tokens about 60 MB
    tracemalloc.start()
    try:
        assert sum(1 for _ in SentenceReader([str(path)], split, passes=1)) == 150_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
