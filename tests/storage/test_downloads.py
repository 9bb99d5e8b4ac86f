"""Downloads from a local server that drops connections and sends wrong data."""

import hashlib
import http.server
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import downloads

CONTENT = bytes(range(256)) * 4000


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT at /model.zip.

    Attributes:
      requests: path and Range of each request.
      cut_after: number of bytes after which a connection is dropped, or None.
      etag: ETag of the file.
      accepts_ranges: whether the server supports Range requests.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.cut_after = None
        self.etag = '"one"'
        self.accepts_ranges = True
        self.content = CONTENT

    def url(self, name="model.zip"):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        if self.path == "/moved.zip":
            self.send_response(302)
            self.send_header("Location", self.server.url())
            self.end_headers()
            return
        if self.path.split("?")[0] != "/model.zip":
            self.send_error(404)
            return
        begin, content = 0, self.server.content
        same = self.headers.get("If-Range") == self.server.etag
        if wanted and same and self.server.accepts_ranges:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - begin))
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        self.end_headers()
        part = content[begin:]
        if self.server.cut_after is not None:
            part = part[: self.server.cut_after]
        self.wfile.write(part)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "_SECONDS_BETWEEN", 0.0)
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def files_in_cache(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_fetched_once(server, tmp_path):
    path = downloads.fetch(server.url())
    assert pathlib.Path(path).read_bytes() == CONTENT
    assert path.endswith("/model.zip")
    assert downloads.fetch(server.url()) == path
    assert server.requests == [("/model.zip", None)]
    assert files_in_cache(tmp_path) == ["model.zip"]


def test_checked_by_size_and_digest(server, tmp_path):
    digest = hashlib.sha256(CONTENT).hexdigest()
    downloads.fetch(server.url(), size=len(CONTENT), sha256=digest)
    for query, wrong in (("?a", {"size": 5}), ("?b", {"sha256": "0" * 64})):
        expected = "0" * 64 if "sha256" in wrong else "5"
        with pytest.raises(InputError, match=f"and should have {expected}$"):
            downloads.fetch(server.url() + query, **wrong)
    assert files_in_cache(tmp_path) == ["model.zip"]


def test_redirects_are_followed(server):
    path = downloads.fetch(server.url("moved.zip"))
    assert pathlib.Path(path).read_bytes() == CONTENT
    assert [each[0] for each in server.requests] == ["/moved.zip", "/model.zip"]


def test_cut_connections_are_resumed(server, tmp_path):
    server.cut_after = 300_000
    path = downloads.fetch(server.url())
    assert pathlib.Path(path).read_bytes() == CONTENT
    ranges = [wanted for _, wanted in server.requests]
    assert ranges == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert files_in_cache(tmp_path) == ["model.zip"]


def test_a_killed_download_is_resumed_by_another_process(server, monkeypatch, tmp_path):
    server.cut_after = 300_000
    monkeypatch.setattr(downloads, "_fetch_all", lambda file, *rest: interrupted(file, *rest))

    def interrupted(file, url, size, path):
        downloads._fetch_more(file, url, size, path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        downloads.fetch(server.url())
    assert files_in_cache(tmp_path) == ["model.zip.partial", "model.zip.partial.json"]
    server.cut_after = None
    monkeypatch.undo()
    monkeypatch.setenv("ELMO_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    path = downloads.fetch(server.url())
    assert pathlib.Path(path).read_bytes() == CONTENT
    assert server.requests[-1] == ("/model.zip", "bytes=300000-")


@pytest.mark.parametrize("change", ["etag", "accepts_ranges", "weak"])
def test_what_changed_meanwhile_is_fetched_anew(server, change):
    if change == "weak":
        server.etag = 'W/"one"'
    server.cut_after = 300_000
    handle = Handler.do_GET

    def later(self):
        handle(self)
        server.cut_after = None
        if change == "etag":
            server.etag, server.content = '"two"', CONTENT[::-1]
        elif change == "accepts_ranges":
            server.accepts_ranges = False

    Handler.do_GET = later
    try:
        path = downloads.fetch(server.url())
    finally:
        Handler.do_GET = handle
    assert pathlib.Path(path).read_bytes() == server.content


def test_a_connection_that_never_brings_anything(server, tmp_path):
    server.cut_after = 0
    with pytest.raises(InputError) as caught:
        downloads.fetch(server.url())
    message = str(caught.value)
    assert message.startswith(f"{server.url()}: can't be fetched: ")
    assert f"; fetch it elsewhere and put it at {tmp_path}/cache/" in message
    assert len(server.requests) == downloads._ATTEMPTS


def test_what_is_not_there(server):
    with pytest.raises(InputError, match=r"none.zip: can't be fetched: Not Found; fetch it else"):
        downloads.fetch(server.url("none.zip"))
    for url in ("ftp://a/b", "https:///b", "file:///etc/passwd"):
        with pytest.raises(InputError, match="must be an address that begins with https://"):
            downloads.fetch(url)


def test_without_a_network_it_says_where_to_put_the_file(server, tmp_path):
    url = server.url()
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError) as caught:
        downloads.fetch(url)
    path = str(caught.value).rsplit(" ", 1)[1]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pathlib.Path(path).write_bytes(b"by hand")
    assert downloads.fetch(url) == path


def test_a_full_disk_is_seen_before(server, monkeypatch, tmp_path):
    full = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: full)
    with pytest.raises(InputError, match=r"1,024,000 bytes, and there is no room for it in "):
        downloads.fetch(server.url())


def test_two_processes_share_one_download(server, tmp_path):
    server.cut_after = 100_000
    program = f"from elmo_tf.storage import downloads; print(downloads.fetch({server.url()!r}))"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0].splitlines()[-1] for process in running]
    assert outputs[0] == outputs[1]
    assert pathlib.Path(outputs[0]).read_bytes() == CONTENT
    assert len(server.requests) == 11
    assert files_in_cache(tmp_path) == ["model.zip"]


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("ELMO_TF_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert downloads.cache_directory() == "/home/u/.cache/elmo_tf"
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert downloads.cache_directory() == "/cache/elmo_tf"
    monkeypatch.setenv("ELMO_TF_CACHE", "~/models")
    assert downloads.cache_directory() == "/home/u/models"
