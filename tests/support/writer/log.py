"""Whole logs: headers of every version, descriptors, transactions, rows events, compression."""

from __future__ import annotations

import struct
import uuid as uuids
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from . import numbering as n
from .table import Row, Table
from .wire import bitmap, crc32, lenenc, lenenc_text, maria_block, signed_varint, varint

MAGIC = b"\xfebin"
STMT_END = 1


class Log:
    """A binary log under construction; events are appended in the order of the calls.

    Parameters
    ----------
    server : str
        Server version as in the descriptor, such as ``8.0.36`` or ``10.11.6-MariaDB-log``; it determines
        post-header lengths, checksum support, the rows events' version and the numbering.
    checksum : bool or None
        CRC32 after every event; None: if the server supports checksums.
    binlog_version : {1, 3, 4}
    header_length : int
        19 or more; the bytes beyond 19 are zero (v4 only).
    post_headers : bytes, optional
        Instead of the server's own array, of any length.
    rows_version : {0, 1, 2}, optional
        Version of the rows events.
    server_id, timestamp : int
        Of every event header; both may be changed between events.
    in_use : bool
        The descriptor says that the file is open.
    created : int, optional
        The time in the descriptor: 0 in a log that does not begin with the server; by default `timestamp`.
    next_positions : bool
        False writes 0, as MariaDB 11.4 does inside transactions.
    """

    def __init__(
        self,
        server: str = "8.0.36",
        *,
        checksum: bool | None = None,
        binlog_version: int = 4,
        header_length: int = 19,
        post_headers: bytes | None = None,
        rows_version: int | None = None,
        server_id: int = 1,
        timestamp: int = 1_700_000_000,
        in_use: bool = False,
        created: int | None = None,
        next_positions: bool = True,
        _headless: bool = False,
    ) -> None:
        self.server = server
        self.mariadb = n.is_mariadb(server)
        self.aware = n.has_checksums(server) and binlog_version == 4
        self.checksum = self.aware if checksum is None else checksum
        self.binlog_version = binlog_version
        self.header_length = 13 if binlog_version == 1 else header_length
        self.post_headers = n.post_header_lengths(server) if post_headers is None else post_headers
        modern = not self.mariadb and n.version_of(server) >= (5, 6, 6)
        self.rows_version = (2 if modern else 1) if rows_version is None else rows_version
        self.server_id = server_id
        self.timestamp = timestamp
        self.next_positions = next_positions
        self._table_ids: dict[int, int] = {}
        self._tables: list[Table] = []
        self._out = bytearray()
        if not _headless:
            self._out += MAGIC
            self.start(in_use=in_use, created=created)

    @property
    def position(self) -> int:
        """Where the next event will start."""
        return len(self._out)

    def getvalue(self) -> bytes:
        return bytes(self._out)

    def cut(self, position: int) -> None:
        """Remove everything from a position on."""
        del self._out[position:]

    # ---------------------------------------------------------------- events

    def event(self, code: int, body: bytes, *, flags: int = 0, extra_header: bytes | None = None) -> int:
        """Append an event of a code in today's numbering; returns its position."""
        start = len(self._out)
        if n.is_renumbered(self.server):
            code = n.RENUMBERED.get(code, code)
        frozen = code in (n.FORMAT_DESCRIPTION, n.ROTATE, n.START_V3)
        if extra_header is None:
            extra_header = bytes(0 if frozen else max(0, self.header_length - 19))
        with_sum = self.checksum or (code == n.FORMAT_DESCRIPTION and self.aware)
        base = 13 if self.binlog_version == 1 else 19
        length = base + len(extra_header) + len(body) + 4 * with_sum
        head = struct.pack("<IBII", self.timestamp, code, self.server_id, length)
        if self.binlog_version > 1:
            # v3 gives the event's start, v4 its end.
            position = start + (length if self.binlog_version == 4 else 0)
            head += struct.pack("<IH", position & 0xFFFFFFFF if self.next_positions else 0, flags)
        event = head + extra_header + body
        if with_sum:
            # The in-use flag is cleared in place later, so the checksum is computed with the flag cleared.
            covered = (
                event[:17] + struct.pack("<H", flags & ~1) + event[19:]
                if code == n.FORMAT_DESCRIPTION
                else event
            )
            event += crc32(covered)
        self._out += event
        return start

    def raw(self, data: bytes) -> int:
        """Append bytes unchanged."""
        start = len(self._out)
        self._out += data
        return start

    def start(self, *, in_use: bool = False, created: int | None = None) -> int:
        """The descriptor: START_EVENT_V3, or FORMAT_DESCRIPTION_EVENT."""
        made = self.timestamp if created is None else created
        version = self.server.encode().ljust(50, b"\0")
        if self.binlog_version < 4:
            return self.event(
                n.START_V3, struct.pack("<H", self.binlog_version) + version + struct.pack("<I", made)
            )
        body = (
            struct.pack("<H", 4) + version + struct.pack("<IB", made, self.header_length) + self.post_headers
        )
        if self.aware:
            body += bytes((self.checksum,))
        return self.event(n.FORMAT_DESCRIPTION, body, flags=int(in_use))

    def rotate(self, next_file: str = "binlog.000002", position: int = 4) -> int:
        post_header = b"" if self.binlog_version == 1 else struct.pack("<Q", position)
        return self.event(n.ROTATE, post_header + next_file.encode())

    def stop(self) -> int:
        return self.event(n.STOP, b"")

    def query(
        self,
        sql: str | bytes,
        database: str = "",
        *,
        status: bytes = b"",
        error: int = 0,
        flags: int = 0,
        thread: int = 7,
    ) -> int:
        text = sql.encode() if isinstance(sql, str) else sql
        name = database.encode()
        body = struct.pack("<IIBH", thread, 0, len(name), error)
        if self.binlog_version == 4:
            body += struct.pack("<H", len(status)) + status
        return self.event(n.QUERY, body + name + b"\0" + text, flags=flags)

    def xid(self, number: int) -> int:
        return self.event(n.XID, struct.pack("<Q", number))

    def annotate_rows(self, sql: str) -> int:
        return self.event(n.MARIADB_ANNOTATE_ROWS, sql.encode())

    def checkpoint(self, name: str) -> int:
        """MariaDB's BINLOG_CHECKPOINT: recovery needs no log before this one."""
        return self.event(n.MARIADB_BINLOG_CHECKPOINT, struct.pack("<I", len(name)) + name.encode())

    def rows_query(self, sql: str) -> int:
        return self.event(n.ROWS_QUERY, bytes((min(len(sql), 255),)) + sql.encode(), flags=0x80)

    # ---------------------------------------------------------- transactions

    def begin(self, database: str = "") -> int:
        return self.query("BEGIN", database, flags=8)

    def commit(self, xid: int = 1) -> int:
        return self.xid(xid)

    def gtid(
        self,
        uuid: str,
        number: int,
        *,
        commit_time: int = 1_700_000_000_000_000,
        tag: str = "",
        anonymous: bool = False,
    ) -> int:
        """MySQL's GTID in the layout of the log's server version; with a tag GTID_TAGGED."""
        source = uuids.UUID(uuid).bytes
        if tag:
            return self.event(n.GTID_TAGGED, _tagged_gtid(source, number, tag, commit_time))
        version = n.version_of(self.server)
        body = b"\0" + source + struct.pack("<q", 0 if anonymous else number)
        if version >= (5, 7, 6):
            body += b"\2" + struct.pack("<qq", 0, 1)
        if version >= (8, 0, 1):
            body += commit_time.to_bytes(7, "little") + lenenc(200)
        if version >= (8, 0, 14):
            body += struct.pack("<I", version[0] * 10000 + version[1] * 100 + version[2])
        return self.event(n.ANONYMOUS_GTID if anonymous else n.GTID, body)

    def maria_gtid(
        self, number: int, domain: int = 0, *, standalone: bool = False, commit_id: int | None = None
    ) -> int:
        flags2 = (1 if standalone else 0) | (2 if commit_id is not None else 0) | 12
        body = struct.pack("<QIB", number, domain, flags2)
        body += struct.pack("<Q", commit_id) if commit_id is not None else b""
        return self.event(n.MARIADB_GTID, body.ljust(19, b"\0"), flags=8)

    def previous_gtids(self) -> int:
        return self.event(n.PREVIOUS_GTIDS, bytes(8), flags=0x80)

    def gtid_list(self, gtids: Sequence[tuple[int, int, int]] = ()) -> int:
        body = struct.pack("<I", len(gtids)) + b"".join(struct.pack("<IIQ", *gtid) for gtid in gtids)
        return self.event(n.MARIADB_GTID_LIST, body)

    # ------------------------------------------------------------------ rows

    def _post_header_length(self, code: int, default: int) -> int:
        file_code = n.RENUMBERED.get(code, code) if n.is_renumbered(self.server) else code
        written = self.post_headers[file_code - 1] if file_code <= len(self.post_headers) else 0
        return written or default

    def _post_header(self, code: int, default: int, table_id: int, flags: int, extra: bytes = b"") -> bytes:
        length = self._post_header_length(code, default)
        head = (
            struct.pack("<IH", table_id, flags)
            if length == 6
            else table_id.to_bytes(6, "little") + flags.to_bytes(2, "little")
        )
        if length >= 10:
            head += struct.pack("<H", len(extra) + 2) + bytes(length - 10) + extra
        return head

    def table_map(self, table: Table, table_id: int | None = None, *, with_metadata: bool = True) -> int:
        """TABLE_MAP; each table object gets an id at its first event unless one is given."""
        if table_id is None:
            table_id = self._table_ids.get(id(table), 100 + len(self._table_ids))
        self._table_ids[id(table)] = table_id
        self._tables.append(table)  # keeps it alive, so that its id() stays its own
        body = self._post_header(n.TABLE_MAP, 8, table_id, table.flags)
        return self.event(
            n.TABLE_MAP, body + table.map_body(mariadb=self.mariadb, with_metadata=with_metadata)
        )

    def rows_event(
        self,
        kind: int,
        table: Table,
        area: bytes,
        present: Sequence[bool],
        present_after: Sequence[bool] | None = None,
        *,
        code: int | None = None,
        flags: int = STMT_END,
        extra: bytes = b"",
        compress: bool = False,
    ) -> int:
        """A rows event around given rows."""
        if code is None:
            code = n.MARIADB_COMPRESSED_ROWS + kind if compress else n.ROWS_CODES[self.rows_version] + kind
        default = 10 if 30 <= code <= 39 or code >= 169 else 8
        body = self._post_header(code, default, self._table_ids[id(table)], flags, extra)
        body += lenenc(len(table.columns)) + bitmap(present, unused=1)
        if kind == n.UPDATE and not 20 <= code <= 22:
            body += bitmap(present if present_after is None else present_after, unused=1)
        return self.event(code, body + (maria_block(area) if compress else area))

    def insert(
        self,
        table: Table,
        rows: Iterable[Row],
        *,
        columns: Iterable[str] | None = None,
        mapped: bool = False,
        extra: bytes = b"",
        compress: bool = False,
    ) -> int:
        """TABLE_MAP (unless ``mapped``) and WRITE_ROWS; ``columns``: those of a partial image."""
        return self._one_image(n.WRITE, table, rows, columns, mapped, extra, compress)

    def delete(
        self,
        table: Table,
        rows: Iterable[Row],
        *,
        columns: Iterable[str] | None = None,
        mapped: bool = False,
        extra: bytes = b"",
        compress: bool = False,
    ) -> int:
        return self._one_image(n.DELETE, table, rows, columns, mapped, extra, compress)

    def _one_image(
        self,
        kind: int,
        table: Table,
        rows: Iterable[Row],
        columns: Iterable[str] | None,
        mapped: bool,
        extra: bytes,
        compress: bool,
    ) -> int:
        if not mapped:
            self.table_map(table)
        present = table.present(columns)
        area = b"".join(table.image(row, present, unused=self.mariadb) for row in rows)
        return self.rows_event(kind, table, area, present, extra=extra, compress=compress)

    def update(
        self,
        table: Table,
        rows: Iterable[tuple[Row, Row]],
        *,
        before_columns: Iterable[str] | None = None,
        after_columns: Iterable[str] | None = None,
        mapped: bool = False,
        extra: bytes = b"",
        compress: bool = False,
        partial: bool = False,
    ) -> int:
        """UPDATE_ROWS of ``(before, after)`` pairs; ``partial``: PARTIAL_UPDATE_ROWS, with JsonDiffs."""
        if not mapped:
            self.table_map(table)
        before, after = table.present(before_columns), table.present(after_columns)
        area = bytearray()
        for old, new in rows:
            area += table.image(old, before, unused=self.mariadb)
            area += table.partial_options(new) if partial else b""
            area += table.image(new, after, unused=self.mariadb)
        code = n.PARTIAL_UPDATE_ROWS if partial else None
        return self.rows_event(
            n.UPDATE, table, bytes(area), before, after, code=code, extra=extra, compress=compress
        )

    @contextmanager
    def compressed_transaction(self, *, zstd: bool = True, level: int = 3) -> Iterator[Log]:
        """A TRANSACTION_PAYLOAD event around the events written to the log that is yielded."""
        inner = Log(
            self.server,
            checksum=False,
            post_headers=self.post_headers,
            rows_version=self.rows_version,
            server_id=self.server_id,
            timestamp=self.timestamp,
            next_positions=False,
            _headless=True,
        )
        inner._table_ids = self._table_ids
        yield inner
        self._tables += inner._tables
        plain = inner.getvalue()
        if zstd:
            import zstandard

            packed = zstandard.ZstdCompressor(level=level).compress(plain)
        else:
            packed = plain
        fields = [(2, lenenc(0 if zstd else 255))]
        fields += [(3, lenenc(len(plain)))] if zstd else []
        fields += [(1, lenenc(len(packed)))]
        head = b"".join(lenenc(kind) + lenenc_text(value) for kind, value in fields) + b"\0"
        self.event(n.TRANSACTION_PAYLOAD, head + packed)


def _tagged_gtid(source: bytes, number: int, tag: str, commit_time: int) -> bytes:
    fields = [
        varint(0),
        b"".join(varint(byte) for byte in source),
        signed_varint(number),
        varint(len(tag)) + tag.encode(),
        signed_varint(0),
        signed_varint(1),
        varint(commit_time),
    ]
    tail = b"".join(varint(i) + field for i, field in enumerate(fields))
    tail += varint(8) + varint(200) + varint(9) + varint(90700)
    last = varint(10)
    size = 1 + 1 + len(last) + len(tail)
    while size != 1 + len(varint(size)) + len(last) + len(tail):
        size = 1 + len(varint(size)) + len(last) + len(tail)
    return varint(1) + varint(size) + last + tail
