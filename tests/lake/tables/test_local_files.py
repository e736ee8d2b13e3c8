"""Lakes and exports on local disks: what is written or removed is never reached through a link."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_core.errors import BinlogError, MirrorError
from binlog_core.lake.apply.jobs import Folder
from binlog_core.lake.tables.destination import open_filesystem
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import new_state


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Somebody's folder."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "part").write_text("kept")
    (tmp_path / "foreign" / "state.json").write_text("kept")
    return tmp_path / "foreign"


def _kept(foreign: Path) -> bool:
    return {one.name: one.read_text() for one in foreign.iterdir()} == {"part": "kept", "state.json": "kept"}


@pytest.mark.parametrize("form", ["path", "URL", "folder", "pickled"])
def test_a_file_is_written_as_pyarrow_writes_it(tmp_path: Path, form: str) -> None:
    path = f"{tmp_path}/part"
    if form in ("folder", "pickled"):
        files, path = Folder(str(tmp_path)).open(), "part"
    else:
        files, _ = open_filesystem(f"file://{tmp_path}" if form == "URL" else str(tmp_path))
    if form == "pickled":
        files = pickle.loads(pickle.dumps(files))
    rows = pa.table({"id": list(range(100_000)), "note": [f"row {n}" for n in range(100_000)]})
    for _ in range(2):  # a second file takes the place of the first
        with files.open_output_stream(path) as sink:
            with pq.ParquetWriter(sink, rows.schema) as writer:
                writer.write_table(rows)
            size = sink.tell()
    assert size == os.path.getsize(tmp_path / "part") == files.get_file_info(path).size
    assert pq.read_table(tmp_path / "part") == rows


@pytest.mark.parametrize("as_folder", [False, True])
def test_no_file_is_reached_through_a_link(tmp_path: Path, foreign: Path, as_folder: bool) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "part").symlink_to(foreign / "part")
    (tmp_path / "lake" / "table").symlink_to(foreign)
    root = tmp_path / "lake"
    files = Folder(str(root)).open() if as_folder else open_filesystem(str(root))[0]
    before = "" if as_folder else f"{root}/"
    acts: list[tuple[Any, ...]] = [
        (files.open_output_stream, f"{before}table/part"),
        (files.delete_file, f"{before}table/part"),
        (files.delete_dir, f"{before}table"),
        (files.create_dir, f"{before}table/new"),
        (files.move, f"{before}table/part", f"{before}mine"),
        (files.move, f"{before}part", f"{before}table/part"),
    ]
    for act, *arguments in acts:
        with pytest.raises(OSError):
            act(*arguments)
        assert _kept(foreign), act
    with files.open_output_stream(f"{before}part") as sink:
        sink.write(b"mine")
    assert _kept(foreign) and (root / "part").read_bytes() == b"mine"


def test_a_staging_directory_that_becomes_a_link_while_an_export_runs(tmp_path: Path, foreign: Path) -> None:
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    workers, folder = open_filesystem(into.staging)
    staging = Path(into._staging)
    staging.rename(tmp_path / "moved")
    staging.symlink_to(foreign)
    (foreign / "written").mkdir()
    with pytest.raises(OSError, match="is a link"):
        workers.open_output_stream(f"{folder}/part")
    with pytest.raises(BinlogError, match="is a link"):
        into.commit([])
    into.abort()
    (foreign / "written").rmdir()
    assert _kept(foreign)


def test_a_mirrors_folder_that_becomes_a_link_while_it_is_held(tmp_path: Path, foreign: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    lake = Lake(str(root))
    with lake.locked():
        (root / "_mirror").rename(root / "moved")
        (root / "_mirror").symlink_to(foreign)
        with pytest.raises(OSError, match="is a link"):
            lake.held.begin()
    assert _kept(foreign)


@pytest.mark.parametrize("act", ["save", "make", "remove", "lock"])
def test_a_mirrors_state_is_not_written_through_a_link(tmp_path: Path, foreign: Path, act: str) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (root / "_mirror").symlink_to(foreign)
    (foreign / "copies").mkdir()
    lake = Lake(str(root))
    with pytest.raises(MirrorError, match="is a link"):
        if act == "save":
            lake.save(new_state("mysql://root@db1", ("a.*",), "archive"))
        elif act == "lock":
            with lake.locked():
                pass
        else:
            {"make": lake.make, "remove": lake.remove}[act]("copies")
    (foreign / "copies").rmdir()
    assert _kept(foreign)
