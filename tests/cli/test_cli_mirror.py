"""What ``binlog-core mirror`` says of tables; the work is tested in ``tests/mirror``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

from support.cli import run

import binlog_core.mirror as work
from binlog_core.mirror import TableStatus
from binlog_core.mirror.comparing import Compared

FOLLOWED = TableStatus("shop.orders", "following", None, "lake/a", 75.0, 42, 1_234, None, 1_000_000, 7, 0.0)
COPYING = TableStatus("shop.new", "copying", None, "lake/b")
PARKED = TableStatus("shop.t\x1b[2J", "parked", "no primary key", "lake/c")


def test_the_status_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "status", lambda lake, **_: [FOLLOWED, COPYING])
    ran = run("mirror", "status", "lake")
    assert ran.code == 0
    found = [line.split() for line in ran.lines if line.startswith("  shop.")]
    assert found == [
        [
            "shop.orders",
            "following",
            "1",
            "min",
            "15",
            "s",
            "1,000,000",
            "42:1,234",
            "1970-01-01",
            "00:00:00",
        ],
        ["shop.new", "copying"],
    ]


def test_a_stopped_mirror_is_not_following_and_nobody_knows_how_far_it_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = replace(FOLLOWED, stage="stopped", stopped=0.0, lag_bytes=None, lag_transactions=None)
    monkeypatch.setattr(work, "status", lambda lake, **_: [stopped])
    ran = run("mirror", "status", "lake")
    assert ran.code == 0
    assert "following" not in ran.text
    assert "stopped since" in ran.text
    assert ran.text.count("unknown") == 2


def test_a_parked_table_is_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "status", lambda lake, **_: [FOLLOWED, PARKED])
    ran = run("mirror", "status", "lake")
    assert (ran.code, ran.err) == (1, "shop.t\\u001b[2J: no primary key\n")
    ran = run("mirror", "status", "lake", "--json")
    assert ran.code == 1
    assert [json.loads(line)["stage"] for line in ran.lines] == ["following", "parked"]


def test_the_status_as_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "status", lambda lake, **_: [FOLLOWED])
    ran = run("mirror", "status", "lake", "--prometheus")
    assert ran.code == 0
    assert 'binlog_core_mirror_rows{lake="lake",table="shop.orders"} 1000000' in ran.lines


def test_the_catalog_of_iceberg_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(work, "status", lambda lake, catalog: asked.append(catalog) or [])
    assert run("mirror", "status", "lake", "--catalog", "name=prod", "--catalog", "token=a=b").code == 0
    assert asked == [{"name": "prod", "token": "a=b"}]
    assert run("mirror", "status", "lake", "--catalog", "prod").code == 2


def test_rows_that_differ_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    found = [Compared("shop.a", 1_000), Compared("shop.b", 5, 2, missing=[{"id": 3}], changed=[{"id": "x"}])]

    def compare(lake: str, *tables: str, **_: object) -> list[Compared]:
        asked.append((lake, *tables))
        return found

    monkeypatch.setattr(work, "verify", compare)
    ran = run("mirror", "verify", "lake", "shop.*")
    assert (ran.code, asked) == (1, [("lake", "shop.*")])
    assert ran.lines == [
        "shop.a: 1,000 rows agree",
        "shop.b: 2 of 5 rows differ",
        "  changed: id='x'",
        "  missing: id=3",
    ]
    found[1] = Compared("shop.b", reason="it is parked")
    ran = run("mirror", "verify", "lake")
    assert (ran.code, ran.lines[1]) == (1, "shop.b: not compared: it is parked")
    del found[1]
    assert run("mirror", "verify", "lake").code == 0
