"""Models by URL, by name, and from the Hugging Face Hub, from a local server."""

import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.formats import catalog, locate


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(fixtures_dir, tmp_path, monkeypatch):
    """The URL of a server with the archives."""
    monkeypatch.setenv("ELMO_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(Quiet, directory=fixtures_dir / "archives")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def arrays(path):
    with locate.find_model(path).open() as model:
        return {name: array.read() for name, array in model.arrays.items()}


def assert_equal(left, right):
    assert left.keys() == right.keys() and left
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name])


def test_an_archive_and_a_pair_by_address(served, fixtures_dir):
    local = fixtures_dir / "archives"
    for name in ("193.zip", "pair.tar.gz", "tfhub_module.tar.gz", "144.zip"):
        assert_equal(arrays(f"{served}/{name}"), arrays(local / name))
    plain = f"{served}/plain/"
    pair = f"{plain}nlpl_options.json,{plain}nlpl_weights.hdf5"
    assert_equal(arrays(pair), arrays(local / "193.zip"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{}/README.md", "{}/README.md: is not a zip or tar; for a pair give both URLs"),
        ("{}/none.zip", "{}/none.zip: can't be fetched: File not found; fetch it elsewhere"),
        ("https:/host/a.zip", "https:/host/a.zip: there is no such file or directory"),
        ("hf://owner", "hf://owner: must be hf://OWNER/NAME or hf://OWNER/NAME@REVISION"),
        ("smal", "smal: there is no such file or directory; is the published model small meant?"),
    ],
)
def test_what_can_not_be_fetched(served, path, message):
    with pytest.raises(InputError) as caught:
        locate.find_model(path.format(served))
    assert str(caught.value).startswith(message.format(served))


def test_a_published_model_by_name(served, fixtures_dir, monkeypatch, tmp_path):
    model = catalog.find("manylangs/english")
    assert model.urls == ("http://vectors.nlpl.eu/repository/11/144.zip",)
    here = model._replace(urls=(f"{served}/144.zip",))
    monkeypatch.setattr(catalog, "find", lambda name: here if name == model.name else None)
    assert_equal(arrays("manylangs/english"), arrays(fixtures_dir / "archives/144.zip"))
    # Local files take precedence.
    monkeypatch.chdir(tmp_path)
    os.makedirs("manylangs/english")
    with pytest.raises(InputError, match="manylangs/english: holds no model"):
        locate.find_model("manylangs/english")


@pytest.fixture
def included(fixtures_dir, tmp_path, monkeypatch):
    """A model that the package includes, for one test, and its directory."""
    directory = tmp_path / "package/pretrained/english-test"
    shutil.copytree(fixtures_dir / "config_zoo/noskip/model", directory)
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }
    model = catalog.PublishedModel(
        "english-test", "English", "1 MB", "none", "none", "none", sha256=digests
    )
    monkeypatch.setattr(catalog, "find", lambda name: model if name == model.name else None)
    monkeypatch.setattr(catalog.resources, "files", lambda _: tmp_path / "package")
    return model, directory


def test_a_model_that_the_package_includes(included):
    model, directory = included
    assert model.is_included
    assert_equal(arrays(model.name), arrays(directory))


def test_an_included_model_is_checked(included):
    model, directory = included
    path = directory / "options.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(InputError) as caught:
        locate.find_model(model.name)
    expected = rf"{path}: SHA-256 must be {model.sha256['options.json']}, got [0-9a-f]{{64}}; "
    assert re.fullmatch(f"{expected}install elmo_tf again", str(caught.value))
    path.unlink()
    with pytest.raises(InputError) as caught:
        locate.find_model(model.name)
    message = f"{path}: cannot be read: No such file or directory; install elmo_tf again"
    assert str(caught.value) == message


def test_the_table_of_published_models():
    models = elmo_tf.models()
    names = [model.name for model in models]
    assert len(set(names)) == len(names)
    many = [model for model in models if model.name.startswith("manylangs/")]
    numbers = [int(model.urls[0].rsplit("/", 1)[1].removesuffix(".zip")) for model in many]
    assert sorted(numbers) == list(range(136, 180))
    assert {"small", "medium", "original", "original_5.5b", "portuguese", "pubmed"} <= set(names)
    for model in models:
        assert all(model[:6]) and model.is_included == (not model.urls)
        if model.is_included:
            continue
        assert all(url.startswith("http") for url in model.urls)
        assert len(model.urls) == 2 or model.urls[0].endswith(".zip")


class Hub(http.server.BaseHTTPRequestHandler):
    """The parts of the Hub that its library uses."""

    files: dict[str, bytes]

    def do_GET(self):
        self.answer(has_body=True)

    def do_HEAD(self):
        self.answer(has_body=False)

    def answer(self, has_body):
        commit = "0" * 40
        name = self.path.split("?")[0]
        headers, content = {}, b""
        if name.startswith("/api/models/owner/name/tree/"):
            content = json.dumps(
                [
                    {"type": "file", "path": each, "size": len(self.files[each]), "oid": "0"}
                    for each in self.files
                ]
            ).encode()
            headers["Content-Type"] = "application/json"
        elif name.startswith("/api/models/owner/name"):
            siblings = [{"rfilename": each} for each in self.files]
            content = json.dumps({"id": "owner/name", "sha": commit, "siblings": siblings}).encode()
            headers["Content-Type"] = "application/json"
        elif (file := name.rsplit("/", 1)[1]) in self.files and "/owner/name/" in name:
            content = self.files[file]
            headers |= {"ETag": f'"{hash(content):x}"', "X-Repo-Commit": commit}
        else:
            self.send_error(404)
            return
        self.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if has_body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def test_from_the_hub(fixtures_dir, tmp_path):
    """In a separate process, because the library reads its settings at import."""
    plain = fixtures_dir / "archives/plain"
    Hub.files = {
        "options.json": (plain / "pair_options.json").read_bytes(),
        "weights.hdf5": (plain / "pair_weights.hdf5").read_bytes(),
        "pytorch_model.bin": b"not wanted",
    }
    program = (
        "import sys; from elmo_tf.formats import locate\n"
        "with locate.find_model(sys.argv[1]).open() as model: print(model.source)"
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HOME": str(tmp_path),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
        }
        for name, is_there in (("owner/name", True), ("owner/none", False)):
            finished = subprocess.run(
                [sys.executable, "-c", program, f"hf://{name}"],
                env=os.environ | environment,
                capture_output=True,
                text=True,
            )
            if is_there:
                assert finished.returncode == 0, finished.stderr
                assert finished.stdout.endswith("/weights.hdf5\n")
                assert str(tmp_path) in finished.stdout
            else:
                line = finished.stderr.splitlines()[-1]
                assert "InputError: hf://owner/none: can't be fetched: " in line
        server.shutdown()
    assert not list(tmp_path.rglob("pytorch_model.bin"))
