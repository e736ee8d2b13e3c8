"""What a server's settings mean; and that what is advised can be done."""

from __future__ import annotations

import re
from typing import Any

import pytest

from binlog_core.schema.definitions import load
from binlog_core.server import doctor


@pytest.mark.parametrize("settings", [{}, {"binlog_row_metadata": "MINIMAL"}], ids=["old", "minimal"])
def test_the_cure_for_missing_names_is_a_schema_that_can_be_given(settings: dict[str, str]) -> None:
    facts: Any = None  # of no account for the format of rows
    [finding] = [found for found in doctor._rows(settings, facts) if found.subject == "metadata"]
    assert finding.state == "note"
    assert ("SET GLOBAL" in finding.cure) == bool(settings)  # only where the server has the setting
    advised = re.search(r'schema="([^"]+)"', finding.cure)
    assert advised is not None
    assert load(advised[1]) == "server"  # what test_definitions reads with
