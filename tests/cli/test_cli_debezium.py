"""``binlog-core rows --format debezium``: the fields and encodings that Debezium documents for MySQL.

Expected values are worked out by hand from "Data change events" and "Data type mappings" of its manual.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import run

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 123_456)
DAYS = 56 * 365 + 14 + 1  # from 1970-01-01 to 2026-01-02, with fourteen leap days
SECONDS = DAYS * 86_400 + 3 * 3600 + 4 * 60 + 5
# Fields of io.debezium.connector.mysql.Source and of the envelope, with the JSON types that they may have.
TEXT, NUMBER, NONE = str, int, type(None)
SOURCE = {
    "version": TEXT,
    "connector": TEXT,
    "name": TEXT,
    "ts_ms": NUMBER,
    "snapshot": TEXT,
    "db": TEXT,
    "sequence": (TEXT, NONE),
    "ts_us": NUMBER,
    "ts_ns": NUMBER,
    "table": (TEXT, NONE),
    "server_id": NUMBER,
    "gtid": (TEXT, NONE),
    "file": TEXT,
    "pos": NUMBER,
    "row": NUMBER,
    "thread": (NUMBER, NONE),
    "query": (TEXT, NONE),
}
ENVELOPE = {
    "before": (dict, NONE),
    "after": (dict, NONE),
    "source": dict,
    "transaction": (dict, NONE),
    "op": TEXT,
    "ts_ms": NUMBER,
    "ts_us": NUMBER,
    "ts_ns": NUMBER,
}
TRANSACTION = {"id": TEXT, "total_order": NUMBER, "data_collection_order": NUMBER}


def events_of(log: Log, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "mysql-bin.000007"
    path.write_bytes(log.getvalue())
    ran = run("rows", path, "-f", "debezium")
    assert ran.code == 0, ran.err
    events = [json.loads(line) for line in ran.lines]
    for event in events:
        parts = ((event, ENVELOPE), (event["source"], SOURCE), (event["transaction"], TRANSACTION))
        for told, wanted in parts:
            assert told.keys() == wanted.keys()
            for name, kind in wanted.items():
                assert isinstance(told[name], kind), name
    return events


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("TINYINT", -7, -7),
        ("BIGINT UNSIGNED", 1 << 63, -(1 << 63)),  # bigint.unsigned.handling.mode=long
        ("BIGINT", -1, -1),
        ("DOUBLE", 0.5, 0.5),
        ("DECIMAL(10,2)", Decimal("1234.56"), "AeJA"),  # 123456 = 01 e2 40
        ("DECIMAL(10,2)", Decimal("-1.00"), "nA=="),  # -100 = 9c
        ("DECIMAL(10,2)", Decimal("1.28"), "AIA="),  # 128 = 00 80: the sign needs a bit
        ("BIT(1)", 1, True),
        ("BIT(10)", 513, "AQI="),  # 01 02: little-endian
        ("YEAR", 2026, 2026),
        ("DATE", MOMENT.date(), DAYS),
        ("DATETIME", MOMENT.replace(microsecond=0), SECONDS * 1000),
        ("DATETIME(3)", MOMENT.replace(microsecond=123_000), SECONDS * 1000 + 123),
        ("DATETIME(6)", MOMENT, SECONDS * 1_000_000 + 123_456),
        ("TIMESTAMP", MOMENT.replace(microsecond=0, tzinfo=dt.UTC), "2026-01-02T03:04:05Z"),
        ("TIMESTAMP(3)", MOMENT.replace(microsecond=123_000, tzinfo=dt.UTC), "2026-01-02T03:04:05.123Z"),
        ("TIME", dt.timedelta(hours=-1), -3_600_000_000),
        ("TIME(6)", dt.timedelta(microseconds=5), 5),
        ("VARCHAR(20)", "é", "é"),
        ("VARBINARY(3)", b"\x00\x01", "AAE="),
        ("BLOB", b"", ""),
        ("ENUM('a','b')", "b", "b"),
        ("SET('a','b','c')", ["a", "c"], "a,c"),
        ("JSON", {"a": 1}, '{"a": 1}'),
        ("INT", None, None),
    ],
)
def test_values(tmp_path: Path, kind: str, value: Any, wanted: Any) -> None:
    table = Table("shop", "t", [("id", "INT"), ("v", kind)], primary_key=["id"])
    log = Log("8.0.36")
    log.begin()
    log.insert(table, [{"id": 1, "v": value}])
    log.commit()
    (event,) = events_of(log, tmp_path)
    assert (event["op"], event["before"]) == ("c", None)
    assert event["after"] == {"id": 1, "v": wanted}


def test_operations_and_their_order_in_the_transaction(tmp_path: Path) -> None:
    first, second = (
        Table("shop", name, [("id", "INT"), ("a", "VARCHAR(9)")], primary_key=["id"]) for name in ("t", "u")
    )
    log = Log("8.0.36")
    log.gtid(UUID, 5)
    log.begin()
    log.insert(first, [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}])
    at = log.insert(second, [{"id": 1, "a": "y"}])
    log.update(first, [({"id": 1, "a": "x"}, {"id": 1, "a": "z"})])
    log.update(first, [({"id": 1, "a": "z"}, {"id": 9, "a": "z"})])
    log.delete(second, [{"id": 1, "a": "y"}])
    log.commit()
    events = events_of(log, tmp_path)
    told = [(e["op"], e["source"]["table"], e["before"] and e["before"]["id"], e["after"]) for e in events]
    assert told == [
        ("c", "t", None, {"id": 1, "a": "x"}),
        ("c", "t", None, {"id": 2, "a": "x"}),
        ("c", "u", None, {"id": 1, "a": "y"}),
        ("u", "t", 1, {"id": 1, "a": "z"}),
        ("d", "t", 1, None),  # a key that changes is a delete and a create
        ("c", "t", None, {"id": 9, "a": "z"}),
        ("d", "u", 1, None),
    ]
    orders = [(e["transaction"]["total_order"], e["transaction"]["data_collection_order"]) for e in events]
    assert orders == [(1, 1), (2, 2), (3, 1), (4, 3), (5, 4), (6, 5), (7, 2)]
    assert {e["transaction"]["id"] for e in events} == {f"{UUID}:5"}
    source = events[2]["source"]
    assert (source["connector"], source["file"], source["gtid"]) == ("mysql", "mysql-bin.000007", f"{UUID}:5")
    assert source["pos"] == at
    assert [e["source"]["row"] for e in events[:2]] == [0, 1]
    assert source["ts_us"] == source["ts_ms"] * 1000 == source["ts_ns"] // 1000


def test_without_gtid_the_transaction_is_identified_by_its_position(tmp_path: Path) -> None:
    table = Table("shop", "t", [("id", "INT")], primary_key=["id"])
    log = Log("10.11.6-MariaDB")
    for number in (1, 2):
        log.begin()
        log.insert(table, [{"id": number}])
        log.commit()
    first, second = events_of(log, tmp_path)
    assert first["source"]["connector"] == "mariadb"
    assert first["transaction"]["id"].startswith("file=mysql-bin.000007,pos=")
    assert first["transaction"]["id"] != second["transaction"]["id"]
    assert second["transaction"]["total_order"] == 1


def test_the_data_source_has_the_same_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from binlog_core.spark import read_changes

    monkeypatch.setattr("time.time_ns", lambda: 1)
    table = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(9)")], primary_key=["id"])
    log = Log("8.0.36")
    for number in range(1, 4):
        log.gtid(UUID, number)
        log.begin()
        log.insert(table, [{"id": number, "a": "x"}])
        log.update(table, [({"id": number, "a": "x"}, {"id": number + 10, "a": "y"})])
        log.commit()
    events = events_of(log, tmp_path)
    found = read_changes(tmp_path / "mysql-bin.000007", documents="debezium", split_size="300").read_all()
    rows = found.to_pylist()
    assert [json.loads(row["value"])["after"] for row in rows] == [event["after"] for event in events]
    for row, event in zip(rows, events, strict=True):
        value = json.loads(row["value"])
        for name in ("source", "transaction", "op", "before"):
            assert value[name] == event[name]
        assert json.loads(row["key"]) == {"id": (event["before"] or event["after"])["id"]}
    assert [row["_change_ordinal"] for row in rows] == [0, 1, 1] * 3
    assert len({row["_commit_version"] for row in rows}) == 3
    with pytest.raises(ValueError, match=r"both images"):
        read_changes(tmp_path / "mysql-bin.000007", documents="debezium", images="after")
