"""Some of a batch's records or columns, and what belongs to them."""

from __future__ import annotations

import numpy as np
import pytest
from support.batches import column, make_batch

from binlog_core._tables.column_types import Kind
from binlog_core.batch.subsets import only, whole_changes, with_columns

pytestmark = pytest.mark.sanitize

NAT = np.datetime64("NaT")
COLUMNS = [column("d", Kind.DATE), column("j", Kind.JSON), column("e", Kind.DATE)]
INSERT, BEFORE, AFTER, DELETE = 1, 2, 3, 4
BATCH = make_batch(
    COLUMNS,
    [{"d": NAT, "j": b"", "e": NAT}] * 5,
    ops=[INSERT, BEFORE, AFTER, DELETE, INSERT],
    invalid=[(0, 0, 2024, 0, 1, 0, 0, 0, 0), (3, 2, 2024, 0, 2, 0, 0, 0, 0), (4, 0, 2024, 0, 3, 0, 0, 0, 0)],
    json_diffs=[(2, 1)],
)


@pytest.mark.parametrize(
    ("damaged", "kept", "changes"),
    [
        ([], [0, 1, 2, 3, 4], []),
        ([0], [1, 2, 3, 4], [0]),
        ([1], [0, 3, 4], [1]),
        ([2], [0, 3, 4], [2]),
        ([2, 1, 4], [0, 3], [1, 4]),  # both images of one update are one change
    ],
)
def test_an_update_goes_with_both_of_its_images(
    damaged: list[int], kept: list[int], changes: list[int]
) -> None:
    found, first = whole_changes(BATCH, damaged)
    assert (np.flatnonzero(found).tolist(), first) == (kept, changes)


def test_records_keep_their_dates_and_diffs() -> None:
    part = only(BATCH, np.array([False, True, True, False, True]))
    assert part.array["image"]["position"].tolist() == [1010, 1020, 1040]
    assert part.invalid[["record", "column", "day"]].tolist() == [(2, 0, 3)]
    assert part.json_diffs.tolist() == [(1, 1)]
    assert BATCH.json_diffs.tolist() == [(2, 1)]  # the whole is as it was


def test_columns_keep_theirs() -> None:
    part = with_columns(BATCH, BATCH.columns[2:])
    assert part.array["row"].dtype.names == ("e",)
    assert part.invalid[["record", "column", "day"]].tolist() == [(3, 2, 2)]
    assert part.json_diffs.tolist() == []
    assert part.array["image"].tolist() == BATCH.array["image"].tolist()


def test_a_part_has_the_limit_of_the_whole() -> None:
    batch = BATCH[:4]
    batch.arrow_bytes = 1234
    assert batch[1:].arrow_bytes == with_columns(batch, batch.columns[:1]).arrow_bytes == 1234
