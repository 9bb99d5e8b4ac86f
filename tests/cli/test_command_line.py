"""Output streams and exit statuses of commands."""

import importlib
import locale
import os
import signal
import subprocess
import sys

import pytest
from absl import flags

import elmo_tf
from elmo_tf.cli import command_line, text_flags
from elmo_tf.config import checks
from elmo_tf.errors import InputError, UsageError
from elmo_tf.storage import downloads
from tests.conftest import PROJECT_DIR

PROGRAM = "elmo-test-command-line"
FLAGS = flags.FlagValues()
flags.DEFINE_string("input_file", None, "The text.", FLAGS, required=True)
flags.DEFINE_list("names", None, "Names.", FLAGS, required=True)
flags.DEFINE_integer("count", 7, "Steps.", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_bool("fast", False, "Goes faster.", FLAGS)
flags.DEFINE_float("rate", None, "Per second.", flag_values=FLAGS, short_name="r")
flags.DEFINE_string("note", None, "Any text.", FLAGS)
command_line.accept_former_name(FLAGS, "number", "count")
text_flags.define(FLAGS)
REQUIRED = ["--input_file=a", "--names=b,c"]


def call(argv, body=lambda options: None, documentation="What it does.\n"):
    return command_line.run(FLAGS, body, argv, documentation, needs_tensorflow=False)


def keep_in(seen):
    return lambda options: seen.append(options)


def raising(error):
    def body(options):
        raise error

    return body


def run_python(program, *, keep_log_level=False, **options):
    """Runs Python in a user's environment, without the tests' settings."""
    environment = dict(os.environ) | options.pop("environment", {})
    if not keep_log_level:
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_flags_reach_the_body(capsys):
    seen = []
    arguments = [*REQUIRED, "--count", "3", "--fast", "-r", "0.5", "--tokenizer=unicode_script"]
    assert call(arguments, keep_in(seen)) == 0
    options = seen[0]
    assert (options.input_file, options.names, options.count) == ("a", ["b", "c"], 3)
    assert (options.fast, options.rate, options.normalize) == (True, 0.5, "none")
    assert options.tokenizer == "unicode_script"
    assert capsys.readouterr() == ("", "")


def test_a_second_call_starts_from_the_defaults():
    seen = []
    call([*REQUIRED, "--count=3", "--names=d"], keep_in(seen))
    call(REQUIRED, keep_in(seen))
    assert [options.count for options in seen] == [3, 7]
    assert seen[1].names == ["b", "c"]
    assert not FLAGS.is_parsed()


def test_a_former_name_of_a_flag_is_accepted():
    seen = []
    assert call([*REQUIRED, "--number=3"], keep_in(seen)) == 0
    assert (seen[0].count, seen[0]["count"].present) == (3, 1)
    call(REQUIRED, keep_in(seen))
    assert seen[1].count == 7


def test_arguments_of_the_process_are_the_default(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "argv", ["program", *REQUIRED])
    assert call(None, keep_in(seen)) == 0
    assert seen[0].input_file == "a"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--input_file, --names: required; --help lists the flags"),
        (["--input_file=a"], "--names: required; --help lists the flags"),
        (["--input_file=", "--names="], "--input_file, --names: required; --help lists the flags"),
        (["--input_file=a\0b", "--names=b"], "--input_file: holds a NUL character"),
        (["--input_file=a", "--names=b,c\0"], "--names: holds a NUL character"),
        ([*REQUIRED, "--note="], "--note: must not be empty"),
        ([*REQUIRED, "--cuont=3"], "--cuont: unknown flag, did you mean --count?"),
        ([*REQUIRED, "--zzz"], "--zzz: unknown flag; --help lists the flags"),
        ([*REQUIRED, "--count=0"], "--count=0: 0 is not a positive integer"),
        ([*REQUIRED, "--count=x"], "--count=x: invalid literal for int() with base 10: 'x'"),
        ([*REQUIRED, "--count"], "Missing value for flag --count"),
        ([*REQUIRED, "--nofast=1"], "--nofast=1 does not take an argument"),
        (
            [*REQUIRED, "--normalize=NFC"],
            "--normalize=NFC: value should be one of <none|nfc|nfkc>",
        ),
        (
            ["b.txt", *REQUIRED],
            "unexpected argument 'b.txt'; a glob needs quotes; --help lists the flags",
        ),
        (
            [*REQUIRED, "--", "--help"],
            "unexpected argument '--help'; a glob needs quotes; --help lists the flags",
        ),
    ],
)
def test_wrong_use_is_one_line_and_status_2(capsys, arguments, message):
    assert call(arguments, raising(AssertionError("must not run"))) == 2
    assert capsys.readouterr() == ("", f"{PROGRAM}: {message}\n")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InputError("vocab.txt: line 3 is blank"), 1, "vocab.txt: line 3 is blank"),
        (UsageError("--a: not with --b"), 2, "--a: not with --b"),
        (FileNotFoundError(2, "No such file", "x.txt"), 1, "x.txt: No such file"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError("can't open\n  (file signature not found)"), 1, None),
        (MemoryError(), 1, "out of memory"),
        (UnicodeEncodeError("utf-8", "r\udcff/x", 1, 2, "no"), 1, None),
        (KeyboardInterrupt(), 130, "interrupted"),
        (InputError("a\r\n  b \n\nc\x1b[1m\ud800 é"), 1, r"a b c\x1b[1m\ud800 é"),
    ],
)
def test_failures_are_one_line(capsys, error, status, message):
    if isinstance(error, UnicodeEncodeError):
        message = r"r\udcff/x: is not UTF-8, which TensorFlow needs names to be"
    elif message is None:
        message = "can't open (file signature not found)"
    assert call(REQUIRED, raising(error)) == status
    assert capsys.readouterr() == ("", f"{PROGRAM}: {message}\n")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("count must be 1, got count", "count"), "--count must be 1, got count"),
        (
            InputError("a/rate: rate (fast) or rate", "rate", "fast"),
            "a/rate: --rate (--fast) or rate",
        ),
        (InputError("x exists; fast=True helps", "fast=True"), "x exists; --fast helps"),
        (InputError("texts: none; depth is 2", "texts", "depth"), "--input_file: none; depth is 2"),
        (InputError("count must be 1"), "count must be 1"),  # about a file, not an argument
    ],
)
def test_arguments_of_the_library_are_shown_as_flags(error, message):
    assert command_line.in_flags(error, FLAGS, {"texts": "--input_file"}) == message


def test_an_error_of_the_library_names_the_flag(capsys):
    error = checks.refusal("count", "an integer >= 1", 0)
    assert call(REQUIRED, raising(error)) == 1
    assert capsys.readouterr().err == f"{PROGRAM}: --count must be an integer >= 1, got 0\n"


def test_out_of_memory_says_what_was_asked_for(capsys):
    values = flags.FlagValues()
    flags.DEFINE_integer("batch_size", 7, "Rows.", flag_values=values)
    flags.DEFINE_integer("unroll_steps", 3, "Steps.", flag_values=values)
    kind = type("ResourceExhaustedError", (Exception,), {})
    for error in (MemoryError(), kind("OOM when allocating tensor with shape[7,9]")):
        assert command_line.run(values, raising(error), [], "", needs_tensorflow=False) == 1
        message = "out of memory with --batch_size=7, --unroll_steps=3"
        assert capsys.readouterr().err == f"{PROGRAM}: {message}\n"
    with pytest.raises(kind):  # for example, a full disk
        command_line.run(values, raising(kind("No space left")), [], "", needs_tensorflow=False)


def test_help_names_what_was_typed(capsys, monkeypatch):
    documentation = "    python -m elmo_tf.embed --x\n    python -m export.export_elmo --y"
    call(["--help"], documentation=documentation)
    assert capsys.readouterr().out.startswith("python -m elmo_tf.embed --x\n    python -m export.")
    monkeypatch.setattr(sys, "argv", ["bin/elmo-embed"])
    call(["--help"], documentation=documentation)
    assert capsys.readouterr().out.startswith("elmo-embed --x\n    elmo-export --y\n")


def test_faults_of_ours_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        call(REQUIRED, lambda options: 1 // 0)


def test_developers_can_ask_for_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("ELMO_TF_TRACEBACK", "1")
    assert call(REQUIRED, raising(InputError("wrong"))) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == f"{PROGRAM}: wrong"


@pytest.mark.parametrize("argument", ["--help", "-h", "-help", "--helpfull"])
def test_help_needs_no_other_flag(capsys, argument):
    assert call(["--count=x", argument], raising(AssertionError("must not run"))) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    lines = output.splitlines()
    assert lines[:3] == ["What it does.", "", f"Flags of {PROGRAM}:"]
    for line in (
        "  --input_file=STRING (required)",
        "  --count=INT (default: 7)",
        "      Steps.",
        "  --[no]fast (default: false)",
        "  --rate=FLOAT",
        "  --normalize=none|nfc|nfkc (default: none)",
    ):
        assert lines.count(line) == 1
    assert "number" not in output
    assert max(map(len, lines)) <= 100
    assert all(flags.FlagValues.__getitem__(FLAGS, name).help for name in FLAGS)


def commands():
    """The modules of all commands, which are found by their contents."""
    found = []
    for package in ("elmo_tf", "export"):
        for path in sorted((PROJECT_DIR / package).glob("*.py")):
            if "    return command_line.run(" in path.read_text(encoding="utf-8"):
                found.append(f"{package}.{path.stem}")
    return found


def test_help_waits_for_no_large_library(project_dir):
    """All commands run in one process, so an import by one of them affects the others."""
    program = (
        "import runpy, sys\n"
        "for module in sys.stdin.read().split():\n"
        "    sys.argv = ['x', '--help']\n"
        "    try:\n"
        "        runpy.run_module(module, run_name='__main__', alter_sys=True)\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 0\n"
        "    slow = {'tensorflow', 'keras', 'tensorflow_text'} & set(sys.modules)\n"
        "    assert not slow, (module, slow)\n"
    )
    modules = commands()
    assert {"elmo_tf.vocab", "export.export_elmo"} <= set(modules)
    result = run_python(program, cwd=project_dir, input=" ".join(modules))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("Flags of elmo-") == len(modules)


def test_tensorflow_starts_without_a_word_and_as_the_backend(project_dir):
    program = (
        "from elmo_tf.cli.tensorflow_start import load_tensorflow\n"
        "load_tensorflow()\n"
        "load_tensorflow()\n"
        "import tensorflow as tf\n"
        "tf.constant(1) + 1\n"
        "import keras, os\n"
        "os.write(2, keras.backend.backend().encode())\n"
    )
    result = run_python(program, cwd=project_dir, environment={"KERAS_BACKEND": "numpy"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "tensorflow")


def test_what_tensorflow_says_is_shown_if_it_fails_to_load(project_dir, tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'said before\\n')\nraise ImportError('no such library')\n"
    )
    program = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "from elmo_tf.cli.tensorflow_start import load_tensorflow\n"
        "load_tensorflow()\n"
    )
    result = run_python(program, cwd=project_dir)
    assert result.returncode == 1
    assert result.stderr.startswith("said before\nTraceback")
    assert result.stderr.endswith("ImportError: no such library\n")


SCRIPT = """
import sys, time
from absl import flags
from elmo_tf.cli import command_line
def body(options):
    print("ready", flush=True)
    {body}
sys.exit(command_line.run(flags.FlagValues(), body, [], "", needs_tensorflow=False))
"""


def start(project_dir, tmp_path, body, **streams):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(body=body))
    environment = {**os.environ, "PYTHONPATH": str(project_dir)}
    return subprocess.Popen([sys.executable, path], env=environment, text=True, **streams)


@pytest.mark.usefixtures("terminal_signals")
def test_an_interrupt_is_one_line(project_dir, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(project_dir, tmp_path, "time.sleep(60)", **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "elmo-script: interrupted\n")


def test_a_reader_that_leaves_ends_the_command_quietly(project_dir, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    body = "[print('x' * 1000) for _ in range(10000)]"
    with start(project_dir, tmp_path, body, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_full_disk_behind_stdout_is_one_line(project_dir, tmp_path):
    with open("/dev/full", "w") as full:
        process = start(project_dir, tmp_path, "pass", stdout=full, stderr=subprocess.PIPE)
        with process:
            errors = process.stderr.read()
    assert (process.returncode, errors) == (1, "elmo-script: No space left on device\n")


CLOSED = "elmo-script: stdout is closed, but the answer is printed there\n"


@pytest.mark.parametrize(
    ("body", "status", "errors"),
    [("pass", 0, ""), ("command_line.require_stdout('the answer')", 1, CLOSED)],
)
def test_only_a_result_needs_stdout(project_dir, tmp_path, body, status, errors):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(body=body))
    result = subprocess.run(
        ["sh", "-c", '"$0" "$1" >&-', sys.executable, path],
        env={**os.environ, "PYTHONPATH": str(project_dir)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (result.returncode, result.stderr) == (status, errors)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_the_encoding_lacks_is_printed_as_an_escape(project_dir, tmp_path, encoding):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(body=r"print('saved in \xe9\udcff')"), encoding="ascii")
    environment = {"PYTHONPATH": str(project_dir), "PYTHONIOENCODING": encoding}
    result = run_python(path.read_text(), cwd=tmp_path, environment=environment)
    shown = r"\xe9" if encoding == "ascii" else "\xe9"
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"ready\nsaved in {shown}\\udcff\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--cuont", "--version"]])
def test_version(capsys, arguments):
    assert call(arguments, raising(AssertionError("must not run"))) == 0
    assert capsys.readouterr() == (f"{PROGRAM} {elmo_tf.__version__}\n", "")


def test_a_flag_file_that_is_not_text_is_named_with_its_line(tmp_path, capsys):
    encoding = locale.getencoding()
    inner, outer = tmp_path / "inner.flags", tmp_path / "outer.flags"
    inner.write_bytes(b"--count=3\n--note=\xff\n")
    outer.write_text(f"--fast\n--flagfile={inner}\n")
    for arguments in ([f"--flagfile={inner}"], ["--flagfile", str(outer)]):
        assert call([*REQUIRED, *arguments]) == 2
        expected = f"{PROGRAM}: --flagfile: {inner}, line 2: is not text in {encoding}\n"
        assert capsys.readouterr() == ("", expected)


DOOR_NAMES = ("vocab", "train", "evaluate", "score", "embed", "export_elmo", "export_weights")


@pytest.mark.parametrize("name", DOOR_NAMES)
def test_values_of_any_length_give_short_errors(name, capsys, monkeypatch):
    """Every string flag of each command, one at a time."""
    module = importlib.import_module(f"{'export' if 'export' in name else 'elmo_tf'}.{name}")
    monkeypatch.setattr(command_line, "load_tensorflow", lambda: None)
    is_text = [f for f in module._FLAGS if module._FLAGS[f].flag_type() == "string"]
    assert is_text
    for flag in is_text:
        value = "x" * 5000
        assert module.main([f"--{other}={value}" for other in is_text if other != flag]) != 0
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1 and len(errors) < 1000, errors


def test_the_cache_directory_is_named_by_a_flag(monkeypatch, tmp_path):
    monkeypatch.setenv(downloads.CACHE_VARIABLE, "before")
    values = flags.FlagValues()
    command_line.define_cache_dir(values)
    seen = []

    def body(options):
        seen.append(downloads.cache_directory())

    for arguments in ([], [f"--cache_dir={tmp_path}"]):
        assert command_line.run(values, body, arguments, "", needs_tensorflow=False) == 0
    assert seen == ["before", str(tmp_path)]
