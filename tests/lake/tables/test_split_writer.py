"""What a worker of an export does."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import changed, orders  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.tables.split_writer import SplitWriter  # noqa: E402
from binlog_core.lake.tables.writer import PartWriter  # noqa: E402
from binlog_core.spark import ReadOptions, plan_splits  # noqa: E402


def test_a_full_disk_is_reported_for_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (split,) = plan_splits(orders(tmp_path))
    staging = tmp_path / "staging"
    staging.mkdir()

    def full(self: Any, part: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PartWriter, "_flush", full)
    with pytest.raises(BinlogError, match=r"output cannot be written: .*No space left") as caught:
        SplitWriter(str(staging), ReadOptions()).write(split, "a0")
    assert caught.value.path == str(staging)
    (note,) = staging.iterdir()
    assert json.loads(note.read_text())["path"] == str(staging)


def test_files_and_statements_of_a_split_are_reported(tmp_path: Path) -> None:
    (split,) = plan_splits(changed(tmp_path))
    (tmp_path / "staging").mkdir()
    found = SplitWriter(str(tmp_path / "staging"), ReadOptions(statements=True), prefix="x-").write(
        split, "a7"
    )
    assert [(one.kind, one.tables, one.clears) for one in found.statements] == [
        ("alter", ("shop.orders",), False),
        ("truncate", ("shop.other",), True),
        ("truncate", ("shop.orders",), True),
    ]
    assert found.rows == 3
    assert {one.name for one in found.files} == {path.name for path in (tmp_path / "staging").iterdir()}
    assert all(one.name.startswith("x-00000-a7-") for one in found.files)
    assert found.end_position == found.log_bytes + 4 == Path(split.path).stat().st_size
