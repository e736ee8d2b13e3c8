"""Shared by the tests of tables in lakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lake_forms import FORMS, Form


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, tmp_path: Path) -> Form:
    return FORMS[request.param](tmp_path)
