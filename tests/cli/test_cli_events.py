"""``binlog-core events`` against what the servers say of their logs."""

from __future__ import annotations

import json
import os
import pty
from contextlib import suppress
from typing import Any

import pytest
from support.golden import DATA, golden_logs

import binlog_core
import binlog_core.gtids

pytest.importorskip("typer")

from support.cli import run, start

PLAIN = [g for g in golden_logs() if not g.needs_schema and not g.open_arguments]


def events(*arguments: object) -> list[dict[str, Any]]:
    ran = run("events", "-f", "jsonl", *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.lines]


@pytest.mark.parametrize("name", ["mysql97/gtid", "maria118/maria_gtid", "mysql56/dml_mixed"])
def test_events_one_line_each(name: str) -> None:
    golden = next(g for g in PLAIN if str(g) == name)
    want = [(e["pos"], e["type"], e["server_id"]) for e in golden.events if e["pos"] != e["end"]]
    got = [(e["position"], e["type"], e["server_id"]) for e in events(golden.path)]
    assert got[: len(want)] == want
    assert len(run("events", golden.path).lines) == len(got)


def test_a_narrow_terminal_shows_what_an_event_says() -> None:
    master, slave = pty.openpty()
    query = (DATA / "mysql97" / "gtid.binlog", "--type", "Query", "--grep", "CREATE")
    process = start("events", *query, stdout=slave, env={"COLUMNS": "80"})
    os.close(slave)
    told = b""
    with suppress(OSError):  # at its end
        while chunk := os.read(master, 65536):
            told += chunk
    os.close(master)
    assert process.wait(60) == 0
    first, second = told.decode().split("\r\n")[:2]
    assert "use shop; CREATE DATABASE IF NOT EXISTS" in first
    assert "CREATE TABLE `shop`.`naïve_table_a`" in second
    assert len(second) == 120 and second.endswith("…")


def test_filters() -> None:
    path = DATA / "mysql97" / "gtid.binlog"
    golden = next(g for g in PLAIN if str(g) == "mysql97/gtid")
    queries = [e["pos"] for e in golden.events if e["type"] == "Query"]
    assert [e["position"] for e in events(path, "--type", "query")] == queries
    part = [e["pos"] for e in golden.events if 1900 <= e["pos"] < 3000]
    assert part[0] > 1900
    got = events(path, "--start-position", part[0], "--stop-position", 3000)
    assert [e["position"] for e in got] == part
    ran = run("events", "--start-position", 1900, path)
    assert (ran.code, "does an event begin at start=1900?" in ran.err) == (1, True)
    found = events(path, "--table", "Route66_b")
    assert {e["table"] for e in found} == {"shop.Route66_b"}
    assert {e["type"] for e in found} == {"Table_map", "Write_rows"}
    commits = [e["pos"] for e in golden.events if e["type"] == "Xid"]
    assert [e["position"] for e in events(path, "--grep", "^.*commit, XID")] == commits


def test_a_limit_ends_the_reading() -> None:
    path = DATA / "mysql97" / "gtid.binlog"
    queries = events(path, "--type", "Query")
    assert len(queries) > 2
    assert events(path, "--type", "Query", "--limit", "2") == queries[:2]
    assert events(path, "--type", "Query", "-n", len(queries) + 1) == queries
    assert run("events", path, "--limit", "0").code == 2


def test_gtids_and_databases_of_events() -> None:
    path = DATA / "mysql97" / "gtid.binlog"
    golden = next(g for g in PLAIN if str(g) == "mysql97/gtid")
    begins = [e for e in golden.events if e["type"].startswith("Gtid")]
    one = begins[7]["info"].split("'")[1]
    begin, end = begins[7]["pos"], begins[8]["pos"]
    want = [e["pos"] for e in golden.events if begin <= e["pos"] < end]
    assert [e["position"] for e in events(path, "--include-gtids", one)] == want
    rest = [e["position"] for e in events(path, "--exclude-gtids", one)]
    every = [e["position"] for e in events(path)]
    assert rest == [p for p in every if p not in want]
    rows = events(path, "--include-gtids", one, "--type", "*_rows")
    assert [e["position"] for e in rows] == [
        e["pos"] for e in golden.events if e["pos"] in want and e["type"].endswith("_rows")
    ]
    assert run("events", path, "--include-gtids", "nonsense").code == 1
    about = events(path, "--database", "shop")
    assert {e["type"] for e in about} >= {"Query", "Table_map", "Write_rows"}
    assert not {"Xid", "Gtid", "Rotate"} & {e["type"] for e in about}
    assert events(path, "--database", "sho") == []


def test_events_inside_compressed_transactions() -> None:
    path = DATA / "mysql97" / "trx_compression.binlog"
    with binlog_core.open(path) as log:
        whole = [e.position for e in log.events() if e.name == "Table_map"]
    assert [e["position"] for e in events(path, "--type", "Table_map")] == whole
    assert len(set(whole)) < len(whole)


def test_unknown_type_and_table() -> None:
    path = DATA / "mysql97" / "gtid.binlog"
    ran = run("events", path, "--type", "Wirte_rows")
    assert ran.code == 2
    assert "Write_rows" in ran.err
    ran = run("events", path, "--table", "shop.rute66_b")
    assert ran.code == 1
    assert "near: shop.Route66_b" in ran.err
