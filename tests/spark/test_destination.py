"""What stands in an output is not trusted: whoever may write there may have written anything."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from binlog_core import BinlogError
from binlog_core.errors import MirrorError
from binlog_core.spark.lake.parquet import MANIFEST, ParquetDirectory
from binlog_core.spark.mirror.state import Lake
from binlog_core.spark.plan.definitions import from_text

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


@pytest.mark.parametrize("manifest", [DEEP, "nothing"])
def test_a_manifest_that_is_not_one_is_an_error(manifest: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(BinlogError, match="not a file that an export wrote"):
        ParquetDirectory(str(tmp_path), "run", overwrite=True).committed()


def test_a_manifest_without_what_it_ought_to_have_is_an_error(tmp_path: Path) -> None:
    table = {"database": "a", "table": "b", "directory": "a.b"}
    (tmp_path / MANIFEST).write_text(json.dumps({"run_id": "run", "tables": [table], "statements": []}))
    with pytest.raises(BinlogError, match="not one that an export wrote"):
        ParquetDirectory(str(tmp_path), "run").committed()


@pytest.mark.parametrize("text", [DEEP, "nothing", "5", "[]", "{}"])
def test_a_state_of_a_mirror_that_is_not_one_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "_mirror").mkdir()
    (tmp_path / "_mirror" / "state.json").write_text(text)
    with pytest.raises(MirrorError, match="state cannot be read"):
        Lake(str(tmp_path)).load()


def test_files_longer_than_any_of_ours_are_not_read(tmp_path: Path) -> None:
    for name in (MANIFEST, "_mirror/state.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(BinlogError, match="bytes long"):
        ParquetDirectory(str(tmp_path), "run", overwrite=True).committed()
    with pytest.raises(MirrorError, match="bytes long"):
        Lake(str(tmp_path)).load()


def test_definitions_that_are_a_bomb() -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join([*(packer.compress(b" " * (1 << 20)) for _ in range(300)), packer.flush()])
    with pytest.raises(BinlogError, match="definitions cannot be read"):
        from_text(base64.b64encode(bomb).decode())
