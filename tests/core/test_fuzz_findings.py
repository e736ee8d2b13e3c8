"""What the fuzzers found once, kept for good: tests/data/fuzz/TARGET-WHAT, run by fuzz/entry_points.py.

Those of the C targets are among the seeds of every run of the fuzzers, and have a test of their own here.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from support.guarded import exact
from support.writer import Log, Table

import binlog_core

pytestmark = pytest.mark.sanitize

ROOT = Path(__file__).resolve().parents[2]
COMPILED = ("rows",)
FINDINGS = [
    path
    for path in sorted((ROOT / "tests" / "data" / "fuzz").iterdir())
    if path.name.split("-")[0] not in COMPILED
]


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "fuzz")
        return importlib.import_module("entry_points")


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_findings_stay_fixed(finding: Path, targets: ModuleType) -> None:
    getattr(targets, finding.name.split("-")[0])(finding.read_bytes())


@pytest.mark.parametrize("checksum", [True, False])
def test_a_null_decimal_is_not_looked_for_behind_the_log(checksum: bool) -> None:
    """The last group of a DECIMAL(65,30) was loaded from 36 bytes behind; only the sanitizer sees it."""
    log = Log(checksum=checksum)
    log.begin()
    log.insert(Table("shop", "t", [("id", "INT"), ("total", "DECIMAL(65,30)")]), [{"id": 1, "total": None}])
    behind = log.position
    log.commit()
    data = log.getvalue()
    assert 0 < len(data) - behind < 36
    with binlog_core.open(exact(data)) as opened:
        assert [change.after for change in opened.rows()] == [{"id": 1, "total": None}]
