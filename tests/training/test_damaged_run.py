"""Whatever happens to the files of a run: it is resumed, or one line says which file is wrong."""

import json
import shutil

import pytest

from elmo_tf.errors import InputError
from elmo_tf.training.heldout import HeldOut
from elmo_tf.training.loop import Trainer
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("shared_steps")

STEPS = 4
FILES = [
    "checkpoint",
    "ckpt-4.index",
    "ckpt-4.data-00000-of-00001",
    "options.json",
    "training.json",
    "vocab.txt",
    "heldout.json",
    "lock",
    "logs",
    "best",
]
# Without them, or with other content in them, the run is resumed.
NOT_NEEDED = {"checkpoint", "ckpt-4.index", "ckpt-4.data-00000-of-00001", "lock"}
DAMAGES = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "junk": lambda content: b"\xff\xfe\x00junk: {" + content[::-1],
    "list": lambda content: b"[]",
    "directory": None,
}
SETTINGS = {"max_steps": STEPS, "steps_per_checkpoint": 2, "steps_per_evaluation": 2}


def open_run(folder):
    """The run and its held-out figures, looked at as training does."""
    run = tiny.open_run(folder, **SETTINGS)
    heldout = HeldOut(run, [str(folder / "heldout.txt")])
    return run, heldout, heldout.num_worse(STEPS), heldout.is_due(STEPS)


def resume(folder):
    run, heldout, *_ = open_run(folder)
    return Trainer(run, heldout).step


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tiny.write_files(tmp_path_factory.mktemp("whole"))
    run, heldout, *_ = open_run(folder)
    Trainer(run, heldout).train()
    (folder / "run/lock").write_text("process 1\n")
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path


def damage(path, how):
    content = b"" if path.is_dir() else path.read_bytes()
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if DAMAGES[how] is None:
        path.mkdir()
    else:
        path.write_bytes(DAMAGES[how](content))


def error_in(function):
    """What `function` returns, and the text of its `InputError`; one of the two is None."""
    try:
        return function(), None
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_costs_a_checkpoint_or_is_named(folder, name, how, caplog):
    damage(folder / "run" / name, how)
    is_checkpoint = name.startswith("ckpt")
    step, error = error_in(lambda: resume(folder))
    if error:
        assert name in error
        assert "\n" not in error and len(error) < 600
        assert name not in NOT_NEEDED or how == "directory"
        return
    assert step == (2 if is_checkpoint else STEPS)
    assert ("going back to ckpt-2" in caplog.text) == is_checkpoint
    assert name in NOT_NEEDED or (name in ("best", "logs") and how == "directory")


VALUES = [None, True, 0, -1, 1.5, 1e400, "", "x", [], [1], {}, {"x": 1}]


@pytest.mark.parametrize("name", ["training.json", "heldout.json", "options.json"])
def test_every_value_of_another_type(folder, name):
    """Each value of the file, at any depth, replaced by values of each type of JSON."""
    path = folder / "run" / name
    stored = json.loads(path.read_text())
    places = list(_places(stored))
    assert len(places) > 5
    for place in places:
        for value in VALUES:
            path.write_text(json.dumps(_with(stored, place, value)))
            _, error = error_in(lambda: open_run(folder))
            assert error is None or "\n" not in error, (place, value)


def _places(value, before=()):
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*before, key)
            yield from _places(value[key], (*before, key))


def _with(stored, place, value):
    stored = json.loads(json.dumps(stored))
    inner = stored
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return stored
