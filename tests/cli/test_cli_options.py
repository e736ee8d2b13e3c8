"""Options as the vendors' tools have them, and times as people write them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support.golden import DATA
from support.writer import Log, Table

pytest.importorskip("typer")

from support.cli import run

from binlog_core.cli.times import parse_time, zone_of

LOG = DATA / "mysql97" / "gtid.binlog"
NOW = dt.datetime(2026, 11, 21, 12, 30, 15, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21 08:05:09", (2026, 11, 21, 8, 5, 9)),
        ("2026-11-21T08:05:09", (2026, 11, 21, 8, 5, 9)),
        ("2026/11/21 8:05", (2026, 11, 21, 8, 5)),
        ("26-1-2 3:4:5", (2026, 1, 2, 3, 4, 5)),
        ("99.1.2", (1999, 1, 2)),
        ("20261121080509", (2026, 11, 21, 8, 5, 9)),
        ("261121080509", (2026, 11, 21, 8, 5, 9)),
        ("261121", (2026, 11, 21)),
        ("2026-11-21", (2026, 11, 21)),
        ("2026-11-21 08:05:09.25", (2026, 11, 21, 8, 5, 9, 250_000)),
        ("2026-11-21 08:05:09+02:00", (2026, 11, 21, 6, 5, 9)),
        ("2026-11-21T08:05:09Z", (2026, 11, 21, 8, 5, 9)),
        ("now", (2026, 11, 21, 12, 30, 15)),
        ("1 hour ago", (2026, 11, 21, 11, 30, 15)),
        ("An hour ago", (2026, 11, 21, 11, 30, 15)),
        ("90 min ago", (2026, 11, 21, 11, 0, 15)),
        ("2 days ago", (2026, 11, 19, 12, 30, 15)),
        ("30s ago", (2026, 11, 21, 12, 29, 45)),
        ("today", (2026, 11, 21)),
        ("yesterday 08:00", (2026, 11, 20, 8)),
    ],
)
def test_times(text: str, moment: tuple[int, ...]) -> None:
    assert parse_time(text, now=NOW) == dt.datetime(*moment, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize("text", ["", "soon", "26-13-01", "1 fortnight ago", "99999999999 days ago", "12345"])
def test_what_is_not_a_time(text: str) -> None:
    assert parse_time(text, now=NOW) is None


def test_zones() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert parse_time("2026-07-01 12:00", berlin) == dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC)
    assert parse_time("2026-12-01 12:00", zone_of("-05:30")) == dt.datetime(
        2026, 12, 1, 17, 30, tzinfo=dt.UTC
    )
    assert parse_time("today", berlin, now=dt.datetime(2026, 7, 1, 23, tzinfo=dt.UTC)) == dt.datetime(
        2026, 7, 2, tzinfo=berlin
    )
    assert parse_time("12:00", zone_of("local")) is None
    for wrong in ("Nowhere/Land", "../../etc/passwd", "+99:00"):
        assert run("events", LOG, "--tz", wrong).code == 2


def test_times_are_given_and_shown_in_a_zone() -> None:
    """The events are of 03:51:16 UTC: 12:51:16 in Tokyo."""
    plain = run("events", LOG, "--type", "Query").lines
    tokyo = run("events", LOG, "--type", "Query", "--tz", "Asia/Tokyo").lines
    assert "2026-11-21 03:51:16" in plain[0]
    assert [line.replace("12:51:16", "03:51:16") for line in tokyo] == plain
    assert (
        run("rows", LOG, "--start", "2026-11-21 12:51:00", "--tz", "Asia/Tokyo").out == run("rows", LOG).out
    )
    assert run("rows", LOG, "--start", "2026-11-21 12:51:00").out == b""
    assert "Asia/Tokyo" in run("info", LOG, "--tz", "Asia/Tokyo").text
    assert "03:51:16 UTC" in run("info", LOG).text
    ran = run("rows", LOG, "--start-datetime", "soon")
    assert (ran.code, "expected" in ran.err) == (2, True)


def test_a_log_alone_is_looked_at() -> None:
    assert run(LOG).text == run("info", LOG).text
    assert run(LOG, "--json").text == run("info", LOG, "--json").text
    assert run("nfo", LOG).code == 2
    for arguments in (["-h"], ["rows", "-h"]):
        assert "Usage" in run(*arguments).text


def test_several_servers(tmp_path: Path) -> None:
    table = Table("shop", "t", [("id", "INT")], primary_key=["id"])
    log = Log("8.4.0")
    for server in (7, 8, 9):
        log.server_id = server
        log.begin("shop")
        log.insert(table, [{"id": server}])
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())

    def ids(*options: str) -> list[int]:
        return [json.loads(line)["after"]["id"] for line in run("rows", path, *options).lines]

    assert ids("--server-id", "7,8") == [7, 8]
    assert ids("--server-id", "8") == [8]
    assert ids("--server-id", "7, 9", "--where", "id > 7") == [9]
    events = run("events", path, "--server-id", "7,9", "--type", "Write_rows", "-f", "jsonl").lines
    assert [json.loads(line)["server_id"] for line in events] == [7, 9]
    for wrong in ("x", "7,", "4294967296"):
        assert run("rows", path, "--server-id", wrong).code == 2


def test_a_database_of_another_name(tmp_path: Path) -> None:
    out = tmp_path / "out.sql"
    ran = run("rows", LOG, "-f", "sql", "--rewrite-db", "shop=a`b", "-r", out)
    assert ran.code == 0, ran.err
    text = out.read_text()
    assert "INSERT INTO `a``b`.`Route66_b`" in text
    assert not [line for line in text.splitlines() if "`shop`." in line and not line.startswith("# ")]
    assert run("rows", LOG, "-f", "sql", "--rewrite-db", "shop->x").text.count("INTO `x`.`Route66_b`") == 3
    for wrong in (["--rewrite-db", "shop", "-f", "sql"], ["--rewrite-db", "a=b"]):
        assert run("rows", LOG, *wrong).code == 2
