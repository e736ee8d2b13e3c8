"""Common parts of outputs: notes of workers' errors, which others may have written."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from support.export import file_of, written  # noqa: E402
from support.s3 import CREDENTIALS  # noqa: E402

from binlog_core import BinlogError, DecodeError, MissingExtraError  # noqa: E402
from binlog_core.lake.tables.destination import (  # noqa: E402
    by_table,
    describe_logs,
    note_failure,
    open_filesystem,
    result_of,
)
from binlog_core.lake.tables.parquet import ParquetDirectory  # noqa: E402
from binlog_core.lake.tables.tables import DeltaTables  # noqa: E402
from binlog_core.mirror import status  # noqa: E402
from binlog_core.report import Place  # noqa: E402
from binlog_core.splits import Split  # noqa: E402


@pytest.mark.parametrize("place", ["lake", "s3://bucket/lake"])
def test_without_pyarrow_the_extra_is_named(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"binlog_core\[spark\]"):
        open_filesystem(place)
    with pytest.raises(MissingExtraError, match=r"binlog_core\[spark\]"):
        status(place)


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
def test_a_file_that_no_worker_left_is_not_taken_for_a_note(note: str, tmp_path: Path) -> None:
    output = ParquetDirectory(str(tmp_path / "out"), "run")
    output.begin()
    (Path(output.notes) / f"{output.prefix}1.error.json").write_text(note)
    assert output.failure() is None
    (Path(output.notes) / f"{output.prefix}2.error.json").write_text(
        '{"kind": "DecodeError", "message": "x"}'
    )
    assert "x" in str(output.failure())


@pytest.mark.parametrize(
    ("log", "inside"),
    [
        ("s3://lakes/out/logs/bin.000001", True),
        ("s3a://lakes/out/logs/bin.000001", True),
        ("s3://lakes/outer/bin.000001", False),
        ("gs://lakes/out/bin.000001", False),  # another store: it is not asked
        ("abfss://lakes@account.dfs.core.windows.net/out/bin.000001", False),
        ("/lakes/out/bin.000001", False),
    ],
)
def test_logs_in_a_store_are_known_by_their_names(log: str, inside: bool) -> None:
    """A store that needs credentials, which are those of the output alone, is not asked for the logs."""
    options = {**CREDENTIALS, "endpoint_override": "http://127.0.0.1:1"}
    into = DeltaTables("s3a://lakes/out/", "run", storage_options=options)
    with pytest.raises(BinlogError, match=f"contains the log {log}") if inside else contextlib.nullcontext():
        into.refuse_inputs([log])


def test_logs_in_the_output_are_known_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "out" / "logs").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "out" / "logs")
    (tmp_path / "out" / "old").symlink_to(tmp_path)
    into = ParquetDirectory(str(tmp_path / "new"), "run")
    into.output = f"{tmp_path}/out/"
    for log in ("out/logs/bin.000001", "link/bin.000001", "out/old/bin.000001"):
        with pytest.raises(BinlogError, match="the output contains the log"):
            into.refuse_inputs([f"file://{tmp_path}/{log}"])
        with pytest.raises(BinlogError, match="the output contains the log"):
            into.refuse_inputs([f"{tmp_path}/{log}"])
    into.refuse_inputs([f"{tmp_path}/outer/bin.000001", f"{tmp_path}/bin.000001"])


def test_different_names_have_different_directories() -> None:
    from binlog_core.lake.tables.destination import directory_name

    names = ["a", "a.b", "b", "", ".", "a%2Eb", "a~2Eb", "ж" * 64, "ж" * 63 + "е", "_a", "~5Fa", "a~b", "A"]
    names += ["Ab", "aB", "AB", "ab", "ab~1", "ab~~1", "0", "~0", "x" * 64, "X" * 64]
    # On a file system that ignores case, too.
    directories = {directory_name(database, table).casefold() for database in names for table in names}
    assert len(directories) == len(names) ** 2
    assert directory_name("shop", "order_lines-2") == "shop.order_lines-2"
    assert directory_name("shop", "OrderLines") == "shop.OrderLines~~210"  # the letters 4 and 9
    assert directory_name("shop", "né w") == "shop.n~C3~A9~20w"


def test_the_properties_of_tables_and_logs() -> None:
    more, wide = pa.schema({"id": pa.int32()}), pa.schema({"id": pa.int64()})
    splits = [
        written(
            Split("in/bin.000001", 0, 200, 1, 0),
            files=(
                file_of("b", schema=more, first_position=50, key=None),
                file_of("a", schema=more),
                file_of("u", "s"),
            ),
            counts={"skipped_events": 1},
            damaged=(Place("in/bin.000001", 40, detail="wrong checksum"),),
        ),
        written(
            Split("in/bin.000001", 200, None, 1, 1),
            files=(file_of("c", schema=wide, partial_rows=1),),
            counts={"skipped_events": 2},
            tail="cut, offset 300",
            end_position=300,
        ),
    ]
    tables = by_table(splits)
    assert [(table, [one.name for one in files]) for _, table, files in tables] == [
        ("s", ["u"]),
        ("t", ["a", "b", "c"]),
    ]
    found = result_of("shop", "t", "out/shop.t", tables[1][2])
    assert (found.rows, found.files, found.bytes) == ({"insert": 6, "delete": 3}, 3, 150)
    assert (found.versions, found.partial_rows, found.key) == (2, 1, ("id",))
    (log,) = describe_logs(splits)
    assert (log["splits"], log["end_position"], log["tail"]) == (2, 300, "cut, offset 300")
    assert log["counts"] == {"skipped_events": 3}
    assert log["damaged"] == [{"offset": 40, "reason": "wrong checksum"}]


def test_an_error_of_a_worker_is_found_with_its_attributes(tmp_path: Path) -> None:
    output = ParquetDirectory(str(tmp_path / "out"), "run")
    output.begin()
    error = DecodeError("a wrong ä", path="bin.000001", offset=4, table="shop.t", column="c")
    note_failure(output.filesystem, output.notes, f"{output.prefix}1", error)
    found = output.failure()
    assert type(found) is DecodeError
    assert str(found) == str(error)
