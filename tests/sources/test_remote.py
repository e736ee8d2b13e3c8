"""Logs at URLs through fsspec: in memory, on a web server."""

from __future__ import annotations

import contextlib
import http.server
import os
import sys
import threading
import uuid
from functools import partial
from typing import ClassVar

import pytest
from support.golden import golden_logs
from support.sources import read_all

import binlog_core
from binlog_core._sources import remote
from binlog_core._sources.resolve import resolve
from binlog_core.errors import BinlogError, MissingExtraError, NotABinlogError

fsspec = pytest.importorskip("fsspec")

LOGS = golden_logs("mysql97/types_*")
ENCRYPTED = golden_logs("mysql97/encrypted")[0]
DATA = LOGS[0].data


@pytest.fixture
def memory():
    """A folder of fsspec's in-memory file system."""
    url = f"memory://{uuid.uuid4().hex}"
    fs = fsspec.filesystem("memory")

    def put(name: str, data: bytes) -> str:
        fs.pipe_file(f"{url}/{name}", data)
        return f"{url}/{name}"

    yield url, put
    if fs.exists(url):
        fs.rm(url, recursive=True)


def test_a_log(memory):
    _, put = memory
    url = put("bin.000001", DATA)
    [file] = resolve(url)
    with file.open() as source:
        assert (source.path, source.size, source.splittable, source.view()) == (url, len(DATA), True, None)
        assert read_all(source) == DATA
        source.seek(1000)
        assert read_all(source) == DATA[1000:]


def test_a_directory_and_an_index_file(memory):
    folder, put = memory
    put("logs/bin.000001", DATA)
    put("logs/bin.000003", LOGS[1].data)
    put("logs/readme", b"text")
    put("logs/bin.000002", b"text")
    index = put("logs/bin.index", b"./bin.000003\n/var/lib/mysql/bin.000001\n")
    for target in (f"{folder}/logs", f"{folder}/logs/"):
        found = resolve(target)
        assert [os.path.basename(f.path) for f in found] == ["bin.000001", "bin.000003"]
        assert [read_all(f.open()) for f in found] == [DATA, LOGS[1].data]
        assert [(g.first, g.last) for g in found.gaps] == [(2, 2)]
    assert [read_all(f.open()) for f in resolve(index)] == [LOGS[1].data, DATA]
    put("empty/readme", b"text")
    with pytest.raises(NotABinlogError):
        resolve(f"{folder}/empty")
    lost = put("logs/lost.index", b"./bin.000009\n")
    with pytest.raises(BinlogError, match=r"bin\.000009"):
        resolve(lost)


def test_compressed_and_encrypted(memory):
    import gzip

    _, put = memory
    put("packed.gz", gzip.compress(ENCRYPTED.data))
    plain = read_all(resolve(ENCRYPTED.data, keys=ENCRYPTED.keys)[0].open())
    [file] = resolve(put("packed.gz", gzip.compress(ENCRYPTED.data)), keys=ENCRYPTED.keys)
    source = file.open()
    assert read_all(source) == plain
    assert not source.splittable


def test_what_is_not_there(memory):
    folder, _ = memory
    for url in (f"{folder}/none", "nosuchscheme://host/log", "http://127.0.0.1:9/log"):
        with pytest.raises(BinlogError) as caught:
            resolve(url)[0].open()
        assert caught.value.path == url


def test_without_the_libraries(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingExtraError, match="gcsfs"):
        resolve("gs://bucket/log")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"fsspec.*binlog_core\[remote\]"):
        resolve("s3://bucket/log")


# A web server


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files`, by ranges if wanted; notes the requests."""

    files: ClassVar[dict[str, bytes]] = {}
    ranges = True
    sent: ClassVar[list[int]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, *, body: bool = True) -> None:
        data = self.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        asked = self.headers.get("Range") if self.ranges else None
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            begin, end = int(first), min(int(last) + 1 if last else len(data), len(data))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
            data = data[begin:end]
        else:
            self.send_response(200)
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.sent.append(len(data))
            try:
                self.wfile.write(data)
            except ConnectionError:  # the client has seen enough
                pass


@pytest.fixture(params=[True, False], ids=["ranges", "no ranges"])
def web(request):
    pytest.importorskip("aiohttp")
    handler = type("H", (Handler,), {"files": {}, "ranges": request.param, "sent": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_web_server(web):
    url, handler = web
    handler.files["/logs/bin.000001"] = DATA
    [file] = resolve(f"{url}/logs/bin.000001")
    source = file.open()
    assert (source.size is not None) == source.splittable == source.seekable == handler.ranges
    assert read_all(source) == DATA
    if handler.ranges:
        source.seek(100)
        assert read_all(source) == DATA[100:]
    else:
        with pytest.raises(BinlogError, match="stream"):
            source.seek(100)
    with pytest.raises(BinlogError):
        resolve(f"{url}/logs/none")[0].open()


def test_few_requests(web, monkeypatch):
    url, handler = web
    if not handler.ranges:
        pytest.skip("one request")
    monkeypatch.setattr(remote, "READ_AHEAD_LEN", 1 << 20)
    data = DATA + os.urandom(10 << 20)
    handler.files["/bin.000001"] = data
    [file] = resolve(f"{url}/bin.000001")
    source = file.open()
    assert read_all(source, 100_000) == data
    assert len(handler.sent) < 16
    assert sum(handler.sent) < len(data) + (2 << 20)


class Hostile(http.server.BaseHTTPRequestHandler):
    """Gives answers that no honest server gives; the path chooses one."""

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, *, body: bool = True) -> None:
        kind = self.path.split("/")[1]
        if kind in ("loop", "file"):
            self.send_response(302)
            self.send_header("Location", self.path + "x" if kind == "loop" else f"file://{__file__}")
            self.end_headers()
            return
        if kind == "claims" and (asked := self.headers.get("Range")):
            begin, end = map(int, asked.removeprefix("bytes=").split("-"))
            part = DATA[begin : end + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end}/{2 * len(DATA)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)
            return
        length = {"short": len(DATA) * 2, "claims": len(DATA) * 2, "much": 1 << 62, "none": -5}[kind]
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if body:
            with contextlib.suppress(ConnectionError):
                self.wfile.write(DATA)


@pytest.mark.parametrize("kind", ["loop", "file", "short", "claims", "much", "none"])
def test_a_hostile_web_server(kind):
    """Whatever it answers, what comes out is rows of the log or an error of our own, naming the URL."""
    pytest.importorskip("aiohttp")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/{kind}/bin.000001"
    try:
        with pytest.raises(BinlogError) as caught, binlog_core.open(url) as log:
            list(log.rows())
        assert caught.value.path == url
        assert "import" not in str(caught.value)  # of the file to which it sends us
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
