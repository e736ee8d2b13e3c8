"""``binlog-core info`` against what the servers say of their logs."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA, Golden, full_name, golden_logs

import binlog_core
import binlog_core.gtids
from binlog_core.inspect.summarize import summarize

pytest.importorskip("typer")
pytest.importorskip("rich")

from rich.console import Console
from support.cli import run

from binlog_core.cli.info import show

PLAIN = [g for g in golden_logs() if not g.needs_schema and not g.open_arguments]


def info(*arguments: object) -> dict[str, Any]:
    ran = run("info", "--json", *arguments)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.mark.parametrize("golden", PLAIN, ids=str)
def test_tables_are_those_of_the_truth(golden: Golden) -> None:
    want: dict[str, Counter[str]] = {}
    for change in golden.truth:
        want.setdefault(full_name(change["db"], change["table"]), Counter())[change["op"]] += 1
    found = info(golden.path)
    got = {
        name: Counter({"insert": t["inserts"], "update": t["updates"], "delete": t["deletes"]})
        for name, t in found["tables"].items()
    }
    assert {name: +counts for name, counts in got.items()} == want


@pytest.mark.parametrize("golden", PLAIN, ids=str)
def test_events_are_those_of_the_server(golden: Golden) -> None:
    """Against SHOW BINLOG EVENTS, where the events inside a compressed transaction have no length."""
    with binlog_core.open(golden.path) as log:
        summary = summarize(log)
    want = Counter(e["type"] for e in golden.events if e["pos"] != e["end"])
    got = Counter({name: count for name, (count, _) in summary.events().items()})
    difference = (got - want) + (want - got)
    assert difference.total() <= 1  # a STOP follows a clean shutdown; a cut file has less
    assert summary.files[0].compressed == any(e["type"] == "Transaction_payload" for e in golden.events)


def test_bytes_of_a_table_are_those_of_its_rows_events() -> None:
    """Two tables; the sizes by hand from SHOW BINLOG EVENTS."""
    golden = next(g for g in PLAIN if str(g) == "mysql97/gtid")
    sizes: Counter[str] = Counter()
    table = ""
    for event in golden.events:
        if event["type"] == "Table_map":
            table = event["info"].split("(")[1].split(")")[0]
        elif event["type"] in ("Write_rows", "Update_rows", "Delete_rows"):
            sizes[table] += event["end"] - event["pos"]
    got = {name: t["bytes"] for name, t in info(golden.path)["tables"].items()}
    assert len(got) == 2
    assert got == dict(sizes)


def test_bytes_of_compressed_transactions_are_shared_whole() -> None:
    """Together the tables have the bytes of the payload events and of the rows events outside them."""
    golden = next(g for g in PLAIN if str(g) == "mysql97/trx_compression")
    found = info(golden.path)
    events = found["events"]
    together = sum(t["bytes"] for t in found["tables"].values())
    want = sum(events[name]["bytes"] for name in ("Transaction_payload", "Write_rows", "Update_rows"))
    assert abs(together - want) <= len(found["tables"])  # each is rounded


def test_gtids() -> None:
    """The set at the beginning of the server's next log, minus the one at the beginning of this log."""
    golden = next(g for g in PLAIN if str(g) == "mysql97/gtid")
    file = info(golden.path)["files"][0]
    gtids = [
        e["info"].split("'")[1] for e in golden.events if "SESSION.GTID_NEXT=" in e["info"].replace(" ", "")
    ]
    want = binlog_core.gtids.GtidSet()
    for gtid in gtids:
        want |= binlog_core.gtids.GtidSet.parse(gtid)
    assert want
    assert binlog_core.gtids.GtidSet.parse(file["gtids"]) == want


def test_mariadb_gtids() -> None:
    golden = next(g for g in PLAIN if str(g) == "maria118/maria_gtid")
    file = info(golden.path)["files"][0]
    want = binlog_core.gtids.MariadbGtidSet()
    for event in golden.events:
        if event["type"] == "Gtid":
            text = next(word for word in event["info"].split() if word.count("-") == 2)
            want |= binlog_core.gtids.MariadbGtidSet.parse(text)
    assert want
    assert binlog_core.gtids.MariadbGtidSet.parse(file["gtids"]) == want


@pytest.mark.parametrize("rows", [1, 2, 5, 1000])
def test_transactions_do_not_depend_on_groups(rows: int) -> None:
    golden = next(g for g in PLAIN if str(g) == "mysql97/gtid")
    commits = sum(1 for e in golden.events if e["type"] == "Xid")
    with binlog_core.open(golden.path, limits=binlog_core.Limits(group_rows=rows)) as log:
        found = summarize(log)
    assert dict(found.transactions()) == {"committed": commits}
    images = sum(2 if change["op"] == "update" else 1 for change in golden.truth)
    largest = {t.begin_position: t for t in found.largest()}
    assert len(largest) == min(10, commits)
    if commits <= 10:
        assert sum(t.rows for t in largest.values()) == images


def test_several_files_and_their_gap(tmp_path: Path) -> None:
    for number, name in ((3, "gtid"), (7, "stop")):
        (tmp_path / f"bin.00000{number}").write_bytes((DATA / "mysql97" / f"{name}.binlog").read_bytes())
    found = info(tmp_path)
    assert [Path(f["path"]).name for f in found["files"]] == ["bin.000003", "bin.000007"]
    assert [(gap["first"], gap["last"]) for gap in found["gaps"]] == [(4, 6)]
    given = info(tmp_path / "bin.000003", tmp_path / "bin.000007")
    assert given["tables"] == found["tables"]
    assert given["gaps"] == found["gaps"]


def test_for_people() -> None:
    ran = run("info", DATA / "mysql97" / "truncated.binlog")
    assert ran.code == 0
    assert "cut at 4,474" in ran.text
    assert "crc32" in ran.text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_times_and_gtids_are_whole_in_every_terminal(width: int) -> None:
    with binlog_core.open(DATA / "maria118" / "dml_mixed.binlog") as log:
        found = summarize(log)
    out = io.StringIO()
    show(found, Console(width=width, file=out), tables=None)
    text = out.getvalue()
    assert "0-11-381" in text and "2026-11-21 03:51:52" in text[text.index("largest transactions") :]
    assert ("changed row," in text or "changed rows," in text) == (width < 100)


def test_a_long_gtid_has_its_own_line_in_a_terminal() -> None:
    with binlog_core.open(DATA / "mysql97" / "gtid.binlog") as log:
        found = summarize(log)
    out = io.StringIO()
    show(found, Console(width=100, file=out), tables=None)
    assert "  GTID cbecc49e-e55e-11f1-b91d-02fc00000001:tagone:2, server 11" in out.getvalue()


def test_standard_input() -> None:
    path = DATA / "mysql97" / "gtid.binlog"
    ran = run("info", "--json", "-", stdin=path.read_bytes())
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["tables"] == info(path)["tables"]
    assert [file["path"] for file in found["files"]] == ["<stdin>"]
    ran = run("info", "-", stdin=b"hello")
    assert (ran.code, "(file <stdin>" in ran.err) == (1, True)


def test_missing_file_and_wrong_option() -> None:
    ran = run("info", "nowhere.000001")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "nowhere.000001" in ran.err
    assert run("info").code == 2
    assert run("info", "--nonsense", "x").code == 2
