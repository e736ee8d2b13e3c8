"""Changes of rows for people, by hand."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from binlog_core import RowChange

pytest.importorskip("rich")

from binlog_core.cli.readable import change_lines, value_text


def lines(change: RowChange, *more: str) -> list[str]:
    return [line.plain for line in change_lines(change, *more)]


def test_an_update_says_of_which_row_it_is() -> None:
    before = {"id": 1, "price": None, "note": "x"}
    after = {"id": 1, "price": Decimal("1.50"), "note": "x"}
    change = RowChange(
        "update", "shop", "t", before, after, 157, 1_700_000_000, "1-7-42", path="/d/bin.000001"
    )
    assert lines(change, "of 3 rows") == [
        "update shop.t  2023-11-14 22:13:20  1-7-42  of 3 rows  bin.000001:157",
        "  id: 1",
        "  note: 'x'",
        "  price: NULL → 1.50",
    ]


def test_a_value_that_the_log_does_not_have_is_open() -> None:
    change = RowChange("update", "shop", "t", {"id": 1}, {"note": "new"}, 4, 1_700_000_000, path="bin.000001")
    assert lines(change)[1:] == ["  id: 1", "  note: ? → 'new'"]


def test_inserts_and_deletes_have_one_side() -> None:
    row = {"id": 7, "b": b"\x01"}
    inserted = RowChange("insert", "shop", "t", None, row, 4, 0, commit_time=1_700_000_000_500_000)
    assert lines(inserted) == ["insert shop.t  2023-11-14 22:13:20  :4", "  id: 7", "  b: 0x01"]
    deleted = RowChange("delete", "shop", "t", row, None, 4, 0)
    assert lines(deleted) == ["delete shop.t  1970-01-01 00:00:00  :4", "  id: 7", "  b: 0x01"]


def test_names_send_no_commands_to_a_terminal() -> None:
    change = RowChange("insert", "a\x1b[2J", "t\u202e", None, {"c\n": "v\x9b"}, 4, 0)
    assert all(line.isprintable() for line in lines(change))
    assert lines(change)[1] == r"  c\n: 'v\u009b'"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("it's", "'it's'"),
        (Decimal("1E-7"), "0.0000001"),
        (b"", "0x"),
        (dt.date(2026, 1, 2), "'2026-01-02'"),
        (["a", "b"], "['a', 'b']"),
        ("x" * 198, "'" + "x" * 198 + "'"),
        ("x" * 199, "'" + "x" * 198 + "…"),
    ],
)
def test_values_on_one_line(value: object, text: str) -> None:
    assert value_text(value) == text
