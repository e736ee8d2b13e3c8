"""Seeds of the fuzzers, from the golden logs: fuzz/seeds.py DIRECTORY makes a folder per target.

Of every log come its bytes, its events in the language of fuzz/_core.pyx, and the table maps, JSON documents,
partial updates and texts in it. Large inputs only slow a fuzzer down, so they are left out.
"""

from __future__ import annotations

import gzip
import json
import lzma
import struct
import sys
import warnings
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core._rows import WIRE_OPS
from binlog_core.column_types import Kind
from binlog_core.plans import wire_op
from binlog_core.table_map import TableMaps

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
MAX_LEN = 20_000  # of a log
MAX_SMALL = 4096  # of everything else
EVERY = {"rows": 6, "event": 12, "wire": 8, "log": 3}  # of which only every n-th is kept
FORMAT_DESCRIPTION = 15
TABLE_MAP, PREVIOUS_GTIDS, PARTIAL, PAYLOAD = 19, 35, 39, 40
MARIADB_COMPRESSED = range(165, 172)
ROWS = {*range(20, 26), *range(30, 33), PARTIAL}


GTID_SETS = (
    b"4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c6:1-5:7:tag:3,\n4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c7:9",
    b"0-1-5,1-2-9",
    b"",
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


def row_events(events: list[tuple[int, bytes]], mariadb: bool) -> Iterator[bytes]:
    """The events of a log in the small language, table ids folded into a byte."""
    ids: dict[bytes, int] = {}
    for kind, body in events:
        number = 0
        if kind == TABLE_MAP:
            number = ids.setdefault(body[:6], len(ids) % 250)
            table, _ = TableMaps().table_of(body[8:], flags=1, mariadb=mariadb)
            body = b"\0\0" + b"".join(operation_of(c) for c in table.columns)
        elif kind in ROWS:
            number, body = ids.setdefault(body[:6], len(ids) % 250), body[6:]
        if len(body) < 1500:
            yield struct.pack("<BBH", kind, number, len(body)) + body


def main(out: Path) -> None:
    saved: dict[str, int] = {}

    def save(target: str, data: bytes) -> None:
        # Many are alike: the first few hundred of a target say it all, and loading them takes time.
        saved[target] = saved.get(target, 0) + 1
        if saved[target] % EVERY.get(target, 1):
            return
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / sha1(data).hexdigest()[:16]).write_bytes(data)

    warnings.simplefilter("ignore", binlog_core.BinlogWarning)
    for path in sorted(DATA.rglob("*.binlog")):
        data = path.read_bytes()
        if len(data) <= MAX_LEN:
            for road in range(5):
                save("log", bytes((road | 16,)) + data)
            save("log", bytes((0x2A,)) + gzip.compress(data, mtime=0))
            save("log", bytes((0x23,)) + lzma.compress(data))
        key_files = [path.with_suffix(end) for end in (".keyring", ".keys.txt")]
        keys = next((str(file) for file in key_files if file.exists()), None)
        schema = path.with_suffix(".schema.json.gz")
        if schema.exists():
            for definition in json.loads(gzip.decompress(schema.read_bytes())):
                save("create_table", definition["create"].encode())
        with binlog_core.open(data, keys=keys, on_error="skip") as log:
            if data[:4] != b"\xfebin" or not log.format.header_length:
                continue
            plain = list(bodies(data, log))
            try:
                events = list(row_events(plain, log.format.is_mariadb))
            except binlog_core.BinlogError:  # of early 5.1: other lengths, and other numbers
                continue
            for options in (0, 0x02, 0x04, 0x22, 0x40):
                for first in range(0, min(len(events), 200), 20):
                    # A transaction's table maps lie near its rows: windows of the log are whole enough.
                    save("rows", bytes((options, 7)) + b"".join(events[first : first + 20])[:MAX_SMALL])
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
    for text in GTID_SETS:
        save("gtid_sets", b"\0" + text)
    for number in range(5):
        save("text", bytes((number,)) + "Ünïcödé 𝒳 text, and more than thirty-two bytes".encode("utf-16-le"))
        save("text", bytes((number,)) + "Ünïcödé 𝒳".encode())
        save("text", bytes((number,)) + "Ü 𝒳".encode("utf-32-be"))
        save("text", bytes((number, 3, 20)) + bytes(range(100, 140)))


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
