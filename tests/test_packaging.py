"""Contents of the wheel and the sdist. The wheel installs only the top-level name `elmo_tf`."""

import re
import subprocess
import sys
import tarfile
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
def source(tmp_path_factory, project_dir):
    """A copy of the source, because building leaves files in it."""
    folder = tmp_path_factory.mktemp("source") / "clone"
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", str(project_dir), str(folder)], check=True
    )
    return folder


def build_wheel(source, folder):
    """The contents of the wheel's files, by name."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", f"--wheel-dir={folder}", str(source)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked_wheel(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    for name, content in wheel.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def unpacked_sdist(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    program = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_wheel_owns_one_name(unpacked_wheel):
    names = {path.name for path in unpacked_wheel.iterdir() if path.suffix != ".dist-info"}
    assert names == {"elmo_tf"}


def test_wheel_holds_every_module(unpacked_wheel, project_dir):
    listed = subprocess.run(
        ["git", "ls-files", "elmo_tf", "export"],
        cwd=project_dir, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    # In a checkout, elmo_tf/export/__init__.py redirects to the folder that the wheel has here.
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
        cwd=tmp_path,  # `python -c` searches this directory first
        env={"PYTHONPATH": str(unpacked_wheel), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=True,
    )


def test_sdist_holds_what_the_wheel_is_built_from(unpacked_sdist, project_dir):
    listed = subprocess.run(
        ["git", "ls-files", "elmo_tf", "export"],
        cwd=project_dir, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    held = {
        str(path.relative_to(unpacked_sdist))
        for path in unpacked_sdist.rglob("*")
        if path.is_file() and path.parent.suffix != ".egg-info"
    }
    of_packaging = {"setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in", "PKG-INFO"}
    assert held == {*listed, *of_packaging, "README.md", "CHANGELOG.md", "LICENSE"}


def test_sdist_builds_the_same_wheel(wheel, unpacked_sdist, tmp_path):
    again = build_wheel(unpacked_sdist, tmp_path)
    assert set(again) == set(wheel)
    assert [name for name in wheel if again[name] != wheel[name]] == []


def test_description_of_the_package_links_to_no_file_of_the_repository(wheel, project_dir):
    (name,) = (name for name in wheel if name.endswith(".dist-info/METADATA"))
    description = wheel[name].decode("utf-8")
    blocks = re.findall(r"```.*?```", (project_dir / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        assert block in description
        description = description.replace(block, "")
    targets = re.findall(r"\]\(([^)]*)\)", re.sub(r"`[^`]*`", "", description))
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
