"""Names that the user gave and that occur in no log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA

pytest.importorskip("typer")

from support.cli import run

LOG = DATA / "mysql97" / "gtid.binlog"


def rows(*arguments: object) -> list[dict[str, Any]]:
    ran = run("rows", *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.lines]


def test_unknown_table() -> None:
    ran = run("rows", LOG, "--table", "rute66")
    assert (ran.code, ran.out) == (1, b"")
    assert "no table 'rute66'" in ran.err
    assert "near: shop.Route66_b" in ran.err
    assert ran.err.count("rute66") == 1, "an error, and not a note besides"
    ran = run("rows", LOG, "--table", "shop.Route66_b", "--stop-position", 200)
    assert (ran.code, ran.out) == (0, b""), "the table is in the log, its rows are not in the range"


def test_unknown_column(tmp_path: Path) -> None:
    ran = run("rows", LOG, "-t", "naïve_table_a", "--columns", "exta")
    assert (ran.code, ran.out) == (1, b""), "nothing is written before"
    ran = run("rows", LOG, "-t", "naïve_table_a", "--columns", "id,exta", "-o", tmp_path / "out")
    assert ran.code == 1
    assert ran.out == b""
    assert "'exta'; near: extra" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["rows", "events"])
def test_a_table_without_changes_in_the_range_is_accepted(command: str) -> None:
    later = ["--start-datetime", "2030-01-01"]
    table = rows(LOG)[0]["table"]
    ran = run(command, LOG, "--table", table, *later)
    assert (ran.code, ran.out) == (0, b""), ran.err
    ran = run(command, LOG, "--table", f"{table}x", *later)
    assert ran.code == 1
    assert f"near: shop.{table}" in ran.err


def test_a_server_id_or_gtid_that_occurs_nowhere_is_reported() -> None:
    path = DATA / "maria1011" / "ddl.binlog"
    for command in ("rows", "events", "info"):
        assert "--server-id 99" in run(command, path, "--server-id", "99").err.replace(
            "server-id=", "server-id "
        )
    assert "--include-gtids 7-7-7" in run("events", path, "--include-gtids", "7-7-7").err
    assert "--include-gtids" in run("rows", path, "--include-gtids", "7-7-7").err
    assert "--include-gtids" not in run("events", path, "--include-gtids", "0-11-912").err
