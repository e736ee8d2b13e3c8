"""Partitions of tables: their text, their values, and the rows of each."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core.errors import SchemaError  # noqa: E402
from binlog_core.lake.tables.partitions import PartitionField, parse_partition, parts_of  # noqa: E402


@pytest.mark.parametrize(
    ("text", "fields", "names"),
    [
        ("region", [("region", "identity")], ["region"]),
        (" Day( created ),n", [("created", "day"), ("n", "identity")], ["created_day", "n"]),
        (
            "year(a), month(a), day(b)",
            [("a", "year"), ("a", "month"), ("b", "day")],
            ["a_year", "a_month", "b_day"],
        ),
        ("days", [("days", "identity")], ["days"]),
    ],
)
def test_fields_are_read_from_text(text: str, fields: list[Any], names: list[str]) -> None:
    found = parse_partition(text)
    assert [tuple(one) for one in found] == fields
    assert [one.name for one in found] == names
    assert parse_partition(", ".join(map(str, found))) == found


@pytest.mark.parametrize("text", ["", " ", "a,", "hour(a)", "day()", "day(a", "a, A", "day(a), DAY(A)"])
def test_other_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a partition|has a partition twice"):
        parse_partition(text)


MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29), None]


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(
    ("transform", "values"),
    [
        ("year", [1969, 2024, None]),
        ("month", [dt.date(1969, 12, 1), dt.date(2024, 2, 1), None]),
        ("day", [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None]),
    ],
)
def test_values_of_times_are_those_of_the_calendar(
    transform: str, values: list[Any], zone: str | None
) -> None:
    column = pa.array(MOMENTS, pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", zone))
    field = PartitionField("a", transform)
    found = field.values(column)
    assert (found.to_pylist(), found.type) == (values, field.type_of(column.type))
    if zone is None:
        dates = column.cast(pa.date32(), safe=False) if transform != "day" else None
        assert dates is None or field.values(dates).to_pylist() == values


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.decimal128(5, 1), pa.binary(), pa.timestamp("us"), pa.list_(pa.int8())]
)
def test_other_types_are_refused(kind: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be partitioned by a: expected an integer, a text"):
        PartitionField("a").type_of(kind)


def test_a_time_is_needed_for_its_day() -> None:
    with pytest.raises(SchemaError, match=r"by day\(a\): expected a date or time"):
        PartitionField("a", "day").type_of(pa.int64())


def test_each_row_is_in_the_part_of_its_values_in_order() -> None:
    rows = pa.table({"a": ["x", None, "y", "x", None], "b": [True, True, False, None, True], "n": range(5)})
    found = {values: part["n"].to_pylist() for values, part in parts_of(rows, parse_partition("a, b"))}
    assert found == {("x", True): [0], (None, True): [1, 4], ("y", False): [2], ("x", None): [3]}
    assert [(values, part) for values, part in parts_of(rows, ())] == [((), rows)]


@pytest.mark.parametrize("text", ["", "x" * 257])
def test_a_text_that_files_cannot_tell_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match=f"a text of {len(text)} characters cannot be a partition"):
        list(parts_of(pa.table({"a": ["x", text]}), parse_partition("a")))


@pytest.mark.parametrize("text", ["a", "month(a)", "day(a)"])
def test_a_date_before_the_year_1_is_refused(text: str) -> None:
    days = pa.array([0, -719528], pa.int32()).cast(pa.date32())  # 0000-01-01, which servers take
    with pytest.raises(SchemaError, match="a date before the year 1 cannot be a partition"):
        list(parts_of(pa.table({"a": days}), parse_partition(text)))
