"""What the fuzzers found once: tests/data/fuzz/TARGET-WHAT, run as fuzz/entry_points.py runs it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FINDINGS = sorted((ROOT / "tests" / "data" / "fuzz").iterdir())


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("entry_points", ROOT / "fuzz" / "entry_points.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_findings_stay_fixed(finding: Path, targets: ModuleType) -> None:
    getattr(targets, finding.name.split("-")[0])(finding.read_bytes())
