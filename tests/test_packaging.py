"""What the wheel holds: `elmo_tf`, and no other name at the top of a user's environment."""

import subprocess
import sys
import zipfile

import pytest

PROGRAM = """
import sys

from elmo_tf.export import export_elmo
from elmo_tf import train  # its --export_dir imports the exporter late

import elmo_tf.export.saved_model as saved_model

assert saved_model.__file__.startswith(sys.argv[1]), saved_model.__file__
assert "export" not in sys.modules
"""


@pytest.fixture(scope="module")
def unpacked_wheel(tmp_path_factory, project_dir):
    folder = tmp_path_factory.mktemp("wheel")
    # A copy, since building leaves files in the source.
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", str(project_dir), str(folder / "source")],
        check=True,
    )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", f"--wheel-dir={folder}", str(folder / "source")]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_wheel_owns_one_name(unpacked_wheel):
    names = {path.name for path in unpacked_wheel.iterdir() if path.suffix != ".dist-info"}
    assert names == {"elmo_tf"}


def test_wheel_holds_every_module(unpacked_wheel, project_dir):
    listed = subprocess.run(
        ["git", "ls-files", "elmo_tf", "export"],
        cwd=project_dir, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    # In a checkout elmo_tf/export/__init__.py leads to the folder that the wheel has in its place.
    expected = {f"elmo_tf/{path}" if path.startswith("export/") else path for path in listed}
    held = {
        str(path.relative_to(unpacked_wheel))
        for path in (unpacked_wheel / "elmo_tf").rglob("*")
        if path.is_file()
    }
    assert held == expected
    assert "elmo_tf/py.typed" in held


def test_a_users_own_module_named_export_is_no_obstacle(unpacked_wheel, tmp_path):
    (tmp_path / "export.py").write_text("raise RuntimeError('the module of the user')\n")
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(unpacked_wheel)],
        cwd=tmp_path,  # `python -c` looks for modules here first
        env={"PYTHONPATH": str(unpacked_wheel), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=True,
    )
