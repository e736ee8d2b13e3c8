"""Names of event types."""

from __future__ import annotations

import pytest
from support.event_bodies import parse

from binlog_core._format.event_types import EVENT_NAMES, EventType, event_name

pytestmark = pytest.mark.sanitize


def test_every_type_has_a_name() -> None:
    assert set(EVENT_NAMES) == set(EventType) - {EventType.UNKNOWN}
    assert parse(100, b"").name == "Unknown"


def test_codes_that_have_no_name() -> None:
    for code in (100, 255):
        assert event_name(code) == "Unknown"
    assert (event_name(19), event_name(160)) == (
        "Table_map",
        "Annotate_rows",
    )  # as SHOW BINLOG EVENTS has them
