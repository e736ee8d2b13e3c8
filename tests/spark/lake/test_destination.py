"""What outputs have in common: notes of errors that workers leave, which anybody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from binlog_core.spark.lake.parquet import ParquetDirectory

DEEP = "[" * 200_000


@pytest.mark.parametrize(
    "note",
    [
        DEEP,
        "nothing",
        "[]",
        "{}",
        '{"kind": "annotations", "message": "x"}',
        '{"kind": "Path", "message": "x"}',
        '{"kind": "object", "message": "x"}',
        '{"kind": "DecodeError", "message": "x", "unknown": 1}',
    ],
)
def test_a_note_that_no_worker_left_is_none(note: str, tmp_path: Path) -> None:
    output = ParquetDirectory(str(tmp_path / "out"), "run")
    output.begin()
    (Path(output.notes) / f"{output.prefix}1.error.json").write_text(note)
    assert output.failure() is None
    (Path(output.notes) / f"{output.prefix}2.error.json").write_text(
        '{"kind": "DecodeError", "message": "x"}'
    )
    assert "x" in str(output.failure())
