"""Models that are not local paths: a URL, a repository of the Hugging Face Hub, or a name.

Downloaded files stay in a cache; see `storage.downloads`. The Hub's own library has its own cache.
"""

import re
from collections.abc import Sequence

from elmo_tf.errors import InputError, shortened
from elmo_tf.formats import catalog
from elmo_tf.storage import downloads

_ADDRESS = re.compile(r"https?://")
_HUB = "hf://"
# The files of models in all formats that we read; others, such as PyTorch weights, are skipped.
_HUB_FILES = [
    "*.json",
    "*.hdf5",
    "*.h5",
    "*.txt",
    "*.gz",
    "*.zip",
    "*.dic",
    "*.pkl",
    "*.pb",
    "variables/*",
    "assets.extra/*",
    "checkpoint",
    "*.ckpt*",
]


def is_remote(path: str) -> bool:
    """Whether a path is a URL or a repository of the Hub."""
    return path.startswith(_HUB) or _ADDRESS.match(path) is not None


def is_name(path: str) -> bool:
    """Whether a path is the name of a model, included or published."""
    return catalog.find(path) is not None


def fetch(path: str) -> list[str]:
    """Downloads a model if necessary; returns the paths of its files or of one directory.

    Args:
      path: one or more URLs, separated by commas; "hf://OWNER/NAME" or "hf://OWNER/NAME@REVISION";
        or the name of a model.

    Raises:
      InputError: a download failed, or an included file is damaged.
    """
    if path.startswith(_HUB):
        return [_from_hub(path)]
    published = catalog.find(path)
    urls: Sequence[str] = re.split(r",(?=https?://)", path)
    if published is not None:
        if published.is_included:
            return [catalog.included_directory(published)]
        urls = published.urls
    return [downloads.fetch(url.strip()) for url in urls]


def _from_hub(path: str) -> str:
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError as error:
        raise InputError(
            f"{path}: needs the package huggingface_hub: pip install 'elmo_tf[hf]'"
        ) from error
    name, _, revision = path.removeprefix(_HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(f"{path}: must be hf://OWNER/NAME or hf://OWNER/NAME@REVISION")
    try:
        return huggingface_hub.snapshot_download(
            name, revision=revision or None, allow_patterns=_HUB_FILES
        )
    # Errors of the Hub's library, of its HTTP library, and of its check of names.
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = shortened(" ".join(str(error).split()), 300)
        raise InputError(f"{path}: can't be fetched: {reason}") from error
