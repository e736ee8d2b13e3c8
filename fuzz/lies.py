"""One lie in a log that is otherwise right: the mutator of the target `log`.

Checksums and lengths reject most random changes of a fuzzer. Here one thing in one event is changed: its
type, a length, a column's type, a byte of metadata, a bitmap, a value, its place among others; or a rows
event is cut into MariaDB's fragments, and one of these lies. Compressed data is packed again around the
change, and all other lengths, next positions and checksums are corrected, so that the decoder reaches the
lie.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from random import Random

MAGIC = b"\xfebin"
HEADER, CHECKSUM = 19, 4
QUERY, FORMAT_DESCRIPTION, TABLE_MAP, PARTIAL, PAYLOAD, MARIADB_QUERY = 2, 15, 19, 39, 40, 165
MARIADB_ROWS, FRAGMENT = range(166, 172), 172
KINDS = (2, 3, 4, 13, 15, 16, 19, *range(20, 26), *range(29, 43), *range(160, 173))
EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)


@dataclass
class Event:
    """An event without its checksum; `longer`, `further`: the errors of its length and next position."""

    head: bytearray
    body: bytearray
    longer: int = 0
    further: int = 0

    @property
    def kind(self) -> int:
        return self.head[4]


def mutated(data: bytes, most: int, seed: int) -> bytes | None:
    """Options u8 and a log, with one more lie; None: it is not a log, or it grows beyond `most` bytes."""
    log = data[1:]
    if log[:4] != MAGIC or log[8:9] != bytes((FORMAT_DESCRIPTION,)):
        return None
    length = int.from_bytes(log[13:17], "little")
    if not HEADER + 57 <= length <= len(log) - 4:
        return None
    summed = log[length : 4 + length] == sum_of(log[4:length])
    every = summed and log[length - 1] == 1
    events = events_of(log[4 : 4 + length], CHECKSUM * summed) + events_of(
        log[4 + length :], CHECKSUM * every
    )
    if not events:
        return None
    lie(events, Random(seed), 1)
    out = bytearray(MAGIC)
    for event in events:
        out += joined(event, len(out), summed if event.kind == FORMAT_DESCRIPTION else every)
    return data[:1] + out if len(out) < most else None


def events_of(data: bytes, checksum: int) -> list[Event]:
    """Split a log into events by their lengths; an end that is not an event stays unchanged."""
    found, at = [], 0
    while at + HEADER + checksum <= len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        if not HEADER + checksum <= length <= len(data) - at:
            break
        found.append(
            Event(bytearray(data[at : at + HEADER]), bytearray(data[at + HEADER : at + length - checksum]))
        )
        at += length
    return found


def joined(event: Event, begin: int, checksum: bool) -> bytes:
    """The event that begins there; its checksum is right."""
    length = HEADER + len(event.body) + CHECKSUM * checksum
    told = int.from_bytes(event.head[13:17], "little") and begin + length  # 0: MariaDB often leaves it out
    struct.pack_into(
        "<II", event.head, 9, length + event.longer & 0xFFFFFFFF, told + event.further & 0xFFFFFFFF
    )
    plain = bytes(event.head + event.body)
    return plain + sum_of(plain) * checksum


def sum_of(plain: bytes) -> bytes:
    """The checksum of an event; a descriptor's is computed without the in-use flag."""
    if plain[4] == FORMAT_DESCRIPTION:
        plain = plain[:17] + bytes((plain[17] & 0xFE,)) + plain[18:]
    return zlib.crc32(plain).to_bytes(CHECKSUM, "little")


def lie(events: list[Event], chance: Random, first: int) -> None:
    """Change one thing in the events from `first` on; rarely in the descriptor before them."""
    at = chance.randrange(0 if chance.random() < 0.03 else min(first, len(events) - 1), len(events))
    event, what = events[at], chance.randrange(20)
    if what == 0:
        event.head[4] = chance.choice(KINDS)
    elif what == 1:
        event.longer = chance.choice((-1, 1, -len(event.body), 1000, 0x7FFFFFFF, -HEADER - len(event.body)))
    elif what == 2:
        event.further = chance.choice((-1, 1, 1000, 0x7FFFFFFF))
    elif what == 3:
        del events[at]
    elif what == 4:
        events.insert(chance.randrange(at, len(events)), Event(bytearray(event.head), bytearray(event.body)))
    elif what == 5:
        other = chance.randrange(len(events))
        events[at], events[other] = events[other], event
    elif what == 6:
        changed(event.head, 0, HEADER, chance, grows=False)
    elif what == 7 and (23 <= event.kind <= 25 or event.kind in MARIADB_ROWS):
        events[at : at + 1] = in_fragments(event, chance)
    elif event.kind == FRAGMENT and what < 12:  # as many bytes of the event in another fragment
        change_cut([one for one in events if one.kind == FRAGMENT], chance)
    elif event.kind == PAYLOAD and what < 18:
        inner = events_of(unpacked_payload(bytes(event.body)), 0)
        if inner:
            lie(inner, chance, 0)
            event.body = bytearray(packed_payload(b"".join(joined(one, 0, False) for one in inner)))
    else:
        change_body(event, chance)


def change_body(event: Event, chance: Random) -> None:
    """One of its parts, of which small ones are as likely as large ones."""
    found = parts(event)
    if event.kind == MARIADB_QUERY or event.kind in MARIADB_ROWS:
        begin = found.pop()[0] if event.kind != MARIADB_QUERY else query_text(event.body)
        plain = unpacked_block(bytes(event.body[begin:]))
        if plain is not None and (not found or chance.random() < 0.6):
            rows = bytearray(plain)
            changed(rows, 0, len(rows), chance)
            event.body[begin:] = packed_block(bytes(rows))
            return
    begin, end = chance.choice(found or [(0, len(event.body))])
    changed(event.body, begin, end, chance)


def changed(data: bytearray, begin: int, end: int, chance: Random, *, grows: bool = True) -> None:
    """Set, flip or add to one byte in between; or insert or remove some bytes."""
    at = chance.randrange(begin, max(end, begin + 1))
    what = chance.randrange(7 if grows else 5)
    if what == 5:
        data[at:at] = bytes(chance.choice(EXTREMES) for _ in range(chance.choice((1, 1, 2, 8, 40))))
    elif what == 6:
        del data[at : at + chance.choice((1, 1, 2, 8, end - at))]
    elif at < len(data):
        if what < 2:
            data[at] = chance.choice(EXTREMES)
        elif what == 2:
            data[at] ^= 1 << chance.randrange(8)
        elif what == 3:
            data[at] = data[at] + chance.choice((-1, 1)) & 255
        else:
            data[at] = chance.randrange(256)


def parts(event: Event) -> list[tuple[int, int]]:
    """Where the parts of the event's body are; the last reaches to the end."""
    body = event.body
    try:
        if event.kind == TABLE_MAP:
            return table_map_parts(body)
        if event.kind == FRAGMENT:  # how many, number, flags, size of all
            return between([0, 4, 8, 9, *([17] if body[8] & 1 else []), len(body)], len(body))
        if 20 <= event.kind <= 25 or 30 <= event.kind <= 32 or event.kind in (PARTIAL, *MARIADB_ROWS):
            return rows_parts(body, event.kind)
    except IndexError:  # an earlier lie
        pass
    return [(0, len(body))] if event.kind != MARIADB_QUERY else [(0, query_text(body))]


def in_fragments(event: Event, chance: Random) -> list[Event]:
    """A rows event without its checksum as a series of fragments."""
    whole = bytes(event.head + event.body)
    whole = whole[:9] + struct.pack("<I", len(whole)) + whole[13:]
    cuts = sorted({chance.randrange(1, len(whole)) for _ in range(chance.choice((0, 1, 2, 7)))})
    series = []
    for number, (begin, end) in enumerate(pairwise([0, *cuts, len(whole)]), start=1):
        size = struct.pack("<Q", len(whole)) * (number == 1)
        head = bytearray(event.head)
        head[4] = FRAGMENT
        body = struct.pack("<IIB", len(cuts) + 1, number, number == 1) + size + whole[begin:end]
        series.append(Event(head, bytearray(body)))
    return series


def change_cut(series: list[Event], chance: Random) -> None:
    """Bytes go from one fragment to the next, or the event that the fragments make has another byte."""
    at = chance.randrange(len(series))
    one, other = series[at].body, series[at - 1].body
    count = chance.choice((1, 4, 19, len(one)))
    if at and chance.random() < 0.5:
        begin = 17 if len(one) > 8 and one[8] & 1 else 9
        other += one[begin : begin + count]
        del one[begin : begin + count]
    else:
        changed(one, 17, len(one), chance)


def table_map_parts(body: bytearray) -> list[tuple[int, int]]:
    bounds = [0, 8]
    for _ in range(2):  # names
        bounds.append(bounds[-1] + body[bounds[-1]] + 2)
    count, types = lenenc(body, bounds[-1])
    bounds += [types, types + count]
    length, metadata = lenenc(body, types + count)
    bounds += [metadata, metadata + length, metadata + length + (count + 7) // 8]
    while bounds[-1] < len(body):
        length, value = lenenc(body, bounds[-1] + 1)
        bounds += [value, value + length]
    return between(bounds, len(body))


def rows_parts(body: bytearray, kind: int) -> list[tuple[int, int]]:
    bounds = [0, 6, 8]
    if kind >= 169 or 30 <= kind <= PARTIAL:
        bounds += [10, 8 + int.from_bytes(body[8:10], "little")]
    count, bitmap = lenenc(body, bounds[-1])
    bounds += [bitmap, bitmap + (count + 7) // 8]
    if kind in (24, 31, PARTIAL, 167, 170):  # updates
        bounds.append(bounds[-1] + (count + 7) // 8)
    return between([*bounds, len(body)], len(body))


def between(bounds: list[int], end: int) -> list[tuple[int, int]]:
    cut = [min(bound, end) for bound in bounds]
    return [(a, b) for a, b in pairwise(cut) if a < b or b == end]


def lenenc(data: bytearray, at: int) -> tuple[int, int]:
    """A packed integer, and where it ends."""
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(data[at], 0)
    value = int.from_bytes(data[at + 1 : at + 1 + width], "little") if width else data[at]
    return min(value, 1 << 16), at + 1 + width


# ---------------------------------------------------------------- what is packed


def packed_block(data: bytes) -> bytes:
    """Compressed like MariaDB's rows and statements."""
    return bytes((0x82,)) + (len(data) & 0xFFFF).to_bytes(2, "big") + zlib.compress(data, 1)


def unpacked_block(data: bytes) -> bytes | None:
    try:
        return zlib.decompressobj().decompress(data[1 + (data[0] & 7) :], 1 << 16)
    except (IndexError, zlib.error):
        return None


def query_text(body: bytearray) -> int:
    """Where the compressed statement of a query event begins."""
    if len(body) < 13:
        return len(body)
    return min(len(body), 13 + int.from_bytes(body[11:13], "little") + body[8] + 1)


def packed_payload(data: bytes) -> bytes:
    """A transaction of MySQL, uncompressed, as the server writes one that does not shrink."""
    size = struct.pack("<H", len(data) & 0xFFFF)
    return b"\2\3\xfc\xff\0" + b"\3\3\xfc" + size + b"\1\3\xfc" + size + b"\0" + data


def unpacked_payload(body: bytes) -> bytes:
    """The events in it; none if it is damaged."""
    import zstandard

    data, at, zstd = bytearray(body), 0, False
    try:
        while data[at]:
            kind, value = lenenc(data, at)
            length, begin = lenenc(data, value)
            zstd |= kind == 2 and not data[begin]
            at = begin + length
        rest = bytes(data[at + 1 :])
        return zstandard.ZstdDecompressor().decompress(rest, 1 << 16) if zstd else rest
    except (IndexError, zstandard.ZstdError):
        return b""
