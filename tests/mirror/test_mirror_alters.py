"""After random ALTERs a mirror has the rows of the server's own SELECT."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.alters import compared
from support.refused import Sql


def test_a_sample_of_types_modes_and_generated_columns(url: str, sql: Sql, tmp_path: Path) -> None:
    """The whole is soak/alters.py."""
    ways, wrong = compared(sql, url, tmp_path, seed=29, count=60)
    assert not wrong, "\n".join(wrong)
    assert ways["applied"] and ways["copied"]
