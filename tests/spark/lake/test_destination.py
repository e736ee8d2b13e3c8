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


def test_different_names_have_different_directories() -> None:
    from binlog_core.spark.lake.destination import directory_name

    names = ["a", "a.b", "b", "", ".", "a%2Eb", "a~2Eb", "ж" * 64, "ж" * 63 + "е", "_a", "~5Fa", "a~b", "A"]
    names += ["Ab", "aB", "AB", "ab", "ab~1", "ab~~1", "0", "~0", "x" * 64, "X" * 64]
    # On a file system that ignores case, too.
    directories = {directory_name(database, table).casefold() for database in names for table in names}
    assert len(directories) == len(names) ** 2
    assert directory_name("shop", "order_lines-2") == "shop.order_lines-2"
    assert directory_name("shop", "OrderLines") == "shop.OrderLines~~210"  # the letters 4 and 9
    assert directory_name("shop", "né w") == "shop.n~C3~A9~20w"
