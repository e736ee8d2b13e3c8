"""Seeds of the fuzzers, from the golden logs: fuzz/seeds.py DIRECTORY makes a folder per target.

Each log gives its bytes, its events in the language of fuzz/_rows_target.pyx, and the table maps, JSON
documents, partial updates and texts in it. Large inputs only slow a fuzzer down, so they are left out.
"""

from __future__ import annotations

import gzip
import json
import lzma
import struct
import sys
import warnings
import zlib
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core._core._rows import WIRE_OPS
from binlog_core._decode.plans import wire_op
from binlog_core._tables.column_types import Kind
from binlog_core._tables.table_map import TableMaps

TESTS = Path(__file__).resolve().parent.parent / "tests"
DATA = TESTS / "data"
sys.path.append(str(TESTS))
from support.innodb_logs import made_of  # noqa: E402 (it is in a folder that the line above adds)
from support.writer import innodb_binlog  # noqa: E402
from support.writer.fragments import in_fragments  # noqa: E402

MAX_LEN = 20_000  # of a log
MAX_SMALL = 4096  # of everything else
MAX_ENCRYPTED = 6000
EVERY = {
    "rows": 6,
    "event": 12,
    "wire": 8,
    "log": 3,
    "splits": 40,
    "header_lengths": 40,
    "fragments": 10,
    "innodb_binlog": 4,
    "ddl_log": 40,
    "statements": 4,
}  # of these, only every n-th is kept
FORMAT_DESCRIPTION = 15
TABLE_MAP, PREVIOUS_GTIDS, PARTIAL, PAYLOAD = 19, 35, 39, 40
MARIADB_COMPRESSED = range(165, 172)
ROWS = {*range(20, 26), *range(30, 33), PARTIAL}


# Options, and what table maps begin with: see _rows_target.pyx. The last have columns, and conditions.
ROW_HEADS = (
    *((options, b"\0\0") for options in (0, 0x02, 0x04, 0x22, 0x40)),
    (0, b"\x08\0"),
    (0, b"\x0c\0"),
    (0, b"\x18\0\6\x8c\0\x08\0\4\xaf"),  # a range
    (0, b"\x18\0\x0d\x93\1\0\0\0\0\x93\0\0\0\0\0\2"),  # NULL or NULL
    (2, b"\x18\0\7\x46\0\0\x20\7\0\0"),  # no change
)
BEHIND = struct.pack("<BBH", 3, 0, 80) + bytes(80)  # rows at the end of a log do not become columns

GTID_SETS = (
    b"4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c6:1-5:7:tag:3,\n4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c7:9",
    b"0-1-5,1-2-9",
    b"",
)  # fmt: skip

TEXTS = {  # by target
    "gtid_texts": (
        b"4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c6:7",
        b"4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c6:tag:3",
        b"0-1-5",
    ),
    "positions": (
        b'{"file": "bin.000001", "offset": 4}',
        b'{"file": "bin.2", "offset": 9, "vendor": "mariadb", "gtids": "0-1-5,1-2-9", "records": 3}',
        b'{"file": "a/b.3", "offset": 1, "gtids": "4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c6:1-5", "server": "x"}',
    ),
    "conditions": (
        b"id = 1",
        b"c_int > -5 and not (c_ubigint <= 18446744073709551615 or id in (1, 2.5, -3e2))",
        b"id is not null or changed(id) and id between 1 and 9",
        b"before.id = 7 or after.`id` <> 0x41 and id like 'a%\\_'",
    ),
    "index_files": (b"./bin.000001\n", b"/var/log/bin.000001\nbin.000001\r\n", b"../bin.000001\n\n"),
    "timelines": (
        b'{"version": 1, "segments": [{"folder": "", "seam": null, "before": null, "settled": null,'
        b' "begun": "x", "until": ["bin.000002", 4]}, {"folder": "timeline-2", "seam": "failover",'
        b' "before": "0-1-5", "settled": "bin.000001", "begun": "y", "until": null}]}',
    ),
    "manifests": (b'{"format": 2, "tables": [{"database": "shop", "table": "t", "directory": "shop.t"}]}',),
}

PATCHES = [
    bytes((sealed,)) + b"".join(struct.pack("<HB", at, 1 + at % 255) for at in range(first, 40_000, step))
    for sealed in (0, 1)
    for first, step in ((4, 40_001), (900, 911), (60_000, 1), (1600, 13_337))
]

STATEMENTS = (
    b"ALTER TABLE t ADD COLUMN d DECIMAL(10,2) NOT NULL DEFAULT 0 AFTER a, DROP COLUMN b",
    b"ALTER TABLE t CHANGE `b` `B b` TEXT CHARACTER SET latin1, RENAME COLUMN a TO z, MODIFY c SET('x')",
    b"ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, RENAME TO d2.t, ADD UNIQUE KEY k (a, b(3))",
    b"CREATE TABLE u LIKE t; RENAME TABLE t TO v, u TO t /* ! */; DROP TABLE IF EXISTS v -- end",
    b"CREATE OR REPLACE TABLE `a``b` (x INT UNSIGNED, y GEOMETRY, PRIMARY KEY (x)) DEFAULT CHARSET=ucs2",
    b'/*!50503 CREATE TABLE "q" (x TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE NOW(6)) */',
    b"CREATE SEQUENCE s START WITH 1; CREATE DATABASE e CHARACTER SET cp1251; DROP DATABASE d; TRUNCATE t",
    b"CREATE UNIQUE INDEX i ON t (a); DROP INDEX i ON t; ALTER TABLE t ALTER a SET DEFAULT 'x\\'y'",
)  # fmt: skip


def operation_of(column: Any) -> bytes:
    """A column's three bytes in a table map of the small language."""
    name, width, details = wire_op(column)
    if name.startswith("DECIMAL"):
        return bytes((WIRE_OPS[name], (column.precision or 1) - 1, column.scale or 0))
    if name == "COPY":
        return bytes((WIRE_OPS["COPY"] + {1: 1, 2: 2, 4: 3, 8: 4}[width], 0, 0))
    if name in ("WIDEN", "BIT", "SPAN"):
        narrow = column.kind is Kind.ENUM or column.kind is Kind.JSON
        return bytes((WIRE_OPS[name], max(width, 1) - 1, int(narrow)))
    if name.startswith("MARIA"):
        return bytes((WIRE_OPS[name], details[0] - 1, 0))
    return bytes((WIRE_OPS[name], details[0], 0))


def bodies(data: bytes, log: binlog_core.Log) -> Iterator[tuple[int, bytes]]:
    """Type and body of the events of a plain log."""
    checksum = 4 if log.format.core_arrays()[3] else 0
    for header in log.headers():
        begin = int(header["position"]) + log.format.header_length
        yield (
            int(header["type_code"]),
            data[begin : int(header["position"] + header["event_length"]) - checksum],
        )


def row_events(events: list[tuple[int, bytes]], mariadb: bool, head: bytes) -> Iterator[bytes]:
    """The events of a log in the small language, table ids folded into a byte; head: of each table map."""
    ids: dict[bytes, int] = {}
    for kind, body in events:
        number = 0
        if kind == TABLE_MAP:
            number = ids.setdefault(body[:6], len(ids) % 250)
            shape, _ = TableMaps().shape_of(body[8:], flags=1, mariadb=mariadb)
            body = head + b"".join(operation_of(c) for c in shape.columns)
        elif kind in ROWS:
            number, body = ids.setdefault(body[:6], len(ids) % 250), body[6:]
        if len(body) < 1500:
            yield struct.pack("<BBH", kind, number, len(body)) + body


def pieces(events: list[tuple[int, bytes]], flags: int) -> Iterator[bytes]:
    """Events in the language of the target `resync`, some garbage between them."""
    for number, (kind, body) in enumerate(events):
        short = body[:40]
        yield bytes((kind, flags, len(short))) + short
        if number % 5 == 4:
            yield bytes((kind, 1 | number & 64, 7)) + body[:7].ljust(7, b"\0")


def packed_values() -> Iterator[bytes]:
    """Spans of two columns, one of them compressed, and the bytes that they refer to."""
    for level in (0, 9):
        text = b"compressed " * 9
        block = bytes((0x82,)) + len(text).to_bytes(2, "big") + zlib.compress(text, level)
        raw = zlib.compressobj(level, wbits=-15)
        bare = bytes((0x8A,)) + len(text).to_bytes(2, "big") + raw.compress(text) + raw.flush()
        for value in (block, bare, b"\0plain", b"\0"):
            yield bytes((1, 0, len(value), 0, 3)) + value
            yield bytes((2, 0, len(value), 1, 2, 0, 0, 0, 1)) + value


def main(out: Path) -> None:
    saved: dict[str, int] = {}

    def save(target: str, data: bytes) -> None:
        # Many are alike: the first few hundred of a target are enough, and loading them takes time.
        saved[target] = saved.get(target, 0) + 1
        if saved[target] % EVERY.get(target, 1):
            return
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / sha1(data).hexdigest()[:16]).write_bytes(data)

    warnings.simplefilter("ignore", binlog_core.BinlogWarning)
    for path in (DATA / "fuzz").iterdir():
        save(path.name.split("-")[0], path.read_bytes())
    # Transactions that are whole in their pages, which the loop takes by itself; those below are hardly ever.
    for longest in (1, 20, 50, 120):
        rows = [[{"id": i, "note": "n" * (i % longest)}] for i in range(24)]
        for pages in in_two_files(made_of(rows)):
            for road in range(8):
                save("innodb_binlog", bytes((road | 16 | 128,)) + pages)
    for path in sorted(DATA.rglob("*.binlog")):
        data = path.read_bytes()
        if len(data) <= MAX_LEN:
            for road in range(5):
                save("log", bytes((road | 16,)) + data)
            if path.parent.name.startswith("maria"):
                summed = data[int.from_bytes(data[13:17], "little") - 1] == 1
                save("log", b"\x10" + in_fragments(data, checksum=summed)[:MAX_LEN])
                for pages in in_two_files(innodb_binlog.transactions_of(plain_events(data))):
                    for road in range(5):
                        save("innodb_binlog", bytes((road | 16 | 136 * (road & 1),)) + pages)
            save("log", bytes((0x2A,)) + gzip.compress(data, mtime=0))
            save("log", bytes((0x23,)) + lzma.compress(data))
        key_files = [path.with_suffix(end) for end in (".keyring", ".keys.txt")]
        keys = next((str(file) for file in key_files if file.exists()), None)
        if keys is not None:
            for road in range(5):
                save("encrypted", bytes((road | 8 * (road & 1),)) + data[:MAX_ENCRYPTED])
        schema = path.with_suffix(".schema.json.gz")
        if schema.exists():
            for definition in json.loads(gzip.decompress(schema.read_bytes())):
                save("create_table", definition["create"].encode())
                save("statements", bytes((0, "maria" in str(path))) + definition["create"].encode())
        with binlog_core.open(data, keys=keys, on_error="skip") as log:
            if data[:4] != b"\xfebin" or not log.format.header_length:
                continue
            plain = list(bodies(data, log))
            for options, head in ROW_HEADS:
                try:
                    events = list(row_events(plain, log.format.is_mariadb, head))
                except binlog_core.BinlogError:  # of early 5.1: other lengths, and other numbers
                    break
                for first in range(0, min(len(events), 200), 20):
                    # A transaction's table maps lie near its rows, so windows of the log are complete enough.
                    few = b"".join(events[first : first + 20])[:MAX_SMALL]
                    save("rows", bytes((options, 7)) + few + BEHIND)
            mariadb = log.format.is_mariadb
            for road in range(1, 5):
                for first in range(0, min(len(plain), 100), 20):
                    few = plain[first : first + 20]
                    packed = [
                        struct.pack("<BH", kind, len(body)) + body
                        for kind, body in few
                        if kind != FORMAT_DESCRIPTION and len(body) < MAX_SMALL
                    ]
                    save("wire", bytes((road, mariadb)) + b"".join(packed)[:MAX_SMALL])
                    save("header_lengths", bytes((mariadb, 7 * road)) + b"".join(packed)[:MAX_SMALL])
                    if mariadb:
                        save("fragments", bytes((40 * road,)) + b"".join(packed)[:MAX_SMALL])
                    save("splits", bytes((mariadb, 20 * road)) + b"".join(packed)[:MAX_SMALL])
                    save("ddl_log", bytes((road, mariadb)) + b"".join(packed)[:MAX_SMALL])
            save("resync", b"\x00\x00" + b"".join(pieces(plain[:30], 0)))
            save("resync", b"\x2c\x05" + b"".join(pieces(plain[:30], 2)))
            for kind, body in plain:
                if len(body) < MAX_SMALL:
                    save("event", bytes((kind,)) + body)
                    if kind == TABLE_MAP:
                        save("table_map", body[8:])
                    elif kind == PAYLOAD:
                        save("packed", b"\0" + body)
                    elif kind == PREVIOUS_GTIDS:
                        save("gtid_sets", b"\1" + body)
                    elif kind in MARIADB_COMPRESSED:
                        save("packed", b"\1" + body[-200:])
            for batch in log.batches():
                values_of(batch, save)
    for value in packed_values():
        save("compressed_columns", value)
    for sql in STATEMENTS:
        for mode in range(4):
            save("statements", bytes((mode, mode & 1)) + sql)
    for layout in range(20):
        for records in (
            b"\1\0\3\1" * 3 + b"some text",
            bytes(range(64)),
            b"\0\0\x12\1" + b"\xe6\x10\0\0\1\1" + b"\0" * 20,
        ):
            save("columns", bytes((layout, 2, 4)) + records)
            save("columns", bytes((layout, 2, 0x87)) + records)
    save(
        "result_sets",
        b"\0\7\1\0\0\1\2\4\0\0\2\3def\4\0\0\3\3def\5\0\0\4\xfe\0\0\2\0"
        b"\x1b\0\0\5\x132024-01-01 10:00:00\6-12.50\x03\0\0\6\xfb\0017\5\0\0\7\xfe\0\0\2\0",
    )
    save("doubles", struct.pack("<5d", 0.1, -1e300, 5e-324, 123456789.0, 2.0**60))
    save("packed_integers", b"\3abc\xfc\4\0abcd\xfd\1\0\0x\xfe\2\0\0\0\0\0\0\0ab\xfb")
    for text in GTID_SETS:
        save("gtid_sets", b"\0" + text)
    for patch in PATCHES:
        save("log_indexes", patch)
    for target, texts in TEXTS.items():
        for text in texts:
            save(target, text)
    for number in range(6):
        save("text", bytes((number,)) + "Ünïcödé 𝒳 text, and more than thirty-two bytes".encode("utf-16-le"))
        save("text", bytes((number,)) + "Ünïcödé 𝒳".encode())
        save("text", bytes((number,)) + "Ü 𝒳".encode("utf-32-be"))
        save("text", bytes((number, 3, 20)) + bytes(range(100, 140)))


def plain_events(data: bytes) -> bytes:
    length = int.from_bytes(data[13:17], "little")
    return innodb_binlog.without_checksums(data) if data[length - 1] == 1 else data


def in_two_files(transactions: list[bytes]) -> Iterator[bytes]:
    """Pages of the first file and all pages, of files that have the transactions, some of them in pieces."""
    for pages, piece in ((4, 90), (6, 400)):
        writer = innodb_binlog.Writer(shift=9, pages=pages, interval=3)
        for number, events in enumerate(transactions):
            records = innodb_binlog.OutOfBand(writer)
            gtid = int.from_bytes(events[9:13], "little") if number % 2 else len(events)
            for at in range(gtid, len(events), piece):
                records.append(events[at : at + piece])
            writer.record(innodb_binlog.COMMIT, records.reference() + packed_zero(records) + events[:gtid])
            if len(writer.files) > 2:
                break
        first, second, *_ = (*writer.contents(), b"")
        yield bytes((pages,)) + first + second


def packed_zero(records: innodb_binlog.OutOfBand) -> bytes:
    """That there is no second tree, behind a first."""
    return innodb_binlog.packed(0) if records.places else b""


def values_of(batch: binlog_core.ChangeBatch, save: Any) -> None:
    buffer = memoryview(batch.buffer)
    diffs = {(int(d["record"]), int(d["column"])) for d in batch.json_diffs}
    before = None
    for column in batch.columns:
        if column.kind is not Kind.JSON:
            continue
        for record, span in enumerate(batch.array["row"][column.name][:300]):
            begin = int(span["offset"])
            value = bytes(buffer[begin : begin + int(span["length"])])
            if len(value) >= MAX_SMALL:
                continue
            if (record, column.index) in diffs:
                save("json_diffs", struct.pack("<H", len(before or b"")) + (before or b"") + value)
            else:
                save("jsonb", value)
            before = value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
