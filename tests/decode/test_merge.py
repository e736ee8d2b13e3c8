"""A group's batches as one sequence of changes, in log order across tables."""

from __future__ import annotations

import pytest
from support.batches import column, make_batch
from support.golden import full_name
from support.logs import META_FULL, all_rows, keys_of, path_of

from binlog_core import ChangeBatch
from binlog_core._decode.merge import without_first
from binlog_core._tables.column_types import Kind

pytestmark = pytest.mark.sanitize

INT = column("id", Kind.INT, bytes_=4)


def batch(table: str, *positions: int) -> ChangeBatch:
    made = make_batch([INT], [{"id": position} for position in positions], table=table)
    made.array["image"]["position"] = positions
    return made


@pytest.mark.parametrize(
    ("count", "left", "still"),
    [
        (0, [[1, 4, 5], [2, 3]], 0),
        (1, [[4, 5], [2, 3]], 0),
        (3, [[4, 5], []], 0),
        (5, [[], []], 0),
        (9, [[], []], 4),
    ],
)
def test_the_first_records_go_in_log_order(count: int, left: list[list[int]], still: int) -> None:
    found, more = without_first([batch("a", 1, 4, 5), batch("b", 2, 3)], count)
    assert [one.column("id").tolist() for one in found] == left
    assert more == still


def test_rows_of_one_event_go_in_their_order() -> None:
    one = batch("a", 7, 7, 7)
    one.array["image"]["row"] = [2, 0, 1]
    one.array["row"]["id"] = [20, 0, 10]
    (found,), _ = without_first([one], 2)
    assert found.column("id").tolist() == [20]


def test_where_there_is_nothing_to_drop_all_is_still_to_be_dropped() -> None:
    nothing = batch("a")
    assert without_first([nothing], 3) == ([nothing], 3)


def test_changes_come_in_log_order() -> None:
    """Of a log whose groups hold several tables."""
    changes = all_rows(path_of(META_FULL))
    assert [(change.op, full_name(change.database, change.table)) for change in changes] == keys_of(META_FULL)
