"""The walk over the events of a log, and row changes from its rows events."""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .cursor import Cursor, Malformed
from .encrypted import MariadbCipher, decrypt_mysql
from .jsonb import apply_diffs, diffs_as_text
from .tablemap import Column, TableMap, parse_table_map
from .values import finish, take_value

MAGIC, ENCRYPTED_MAGIC = b"\xfebin", b"\xfdbin"
START_V3, ROTATE, FORMAT_DESCRIPTION, TABLE_MAP = 1, 4, 15, 19
GTID, ANONYMOUS_GTID, TRANSACTION_PAYLOAD, GTID_TAGGED = 33, 34, 40, 42
MARIADB_GTID, START_ENCRYPTION, PARTIAL_UPDATE = 162, 164, 39
WRITES, UPDATES, DELETES = {23, 30, 166, 169}, {24, 31, 39, 167, 170}, {25, 32, 168, 171}
MARIADB_COMPRESSED, MARIADB_FRAGMENT = range(166, 172), 172
RENUMBERED = {16: 19, 17: 20, 18: 21, 19: 22, 20: 16, 21: 17, 22: 18}
RENUMBERED_SERVERS = re.compile(r"5\.1\.[1-5]-a_drop5|5\.1\.4-a_drop6|5\.2\.[0-2]-a_drop6")


class EventHeader(NamedTuple):
    position: int
    timestamp: int
    type_code: int
    server_id: int
    event_length: int
    next_position: int
    flags: int


@dataclass
class Change:
    op: str
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None
    server_id: int


@dataclass
class Log:
    headers: list[EventHeader] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    server_versions: list[str] = field(default_factory=list)
    undecoded: int = 0  # rows events without a usable table map, or of version 0


def read_log(
    data: bytes, keys: bytes | None = None, old_digits: dict[str, dict[int, int]] | None = None
) -> Log:
    """Everything of a log, up to its last whole event.

    Parameters
    ----------
    data : bytes
        A whole file.
    keys : bytes, optional
        Content of the keyring or key file of an encrypted log.
    old_digits : dict, optional
        Digits of MariaDB's own fractional TIME, DATETIME and TIMESTAMP, by ``db.table`` and column index.

    Raises
    ------
    Malformed
        The bytes cannot be a binary log.
    """
    if data[:4] == ENCRYPTED_MAGIC:
        data = decrypt_mysql(data, keys or b"")
    if data[:4] != MAGIC:
        raise Malformed("not a binary log")
    reader = _Reader(keys, old_digits or {})
    for header, body in reader.events(data):
        reader.log.headers.append(header)
        reader.handle(header, body, header.position)
    return reader.log


class _Reader:
    def __init__(self, keys: bytes | None, old_digits: dict[str, dict[int, int]]) -> None:
        self.log = Log()
        self.old_digits = old_digits
        self.keys = keys
        self.version = 3
        self.header_length = 19
        self.post_headers: dict[int, int] = {4: 8}
        self.checksum = False
        self.mariadb = False
        self.renumbered = False
        self.cipher: MariadbCipher | None = None
        self.maps: dict[int, TableMap] = {}
        self.pieces: list[bytes] = []
        self.gtid: str | None = None

    # ---------------------------------------------------------------- events

    def events(self, data: bytes) -> Iterator[tuple[EventHeader, bytes]]:
        at = 4
        if len(data) >= 17 and data[8] == START_V3 and int.from_bytes(data[13:17], "little") < 75:
            self.version, self.header_length, self.post_headers = 1, 13, {4: 0}
        while at + (13 if self.version == 1 else 19) <= len(data):
            length = int.from_bytes(data[at + 9 : at + 13], "little")
            if at + length > len(data):
                return
            event = data[at : at + length]
            if self.cipher:
                event = self.cipher.decrypt(event, at)
            yield self.open_event(event, at, inner=False)
            at += length

    def open_event(self, event: bytes, position: int, inner: bool) -> tuple[EventHeader, bytes]:
        """Header and body; a descriptor comes into force."""
        cur = Cursor(event)
        timestamp, code, server_id, length = (cur.little(size) for size in (4, 1, 4, 4))
        next_position, flags = (0, 0) if self.version == 1 else (cur.little(4), cur.little(2))
        code = RENUMBERED.get(code, code) if self.renumbered else code
        if length < cur.at:
            raise Malformed(f"event of {length} bytes")
        if not inner and code not in (FORMAT_DESCRIPTION, ROTATE, START_V3):
            cur.take(self.header_length - cur.at)
        header = EventHeader(position, timestamp, code, server_id, length, next_position, flags)
        if code == FORMAT_DESCRIPTION:
            self.describe(event)
            return header, cur.rest()
        body = cur.rest()
        if self.checksum and not inner:
            body = body[:-4]
            if zlib.crc32(event[:-4]) != int.from_bytes(event[-4:], "little"):
                raise Malformed(f"checksum of the event at {position}")
        return header, body

    def describe(self, event: bytes) -> None:
        cur = Cursor(event[19:])
        if cur.little(2) != 4:
            raise Malformed("descriptor of a version other than 4")
        self.version = 4
        version = cur.take(50).rstrip(b"\0").decode("latin-1")
        self.log.server_versions.append(version)
        cur.take(4)
        self.header_length = cur.little(1)
        self.mariadb = "mariadb" in version.lower() or "-maria-" in version
        numbers = [int(part or 0) for part in re.match(r"(\d+)\.(\d*)\.?(\d*)", version).groups()]  # type: ignore[union-attr]
        lengths = cur.rest()
        # Entry 15 is the length of the descriptor's own post-header, and so shows whether a checksum follows.
        aware = numbers >= ([5, 3, 0] if self.mariadb else [5, 6, 1])
        if lengths[14] == (57 + len(lengths) - 5) % 256:
            aware = True
        elif lengths[14] == (57 + len(lengths)) % 256:
            aware = False
        self.checksum = aware and lengths[-5] == 1
        lengths = lengths[:-5] if aware else lengths
        self.renumbered = len(lengths) == 22 and bool(RENUMBERED_SERVERS.match(version))
        self.post_headers = {
            (RENUMBERED.get(i, i) if self.renumbered else i): n for i, n in enumerate(lengths, start=1)
        }
        self.cipher = None
        self.maps = {}

    def handle(self, header: EventHeader, body: bytes, position: int) -> None:
        code = header.type_code
        if code in (GTID, ANONYMOUS_GTID):
            self.gtid = (
                None if code == ANONYMOUS_GTID else f"{uuid.UUID(bytes=body[1:17])}:{_u64(body[17:25])}"
            )
        elif code == GTID_TAGGED:
            self.gtid = _tagged_gtid(body)
        elif code == MARIADB_GTID:
            self.gtid = f"{int.from_bytes(body[8:12], 'little')}-{header.server_id}-{_u64(body[:8])}"
        elif code == START_ENCRYPTION:
            self.cipher = MariadbCipher(body, self.keys or b"")
        elif code == TABLE_MAP:
            cur = Cursor(body)
            table_id, flags = self.post_header(cur, code, 8)[:2]
            table = self.maps[table_id] = parse_table_map(cur, self.mariadb, flags)
            for index, digits in self.old_digits.get(f"{table.database}.{table.table}", {}).items():
                table.columns[index].old_digits = digits
        elif code == TRANSACTION_PAYLOAD:
            self.payload(body, position)
        elif code == MARIADB_FRAGMENT:
            total, number = int.from_bytes(body[:4], "little"), int.from_bytes(body[4:8], "little")
            self.pieces = [*(self.pieces if number > 1 else []), body[17 if body[8] & 1 else 9 :]]
            if number == total == len(self.pieces):
                self.handle(*self.open_event(b"".join(self.pieces), position, inner=True), position)
        elif code in WRITES | UPDATES | DELETES:
            self.rows(header, body, position)
        elif 20 <= code <= 22:
            self.log.undecoded += 1

    def payload(self, body: bytes, position: int) -> None:
        cur = Cursor(body)
        fields: dict[int, int] = {}
        while kind := cur.lenenc():
            fields[kind] = Cursor(cur.lenenc_bytes()).lenenc()
        packed = cur.take(fields[1])
        if fields[2] == 0:
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
                packed = stream.read()
        elif fields[2] != 255:
            raise Malformed(f"payload compression {fields[2]}")
        inner = Cursor(packed)
        while inner.left:
            start = inner.at
            length = int.from_bytes(inner.take(19)[9:13], "little")
            inner.at = start
            header, content = self.open_event(inner.take(length), position, inner=True)
            self.handle(header, content, position)

    # ------------------------------------------------------------------ rows

    def post_header(self, cur: Cursor, code: int, default: int) -> tuple[int, int]:
        """Table id and flags; extra data are skipped."""
        length = self.post_headers.get(code) or default
        table_id, flags = cur.little(4 if length == 6 else 6), cur.little(2)
        if length >= 10:
            extra = cur.little(2)
            if extra < 2:
                raise Malformed(f"extra data of {extra} bytes")
            cur.take(length - 10)
            cur.take(extra - 2)
        elif length > 8:
            cur.take(length - 8)
        return table_id, flags

    def rows(self, header: EventHeader, body: bytes, position: int) -> None:
        code = header.type_code
        cur = Cursor(body)
        table_id, _ = self.post_header(cur, code, 10 if 30 <= code <= 39 or code >= 169 else 8)
        table = self.maps.get(table_id)
        if table is None or table.undecodable:
            self.log.undecoded += 1
            return
        width = cur.lenenc()
        if width != len(table.columns):
            raise Malformed(f"{width} columns in the rows, {len(table.columns)} in the map")
        present = cur.bits(width)
        present_after = cur.bits(width) if code in UPDATES else present
        if code in MARIADB_COMPRESSED:
            cur = Cursor(_inflate_block(cur))
        while True:
            before = after = None
            if code in WRITES:
                after = _values(_image(cur, table, present))
            else:
                image = _image(cur, table, present)
                before = _values(image)
                if code in UPDATES:
                    after = self.after_image(cur, code, table, present_after, image)
            op = "insert" if code in WRITES else "delete" if code in DELETES else "update"
            self.log.changes.append(
                Change(
                    op,
                    table.database,
                    table.table,
                    before,
                    after,
                    position,
                    header.timestamp,
                    self.gtid,
                    header.server_id,
                )
            )
            if not cur.left:
                return

    def after_image(
        self,
        cur: Cursor,
        code: int,
        table: TableMap,
        present: list[bool],
        before: dict[str, tuple[Column, Any]],
    ) -> dict[str, Any]:
        documents = [c.name for c in table.columns if c.type == 245]
        partial: set[str] = set()
        if code == PARTIAL_UPDATE and cur.lenenc() & 1:
            partial = {name for name, bit in zip(documents, cur.bits(len(documents)), strict=True) if bit}
        image = _image(cur, table, present)
        values = _values({name: pair for name, pair in image.items() if name not in partial})
        for name in partial & set(image):
            diffs = image[name][1]
            old = before[name][1] if name in before else None
            values[name] = (
                None if diffs is None else diffs_as_text(diffs) if old is None else apply_diffs(old, diffs)
            )
        return {name: values[name] for name in image}


def _image(cur: Cursor, table: TableMap, present: list[bool]) -> dict[str, tuple[Column, Any]]:
    kept = [column for column, there in zip(table.columns, present, strict=True) if there]
    nulls = cur.bits(len(kept))
    return {c.name: (c, None if null else take_value(cur, c)) for c, null in zip(kept, nulls, strict=True)}


def _values(image: dict[str, tuple[Column, Any]]) -> dict[str, Any]:
    return {name: finish(value, column) for name, (column, value) in image.items()}


def _inflate_block(cur: Cursor) -> bytes:
    head = cur.little(1)
    if head & 0xF8 != 0x80:
        raise Malformed(f"compressed event begins with {head}")
    length = cur.big(head & 7)
    plain = zlib.decompress(cur.rest())
    if len(plain) != length:
        raise Malformed(f"compressed event of {length} bytes has {len(plain)}")
    return plain


def _u64(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _tagged_gtid(body: bytes) -> str:
    cur = Cursor(body)
    for _ in range(3):
        cur.varint()
    source, number, tag = b"", 0, b""
    while cur.left:
        match cur.varint():
            case 0:
                cur.varint()
            case 1:
                source = bytes(cur.varint() for _ in range(16))
            case 2:
                number = cur.signed_varint()
            case 3:
                tag = cur.take(cur.varint())
            case _:
                break
    middle = f"{tag.decode()}:" if tag else ""
    return f"{uuid.UUID(bytes=source)}:{middle}{number}"
