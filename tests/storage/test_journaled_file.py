import errno
import io
import json
import os
import random
import subprocess
import sys

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import journaled_file
from elmo_tf.storage.journaled_file import PAGE_BYTES, JournaledFile


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_is_a_file_object(path):
    """The same calls on an in-memory file give the same results, with or without commits."""
    choose = random.Random(5)
    file, model = JournaledFile(path), io.BytesIO()
    for step in range(2000):
        place, size = choose.randrange(3 * PAGE_BYTES), choose.randrange(2 * PAGE_BYTES)
        assert file.seek(place) == model.seek(place)
        if choose.random() < 0.5:
            piece = choose.randbytes(size)
            assert file.write(piece) == model.write(piece)
        else:
            assert file.read(size) == model.read(size).ljust(size, b"\0")
            model.seek(place + size)
        assert file.tell() == model.tell()
        assert file.seek(0, os.SEEK_END) == model.seek(0, os.SEEK_END)
        if choose.random() < 0.05:
            file.commit(step)
            assert content(path) == model.getvalue()
    file.close()


def test_what_was_committed_is_what_the_next_one_finds(path):
    file = JournaledFile(path)
    assert file.record is None
    file.write(b"a" * 700)
    file.commit({"lines": [1, 2]})
    file.write_at(3, b"bbb")
    file.seek(1300)
    file.write(b"c")
    file.close()
    file = JournaledFile(path)
    assert file.record == {"lines": [1, 2]}
    assert (file.seek(0, os.SEEK_END), content(path)) == (700, b"a" * 700)
    file.write_at(3, memoryview(b"bbb"))
    file.truncate(600)
    file.commit(None)
    file.close()
    assert content(path) == b"aaabbb" + b"a" * 594


def test_below_the_last_commit_nothing_is_written_before_the_next(path):
    file = JournaledFile(path)
    file.write(b"a" * 5)
    file.commit(1)
    file.seek(2)
    file.write(b"b" * 2000)
    kept = -(-5 // PAGE_BYTES) * PAGE_BYTES
    assert content(path)[:kept] == b"aaaaa".ljust(kept, b"\0")
    assert content(path)[kept:] == b"b" * (2002 - kept)
    file.seek(0)
    assert file.read(2002) == b"aa" + b"b" * 2000
    file.close()


def test_without_a_commit_nothing_is_left(path):
    file = JournaledFile(path)
    file.write(b"a" * 5)
    file.close()
    file = JournaledFile(path)
    assert (content(path), file.record) == (b"", None)
    file.close()


def test_reset(path):
    file = JournaledFile(path)
    file.write(b"a" * 5000)
    file.commit(1)
    file.reset()
    assert (file.record, content(path), file.seek(0, os.SEEK_END)) == (None, b"", 0)
    file.close()
    file = JournaledFile(path)
    assert file.record is None
    file.close()


def test_moving_leaves_no_journal_and_a_stray_one_means_nothing(path, tmp_path):
    file = JournaledFile(path)
    file.write(b"abc")
    file.commit(1)
    journal = content(path + ".journal")
    file.move_to(str(tmp_path / "target"))
    file.close()
    assert os.listdir(tmp_path) == ["target"]
    assert content(tmp_path / "target") == b"abc"
    (tmp_path / "file.journal").write_bytes(journal)  # killed just after the move
    file = JournaledFile(path)
    assert file.record is None
    file.close()


def test_one_writer_at_a_time(path):
    file = JournaledFile(path)
    with pytest.raises(InputError, match=f"{path}: another process is writing it"):
        JournaledFile(path)
    file.close()
    JournaledFile(path).close()


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"length": 3', b"[1]\n", b"\xff\n"])
def test_a_damaged_journal_is_said(path, damage):
    file = JournaledFile(path)
    file.write(b"abc")
    file.commit(1)
    file.close()
    with open(path + ".journal", "wb") as journal:
        journal.write(damage)
    with pytest.raises(InputError, match=f"{path}.journal: is damaged: "):
        JournaledFile(path)


def test_a_file_that_was_cut_is_said(path):
    file = JournaledFile(path)
    file.write(b"a" * 1000)
    file.commit(1)
    file.close()
    os.truncate(path, 999)
    with pytest.raises(InputError, match=r"is shorter than its journal says \(1000 bytes\)"):
        JournaledFile(path)


def test_a_full_disk_is_said_by_the_commit_and_costs_what_came_after_the_last(path, monkeypatch):
    file = JournaledFile(path)
    file.write(b"a" * 1000)
    file.commit(1)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journaled_file.os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            file.write_at(2000, b"b")
        file.write(b"c" * 3000)  # HDF5 would not survive an error here
        file.seek(1000)
        assert file.read(3000) == b"c" * 3000
    with pytest.raises(OSError, match="No space left"):
        file.commit(2)
    file.close()
    file = JournaledFile(path)
    assert (file.record, content(path)) == (1, b"a" * 1000)
    file.close()


NUM_STEPS = 4
WRITE_A_STEP = """
def write_a_step(file, step):
    choose = random.Random(step)
    for _ in range(5):
        file.seek(choose.randrange(2500))
        file.write(bytes([65 + step]) * choose.randrange(1500))
"""
# Writes a file repeatedly in a child process that dies at its first system call, the second
# one, and so on, until one survives; prints what each left, and the file after resuming.
VICTIMS = (
    """
import itertools, json, os, random, sys
from elmo_tf.storage.journaled_file import JournaledFile

directory, is_half, num_steps = sys.argv[1], sys.argv[2] == "half", int(sys.argv[3])

def die_at(fatal):
    calls = itertools.count(1)
    def fragile(name):
        function = getattr(os, name)
        def call(*arguments):
            if next(calls) == fatal:
                if is_half and name == "pwrite":
                    descriptor, content, offset = arguments
                    function(descriptor, content[: len(content) // 2], offset)
                os._exit(9)
            return function(*arguments)
        setattr(os, name, call)
    for name in ("open", "pwrite", "fsync", "replace", "ftruncate"):
        fragile(name)

def run(path):
    file = JournaledFile(path)
    for step in range(file.record or 0, num_steps):
        write_a_step(file, step)
        file.commit(step + 1)
    file.close()

def read(path):
    file = JournaledFile(path)
    file.close()
    with open(path, "rb") as stored:
        return file.record, stored.read().hex()
"""
    + WRITE_A_STEP
    + """
for fatal in itertools.count(1):
    path = os.path.join(directory, str(fatal))
    child = os.fork()
    if not child:
        die_at(fatal)
        run(path)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = read(path)
    run(path)
    print(json.dumps([status, *found, *read(path)]))
    if status == 0:
        break
"""
)


@pytest.mark.parametrize("death", ["between", "half"])
def test_killed_at_any_call_it_is_as_of_a_commit_and_goes_on_to_the_same(
    tmp_path, project_dir, death
):
    names = {"random": random}
    exec(WRITE_A_STEP, names)
    model, states = io.BytesIO(), {None: ""}
    for step in range(NUM_STEPS):
        names["write_a_step"](model, step)
        states[step + 1] = model.getvalue().hex()

    result = subprocess.run(
        [sys.executable, "-c", VICTIMS, tmp_path, death, str(NUM_STEPS)],
        env={**os.environ, "PYTHONPATH": str(project_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    victims = [json.loads(line) for line in result.stdout.splitlines()]
    records = []
    for status, record, content, last_record, last_content in victims:
        assert content == states[record]
        assert (last_record, last_content) == (NUM_STEPS, states[NUM_STEPS])
        records.append(record or 0)
        assert status == (0 if len(records) == len(victims) else 9)
    assert records == sorted(records)
    assert set(records) == set(range(NUM_STEPS + 1))
    assert len(victims) > 40
