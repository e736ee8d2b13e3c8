"""What ``binlog-core mirror`` says of tables; the work is tested in ``tests/mirror``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

from support.cli import run

import binlog_core.cli.mirror as cli
import binlog_core.mirror as work
from binlog_core.cli.mirror import live_line
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
            "42:1234",
            "1970-01-01",
            "00:00:00",
        ],
        ["shop.new", "copying"],
    ]
    named = replace(FOLLOWED, file="mysql-bin.000042")
    monkeypatch.setattr(work, "status", lambda lake, **_: [named])
    assert "mysql-bin.000042:1234" in run("mirror", "status", "lake").text.split()


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


@pytest.mark.parametrize("columns", ["60", "100"])
def test_the_help_has_the_options_of_a_mirror_and_the_other_commands(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = run("mirror", "--help").text
    assert "--exclude-tables" in text and "--password-file" in text
    assert re.search(r"binlog-core mirror \[OPTIONS\] \{?SERVER\}? \{?LAKE\}?", text)
    assert all(re.search(rf"^\W*{one}  ", text, re.MULTILINE) for one in ("verify", "pause", "add"))


@pytest.mark.parametrize("kind", ["pause", "resume", "add", "drop"])
def test_a_running_mirror_is_told_something(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    found = [replace(COPYING, stage="paused")]

    def change(lake: str, *tables: str) -> list[TableStatus]:
        asked.append((lake, *tables))
        return found

    monkeypatch.setattr(work, kind, change)
    ran = run("mirror", kind, "lake", "shop.*", "a.b")
    assert (ran.code, ran.err, asked) == (0, "", [("lake", "shop.*", "a.b")])
    assert "paused" in ran.text
    found[0] = replace(found[0], stopped=5.0)
    assert "no process runs this mirror: the next run finds it" in run("mirror", kind, "lake", "a.b").err
    assert run("mirror", kind, "lake").code == (0 if kind in ("pause", "resume") else 2)


def test_one_line_says_what_a_mirror_does() -> None:
    assert live_line([]) == "no tables"
    copying = [replace(COPYING, copied=0.5), replace(COPYING, table="shop.b", copied=None)]
    assert live_line([FOLLOWED, *copying]) == (
        "copying 2 of 3 tables, shop.new 50%, 1 table follows the server, 75.0 s behind"
    )
    assert live_line([FOLLOWED, FOLLOWED, PARKED]) == "2 tables follow the server, 75.0 s behind, 1 parked"


def test_without_a_terminal_there_is_a_line_for_each_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [
        [COPYING],
        [COPYING],
        [replace(COPYING, stage="following")],
        [replace(COPYING, stage="following")],
    ]
    for lasts in (True, False):
        with cli._Line(lasts=lasts) as line:
            for one in steps:
                line(one)
        said = capsys.readouterr().err.splitlines()
        assert [one.split("  ")[1] for one in said] == (
            ["copying 1 of 1 tables", "1 table follows the server"] if lasts else []
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mask-columns", "shop.t.email"), "BINLOG_CORE_MASK_KEY"),
        (("--exclude-columns", "email"), "database.table.column"),
        (("--metadata", "xid"), "commit_timestamp or gtid"),
        (("--rename", "shop.*=crm"), "expected database.table"),
        (("--rename", "shop.*"), "NAME=VALUE"),
        (("--unsigned-bigint", "text"), "decimal"),
    ],
)
def test_options_are_checked_before_the_server_is_asked(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BINLOG_CORE_MASK_KEY", raising=False)
    ran = run("mirror", "mysql://127.0.0.1:1", tmp_path / "lake", "--tables", "shop.*", *options)
    assert ran.code == 2
    assert message in re.sub(r"[\s│]+", " ", ran.err)
    assert not (tmp_path / "lake").exists()
