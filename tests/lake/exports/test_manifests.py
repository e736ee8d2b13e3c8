"""An export's manifest, and directories that are not exports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.exported import export
from support.golden import DATA

from binlog_core import BinlogError
from binlog_core.index.files import OLD_NAME as INDEX
from binlog_core.lake.exports.manifests import find_export

LOG = DATA / "mysql97/dml_mixed.binlog"


def test_a_parquet_export(tmp_path: Path) -> None:
    found = find_export(str(export(LOG, tmp_path / "out")))
    assert found is not None
    assert list(found.logs.values()) == [str(LOG)]
    assert found.server_version.startswith("9.7")
    table = found.tables["shop", "ledger_b"]
    assert [c.name for c in table.definitions[0][2].columns] == ["id", "a_id", "t", "f"]
    assert len(table.files) == 1 and Path(table.files[0]).is_file()


def test_runs_of_an_export_with_a_state(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for i, name in enumerate(("a.000001", "a.000002")):
        (tmp_path / name).write_bytes(LOG.read_bytes())
        export(tmp_path / name, tmp_path / f"out/{i + 1:06}", run_id=name)
    (tmp_path / "out/000003").mkdir()  # begun, and not finished
    found = find_export(tmp_path / "out")
    assert found is not None
    assert sorted(found.logs) == [1, 2]
    assert len(found.tables["shop", "ledger_b"].files) == 2


def test_delta_tables(tmp_path: Path) -> None:
    out = export(LOG, tmp_path / "out", format="delta")
    found = find_export(str(out))
    assert found is not None
    assert found.tables["shop", "ledger_b"].deltas == [f"{out}/shop.ledger_b"]


def test_two_logs_of_one_number(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for i, name in enumerate(("a.000001", "b.000001")):
        (tmp_path / name).write_bytes(LOG.read_bytes())
        export(tmp_path / name, tmp_path / f"out/{i + 1:06}", run_id=name)
    with pytest.raises(BinlogError, match=r"two logs of the export have the number 1"):
        find_export(tmp_path / "out")


@pytest.mark.parametrize("target", [b"", "mysql://root@localhost", "/nowhere", LOG, [LOG, LOG], str(DATA)])
def test_logs_are_not_exports(target: Any) -> None:
    assert find_export(target) is None


def test_a_folder_of_logs_is_recognized_without_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin.000001", "bin.index", INDEX):
        (tmp_path / name).touch()
    monkeypatch.delitem(sys.modules, "pyarrow.fs", raising=False)
    assert find_export(tmp_path) is None
    assert "pyarrow.fs" not in sys.modules


def test_parquet_and_delta_of_others(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    for place in (tmp_path, tmp_path / "part-0.parquet"):
        with pytest.raises(BinlogError, match=r"expected the directory that binlog-core export wrote"):
            find_export(place)


def test_a_mirror(tmp_path: Path) -> None:
    (tmp_path / "_mirror").mkdir()
    with pytest.raises(BinlogError, match="expected its archive of the logs"):
        find_export(tmp_path)


def test_a_manifest_without_definitions_or_that_leads_elsewhere(tmp_path: Path) -> None:
    out = export(LOG, tmp_path / "out")
    manifest = json.loads((out / "_manifest.json").read_text())
    for change in (
        {"definitions": None},
        {"tables": [{**manifest["tables"][0], "directory": ".."}]},
        {"definitions": [{**manifest["definitions"][0], "columns": [{"name": "x", "kind": "NO"}]}]},
    ):
        (out / "_manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(BinlogError, match="not an export's manifest"):
            find_export(out)
