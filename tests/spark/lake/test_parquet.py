"""What stands in an output is not trusted: whoever may write there may have written anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from binlog_core import BinlogError
from binlog_core.spark.lake.parquet import MANIFEST, ParquetDirectory

DEEP = "[" * 200_000


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


def test_a_manifest_longer_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BinlogError, match="bytes long"):
        ParquetDirectory(str(tmp_path), "run", overwrite=True).committed()
