"""An export into tables of a lake: files are committed once, and those that no commit names are deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

import pyarrow.parquet as pq  # noqa: E402
from support.export import file_of, written  # noqa: E402
from support.lake_forms import FORMS, Form, IcebergForm  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core._base import new_files as _new_files  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable  # noqa: E402
from binlog_core.lake.tables.results import FileStatistics  # noqa: E402
from binlog_core.lake.tables.tables import DeltaTables, IcebergTables  # noqa: E402
from binlog_core.splits import Split  # noqa: E402


def put(output: Any, name: str, version: int, table: str = "t", **columns: Any) -> FileStatistics:
    """A file as a worker of this run leaves it, of one row."""
    rows = pa.table({**columns, "_commit_version": [version]})
    path = Path(output.path) / f"shop.{table}" / f"{output.prefix}{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path, store_schema=False)
    told: dict[str, Any] = {"rows": {"insert": 1}, "first_version": version, "last_version": version}
    size = path.stat().st_size
    name = f"shop.{table}/{path.name}"
    return file_of(name, table, schema=rows.schema, bytes=size, first_position=version, **told)


def ids(folder: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(str(folder)).to_pyarrow_table()["id"].to_pylist())


def test_a_run_is_committed_once_and_the_rest_deleted(tmp_path: Path) -> None:
    output = DeltaTables(str(tmp_path), "nightly/1")
    assert output.committed() is None
    output.begin()
    files = tuple(put(output, name, version, id=[version]) for name, version in (("a", 5), ("b", 7)))
    put(output, "failed", 9, id=[9])
    (told,) = output.commit([written(Split("bin.000001"), files=files)])
    assert (told.directory, told.rows, told.files, told.key) == (
        f"{tmp_path}/shop.t",
        {"insert": 2},
        2,
        ("id",),
    )
    output.abort()
    assert sorted(path.name for path in (tmp_path / "shop.t").glob("*.parquet")) == sorted(
        one.name.rpartition("/")[2] for one in files
    )
    assert ids(tmp_path / "shop.t") == [5, 7]
    again = DeltaTables(str(tmp_path), "nightly/1")
    assert again.committed() == [told]
    # The marker was lost, the tables know: nothing is committed twice.
    for marker in (tmp_path / "_runs").iterdir():
        assert marker.name == "nightly%2F1.json"
        marker.unlink()
    assert again.committed() is None
    again.commit([written(Split("bin.000001"), files=(put(again, "a", 5, id=[5]),))])
    again.abort()
    assert ids(tmp_path / "shop.t") == [5, 7]
    assert len(list((tmp_path / "shop.t").glob("*.parquet"))) == 2


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_the_files_of_a_commit_that_was_made_stay_although_it_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A store's answer is lost, or Ctrl-C comes after the commit."""
    output = DeltaTables(str(tmp_path), "run")
    output.begin()
    split = written(Split("bin.000001"), files=(put(output, "a", 5, id=[5]),))
    append = DeltaLakeTable.append

    def unheard(*arguments: Any) -> None:
        append(*arguments)
        raise error

    with monkeypatch.context() as patch, pytest.raises((BinlogError, KeyboardInterrupt)):
        patch.setattr(DeltaLakeTable, "append", unheard)
        output.commit([split])
    output.abort()
    assert ids(tmp_path / "shop.t") == [5]
    again = DeltaTables(str(tmp_path), "run")
    again.commit([written(Split("bin.000001"), files=(put(again, "a", 5, id=[5]),))])
    again.abort()
    assert ids(tmp_path / "shop.t") == [5]
    assert len(list((tmp_path / "shop.t").glob("*.parquet"))) == 1


def test_a_note_of_a_run_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = DeltaTables(str(tmp_path), "run")
    output.begin()

    def full(folder: int) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch, pytest.raises(BinlogError, match="No space left"):
        patch.setattr(_new_files, "sync_filesystem", full)
        output.commit([])
    assert DeltaTables(str(tmp_path), "run").committed() is None
    assert output.commit([]) == []
    assert DeltaTables(str(tmp_path), "run").committed() == []


def test_another_type_is_another_table(tmp_path: Path) -> None:
    output = DeltaTables(str(tmp_path), "one")
    output.begin()
    files = (
        put(output, "a", 5, id=pa.array([1], pa.int32())),
        put(output, "b", 6, id=pa.array([2], pa.int64())),
        put(output, "c", 7, id=pa.array([3], pa.int32()), more=["x"]),
    )
    tables = output.commit([written(Split("bin.000001"), files=files)])
    assert [table.directory for table in tables] == [f"{tmp_path}/shop.t", f"{tmp_path}/shop.t.v2"]
    output.abort()
    assert (ids(tmp_path / "shop.t"), ids(tmp_path / "shop.t.v2")) == ([1, 3], [2])


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_another_spelling_is_another_table(kind: str, tmp_path: Path) -> None:
    """Readers that distinguish names by case would find nulls."""
    form: Form = FORMS[kind](tmp_path)
    if isinstance(form, IcebergForm):
        catalog = {**form.catalog, "warehouse": f"file://{tmp_path}/warehouse"}
    for run, names in enumerate((("v", "V"), ("V", "v"))):
        output = (
            IcebergTables(str(tmp_path), str(run), catalog)
            if isinstance(form, IcebergForm)
            else DeltaTables(str(tmp_path), str(run))
        )
        output.begin()
        files = tuple(put(output, one, 2 * run + i, **{one: [one]}) for i, one in enumerate(names))
        output.commit([written(Split("bin.000001"), files=files)])
        output.abort()
    for name, told in (("v", "shop.t"), ("V", "shop.t.v2")):
        place = tmp_path / (told if kind == "delta" else told.removeprefix("shop."))
        assert form.read(place)[name].to_pylist() == [name, name]


def test_a_table_that_is_called_as_the_second_of_another_is_not_mixed_with_it(tmp_path: Path) -> None:
    form = IcebergForm(tmp_path)
    catalog = {**form.catalog, "warehouse": f"file://{tmp_path}/warehouse"}
    output = IcebergTables(str(tmp_path / "lake"), "one", catalog)
    output.begin()
    files = (
        put(output, "a", 5, id=pa.array([1], pa.int32())),
        put(output, "b", 6, id=["x"]),
        put(output, "c", 7, "t__v2", id=["y"]),
    )
    with pytest.raises(
        BinlogError, match=r"shop\.t__v2 has the rows of shop\.t \(2\): expected those of"
    ) as told:
        output.commit([written(Split("bin.000001"), files=files)])
    assert told.value.table == "shop.t__v2"
    output.abort()
    again = IcebergTables(str(tmp_path / "lake"), "two", catalog)
    again.commit([written(Split("bin.000002"), files=(put(again, "d", 8, id=["z"]),))])
    rows = [form.read(tmp_path / name)["id"].to_pylist() for name in ("t", "t.v2")]
    assert [sorted(one) for one in rows] == [[1], ["x", "z"]]


def test_a_path_that_deltalake_cannot_write_to(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="cannot write to a path with a %"):
        DeltaTables(str(tmp_path / "50%"), "one")
