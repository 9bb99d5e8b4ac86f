"""New and resumed runs: stored files, allowed changes, and errors."""

import json
import os
import shutil

import pytest

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, UsageError
from elmo_tf.training import run_directory, text_files
from tests.training import tiny


@pytest.fixture
def folder(tmp_path):
    return tiny.write_files(tmp_path)


def test_a_new_run_is_written_down(folder):
    run = tiny.open_run(folder, batch_size=5, dropout=0.25)
    path = folder / "run"
    assert run_directory.is_run(path)
    assert ElmoConfig.from_file(path / "options.json") == tiny.CONFIG
    assert (path / "vocab.txt").read_bytes() == (folder / "vocab").read_bytes()
    config, training, stored = run_directory.read_description(path)
    assert (config, training) == (run.config, run.training)
    assert (training.batch_size, training.dropout, training.learning_rate) == (5, 0.25, 0.2)
    assert stored["text"]["num_sentences"] == tiny.NUM_SENTENCES
    assert stored["text"]["num_tokens"] == tiny.NUM_TOKENS
    assert stored["text"]["files"]["number of text files"] == 2


@pytest.mark.parametrize(
    ("settings", "per_epoch", "steps"),
    [
        ({}, tiny.NUM_TOKENS // 12, 2 * (tiny.NUM_TOKENS // 12)),
        ({"max_steps": 3}, tiny.NUM_TOKENS // 12, 3),
        ({"max_steps": 10_000}, tiny.NUM_TOKENS // 12, 2 * (tiny.NUM_TOKENS // 12)),
        ({"batch_size": 100, "num_epochs": 3}, 1, 3),  # the text does not fill one window
    ],
)
def test_length_of_a_run(folder, settings, per_epoch, steps):
    run = tiny.open_run(folder, **settings)
    assert (run.steps_per_epoch, run.num_steps) == (per_epoch, steps)


def test_the_same_request_finds_the_run(folder):
    run = tiny.open_run(folder, batch_size=5)
    before = (folder / "run" / "training.json").stat().st_mtime_ns
    found = tiny.open_run(folder, batch_size=5)
    assert found._replace(vocabulary=None) == run._replace(vocabulary=None)
    assert found.vocabulary.words == run.vocabulary.words
    assert (folder / "run" / "training.json").stat().st_mtime_ns == before


def test_what_is_not_asked_for_stays_as_it_is(folder):
    tiny.open_run(folder, batch_size=5)
    asked = tiny.request(folder)._replace(settings={}, config=None)
    assert run_directory.resume_run(asked).training.batch_size == 5


def test_length_and_reports_may_change(folder):
    tiny.open_run(folder)
    changed = {"num_epochs": 7, "max_steps": 44, "steps_per_checkpoint": 3}
    run = tiny.open_run(folder, **changed)
    assert run.num_steps == 44
    _, training, _ = run_directory.read_description(folder / "run")
    assert {name: getattr(training, name) for name in changed} == changed


def test_the_end_of_a_schedule_is_fixed_when_the_run_is_begun(folder):
    steps = 2 * (tiny.NUM_TOKENS // 12)
    assert tiny.open_run(folder, learning_rate_schedule="linear").training.decay_steps == steps
    longer = tiny.open_run(folder, learning_rate_schedule="linear", num_epochs=7)
    assert (longer.training.decay_steps, longer.num_steps) == (steps, 7 * steps // 2)
    message = rf"warmup_steps must be below the steps of the run \({steps}\) .* cosine, got 99"
    with pytest.raises(InputError, match=message):
        tiny.open_run(folder, "other", learning_rate_schedule="cosine", warmup_steps=99)
    assert not (folder / "other").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 4}, r"batch_size \(was 3, is 4\)"),
        ({"seed": 1, "dropout": 0.0}, r"seed \(was 0, is 1\), dropout \(was 0.1, is 0.0\)"),
        ({"tokenizer": "unicode_script"}, r"tokenizer \(was whitespace, is unicode_script\)"),
    ],
)
def test_other_settings_are_refused_by_name(folder, settings, message):
    tiny.open_run(folder)
    with pytest.raises(UsageError, match=f"run holds another run: {message}; use the values"):
        tiny.open_run(folder, **settings)


def test_other_files_are_refused_by_name(folder):
    tiny.open_run(folder)
    other = tiny.request(folder)._replace(
        config=ElmoConfig.from_size("tiny"), initial_weights="weights.zip"
    )
    (folder / "vocab").write_bytes(b"<S>\n</S>\n<UNK>\nother\n")
    (folder / "a.txt").write_bytes(b"other words\n")
    with pytest.raises(UsageError) as error:
        run_directory.resume_run(other)
    for flag in (
        "config (not that of options.json)",
        "vocabulary_file (not the words of vocab.txt)",
        "text_files (other files, or other text in them)",
        "initial_weights (was none, is weights.zip)",
    ):
        assert flag in str(error.value)


def change(path, old, new):
    """Changes the text and the modification time but not the size."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    moment = before.st_mtime_ns + 10**9
    os.utime(path, ns=(before.st_atime_ns, moment))
    assert path.stat().st_size == before.st_size


def test_tokens_are_counted_once(folder, monkeypatch):
    counted = []
    count = run_directory.count_corpus
    monkeypatch.setattr(run_directory, "count_corpus", lambda *a: counted.append(a) or count(*a))
    texts = [tiny.open_run(folder).text for _ in range(3)]
    assert len(counted) == 1
    assert texts[0] == texts[1] == texts[2]


def test_text_of_the_same_size_that_changed_is_refused(folder):
    tiny.open_run(folder)
    change(folder / "b.txt", b"b1", b"b9")
    with pytest.raises(UsageError, match="text_files .other files, or other text in them"):
        tiny.open_run(folder)
    change(folder / "b.txt", b"b9", b"b1")  # the original text with a new time
    tiny.open_run(folder)


def test_contents_are_read_only_after_a_write(folder, monkeypatch):
    tiny.open_run(folder)
    read = text_files._digest_of_contents
    monkeypatch.setattr(text_files, "_digest_of_contents", lambda paths: pytest.fail("read"))
    tiny.open_run(folder)
    monkeypatch.setattr(text_files, "_digest_of_contents", read)
    for name in ("a.txt", "b.txt"):
        os.utime(folder / name, ns=(10**18, 10**18))
    tiny.open_run(folder)  # stores the new times
    monkeypatch.setattr(text_files, "_digest_of_contents", lambda paths: pytest.fail("read"))
    tiny.open_run(folder)


def test_contents_count_by_file(folder):
    """The same bytes, divided differently into files, have different lines."""
    first = text_files.TextIdentity.of([str(folder / "a.txt"), str(folder / "b.txt")])
    a, b = (folder / "a.txt").read_bytes(), (folder / "b.txt").read_bytes()
    (folder / "a.txt").write_bytes(a + b[:1])
    (folder / "b.txt").write_bytes(b[1:])
    second = text_files.TextIdentity.of([str(folder / "a.txt"), str(folder / "b.txt")])
    assert first.contents != second.contents


def test_a_corpus_may_be_moved(folder):
    tiny.open_run(folder)
    (folder / "moved").mkdir()
    files = [shutil.move(folder / name, folder / "moved") for name in ("a.txt", "b.txt")]
    moved = tiny.request(folder)._replace(text_files=[str(path) for path in files])
    assert run_directory.resume_run(moved).text_files == moved.text_files


@pytest.mark.parametrize("name", ["saved_model.pb", "checkpoint", "weights.hdf5", "ckpt-3.index"])
def test_a_directory_with_something_else_is_refused(folder, name):
    (folder / "run").mkdir()
    (folder / "run" / name).touch()
    with pytest.raises(InputError, match=f".*run: holds {name} but no training.json"):
        tiny.open_run(folder)


def test_a_file_in_place_of_the_directory(folder):
    (folder / "run").touch()
    with pytest.raises(InputError, match=".*run: is not a directory"):
        tiny.open_run(folder)


def test_text_without_a_sentence_begins_no_run(folder):
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes(b"\n \n")
    with pytest.raises(InputError, match=r"no sentence in .*a.txt, .*b.txt"):
        tiny.open_run(folder)
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not the directory of a training run: no training.json"),
        ("{", "training.json:1: is not JSON"),
        ("{}", "training.json: settings, text, initial_weights missing"),
        (
            '{"settings": {}, "text": {"files": {}}, "initial_weights": null}',
            "text.times, text.contents, text.num_sentences, text.num_tokens missing",
        ),
    ],
)
def test_damaged_descriptions(folder, content, message):
    tiny.open_run(folder)
    path = folder / "run" / "training.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message):
        run_directory.read_description(folder / "run")


def test_an_edited_setting_is_named(folder):
    tiny.open_run(folder)
    path = folder / "run" / "training.json"
    stored = json.loads(path.read_text())
    stored["settings"]["dropout"] = 1.5
    path.write_text(json.dumps(stored))
    with pytest.raises(InputError, match=r"training.json: dropout must be a number >= 0 and < 1"):
        run_directory.read_description(folder / "run")


def test_reader_is_endless_and_in_the_order_of_the_seed(folder):
    orders = []
    for seed in (0, 1):
        reader = tiny.open_run(folder, f"run{seed}", seed=seed).reader()
        orders.append([next(reader) for _ in range(2 * tiny.NUM_SENTENCES)])
    assert orders[0] != orders[1]
    for order in orders:
        for half in (order[: tiny.NUM_SENTENCES], order[tiny.NUM_SENTENCES :]):
            assert sorted(half) == sorted(tiny.sentence(k) for k in range(tiny.NUM_SENTENCES))


def test_the_vocabulary_is_checked_before_the_text_is_counted(folder, monkeypatch):
    monkeypatch.setattr(run_directory, "count_corpus", lambda *_: pytest.fail("counted"))
    (folder / "vocab").write_bytes(b"<S>\n</S>\n")
    with pytest.raises(InputError, match="the line <UNK> is missing"):
        tiny.open_run(folder)
