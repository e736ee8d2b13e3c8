"""Events are plain values."""

from __future__ import annotations

import pickle

import pytest
from support.event_bodies import parse, query_body

pytestmark = pytest.mark.sanitize_long


def test_events_are_plain_values() -> None:
    event = parse(2, query_body(b"\x08\x21\x00"))
    assert pickle.loads(pickle.dumps(event)) == event
    assert hash(event) == hash(parse(2, query_body(b"\x08\x21\x00")))
    with pytest.raises(AttributeError):
        event.database = "other"
