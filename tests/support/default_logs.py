"""Logs as a server with default settings would have written them: of TABLE_MAP only what MINIMAL has.

From a log of MySQL with binlog_row_metadata=FULL; where its events begin moves, and `Moved.text` moves the
numbers in a text along.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

HEADER_LEN = 19
TABLE_MAP, ANONYMOUS_GTID = 19, 34
# Signs, character sets of text, types of geometry: https://dev.mysql.com/doc/refman/9.7/en/
# replication-options-binary-log.html#sysvar_binlog_row_metadata
OF_MINIMAL = frozenset((1, 2, 3, 7))
_NUMBER = re.compile(r"(?P<column>^ *)?(?<![\w.])(?P<number>\d{3,6})(?![\w.])", re.MULTILINE)


@dataclass(frozen=True)
class Moved:
    """A log, and where the events of the original are in it."""

    log: bytes
    places: dict[int, int]

    def text(self, text: str) -> str:
        """A text in which each number that is a place in the original is that in the log."""
        return _NUMBER.sub(self._number, text)

    def _number(self, found: re.Match[str]) -> str:
        place = str(self.places.get(int(found["number"]), found["number"]))
        return place.rjust(len(found[0])) if found["column"] else place


def as_minimal(log: bytes) -> Moved:
    """The log with binlog_row_metadata=MINIMAL."""
    events, position = [], 4
    while position < len(log):
        length = int.from_bytes(log[position + 9 : position + 13], "little")
        events.append((position, log[position : position + length - 4]))  # its checksum is made anew
        position += length
    assert position == len(log)
    bodies = [_without_names(event) if event[4] == TABLE_MAP else event for _, event in events]
    places, end = {}, 4
    for (old, _), body in zip(events, bodies, strict=True):
        places[old] = end
        end += len(body) + 4
    places[position] = end
    begins = [number for number, body in enumerate(bodies) if body[4] == ANONYMOUS_GTID]
    for number, following in zip(begins, [*begins[1:], len(bodies)], strict=True):
        saved = sum(len(events[i][1]) - len(bodies[i]) for i in range(number, following))
        bodies[number] = _shorter_transaction(bodies[number], saved)
    made = bytearray(log[:4])
    for body in bodies:
        made += _event(body, len(made))
    return Moved(bytes(made), places)


def _event(body: bytes, position: int) -> bytes:
    """An event at a position, with its lengths and checksum."""
    length = len(body) + 4
    end = position + length if body[13:17] != bytes(4) else 0
    whole = body[:9] + struct.pack("<II", length, end) + body[17:]
    return whole + zlib.crc32(whole).to_bytes(4, "little")


def _without_names(event: bytes) -> bytes:
    at = HEADER_LEN + 8
    for _ in range(2):  # the database, the table
        at += event[at] + 2
    count, at = _lenenc(event, at)
    metadata_len, at = _lenenc(event, at + count)
    at += metadata_len + (count + 7) // 8
    kept = event[:at]
    while at < len(event):
        length, value = _lenenc(event, at + 1)
        if event[at] in OF_MINIMAL:
            kept += event[at : value + length]
        at = value + length
    return kept


def _shorter_transaction(event: bytes, saved: int) -> bytes:
    """A GTID event whose transaction has fewer bytes."""
    at = HEADER_LEN + 1 + 16 + 8 + 1 + 16  # flags, UUID, number, type, two logical times
    at += 14 if event[at + 6] & 0x80 else 7  # when it was committed, here and at its origin
    length, after = _lenenc(event, at)
    width = after - at - 1  # 0: the length is the byte itself
    new = (length - saved).to_bytes(width, "little") if width else bytes((length - saved,))
    return event[: at + (width > 0)] + new + event[after:]


def _lenenc(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer, and where it ends."""
    if data[at] < 0xFB:
        return data[at], at + 1
    assert data[at] == 0xFC
    return int.from_bytes(data[at + 1 : at + 3], "little"), at + 3
