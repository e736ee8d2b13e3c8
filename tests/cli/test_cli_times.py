"""Times as people write them, and time zones."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from support.golden import DATA

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
        ("261121  8:05:09", (2026, 11, 21, 8, 5, 9)),
        ("#261121 18:05:09", (2026, 11, 21, 18, 5, 9)),
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


def test_fourteen_digits_are_a_time_and_fewer_a_position() -> None:
    assert run("rows", LOG, "--start", "20991121080509").lines == []
    ran = run("rows", LOG, "--start", "209911210805")
    assert ran.code == 1
    assert "is beyond the file" in ran.err
