"""Arguments of `open` are checked at once; several sources are one reader."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden import Golden, full_name, golden_logs
from support.logs import DDL, GTID, all_rows, keys_of, path_of

import binlog_core
from binlog_core import BinlogError, NotABinlogError, SchemaError
from binlog_core.errors import GtidError
from binlog_core.gtids import MariadbGtid

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize("golden", golden_logs("*/image_*", max_bytes=60_000), ids=str)
def test_mapping_stream_and_bytes_give_the_same(golden: Golden, tmp_path: Path) -> None:
    mapped = all_rows(path_of(golden))
    assert [(c.op, full_name(c.database, c.table)) for c in mapped] == keys_of(golden)
    assert all_rows(path_of(golden), mmap=False) == mapped
    assert all_rows(golden.data) == mapped
    with open(path_of(golden), "rb") as handle:
        assert all_rows(handle) == mapped


def test_ops_and_on_error_are_checked() -> None:
    with pytest.raises(ValueError, match="insert"):
        binlog_core.open(path_of(DDL), ops="upsert")
    with pytest.raises(ValueError, match="skip"):
        binlog_core.open(path_of(DDL), on_error="ignore")


def test_text_that_is_not_a_gtid_is_refused() -> None:
    with pytest.raises(BinlogError, match="GTID"):
        binlog_core.open(path_of(GTID), gtids="not-a-gtid")


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NotABinlogError):
        binlog_core.open(tmp_path)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with pytest.raises(NotABinlogError):
        binlog_core.open(empty)
    text = tmp_path / "text.txt.bin"
    text.write_bytes(b"hello, this is no log" * 10)
    with pytest.raises(NotABinlogError):
        binlog_core.open(text)
    with pytest.raises(BinlogError):
        binlog_core.open(tmp_path / "absent.000001")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"start": "2024-01-01"}, TypeError, "start='2024-01-01'"),
        ({"stop": dt.date(2024, 1, 1)}, TypeError, "a datetime or a Position"),
        ({"start": 4.0}, TypeError, "start=4.0"),
        ({"start": ("log.000001", None)}, TypeError, "a position"),
        ({"stop": -1}, ValueError, "stop=-1"),
        ({"tables": 5}, TypeError, "expected a name, not 5"),
        ({"columns": {"t": [1]}}, TypeError, "expected a name, not 1"),
        ({"ops": "upsert"}, ValueError, "insert, update or delete"),
        ({"limits": {"group_rows": 1}}, TypeError, "Limits"),
        ({"server_id": "1"}, TypeError, "server_id"),
        ({"server_id": -1}, ValueError, "server_id=-1"),
        ({"server_id": 1 << 32}, ValueError, "4294967295"),
        ({"stop": 10**30}, ValueError, "below 2**63"),
        ({"start": ("log.000001", 1 << 63)}, ValueError, "below 2**63"),
        ({"start": (5, 4)}, TypeError, "start=(5, 4)"),
        ({"start": dt.datetime(2024, 2, 1), "stop": dt.datetime(2024, 1, 1)}, ValueError, "is after"),
        ({"gtids": 42}, TypeError, "gtids= takes GTIDs"),
        ({"exclude_gtids": [42]}, TypeError, "exclude_gtids= takes GTIDs"),
        ({"gtids": b"0-1-1"}, TypeError, "gtids= takes GTIDs"),
        ({"gtids": "0-1-1"}, GtidError, "gtids= has GTIDs of MariaDB, and the log is of MySQL"),
        ({"exclude_gtids": MariadbGtid(0, 1, 1)}, GtidError, "exclude_gtids= has GTIDs of MariaDB"),
        ({"gtids": ["0-1-1", f"{'0' * 8}-0000-0000-0000-{'0' * 12}:1"]}, GtidError, "combined"),
        ({"schema": 5}, TypeError, "a schema is a dict"),
        ({"schema": {"t": "create table t (a int)"}}, SchemaError, "database.table"),
        ({"schema": {5: "create table t (a int)"}}, TypeError, "database.table"),
        ({"schema": "no/such/file.sql"}, SchemaError, "cannot be read"),
        ({"schema_start": {}}, ValueError, "schema_start="),
        ({"schema_start": {}, "schema": {}}, ValueError, "schema_start="),
        ({"start": 2000, "stop": 100}, ValueError, "start=2000 is after stop=100"),
        *(
            ({name: "no"}, TypeError, f"{name}='no': expected True or False")
            for name in ("verify_checksum", "strict", "rows_v0", "follow", "mmap")
        ),
        ({"keys": 0}, TypeError, "keys= takes a path or a dict, not int"),
        ({"storage_options": "key"}, TypeError, "storage_options= takes a dict, not str"),
        ({"schema": "no\0file"}, SchemaError, "the schema file cannot be read: not a path"),
        ({"on_error": np.array([1, 2])}, ValueError, "expected 'raise' or 'skip'"),
        ({"start": np.array([1, 2])}, TypeError, "expected a position, (file name, position), a datetime"),
        ({"stop": np.array([])}, TypeError, "expected a position, (file name, position), a datetime"),
        ({"server_id": np.array([1, 2])}, TypeError, "server_id= takes an int, not ndarray"),
        ({"threads": np.array([1, 2])}, TypeError, "threads= takes an int, not ndarray"),
    ],
)
def test_arguments_are_looked_at_when_they_are_given(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        binlog_core.open(golden_logs("mysql97/types_ints")[0].path, **arguments)


def test_bytes_cannot_be_followed() -> None:
    with pytest.raises(ValueError, match="bytes do not"):
        binlog_core.open(golden_logs("mysql97/types_ints")[0].data, follow=True)
