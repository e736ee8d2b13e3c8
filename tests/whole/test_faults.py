"""A sample of what soak/faults.py tries: calls that change files fail once, and the command runs again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")
pytest.importorskip("typer")
pytest.importorskip("zstandard")

FAULTS = Path(__file__).parents[2] / "soak" / "faults.py"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="descriptors are named by /proc")
def test_nothing_is_lost_doubled_or_half_named() -> None:
    names = ["archive_compressed", "index", "rows", "export_state", "apply"]
    paths = [str(FAULTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(
        [sys.executable, FAULTS, "--most", "2", *names], capture_output=True, text=True, env=environment
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = re.findall(r"^(\w+): \d+ faults, 0 wrong", ran.stdout, re.MULTILINE)
    assert sorted(told) == sorted(names), ran.stdout
