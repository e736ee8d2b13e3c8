"""Windows over the events that were packed into one."""

from __future__ import annotations

import pytest

from binlog_core import DecodeError, Limits
from binlog_core._walk.packed import PackedEvents

pytestmark = pytest.mark.sanitize_long


def event(length: int) -> bytes:
    return bytes(9) + length.to_bytes(4, "little") + b"x" * (length - 13)


def read(data: bytes, piece: int, limits: Limits | None = None) -> list[bytes]:
    """As the walk does: whole events of each window are taken, the rest is left."""
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    packed = PackedEvents(chunks, limits or Limits(), "log", 77, 40)
    found = []
    for window in packed:
        at = 0
        while len(window) - at >= 13:
            length = int.from_bytes(window[at + 9 : at + 13], "little")
            if length > len(window) - at:
                break
            found.append(bytes(window[at : at + length]))
            at += length
        packed.left = len(window) - at
    return found


@pytest.mark.parametrize("piece", [1, 7, 13, 20, 21, 1000])
def test_events_come_whole_whatever_the_pieces(piece: int) -> None:
    events = [event(length) for length in (20, 13, 500, 20)]
    assert read(b"".join(events), piece) == events


def test_an_event_that_ends_too_early() -> None:
    with pytest.raises(DecodeError, match="end inside an event, after 5 bytes of it") as caught:
        read(event(20) + event(20)[:5], 8)
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == ("log", 77, 40)


def test_an_event_that_is_too_large_is_not_waited_for() -> None:
    taken = []

    def chunks() -> object:
        for _ in range(100):
            taken.append(1)
            yield event(10**6)[:100]

    packed = PackedEvents(chunks(), Limits(event_bytes=1000), "log", 77, 40)  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match=r"1000000 bytes is larger than Limits\.event_bytes=1000"):
        for window in packed:
            packed.left = len(window)
    assert len(taken) == 1
