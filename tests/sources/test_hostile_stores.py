"""Object stores that lie: what comes out is the log's own rows, or an error of ours that names the object."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest
from support.golden import golden_logs

import binlog_core
from binlog_core.errors import BinlogError

# Without checksums, only the length shows that bytes are not the log's.
[GOLDEN] = golden_logs("mysql97/checksum_none")
DATA = GOLDEN.data
URL = "s3://b/db1/bin.000001"
SECRET = "s3cr3t-of-the-user"


class Liar(http.server.BaseHTTPRequestHandler):
    """Speaks S3 as far as reading goes; `lie` says how it answers."""

    lie = ""
    keys: tuple[str, ...] = ()

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        claimed = {"longer": 2 * len(DATA), "shorter": len(DATA) // 2, "huge": 1 << 62, "negative": -5}
        if self.lie in ("error", "redirect"):
            self._error()
        elif self.path.count("/") < 3:  # the bucket, or a folder
            self._answer(404)
        else:
            self._answer(200, size=claimed.get(self.lie, len(DATA)))

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if self.lie in ("error", "redirect"):
            self._error()
        elif "list-type" in query or "prefix" in query:
            self._list(query.get("prefix", [""])[0])
        elif (asked := self.headers.get("Range")) is None:
            self._answer(200, DATA)
        else:
            self._range(*asked.removeprefix("bytes=").split("-"))

    def _range(self, first: str, last: str) -> None:
        begin, end = int(first), min(int(last or len(DATA)) + 1, len(DATA))
        if begin >= end:
            self._answer(416)
            return
        part = DATA[begin:end]
        sent = {"half": part[: len(part) // 2], "nothing": b"", "more": 3 * part, "whole": DATA}
        self._answer(206, sent.get(self.lie, part), range_header=f"bytes {begin}-{end - 1}/{len(DATA)}")

    def _list(self, prefix: str) -> None:
        if self.lie == "bomb":
            entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 9))
            head = f'<!DOCTYPE l [<!ENTITY a0 "{"A" * 1000}">{entities}]>'
            keys = "<Contents><Key>&a8;</Key><Size>3</Size></Contents>"
        else:
            head = ""
            keys = "".join(
                f"<Contents><Key>{escape(key.replace('@', prefix))}</Key><Size>{len(DATA)}</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                for key in self.keys
            )
        body = f'<?xml version="1.0" encoding="UTF-8"?>{head}<ListBucketResult>{keys}</ListBucketResult>'
        self._answer(200, body.encode())

    def _error(self) -> None:
        if self.lie == "redirect":
            self._answer(307, to=f"http://127.0.0.2:{self.server.server_port}/b/db1/bin.000001")  # type: ignore[attr-defined]
            return
        text = "<Message>see https://user:pw@host/x?X-Amz-Signature=SIGNATURE</Message>"
        self._answer(403, f"<Error><Code>AccessDenied</Code>{text}</Error>".encode())

    def _answer(
        self,
        status: int,
        body: bytes = b"",
        *,
        size: int | None = None,
        range_header: str = "",
        to: str = "",
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        for name, value in (("Content-Range", range_header), ("Location", to)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


Store = Callable[..., dict[str, Any]]


@pytest.fixture(params=["pyarrow", "fsspec"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Starts a store that lies in one way, and gives the options that lead to it."""
    if request.param == "fsspec":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setattr(pytest.importorskip("s3fs").S3FileSystem, "retries", 1)
    else:
        pytest.importorskip("pyarrow")
    servers = []
    more = {} if request.param == "pyarrow" else {"config_kwargs": {"retries": {"max_attempts": 1}}}

    def started(lie: str = "", keys: tuple[str, ...] = ()) -> dict[str, Any]:
        handler = type("H", (Liar,), {"lie": lie, "keys": keys})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return {
            "endpoint_url": f"http://127.0.0.1:{server.server_port}",
            "key": "user",
            "secret": SECRET,
            **more,
        }

    yield started
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def rows(url: str, options: dict[str, Any]) -> int:
    with binlog_core.open(url, storage_options=options) as log:
        return sum(1 for _ in log.rows())


def test_an_honest_store(store: Store) -> None:
    assert rows(URL, store()) == rows("s3://b/db1/", store(keys=("@bin.000001",))) == len(GOLDEN.truth)


@pytest.mark.parametrize("lie", ["longer", "half", "nothing", "huge", "negative"])
def test_bytes_that_did_not_come_are_an_error(store: Store, lie: str) -> None:
    with pytest.raises(BinlogError) as caught:
        rows(URL, store(lie))
    assert caught.value.path == URL


def test_a_range_that_the_store_ignores(store: Store) -> None:
    """It sends the log from its beginning, and more than was asked for."""
    with pytest.raises(BinlogError) as caught:
        rows(URL, store("whole"))
    assert caught.value.path == URL
    with pytest.raises(BinlogError):
        rows(URL, store("more"))


def test_a_log_that_the_store_says_is_shorter_has_a_tail(store: Store) -> None:
    with binlog_core.open(URL, storage_options=store("shorter")) as log:
        assert sum(1 for _ in log.rows()) < len(GOLDEN.truth)
        assert log.tail is not None


@pytest.mark.parametrize(
    "key", ["../other/bin.000002", "@../bin.000002", "/etc/bin.000002", "elsewhere/bin.000002", "@sub/bin.2"]
)
def test_a_listing_leads_nowhere_else(store: Store, key: str) -> None:
    with pytest.raises(BinlogError) as caught:
        rows("s3://b/db1/", store(keys=("@bin.000001", key)))
    assert caught.value.path == "s3://b/db1/"


def test_names_that_no_server_gives(store: Store) -> None:
    keys = ("@bin.000001", "@..\\bin.000002", "@bin." + "9" * 5000, "@BIN.000001", "@bin.000001")
    with binlog_core.open("s3://b/db1/", storage_options=store(keys=keys)) as log:
        found = [file.path.removeprefix("s3://b/db1/") for file in log.files]
    assert sorted(found) == sorted({key.removeprefix("@") for key in keys})


def test_a_bomb_of_xml(store: Store) -> None:
    with pytest.raises(BinlogError) as caught:
        rows("s3://b/db1/", store("bomb"))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("store", ["pyarrow"], indirect=True)
def test_outputs_in_a_store_that_refuses(store: Store) -> None:
    from binlog_core.lake.tables.parquet import ParquetDirectory
    from binlog_core.mirror.lake import Lake

    options = store("error")
    for made in (
        lambda: ParquetDirectory("s3://b/out", "run", storage_options=options),
        lambda: Lake("s3://b/lake", options).load(),
    ):
        with pytest.raises(BinlogError, match="ACCESS_DENIED"):
            made()


@pytest.mark.parametrize("lie", ["error", "redirect"])
@pytest.mark.parametrize("url", [URL, "s3://b/db1/"])
def test_errors_and_redirects(store: Store, lie: str, url: str) -> None:
    with pytest.raises(BinlogError) as caught:
        rows(url, store(lie))
    assert caught.value.path == url
    text = f"{caught.value} {caught.value.__cause__}"
    assert SECRET not in text and "SIGNATURE" not in text and ":pw@" not in text
