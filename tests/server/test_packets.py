"""Packets into events: any split of the bytes gives the same events, and what is not a packet is refused."""

import random
import struct

import pytest

from binlog_core._core import _packets
from binlog_core._core._packets import Packets

LONGEST = 0xFFFFFF


def event(position, body=b"", kind=2, flags=0, log_pos=None):
    length = 19 + len(body)
    end = (position + length) % 2**32 if log_pos is None else log_pos
    return struct.pack("<IBIIIH", 1, kind, 7, length, end, flags) + body


def packets_of(payloads, first=1):
    """As a server sends them: pieces of 16 MiB - 1, numbered through."""
    number, out = first, bytearray()
    for payload in payloads:
        at = 0
        while True:
            piece = payload[at : at + LONGEST]
            out += len(piece).to_bytes(3, "little") + bytes([number % 256]) + piece
            number += 1
            at += len(piece)
            if len(piece) < LONGEST:
                break
    return bytes(out)


def stripped(wire, sizes, *, position=4, semi_sync=False, event_bytes=1 << 30, room=1 << 16):
    """(events as one, status at the end, Packets) of bytes that come in pieces of certain sizes."""
    packets = Packets(event_bytes, semi_sync=semi_sync)
    packets.go_to(position)
    buffer, out, at = bytearray(room), bytearray(), 0
    status = _packets.MORE
    while at < len(wire):
        size = min(next(sizes), len(wire) - at, len(buffer) - packets.fill)
        buffer[packets.fill : packets.fill + size] = wire[at : at + size]
        packets.fill += size
        at += size
        status = packets.strip(buffer)
        out += buffer[: packets.whole]
        if status != _packets.MORE:
            break
        packets.compact(buffer, buffer)
        if len(buffer) - packets.fill < len(buffer) // 4:
            larger = bytearray(2 * len(buffer))
            packets.compact(buffer, larger)
            buffer = larger
    return bytes(out), status, packets


def events_in_a_row(rng, count, position=4):
    out = []
    for _ in range(count):
        out.append(event(position, rng.randbytes(rng.choice((0, 1, 5, 300, 9000)))))
        position += len(out[-1])
    return out


@pytest.mark.parametrize("semi_sync", [False, True])
@pytest.mark.parametrize("longest", [1, 3, 50, 5000, 60000])
@pytest.mark.parametrize("seed", range(2))
def test_any_split_of_the_bytes_gives_the_same_events(seed, longest, semi_sync):
    rng = random.Random(seed)
    events = events_in_a_row(rng, 15 if longest < 50 else 80)
    flag = b"\xef\x00" if semi_sync else b""
    wire = packets_of([b"\0" + flag + e for e in events])
    sizes = iter(lambda: rng.randint(1, longest), 0)
    out, status, packets = stripped(wire, sizes, semi_sync=semi_sync)
    assert out == b"".join(events)
    assert status == _packets.MORE
    assert packets.position == 4 + len(out)
    assert not packets.acknowledge


@pytest.mark.parametrize(
    "length", [LONGEST - 1, LONGEST, LONGEST + 1, 2 * LONGEST - 1, 2 * LONGEST, 40 << 20]
)
def test_events_of_several_packets(length):
    """The 0 before the event counts; after a piece of full length comes another, even if empty."""
    large = event(4, bytes(length - 19))
    after = event(4 + length, b"after")
    rng = random.Random(length)
    out, _, _ = stripped(packets_of([b"\0" + large, b"\0" + after]), iter(lambda: rng.randint(1, 1 << 20), 0))
    assert out == large + after


def test_numbers_run_on_modulo_256():
    events = events_in_a_row(random.Random(1), 700)
    wire = packets_of([b"\0" + e for e in events])
    assert stripped(wire, iter(lambda: 1000, 0))[0] == b"".join(events)


@pytest.mark.parametrize("place", [0, 1, 5])
def test_a_packet_that_is_missing_is_noticed(place):
    events = events_in_a_row(random.Random(2), 8)
    wires = [packets_of([b"\0" + e], first=i + 1) for i, e in enumerate(events)]
    del wires[place]
    out, status, _ = stripped(b"".join(wires), iter(lambda: 100_000, 0))
    assert status == _packets.OUT_OF_ORDER
    assert out == b"".join(events[:place])


def test_numbers_say_nothing_where_frames_are_numbered():
    """On a compressed line a server continues with the number of the frame, now and then."""
    events = events_in_a_row(random.Random(2), 8)
    wire = b"".join(packets_of([b"\0" + e], first=7 * i % 256) for i, e in enumerate(events))
    packets = Packets(1 << 20, numbered=False)
    packets.go_to(4)
    packets.fill = len(wire)
    buffer = bytearray(wire)
    assert packets.strip(buffer) == _packets.MORE
    assert buffer[: packets.whole] == b"".join(events)


def test_an_event_that_is_not_in_the_log_is_recognized():
    first, artificial = event(4, b"one"), event(0, b"two", kind=4, flags=0x20)
    out, status, packets = stripped(packets_of([b"\0" + first, b"\0" + artificial]), iter(lambda: 1000, 0))
    assert (out, status) == (first, _packets.SPECIAL)
    assert packets.written - packets.whole == len(artificial)


def test_a_hole_is_reported_with_its_end():
    first, later = event(4, b"one"), event(5000, b"two")
    out, status, packets = stripped(packets_of([b"\0" + first, b"\0" + later]), iter(lambda: 1000, 0))
    assert (out, status, packets.gap) == (first, _packets.HOLE, 5000)
    assert packets.take_gtids() == b""
    with pytest.raises(ValueError, match="no event"):
        packets.accept(bytearray(10), packets.gap)
    packets.accept(bytearray(60), packets.gap)
    assert packets.position == 5000 + len(later)


def test_a_position_of_0_is_where_the_event_before_ends():
    """MariaDB 11.4 and later, inside transactions."""
    events = [event(4, b"one"), event(0, b"two", kind=19, log_pos=0)]
    assert stripped(packets_of([b"\0" + e for e in events]), iter(lambda: 1000, 0))[0] == b"".join(events)


def test_positions_continue_beyond_4_gib():
    position = 2**32 - 10
    events = [event(position, b"one"), event(position + 22, b"two")]
    out, _, packets = stripped(packets_of([b"\0" + e for e in events]), iter(lambda: 9, 0), position=position)
    assert out == b"".join(events)
    assert packets.position == position + 44


def test_semi_sync_asks_for_an_acknowledgement():
    one = event(4, b"one")
    packets = stripped(packets_of([b"\0\xef\x01" + one]), iter(lambda: 1000, 0), semi_sync=True)
    assert packets[0] == one


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_packets_are_counted_anew_behind_an_acknowledgement(size):
    """As MySQL 9.7 and MariaDB 10.11 do; one that continues counting is understood, too."""
    events = events_in_a_row(random.Random(2), 4)
    asks, rests = b"\0\xef\x01", b"\0\xef\0"
    wire = packets_of([rests + events[0], asks + events[1]])
    for rest in (packets_of([rests + events[2], rests + events[3]], first=n) for n in (1, 3)):
        assert stripped(wire + rest, iter(lambda: size, 0), semi_sync=True)[0] == b"".join(events)
    wrong = packets_of([rests + events[2]], first=2)
    assert stripped(wire + wrong, iter(lambda: size, 0), semi_sync=True)[1] == _packets.OUT_OF_ORDER
    # Not behind events that need none.
    wrong = packets_of([rests + events[0]]) + packets_of([rests + events[1]])
    assert stripped(wrong, iter(lambda: size, 0), semi_sync=True)[1] == _packets.OUT_OF_ORDER


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        b"\0" + event(4, b"x")[:-1],
        b"\0" + event(4, b"x") + b"y",
        b"\0" + bytes(19),
        b"\0" + event(4)[:9] + (18).to_bytes(4, "little") + bytes(6),
    ],
    ids=["empty", "only its mark", "shorter than its event", "longer", "length 0", "length 18"],
)
def test_packets_that_hold_no_whole_event_are_refused(payload):
    assert stripped(packets_of([payload]), iter(lambda: 3, 0))[1] == _packets.NOT_AN_EVENT


def test_an_error_packet_ends_the_dump():
    out, status, _ = stripped(packets_of([b"\xff\xd4\x04#HY000no"]), iter(lambda: 2, 0))
    assert (out, status) == (b"", _packets.REFUSED)


def test_an_endless_error_is_refused():
    assert stripped(packets_of([b"\xff" + bytes(5000)]), iter(lambda: 1000, 0))[1] == _packets.NOT_AN_EVENT


def test_a_large_event_is_refused_before_it_has_come():
    large = event(4, bytes(100_000))
    wire = packets_of([b"\0" + large])
    out, status, packets = stripped(wire[:100], iter(lambda: 10, 0), event_bytes=50_000)
    assert (out, status, packets.event_length) == (b"", _packets.TOO_LARGE, len(large))


@pytest.mark.parametrize("seed", range(30))
def test_bytes_of_chance_end_in_a_status(seed):
    rng = random.Random(seed)
    wire = bytearray(packets_of([b"\0" + e for e in events_in_a_row(rng, 20)]))
    for _ in range(rng.randint(1, 5)):
        wire[rng.randrange(len(wire))] = rng.randrange(256)
    stripped(bytes(wire), iter(lambda: rng.randint(1, 400), 0))


def test_a_fill_outside_of_the_buffer_is_refused():
    packets = Packets(1000)
    packets.fill = 11
    with pytest.raises(ValueError, match="fill"):
        packets.strip(bytearray(10))
    with pytest.raises(ValueError, match="too small"):
        packets.compact(bytearray(20), bytearray(10))
