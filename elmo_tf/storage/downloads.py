"""Downloads over HTTP into a cache: atomic, resumed, verified, and done once per file.

tensorflow_hub and Keras restart a download from the beginning when the connection drops, which is
too slow for models of 1.5 GB.
"""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import IO, Any

from tqdm import tqdm

from elmo_tf.errors import InputError, shortened
from elmo_tf.storage.lock import is_still_at, take_lock

CACHE_VARIABLE = "ELMO_TF_CACHE"

_PIECE = 1 << 18
_SECONDS_WITHOUT_DATA = 60.0
_ATTEMPTS = 5  # consecutive connections without any data
_SECONDS_BETWEEN = 1.0
_ROOM = 1 << 24  # bytes that must remain free on the disk


def cache_directory() -> str:
    """The directory of downloaded files.

    It is the value of the environment variable `ELMO_TF_CACHE`. Without that it is `elmo_tf` in
    `XDG_CACHE_HOME`, or in `~/.cache`.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return os.path.expanduser(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.join(os.path.expanduser(base), "elmo_tf")


def fetch(url: str, size: int | None = None, sha256: str | None = None) -> str:
    """The path of a file in the cache. Downloads the file if it is not there.

    Args:
      url: http or https.
      size: expected size in bytes, or None if unknown.
      sha256: expected digest in hexadecimal, or None if unknown.

    Raises:
      InputError: the file can't be downloaded (the message says where to put a copy), its size or
        digest is wrong, or the disk is full.
    """
    path = _path_of(url)
    if os.path.exists(path):
        return path
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with _only_process(f"{path}.lock", url):
            if not os.path.exists(path):  # another process may have downloaded it meanwhile
                _fetch_to(path, url, size, sha256)
    except urllib.error.URLError as error:
        reason = shortened(" ".join(str(error.reason).split()))
        raise InputError(f"{url}: can't be fetched: {reason}; {_how_to_help(path)}") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        reason = shortened(str(error)) or type(error).__name__
        raise InputError(f"{url}: can't be fetched: {reason}; {_how_to_help(path)}") from error
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror or error}") from error
    return path


def _path_of(url: str) -> str:
    """The path in the cache: a digest of the URL keeps equal file names apart."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"{url}: must be an address that begins with https:// or http://")
    name = os.path.basename(urllib.parse.unquote(parts.path)) or "index"
    digest = hashlib.blake2b(url.encode(), digest_size=8).hexdigest()
    return os.path.join(cache_directory(), digest, name[-150:].lstrip("."))


def _how_to_help(path: str) -> str:
    return f"fetch it elsewhere and put it at {path}"


@contextlib.contextmanager
def _only_process(path: str, url: str) -> Iterator[None]:
    """Waits for other processes that download the same file."""
    is_waiting = False
    while True:
        with open(path, "a") as file:
            try:
                take_lock(file.fileno())
            except BlockingIOError:
                if not is_waiting:
                    tqdm.write(f"{url}: another process is fetching it; waiting")
                is_waiting = True
                time.sleep(0.2)
                continue
            if is_still_at(path, file.fileno()):
                try:
                    yield
                finally:
                    os.unlink(path)
                return


def _fetch_to(path: str, url: str, size: int | None, sha256: str | None) -> None:
    partial = f"{path}.partial"
    with _Partial(partial) as file:
        _fetch_all(file, url, size, path)
    try:
        if size is not None and file.size != size:
            raise InputError(f"{url}: has {file.size:,} bytes, and should have {size:,}")
        if sha256 is not None and (found := _sha256(partial)) != sha256:
            raise InputError(f"{url}: has the SHA-256 {found}, and should have {sha256}")
    except InputError:
        file.remove()  # a complete but wrong file can't be resumed
        raise
    os.replace(partial, path)
    file.remove()


def _fetch_all(file: "_Partial", url: str, size: int | None, path: str) -> None:
    """Reconnects after each lost connection, until `_ATTEMPTS` in a row have brought no data."""
    fruitless = 0
    while True:
        before = file.size
        try:
            if _fetch_more(file, url, size, path):
                return
            reason: Exception | str = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            if error.code == 416 and before:  # the file on the server has changed
                file.begin(None)
                continue
            raise
        except (http.client.HTTPException, OSError) as error:
            reason = error
        fruitless = 0 if file.size > before else fruitless + 1
        if fruitless == _ATTEMPTS:
            if isinstance(reason, urllib.error.URLError):
                raise reason
            raise urllib.error.URLError(shortened(str(reason) or type(reason).__name__))
        time.sleep(_SECONDS_BETWEEN * fruitless)


def _fetch_more(file: "_Partial", url: str, size: int | None, path: str) -> bool:
    """Downloads over one connection; returns whether the file is complete."""
    headers = {"User-Agent": "elmo_tf", "Accept-Encoding": "identity"}
    if file.size and file.validator:
        headers |= {"Range": f"bytes={file.size}-", "If-Range": file.validator}
    elif file.size:
        file.begin(None)
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=_SECONDS_WITHOUT_DATA) as answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            file.begin(answer.headers.get("ETag") or answer.headers.get("Last-Modified"))
        length = answer.headers.get("Content-Length")
        total = None if length is None else file.size + int(length)
        expected = size if total is None else total
        free = shutil.disk_usage(os.path.dirname(path)).free
        if expected is not None and expected - file.size + _ROOM > free:
            raise InputError(
                f"{url}: has {expected:,} bytes, and there is no room for it in "
                f"{cache_directory()}; {CACHE_VARIABLE} names another directory"
            )
        _copy(answer, file, total, url)
    return total is None or file.size == total


def _copy(answer: Any, file: "_Partial", total: int | None, url: str) -> None:
    description = os.path.basename(urllib.parse.urlsplit(url).path)[-40:]
    bar = tqdm(
        desc=description,
        total=total,
        initial=file.size,
        unit="B",
        unit_scale=True,
        delay=1,
        leave=False,
        disable=None,  # disabled unless stderr is a terminal
    )
    with bar:
        while piece := answer.read(_PIECE):
            file.write(piece)
            bar.update(len(piece))


class _Partial:
    """An incomplete file, and the validator that tells whether the server's file has changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._notes = f"{path}.json"
        self.validator: str | None = None
        self.size = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "_Partial":
        with (
            contextlib.suppress(OSError, ValueError, AttributeError),
            open(self._notes, encoding="utf-8") as notes,
        ):
            self.validator = json.load(notes).get("validator")
        self._file = open(self._path, "ab")
        self.size = self._file.tell()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if exception[0] is not None and not self.size:
            self.remove()

    def begin(self, validator: str | None) -> None:
        """Empties the file; `validator` identifies the server's current version."""
        assert self._file is not None
        self._file.truncate(0)
        self.size, self.validator = 0, validator
        # A weak validator does not guarantee equal bytes.
        if validator is not None and validator.startswith("W/"):
            self.validator = None
        with open(self._notes, "w", encoding="utf-8") as notes:
            json.dump({"validator": self.validator}, notes)

    def write(self, content: bytes) -> None:
        """Appends bytes."""
        assert self._file is not None
        self._file.write(content)
        self.size += len(content)

    def remove(self) -> None:
        """Removes the file and its validator, if they exist."""
        for path in (self._path, self._notes):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
