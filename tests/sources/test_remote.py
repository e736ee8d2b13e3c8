"""Logs at URLs: in memory, on a web server, in an object store that speaks S3."""

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
from binlog_core._sources.log_files import Gap, resolve
from binlog_core._sources.object_stores import ObjectSource
from binlog_core._sources.sources import BufferSource
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
    """Serves `files`, by ranges if told; notes what it is asked for."""

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
    """Answers that no honest server gives: a path names one."""

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


# S3


@pytest.fixture(scope="module")
def s3():
    """A server that speaks S3 on the loopback interface, and its address."""
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    import botocore.session

    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="user",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="logs")
    for number, log in enumerate(LOGS, 1):
        client.put_object(Bucket="logs", Key=f"db1/bin.{number:06}", Body=log.data)
    client.delete_object(Bucket="logs", Key="db1/bin.000002")
    client.put_object(Bucket="logs", Key="db1/bin.index", Body=b"./bin.000003\n./bin.000001\n")
    client.put_object(Bucket="logs", Key="encrypted", Body=ENCRYPTED.data)
    yield endpoint
    server.stop()


@pytest.fixture(params=["pyarrow", "fsspec"])
def options(s3, request, monkeypatch):
    """Each test runs through pyarrow's file system, and without pyarrow through fsspec."""
    if request.param == "fsspec":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    else:
        pytest.importorskip("pyarrow")
    return {"endpoint_url": s3, "key": "user", "secret": "secret"}


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_s3(options, scheme):
    [file] = resolve(f"{scheme}://logs/db1/bin.000001", storage_options=options)
    source = file.open()
    assert (source.size, source.splittable) == (len(DATA), True)
    assert read_all(source) == DATA
    source.seek(len(DATA) - 10)
    assert read_all(source) == DATA[-10:]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("prefix", ["logs/db1", "logs/db1/"])
def test_an_s3_prefix(options, scheme, prefix):
    found = resolve(f"{scheme}://{prefix}", storage_options=options)
    assert [f.path for f in found] == [f"s3://logs/db1/bin.{n:06}" for n in range(1, len(LOGS) + 1) if n != 2]
    assert found.gaps == (Gap("s3://logs/db1/bin", 2, 2),)
    assert read_all(found[-1].open()) == LOGS[-1].data


def test_an_s3_index_file_and_an_encrypted_log(options):
    found = resolve("s3://logs/db1/bin.index", storage_options=options)
    assert [read_all(f.open()) for f in found] == [LOGS[2].data, LOGS[0].data]
    [file] = resolve("s3://logs/encrypted", keys=ENCRYPTED.keys, storage_options=options)
    assert read_all(file.open()) == read_all(resolve(ENCRYPTED.data, keys=ENCRYPTED.keys)[0].open())
    assert not isinstance(file.open(), BufferSource)


@pytest.mark.parametrize("through", ["pyarrow", "fsspec"])
def test_s3_credentials_of_the_environment(s3, monkeypatch, through):
    if through == "fsspec":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    fsspec.filesystem("s3", endpoint_url=s3, key="user", secret="secret").clear_instance_cache()
    for name, value in {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    assert read_all(resolve("s3://logs/db1/bin.000001")[0].open()) == DATA


def test_s3_that_is_not_there(options):
    for url in ("s3://logs/none", "s3://nobucket/log", "s3://logs/none/"):
        with pytest.raises(BinlogError) as caught:
            resolve(url, storage_options=options)[0].open()
        assert caught.value.path == url


def test_the_file_system_is_pyarrows_own_where_it_knows_the_options(s3):
    pytest.importorskip("pyarrow")
    known = {"endpoint_url": s3, "key": "user", "secret": "secret"}
    [file] = resolve("s3a://logs/db1/bin.000001", storage_options=known)
    assert isinstance(file.open(), ObjectSource)
    nested = {
        "key": "user",
        "secret": "secret",
        "client_kwargs": {"endpoint_url": s3, "region_name": "us-east-1"},
    }
    assert isinstance(resolve(file.path, storage_options=nested)[0].open(), ObjectSource)
    other = {**known, "default_block_size": 1 << 20}
    assert isinstance(resolve(file.path, storage_options=other)[0].open(), remote.RemoteSource)


def test_wrong_credentials_and_a_store_that_is_down(s3):
    pytest.importorskip("pyarrow")
    down = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b", "connect_timeout": 0.2}
    with pytest.raises(BinlogError) as caught:
        resolve("s3://logs/db1/bin.000001", storage_options=down)[0].open()
    assert caught.value.path == "s3://logs/db1/bin.000001"


def test_ranges_of_an_object_are_small_at_first_and_grow(s3):
    pytest.importorskip("pyarrow")

    class Handle:
        asked: ClassVar[list[tuple[int, int]]] = []

        def size(self) -> int:
            return 64 << 20

        def seekable(self) -> bool:
            return True

        def tell(self) -> int:
            return 0

        def seek(self, offset: int) -> None:
            self.offset = offset

        def readinto(self, buffer: bytearray) -> int:
            self.asked.append((len(buffer), self.offset))
            buffer[:] = bytes(len(buffer))
            return len(buffer)

        def close(self) -> None:
            pass

    source = ObjectSource(Handle(), "s3://logs/x")
    assert len(source.peek(4096)) == 4096
    assert Handle.asked == [(256 << 10, 0)]
    source.seek(10 << 20)
    while source.read(1 << 20):
        pass
    lengths = [length for length, _ in Handle.asked[1:]]
    assert sum(lengths) == 54 << 20 and max(lengths) == 8 << 20 and len(lengths) < 16
    assert source.position == 64 << 20


# An export, without Spark: what a worker and the driver do


@pytest.fixture
def lake(s3):
    pytest.importorskip("pyarrow")
    import botocore.session

    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=s3,
        region_name="us-east-1",
        aws_access_key_id="user",
        aws_secret_access_key="secret",
    )
    bucket = f"lake-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)

    def keys() -> set[str]:
        found = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {one["Key"] for one in found if not one["Key"].endswith("/")}

    return f"s3a://{bucket}/changes", keys


def written(destination, options, attempt="a0"):
    from binlog_core.spark import ReadOptions, plan_splits
    from binlog_core.spark.doors.split_writer import SplitWriter

    reading = ReadOptions(unnamed="positions", absent=True, statements=True, storage_options=options)
    writer = SplitWriter(
        destination.staging,
        reading,
        prefix=destination.prefix,
        nested=destination.nested,
        storage_options=options,
    )
    splits = plan_splits("s3://logs/db1/bin.000001", 2000, storage_options=options)
    assert len(splits) > 1
    return [writer.write(split, attempt) for split in splits]


def test_an_export_from_and_to_s3(s3, lake):
    import json

    import pyarrow.parquet as pq

    from binlog_core.spark.lake.destination import open_filesystem
    from binlog_core.spark.lake.parquet import ParquetDirectory

    options = {"endpoint_url": s3, "key": "user", "secret": "secret"}
    output, keys = lake
    failed = ParquetDirectory(output, "r1", storage_options=options)
    failed.begin()
    written(failed, options)
    failed.abort()
    assert keys() == set()
    destination = ParquetDirectory(output, "r1", storage_options=options)
    destination.begin()
    written(destination, options, "a0")  # an attempt whose result never came back
    (table,) = destination.commit(written(destination, options, "a1"))
    filesystem, inner = open_filesystem(output, options)
    with filesystem.open_input_stream(f"{inner}/_manifest.json") as stream:
        manifest = json.loads(stream.read())
    named = {f"changes/{t['directory']}/{f['name']}" for t in manifest["tables"] for f in t["files"]}
    assert keys() == {"changes/_manifest.json", *named}
    assert all("-a1-" in name for name in named)
    bucket = inner.partition("/")[0]
    rows = sum(pq.read_metadata(f"{bucket}/{name}", filesystem=filesystem).num_rows for name in named)
    images = sum((row["before"] is not None) + (row["after"] is not None) for row in LOGS[0].truth)
    assert rows == sum(table.rows.values()) == images
    again = ParquetDirectory(output, "r1", storage_options=options).committed()
    assert again is not None and again[0].rows == table.rows
    with pytest.raises(BinlogError, match="exists"):
        ParquetDirectory(output, "r2", storage_options=options)
