"""Changes of one table folded by key."""

from __future__ import annotations

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark")
from binlog_core.lake.apply.changes import labels_of  # noqa: E402
from binlog_core.lake.apply.folding import fold, joined  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.apply.staging import Stager  # noqa: E402


def test_fold_keeps_what_a_moved_row_has(tmp_path: Path) -> None:
    absent = [["a"], ["a"], ["a"], ["id"], None]
    ordinals = range(5)
    kinds = ["update_preimage", "update_postimage", "update_preimage", "update_postimage", "delete"]
    columns = {
        "id": pa.array([1, 2, 2, None, 3], pa.int32()),
        "a": pa.array([None, None, None, "x", None]),
        "_change_type": kinds,
        "_commit_version": [7] * 5,
        "_change_ordinal": ordinals,
        "_absent": absent,
    }
    stager = Stager(Folder(str(tmp_path)), pa.schema([("id", pa.int32()), ("a", pa.string())]), (0,))
    staged = stager(pa.table(columns).to_batches())
    assert [len(pairs) for pairs in staged.moved] == [1]  # their buckets must be folded together
    again = Stager(stager.place, stager.schema, (0,), labels=labels_of(staged.moved)).again([staged])
    found = {}
    for buckets in {tuple(again.files[0][1])}:
        pieces = list(stager.read(again.files[0][0], range(len(buckets))))
        for bucket in set(buckets):
            folded = fold(joined([p for p, b in zip(pieces, buckets, strict=True) if b == bucket]), (0,))
            rows = zip(*(column.to_pylist() for column in (*folded.columns, *folded.bases)), strict=True)
            found |= {row[0]: (bool(gone), row[1:]) for row, gone in zip(rows, folded.deleted, strict=True)}
    assert found.keys() == {1, 2, 3}
    assert found[1][0] and found[3][0]
    assert found[2] == (False, ("x",))
