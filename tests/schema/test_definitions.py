"""Definitions of a pass: those given, followed, or assumed."""

from __future__ import annotations

from typing import Any

import pytest
from support.golden import golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core._walk import typed_events

WITHOUT_NAMES = [*golden_logs("*/ddl*"), *golden_logs("*/meta_no_log"), *golden_logs("mysql*/meta_minimal")]


@pytest.mark.parametrize("golden", WITHOUT_NAMES, ids=str)
def test_each_row_has_the_names_its_table_had_then(golden: Any) -> None:
    log = binlog_core.open(golden.path, schema="ddl")
    rows = list(log.rows())
    assert len(rows) == len(golden.truth) > 0
    for row, truth in zip(rows, golden.truth, strict=True):
        for found, image in ((row.before, "before"), (row.after, "after")):
            if found is not None:
                names = list(truth[image])
                assert list(found) == [names[i] for i in truth.get(f"{image}_cols", range(len(names)))]


@pytest.mark.parametrize(("charset", "error"), [("nope", ValueError), ("binary", ValueError), (8, TypeError)])
def test_an_unknown_character_set_is_refused(charset: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="charset="):
        binlog_core.open(WITHOUT_NAMES[0].path, charset=charset)


def test_statements_in_front_of_the_start_count() -> None:
    """The definition is in the log before the position at which reading starts."""
    log = Log("8.4.0")
    log.query("CREATE TABLE t (id INT PRIMARY KEY, total INT)", "shop")
    log.query("ALTER TABLE t RENAME COLUMN total TO price", "shop")
    start = log.position
    log.begin("shop")
    table = Table("shop", "t", [("id", "INT"), ("total", "INT")])
    log.table_map(table, with_metadata=False)
    log.insert(table, [{"id": 1, "total": 2}], mapped=True)
    log.commit()
    log.query("ALTER TABLE t RENAME COLUMN price TO later", "shop")
    for given in (start, ("<bytes>", start), binlog_core.Position("<bytes>", start)):
        with binlog_core.open(log.getvalue(), schema="ddl", start=given) as opened:
            assert [change.after for change in opened.rows()] == [{"id": 1, "price": 2}]


def test_of_what_is_in_front_of_the_start_no_begin_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    log, table = Log("8.4.0"), Table("shop", "t", [("id", "INT")])
    log.query("CREATE TABLE t (id INT PRIMARY KEY)", "shop")
    for number in range(50):
        start = log.position
        log.begin("shop")
        log.insert(table, [{"id": number}])
        log.commit()
    parsed, parse = list[Any](), typed_events.parse_event
    monkeypatch.setattr(typed_events, "parse_event", lambda *args: parsed.append(args) or parse(*args))
    with binlog_core.open(log.getvalue(), schema="ddl", start=start) as opened:
        assert [change.after for change in opened.rows()] == [{"id": 49}]
    assert len(parsed) < 10
