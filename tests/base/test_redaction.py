"""Secrets in addresses and statements are shown nowhere, whatever characters they have."""

from __future__ import annotations

import io
import pickle
import traceback
import warnings
from pathlib import Path

import pytest
from support.cli import run
from support.growth import assert_linear
from support.writer import Log

import binlog_core
from binlog_core import BinlogError
from binlog_core._base.redaction import shown_cause, shown_statement, shown_text, shown_url, split_login
from binlog_core._sources.log_files import LogFile
from binlog_core._sources.sources import FileSource
from binlog_core.events import QueryEvent
from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.report import Report
from binlog_core.schema.given import Schema
from binlog_core.splits import Split, SplitResult


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/var/lib/mysql/bin.000001", "/var/lib/mysql/bin.000001"),
        ("s3://bucket/a@b/bin?x#y.000001", "s3://bucket/a@b/bin?x#y.000001"),
        ("https://host:8080/a@b/bin.000001", "https://host:8080/a@b/bin.000001"),
        ("https://user:secret@host/bin.000001", "https://***@host/bin.000001"),
        ("https://secret@host/bin.000001", "https://***@host/bin.000001"),
        ("https://user:sec/ret@host/bin.000001", "https://***@host/bin.000001"),
        ("https://user:sec#re?t@host/bin.000001", "https://***@host/bin.000001"),
        ("https://h/bin.000001?X-Amz-Signature=secret&a=b", "https://h/bin.000001?***"),
        ("HTTPS://h/bin.000001#secret", "HTTPS://h/bin.000001#***"),
        ("s3://secret:secret@bucket/x", "s3://***@bucket/x"),
        ("abfs://container@account/x?sig=secret&v=1", "abfs://container@account/x?sig=***&v=1"),
        ("s3://b/x?access_key=secret&region=eu", "s3://b/x?access_key=***&region=eu"),
        ("simplecache::https://user:secret@h/x", "simplecache::https://***@h/x"),
        ("mysql://root:secret@db:3306/shop?ssl_ca=x", "mysql://***@db:3306/shop?***"),
        ("MYSQL://root:s/e?c#r@e:t@db:3306/shop", "MYSQL://***@db:3306/shop"),
        ("mariadb://root:1/secret@[::1]:3306/shop", "mariadb://***@[::1]:3306/shop"),
        ("mysql://db:3306/shop", "mysql://db:3306/shop"),
    ],
)
def test_urls(given: str, shown: str) -> None:
    assert shown_url(given) == shown
    assert shown_url(shown) == shown  # what was shown once can be shown again
    assert shown_text(f"cannot read '{given}': {given} is gone") == f"cannot read '{shown}': {shown} is gone"


def test_causes() -> None:
    quiet, loud = OSError("no such file"), OSError("GET https://u:p@h/")
    assert shown_cause(quiet) is quiet
    assert shown_cause(loud) is None


def test_logins() -> None:
    assert split_login("u:p@h/d") == ("u:p", "h/d")
    assert split_login("u:p/?#@h/d") == ("u:p/?#", "h/d")
    assert split_login("h:3306/a@b") == ("", "h:3306/a@b")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE USER u@'%' IDENTIFIED BY 'SECRET'",
        "create user u identified  by/* x */'SECRET' REQUIRE SSL",
        "CREATE USER u IDENTIFIED BY PASSWORD '*SECRET'",
        "GRANT ALL ON *.* TO 'a'@'b' IDENTIFIED BY \"SECRET\" WITH GRANT OPTION",
        "ALTER USER u IDENTIFIED WITH 'mysql_native_password' BY 'SECRET'",
        "ALTER USER u IDENTIFIED WITH sha256_password AS 'SECRET' REPLACE 'SECRET' RETAIN CURRENT PASSWORD",
        "ALTER USER u IDENTIFIED VIA unix_socket USING PASSWORD('SECRET') OR ed25519 USING 'SECRET'",
        "CREATE USER u IDENTIFIED WITH caching_sha2_password AS 0xABCDEF",
        "SET PASSWORD FOR 'u'@'%' = 'SECRET'",
        "SET PASSWORD FOR u@h = PASSWORD('SECRET')",
        "SET PASSWORD = 'SECRET'",
        "CHANGE MASTER TO MASTER_HOST='h', MASTER_PASSWORD = 'SECRET', MASTER_PORT=1",
        "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='SECRET'",
        "START SLAVE USER='u' PASSWORD='SECRET'",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'SECRET', HOST 'h')",
        "CREATE TABLE t (a int) ENGINE=FEDERATED CONNECTION='mysql://u:SECRET@h/d/t'",
        "UPDATE mysql.user SET authentication_string = 'SECRET' WHERE user = 'u'",
        "INSERT INTO t VALUES (AES_ENCRYPT('text', 'SECRET'))",
        r"CREATE USER u IDENTIFIED BY 'SEC\'SECRET'",
        "CREATE USER u IDENTIFIED BY 'SECRET that is cut",
    ],
)
def test_statements(statement: str) -> None:
    shown = shown_statement(statement)
    assert "SECRET" not in shown
    assert "ABCDEF" not in shown
    assert "***" in shown
    assert shown.split()[:2] == statement.split()[:2]


def test_quotes_in_comments_and_names_hide_nothing() -> None:
    for before in ("/* it's */", "-- it's\n", "# it's\n", "`it's`", "'it\\'s'", "/*! a */"):
        assert "SECRET" not in shown_statement(f"{before} ALTER USER u IDENTIFIED BY 'SECRET'")
    plain = "ALTER USER u COMMENT 'c:\\' IDENTIFIED BY 'SECRET'"
    assert "SECRET" not in shown_statement(plain, 1 << 20)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (a int COMMENT 'x', password varchar(9), b varchar(9) DEFAULT 5)",
        "INSERT INTO t VALUES ('a', 'identified by')",
        "REPLACE INTO t VALUES ('a')",
        "SELECT CONCAT('a', 'b')",
    ],
)
def test_other_statements_stay(statement: str) -> None:
    assert shown_statement(statement) == statement


@pytest.mark.parametrize(
    "part", ["IDENTIFIED BY /*", "PASSWORD(", "IDENTIFIED WITH ", "AES_ENCRYPT(", "a://", "/*"]
)
def test_the_time_is_in_proportion_to_the_text(part: str) -> None:
    assert_linear(shown_statement, lambda n: part * n, 300)


# ---------------------------------------------------------------- where they could come out

SECRET = "hunter2"


def said(error: BaseException) -> str:
    """What a traceback shows of an error, with its causes."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@127.0.0.1:9/bin.000001?X-Amz-Signature={SECRET}",
        f"http://127.0.0.1:9/bin.000001?sig={SECRET}",
        f"simplecache::http://user:{SECRET}@127.0.0.1:9/bin.000001",
        f"nosuch://user:{SECRET}@host/bin.000001?sig={SECRET}",
    ],
)
def test_errors_of_a_url(url: str) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(BinlogError) as caught, binlog_core.open(url) as log:
        list(log.rows())
    assert SECRET not in said(caught.value) + str(caught.value.path)
    assert SECRET not in said(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize("scheme", ["mysql", "MYSQL", "MariaDB"])
@pytest.mark.parametrize(
    "password", [SECRET, f"/{SECRET}", f"#{SECRET}", f"?{SECRET}", f"a:/?#@{SECRET}", f"1/{SECRET}"]
)
def test_errors_of_a_server(scheme: str, password: str) -> None:
    pytest.importorskip("pymysql")
    for place in ("127.0.0.1:9/shop", "127.0.0.1:port/shop"):
        with pytest.raises(BinlogError) as caught:
            Schema.load(f"{scheme}://root:{password}@{place}")
        assert SECRET not in said(caught.value)
        assert "No such file" not in said(caught.value)


def test_what_shows_a_log_of_a_url(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    data = Log().getvalue()
    fsspec.filesystem("memory").pipe("/redaction/bin.000001", data)
    url = f"memory://user:{SECRET}@redaction/bin.000001?sig={SECRET}"
    (split,) = [Split(url)]
    options = ReadOptions(
        keys={"key": SECRET.encode()}, schema=f"mysql://u:{SECRET}@h", storage_options={"k": SECRET}
    )
    shown = [
        repr(LogFile(url)),
        LogFile(url).name,
        repr(split),
        repr(SplitResult(split, None, None)),
        repr(options),
        FileSource(io.BytesIO(data), url).path,
    ]
    report = Report()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        report.add("incidents", path=url)
    shown += [str(report), *(str(one.message) for one in warned)]
    assert len(warned) == 1
    assert not [text for text in shown if SECRET in text]
    assert all("bin.000001" in text for text in shown if text != repr(options))


def test_statements_of_a_log(tmp_path: Path) -> None:
    log = Log()
    log.query(f"CREATE USER u@h IDENTIFIED BY '{SECRET}'")
    log.query(f"CREATE TABLE t (a int) ENGINE=FEDERATED CONNECTION='mysql://u:{SECRET}@h/d/t'")
    log.rows_query(f"UPDATE users SET password = '{SECRET}'")
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    page = tmp_path / "page.html"
    for command in (("info", path), ("events", path), ("report", path, "-o", page), ("verify", path)):
        ran = run(*command)
        assert ran.code == 0, ran.err
        assert SECRET not in ran.text + ran.err
    assert "CREATE USER" in page.read_text()
    assert SECRET not in page.read_text()
    with binlog_core.open(path) as opened:  # what is read stays as it is
        assert SECRET in "".join(e.query for e in opened.events() if isinstance(e, QueryEvent))
