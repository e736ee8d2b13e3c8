"""What of a round concerns a table: in batches of one definition each."""

from __future__ import annotations

from typing import Any

import pytest
from support.export import file_of

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from binlog_core.spark.lake.results import ToldStatement  # noqa: E402
from binlog_core.spark.mirror.applying import batches  # noqa: E402

OLD, NEW = pa.schema({"id": pa.int32()}), pa.schema({"id": pa.int64()})


def statement(version: int, kind: str = "alter") -> ToldStatement:
    return ToldStatement(version, 0, kind, ("shop.t",), None, False, "…")


def file(name: str, schema: Any, first: int, last: int) -> Any:
    return file_of(name, schema=schema, first_version=first, last_version=last)


def test_a_batch_ends_where_types_change() -> None:
    alter, cleared = statement(50), statement(70, "truncate")
    old, new = file("old", OLD, 10, 40), file("new", NEW, 60, 90)
    first, second = batches([old, new], [alter, cleared], 100)
    assert (first.below, first.statements, first.files) == (50, [], [old])
    assert (second.below, second.statements, second.files) == (100, [alter, cleared], [new])


def test_files_that_reach_over_an_alter_are_in_both_batches() -> None:
    both, new = file("both", OLD, 10, 60), file("new", NEW, 70, 80)
    first, second = batches([both, new], [statement(50)], 100)
    assert (first.files, second.files) == ([both], [both, new])


def test_columns_of_one_type_are_one_batch() -> None:
    (one,) = batches([file("a", OLD, 10, 40), file("b", OLD, 60, 90)], [statement(50)], 100)
    assert (one.below, len(one.files), len(one.statements)) == (100, 2, 1)
    assert batches([], [], 100) == []
