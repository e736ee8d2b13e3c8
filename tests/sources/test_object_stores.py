"""Logs in an object store that speaks S3, through pyarrow's own file system and through fsspec."""

from __future__ import annotations

import io
import sys
import uuid
from typing import Any, ClassVar

import pytest
from support.golden import golden_logs
from support.s3 import client_of, store
from support.sources import read_all

from binlog_core._sources import remote
from binlog_core._sources.log_files import Gap
from binlog_core._sources.object_stores import ObjectSource, load_json
from binlog_core._sources.resolve import resolve
from binlog_core._sources.sources import BufferSource
from binlog_core.errors import BinlogError

fsspec = pytest.importorskip("fsspec")

LOGS = golden_logs("mysql97/types_*")
ENCRYPTED = golden_logs("mysql97/encrypted")[0]
DATA = LOGS[0].data


@pytest.fixture(scope="module")
def s3():
    """The endpoint of a store with logs."""
    pytest.importorskip("s3fs")
    with store("logs") as endpoint:
        client = client_of(endpoint)
        for number, log in enumerate(LOGS, 1):
            client.put_object(Bucket="logs", Key=f"db1/bin.{number:06}", Body=log.data)
        client.delete_object(Bucket="logs", Key="db1/bin.000002")
        client.put_object(Bucket="logs", Key="db1/bin.index", Body=b"./bin.000003\n./bin.000001\n")
        client.put_object(Bucket="logs", Key="encrypted", Body=ENCRYPTED.data)
        yield endpoint


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
    assert Handle.asked == [(4 << 10, 0)]
    source.seek(10 << 20)
    while source.read(1 << 20):
        pass
    lengths = [length for length, _ in Handle.asked[1:]]
    assert sum(lengths) == 54 << 20 and max(lengths) == 8 << 20 and len(lengths) < 16
    assert source.position == 64 << 20


@pytest.fixture
def lake(s3):
    pytest.importorskip("pyarrow")
    client = client_of(s3)
    bucket = f"lake-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)

    def keys() -> set[str]:
        found = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {one["Key"] for one in found if not one["Key"].endswith("/")}

    return f"s3a://{bucket}/changes", keys


def written(destination, options, attempt="a0"):
    from binlog_core.lake.tables.split_writer import SplitWriter
    from binlog_core.spark import ReadOptions, plan_splits

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

    from binlog_core.lake.tables.destination import open_filesystem
    from binlog_core.lake.tables.parquet import ParquetDirectory

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


class Replaced:
    """A file of a store: it tells the length of what was there, and then gives so much of what is there."""

    def __init__(self, *told: tuple[bytes, bytes]) -> None:
        self.told = list(told)
        self.opened = 0

    def open_input_file(self, _: str) -> Any:
        before, now = self.told[min(self.opened, len(self.told) - 1)]
        self.opened += 1
        file = io.BytesIO(now[: len(before)].ljust(len(before), b"\0"))  # as pyarrow gives what did not come
        file.size = lambda: len(before)  # type: ignore[attr-defined]
        return file


@pytest.mark.parametrize("before", [b'{"runs": 9, "done": 1}', b'{"runs": 10, "done": 1, "more": "text"}'])
def test_json_that_is_replaced_while_it_is_read(before: bytes) -> None:
    now = b'{"runs": 10, "done": 12}'
    store = Replaced((before, now), (now, now))
    assert load_json(store, "state.json") == {"runs": 10, "done": 12}
    cut = Replaced((now[:-1], now[:-1]))
    with pytest.raises(ValueError, match="delimiter"):
        load_json(cut, "state.json")
    assert cut.opened == 2
    growing = Replaced(*((now[:i], now) for i in range(1, 20)))  # a store that never tells the truth
    with pytest.raises(ValueError, match="line 1 column"):
        load_json(growing, "state.json")
    assert growing.opened < 9
