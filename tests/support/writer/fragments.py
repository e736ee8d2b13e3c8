"""Logs as MariaDB 12.3 would have written them with a small ``binlog_row_event_fragment_threshold``."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise

FRAGMENT = 172
ROWS = {*range(23, 26), *range(166, 172)}  # v1 and compressed, as MariaDB writes them
_HEADER = struct.Struct("<IBIIIH")


def events_in(log: bytes) -> Iterator[bytes]:
    """The whole events of a log, checksums included."""
    at = 4
    while at + 19 <= len(log):
        length = int.from_bytes(log[at + 9 : at + 13], "little")
        if length < 19 or at + length > len(log):
            return
        yield log[at : at + length]
        at += length


def event_of(head: tuple[int, ...], body: bytes, at: int, checksum: bool) -> bytes:
    """An event at a position; `head` gives time, type, server, and whether its next position is 0."""
    timestamp, code, server_id, _, next_position, flags = head
    length = 19 + len(body) + 4 * checksum
    event = (
        _HEADER.pack(timestamp, code, server_id, length, (at + length) if next_position else 0, flags) + body
    )
    return event + struct.pack("<I", zlib.crc32(event)) if checksum else event


def fragments_of(event: bytes, checksum: bool, cuts: list[int]) -> list[bytes]:
    """Bodies of the fragments of a rows event, cut at these offsets."""
    whole = event[:-4] if checksum else event
    bounds = [0, *cuts, len(whole)]
    total = len(bounds) - 1
    bodies = []
    for number, (begin, end) in enumerate(pairwise(bounds), start=1):
        first = number == 1
        body = struct.pack("<IIB", total, number, int(first))
        bodies.append(body + (struct.pack("<Q", len(whole)) if first else b"") + whole[begin:end])
    return bodies


def in_fragments(log: bytes, *, seed: int = 0, most: int = 4, checksum: bool = True) -> bytes:
    """A log of MariaDB whose rows events are each cut into 1 to `most` fragments, or left whole.

    Positions and checksums are made anew. `checksum`: whether the log has them.
    """
    pick = random.Random(seed)
    out = bytearray(log[:4])
    for event in events_in(log):
        head = _HEADER.unpack_from(event)
        body = event[19 : len(event) - 4 * checksum]
        if head[1] == 15:
            out += event  # the descriptor stays where it is
        elif head[1] in ROWS and (count := pick.randint(0, most)):
            whole = len(event) - 4 * checksum
            cuts = sorted(pick.sample(range(1, whole), min(count, whole) - 1))
            for piece in fragments_of(event, checksum, cuts):
                out += event_of((head[0], FRAGMENT, *head[2:]), piece, len(out), checksum)
        else:
            out += event_of(head, body, len(out), checksum)
    return bytes(out)
