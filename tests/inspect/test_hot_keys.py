"""Which rows were changed most often."""

from __future__ import annotations

import pytest
from support.writer import Log, Table

import binlog_core
from binlog_core.inspect.hot_keys import HotKey, hot_keys


def test_hot_keys_of_text_and_of_several_columns() -> None:
    log = Log("8.0.36")
    table = Table("shop", "t", [("a", "VARCHAR(9)"), ("b", "INT"), ("c", "INT")], primary_key=["a", "b"])
    log.begin()
    for number in (1, 2, 2, 3):
        log.insert(table, [{"a": f"x{number}", "b": number, "c": 0}])
    log.insert(Table("shop", "keyless", [("a", "INT")]), [{"a": 1}] * 3)
    log.commit()
    with binlog_core.open(log.getvalue()) as opened:
        assert hot_keys(opened, ["shop.t", "shop.keyless"]) == [HotKey("shop.t", "a=x2, b=2", 2)]
        assert hot_keys(opened, []) == []


def test_hot_keys_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred of ten thousand keys are kept at a time; the key of every tenth change is found."""
    monkeypatch.setattr("binlog_core.inspect.hot_keys._MOST", 100)
    log, table = Log("8.0.36"), Table("shop", "t", [("id", "INT")], primary_key=["id"])
    for i in range(1000):
        log.begin()
        log.insert(table, [{"id": 7}, *({"id": 100 + 9 * i + k} for k in range(9))])
        log.commit()
    with binlog_core.open(log.getvalue(), limits=binlog_core.Limits(group_rows=50)) as opened:
        (first, *others) = hot_keys(opened, ["shop.t"])
    assert first.key == "id=7"
    assert 500 <= first.changes <= 1000
    assert not others
