"""Transactions: what each did, which user did it, and which are the largest."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA, Golden, full_name, golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core.inspect.transactions import DETAIL_TYPES, Transaction, transactions

UUID = "00112233-4455-6677-8899-aabbccddeeff"
A = Table("shop", "a", [("id", "INT")])
B = Table("shop", "b", [("id", "INT")])

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i} for i in range(count)]


def invoker(user: str) -> bytes:
    return b"\x0b" + bytes([len(user)]) + user.encode() + b"\x01%"


def begin(log: Log, thread: int, user: str = "") -> int:
    status = invoker(user) if user else b""
    head = struct.pack("<IIBHH", thread, 0, 4, 0, len(status))
    return log.event(2, head + status + b"shop\0BEGIN")


def written() -> tuple[bytes, list[tuple[int, int]]]:
    """Three transactions; of the second the rows of two tables, of the third no end."""
    log, places = Log("8.4.0"), []
    for number, (thread, user) in enumerate(((7, "ann"), (8, ""), (7, "")), 1):
        start = log.gtid(UUID, number)
        begin(log, thread, user)
        if number == 1:
            log.rows_query("SET PASSWORD = 'geheim'")
            log.rows_query("UPDATE a SET id = id + 1")
            log.update(A, [({"id": 1}, {"id": 2})] * 3)
        elif number == 2:
            log.insert(A, rows(10))
            log.delete(B, rows(4))
        else:
            log.insert(B, rows(1))
        if number < 3:
            log.commit(xid=number)
        places.append((start, log.position if number < 3 else 0))
    return log.getvalue(), places


def facts_of(one: Transaction) -> tuple[Any, ...]:
    return one.inserts, one.updates, one.deletes, one.rows, one.tables, one.thread_id, one.user, one.outcome


WANTED = [
    (0, 3, 0, 6, {"shop.a": 3}, 7, "ann", "committed"),
    (10, 0, 4, 14, {"shop.a": 10, "shop.b": 4}, 8, None, "committed"),
    (1, 0, 0, 1, {"shop.b": 1}, 7, None, "unknown"),
]


@pytest.mark.parametrize("group_rows", [1, 5, 1000])
def test_in_log_order(group_rows: int) -> None:
    data, places = written()
    with binlog_core.open(data, limits=binlog_core.Limits(group_rows=group_rows)) as log:
        found = list(transactions(log))
    assert [facts_of(one) for one in found] == WANTED
    assert [(one.begin_position, one.end_position) for one in found] == places
    assert [one.gtid for one in found] == [f"{UUID}:{i}" for i in (1, 2, 3)]
    assert [one.statement for one in found] == ["SET PASSWORD = '***'", None, None]
    alone = [facts_of(one)[5:7] for one in transactions(data, details=False)]
    assert alone == [(7, None), (8, None), (7, None)]
    assert [facts_of(one) for one in transactions(data, most=1)] == WANTED[:1]


@pytest.mark.parametrize("by", ["bytes", "rows"])
def test_the_largest_first(by: Any) -> None:
    data, _ = written()
    found = list(transactions([data, data], by=by, most=3))
    assert [facts_of(one) for one in found] == [WANTED[1], WANTED[1], WANTED[0]]
    assert [facts_of(one) for one in transactions(data, by=by)] == [WANTED[1], WANTED[0], WANTED[2]]
    assert [one.statement for one in found] == [None, None, "SET PASSWORD = '***'"]
    with pytest.raises(ValueError, match="position, bytes, rows or seconds"):
        next(transactions(data, by="size"))  # type: ignore[arg-type]


def test_a_begin_after_rows_begins_another_transaction() -> None:
    """As where damage took a transaction's end and the next one's GTID."""
    log = Log("8.4.0")
    log.gtid(UUID, 1)
    log.insert(A, rows(1))
    second = begin(log, 9)
    log.insert(A, rows(2))
    log.commit()
    one, two = transactions(log.getvalue())
    assert facts_of(one) == (1, 0, 0, 1, {"shop.a": 1}, None, None, "unknown")
    assert facts_of(two) == (2, 0, 0, 2, {"shop.a": 2}, 9, None, "committed")
    assert (one.gtid, two.gtid, two.begin_position) == (f"{UUID}:1", None, second)
    with binlog_core.open(log.getvalue()) as opened:
        assert [change.gtid for change in opened.rows()] == [f"{UUID}:1", None, None]
        assert len(list(opened.rows(where="_thread_id = 9"))) == 2


@pytest.mark.parametrize("name", ["mysql97/dml_mixed", "maria118/dml_mixed", "mysql97/gtid", "mysql97/ddl"])
def test_rows_of_golden_logs(name: str) -> None:
    golden = next(g for g in golden_logs() if str(g) == name)
    tables, ops = Counter[str](), Counter[str]()
    for change in golden.truth:
        tables[full_name(change["db"], change["table"])] += 1
        ops[change["op"]] += 1
    found = list(transactions(golden.path))
    got = sum((Counter(one.tables) for one in found), Counter[str]())
    assert got == tables
    for op in ("insert", "update", "delete"):
        assert sum(getattr(one, f"{op}s") for one in found) == ops[op]
    assert len({one.thread_id for one in found}) == 1
    assert None not in {one.thread_id for one in found}


def test_compressed_transactions_tell_their_thread() -> None:
    golden = next(g for g in golden_logs() if str(g) == "mysql97/trx_compression")
    with binlog_core.open(golden.path) as log:
        threads = {event.thread_id for event in log.events() if getattr(event, "query", "") == "BEGIN"}
    assert {one.thread_id for one in transactions(golden.path)} <= threads
    assert [one.thread_id for one in transactions(golden.path, by="bytes", most=3)] != [None] * 3


@pytest.mark.parametrize("golden", [g for g in golden_logs() if not g.open_arguments], ids=str)
def test_the_loop_tells_the_thread_that_events_tell(golden: Golden) -> None:
    with binlog_core.open(golden.path) as log:
        found = list(transactions(log, details=False))
        # Statements and COMMIT may have a thread, too, but after the rows.
        heads = ("BEGIN", "XA START")
        events = [e for e in log.events(DETAIL_TYPES) if getattr(e, "query", "BEGIN").startswith(heads)]
    for one in found:
        alone = replace(one, thread_id=None)
        for event in events:
            if one.begin_position <= event.position < (one.end_position or 1 << 62):
                alone.learn(event)
        assert alone.thread_id in (None, one.thread_id)


def test_rows_events_and_undo_of_a_thread(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from support.cli import run

    path = tmp_path / "bin.000001"
    path.write_bytes(written()[0])

    def ops(*options: str) -> list[str]:
        return [json.loads(line)["op"] for line in run("rows", path, "-f", "jsonl", *options).lines]

    assert ops("--thread-id", "8") == ["insert"] * 10 + ["delete"] * 4
    assert ops("--thread-id", "7", "--where", "id = 2") == ["update"] * 3
    assert len(ops("--thread-id", "7,8")) == 18
    assert ops("--thread-id", "9") == []
    assert run("rows", path, "--thread-id", "x").code == 2
    events = [json.loads(line) for line in run("events", path, "--thread-id", "8", "-f", "jsonl").lines]
    assert [one["type"] for one in events] == [
        "Gtid", "Query", "Table_map", "Write_rows", "Table_map", "Delete_rows", "Xid",
    ]  # fmt: skip
    some = run("events", path, "--thread-id", "7", "--type", "Write_rows", "-f", "jsonl").lines
    assert [json.loads(one)["table"] for one in some] == ["shop.b"]
    report = json.loads(run("undo", path, "--thread-id", "8", "-o", tmp_path / "undo.sql", "--json").text)
    assert {row["action"] for row in report["rows"]} == {"delete", "insert"}
    assert len(report["transactions"]) == 1
    assert "`other`.`a`" not in (tmp_path / "undo.sql").read_text()
    ran = run("undo", path, "--thread-id", "8", "--rewrite-db", "shop=other", "-o", tmp_path / "other.sql")
    assert ran.code == 0, ran.err
    text = (tmp_path / "other.sql").read_text()
    assert "`other`.`a`" in text
    assert "`shop`." not in text
    assert run("undo", path, "--thread-id", "8", "--rewrite-db", "shop").code == 2


def run_of(*arguments: object) -> Any:
    pytest.importorskip("typer")
    from support.cli import run

    ran = run("transactions", *arguments)
    assert ran.code == 0, ran.err
    return ran


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(written()[0])
    lines = [json.loads(line) for line in run_of(path, "-f", "jsonl").lines]
    assert [line["changes"] for line in lines] == [14, 3, 1]
    assert [line["thread_id"] for line in lines] == [8, 7, 7]
    assert [
        json.loads(line)["changes"]
        for line in run_of(path, "--by", "position", "--thread-id", 7, "-f", "jsonl").lines
    ] == [3, 1]
    text = run_of(path, "-n", 2).text
    assert "14 changed rows, took 0 s" in text
    assert f"GTID {UUID}:2, server 1, thread 8" in text
    assert "thread 7, user ann" in text
    assert "shop.a 10, shop.b 4" in text
    assert "not ended" not in text
    for per, wanted in (
        ("table", {"shop.a": 13, "shop.b": 5}),
        ("thread", {"7": 4, "8": 14}),
        ("user", {"ann": 3, "not logged": 15}),
        ("server", {"1": 18}),
    ):
        found = [json.loads(line) for line in run_of(path, "--per", per, "-f", "jsonl").lines]
        assert {one[per]: one["changed_rows"] for one in found} == wanted
        assert "changed rows" in run_of(path, "--per", per).text
    found = json.loads(run_of(path, "--by", "rows", "-n", 1, "-t", "b", "-f", "jsonl").text)
    assert found["tables"] == {"shop.b": 4}


def test_info_and_the_report_tell_them_too() -> None:
    pytest.importorskip("typer")
    from support.cli import run

    from binlog_core.inspect.report_page import report_page
    from binlog_core.inspect.summarize import summarize

    path = DATA / "maria118" / "dml_mixed.binlog"
    found = json.loads(run("info", path, "--json").text)["largest"]
    assert {one["thread_id"] for one in found} == {67}
    golden = next(g for g in golden_logs() if str(g) == "maria118/dml_mixed")
    logged = [" ".join(e["info"].split()) for e in golden.events if e["type"] == "Annotate_rows"]
    assert len({one["statement"] for one in found}) > 5
    assert all(any(one["statement"] in text for text in logged) for one in found)
    page = report_page(summarize(path))
    assert "thread 67 · shop.ledger_a 20" in page
    assert "GTID 0-11-385 ·" in page


@pytest.mark.parametrize("more", [[], ["--per", "table"]])
def test_a_narrow_terminal(more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_core.cli.output._PIPED_WIDTH", 40)
    ran = run_of(DATA / "mysql97" / "dml_mixed.binlog", *more)
    assert "changed rows" in " ".join(ran.text.split())
    assert max(map(len, ran.lines)) <= 40
