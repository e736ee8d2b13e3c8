"""Names that the user gave: unknown ones are reported with similar ones."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.logs import MIXED, path_of
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogWarning, SchemaError

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tables": "shop.sensor_aa"}, "tables='shop.sensor_aa'; near: shop.sensor_a"),
        ({"tables": ["shop.*", "stock.*"]}, "tables='stock.*'"),
        ({"exclude_tables": "shop.sensor_aa"}, "exclude_tables='shop.sensor_aa'; near: shop.sensor_a"),
        ({"columns": {"shop.nope": ["id"], "shop.*": ["id"]}}, "columns={'shop.nope': …}"),
        ({"columns": {"shop.ledger_b": ["id"]}, "tables": "shop.sensor_a"}, "columns={'shop.ledger_b': …}"),
        ({"schema": {"shop.sensor_x": "create table t (a int)"}}, "schema={'shop.sensor_x': …}; near:"),
        ({"gtids": f"{'0' * 8}-0000-0000-0000-{'0' * 12}:1"}, "no transaction is in gtids="),
        ({"server_id": 999}, "server_id=999"),
    ],
)
def test_unknown_names_are_reported(arguments: dict[str, Any], words: str) -> None:
    with binlog_core.open(path_of(MIXED), **arguments) as log:
        with pytest.warns(BinlogWarning, match=re.escape(words)):
            list(log.rows())
        assert log.report.unmatched_names == 1
    with (
        binlog_core.open(path_of(MIXED), strict=True, **arguments) as log,
        pytest.warns(BinlogWarning),
    ):
        list(log.rows())  # the log is not silent: no StrictError


@pytest.mark.parametrize(
    "arguments",
    [
        {"tables": ["shop.sensor_a", "*.sensor_*"]},
        {"columns": {"shop.sensor_a": ["id"], "*": ["id", "aid", "nid", "kid"]}},
        {"server_id": 11},
        {"ops": "insert", "tables": "shop.nokey"},
    ],
)
@pytest.mark.filterwarnings("error")
def test_known_names_are_not_reported(arguments: dict[str, Any]) -> None:
    with binlog_core.open(path_of(MIXED), **arguments) as log:
        try:
            list(log.batches())
        except SchemaError:
            assert "columns" in arguments
        assert not log.report.unmatched_names


def test_names_that_one_of_several_files_has_are_not_reported(tmp_path: Path) -> None:
    for number, name in enumerate("abc", 1):
        log = Log("8.4.0")
        log.begin()
        log.insert(Table("shop", name, [("id", "INT")]), [{"id": number}])
        log.commit()
        (tmp_path / f"bin.00000{number}").write_bytes(log.getvalue())
    for table, expected in (("shop.a", 0), ("shop.b", 0), ("shop.c", 0), ("shop.d", 1)):
        with warnings.catch_warnings(record=True) as caught, binlog_core.open(tmp_path, tables=table) as log:
            warnings.simplefilter("always")
            for one in log.each_file():
                list(one.rows())
        assert len(caught) == expected, table


def test_columns_that_only_a_later_file_has_are_accepted(tmp_path: Path) -> None:
    for number, name in enumerate("ab", 1):
        log = Log("8.4.0")
        log.begin()
        log.insert(Table("shop", name, [(f"{name}_id", "INT")]), [{f"{name}_id": number}])
        log.commit()
        (tmp_path / f"bin.00000{number}").write_bytes(log.getvalue())
    for where, rows in (("a_id = 1", 1), ("b_id = 2", 1), ("c_id = 1", None)):
        with binlog_core.open(tmp_path, where=where) as log:
            if rows is None:
                with pytest.raises(binlog_core.ConditionError, match="c_id"):
                    [list(one.rows()) for one in log.each_file()]
            else:
                assert sum(len(list(one.rows())) for one in log.each_file()) == rows


@pytest.mark.filterwarnings("error")
def test_definitions_that_are_not_needed_are_accepted() -> None:
    columns = "(id int, n bigint, s varchar(40), d decimal(10,2))"
    schema = dict.fromkeys(("shop.sensor_a", "shop.sensor_b"), f"create table t {columns}")
    with binlog_core.open(path_of(MIXED), schema=schema, tables="shop.sensor_a", columns=["id"]) as log:
        list(log.batches())
        assert not log.report.counts
