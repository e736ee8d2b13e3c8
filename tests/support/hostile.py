"""Inputs that ask for much memory; a reader must refuse each, or read it within its bound.

``benchmarks/hostile.py`` measures all of ``INPUTS``, and test_security.py has the worst of them. Run as a
program, this module reads inputs in its own process, and prints what that took; see `cost`.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

MEBI = 1 << 20
EVERY = 0.001  # seconds between two looks at the memory
DEADLINE = 300
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


@dataclass(frozen=True)
class Hostile:
    """One kind of input.

    Parameters
    ----------
    kind : str
        What is hostile about it.
    make : callable
        Gives the input's bytes, or many inputs.
    bound : int
        MiB of anonymous memory that reading it may take above an idle process.
    why : str
        The limit that the bound follows from.
    limits, options : dict
        Arguments of ``binlog_core.open``.
    suffix : str
        Suffix of the file's name.
    """

    kind: str
    make: Callable[[], bytes | list[bytes]]
    bound: int
    why: str
    limits: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True)
class Cost:
    """Peak of anonymous memory above an idle process, in bytes, and how each reading ended."""

    taken: int
    ended: dict[str, int]


# ---------------------------------------------------------------- the measured process


def anonymous() -> int:
    """Bytes of resident memory that no file backs: a mapped log does not count."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def read(paths: list[str], warm: str, limits: dict[str, int], options: dict[str, Any]) -> None:
    """Read logs, and print as JSON what that took above a process that has read a small one."""
    import binlog_core

    warnings.simplefilter("ignore")
    with binlog_core.open(warm) as log:
        list(log.rows())
    before = peak = anonymous()
    done = threading.Event()
    ended: dict[str, int] = {}

    def look() -> None:
        nonlocal peak
        while not done.wait(EVERY):
            peak = max(peak, anonymous())

    way = options.pop("way", "batches")
    looking = threading.Thread(target=look)
    looking.start()
    try:
        for path in paths:
            how = "end"
            try:
                with binlog_core.open(path, limits=binlog_core.Limits(**limits), **options) as log:
                    for _ in getattr(log, way)():
                        pass
                    how = "cut tail" if log.tail is not None else "end"
            except binlog_core.BinlogError as error:
                how = type(error).__name__
            ended[how] = ended.get(how, 0) + 1
    finally:
        done.set()
        looking.join()
    print(json.dumps({"taken": max(peak, anonymous()) - before, "ended": ended}))


def cost(hostile: Hostile, folder: Path, package: Path, **options: Any) -> Cost:
    """What reading an input takes in a separate process."""
    from .writer import Log

    made = hostile.make()
    paths = []
    for number, data in enumerate(made if isinstance(made, list) else [made]):
        path = folder / f"bin.{number:06}{hostile.suffix}"
        path.write_bytes(data)
        paths.append(str(path))
    warm = folder / "warm"
    warm.write_bytes(_rows_of(Log(), 1).getvalue())
    task = json.dumps([paths, str(warm), hostile.limits, hostile.options | options])
    run = subprocess.run(
        [sys.executable, __file__, task],
        env={"PYTHONPATH": str(package), "PYTHONSAFEPATH": "1", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    for path in paths:
        Path(path).unlink()
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return Cost(**json.loads(run.stdout))


# ---------------------------------------------------------------- inputs


def _rows_of(log: Any, transactions: int, rows: int = 1, size: int = 80) -> Any:
    from .writer import Table

    table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
    for number in range(transactions):
        log.begin("shop")
        log.insert(table, [{"id": number, "note": bytes(size)}] * rows)
        log.commit(number)
    return log


def _good(mebibytes: int = 4) -> bytes:
    from .writer import Log

    data: bytes = _rows_of(Log(), mebibytes * 16, rows=64, size=1000).getvalue()
    return data


def _cut() -> list[bytes]:
    data = _good()
    chance = random.Random(1)
    return [data[: chance.randrange(len(data))] for _ in range(40)]


def _flipped() -> list[bytes]:
    data = _good(2)
    chance = random.Random(2)
    out = []
    for _ in range(40):
        one = bytearray(data)
        for _ in range(chance.randrange(1, 30)):
            one[chance.randrange(4, len(one))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        out.append(bytes(one))
    return out


def _lengths() -> list[bytes]:
    """Lengths of events set to extremes."""
    import binlog_core

    data = _good(2)
    places = [int(p) for p in binlog_core.open(data).headers()["position"]][1:]
    chance = random.Random(3)
    out = []
    for length in (0, 19, 0xFFFF, len(data), 0x7FFFFFFF, 0xFFFFFFFF) * 6:
        one = bytearray(data)
        struct.pack_into("<I", one, chance.choice(places) + 9, length)
        out.append(bytes(one))
    return out


def _claims_4_gib() -> bytes:
    """A header that claims 4 GiB, and 64 MiB after it."""
    from .writer import Log

    log = _rows_of(Log(checksum=False), 1)
    return bytes(log.getvalue() + struct.pack("<IBIIIH", 0, 30, 1, 0xFFFFFFFF, 0, 0) + bytes(64 * MEBI))


def _inner_event(code: int, length: int) -> bytes:
    return struct.pack("<IBIIIH", 0, code, 1, length, 0, 0)


def _payload(head: bytes, zeros: int, *, window: int = 0, claimed: int | None = None) -> bytes:
    """A compressed transaction of a few bytes and zeros."""
    import zstandard

    from .writer import Log
    from .writer.wire import lenenc

    parameters = zstandard.ZstdCompressionParameters(
        compression_level=1, **({"window_log": window} if window else {})
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(head)
    for _ in range(zeros // MEBI):
        packed += packer.compress(bytes(MEBI))
    packed += packer.flush()
    fields = [(2, lenenc(0)), (1, lenenc(len(packed)))]
    if claimed is not None:
        fields.append((3, lenenc(claimed)))
    body = b"".join(lenenc(kind) + lenenc(len(value)) + value for kind, value in fields) + b"\0"
    log = _rows_of(Log(), 1)
    log.event(40, body + packed)
    return bytes(log.getvalue())


def _payload_of_small_events(window: int = 17) -> bytes:
    """Millions of events out of a few kilobytes."""
    import zstandard

    from .writer import Log
    from .writer.wire import lenenc

    event = _inner_event(5, 19 + 9) + bytes(9)
    parameters = zstandard.ZstdCompressionParameters(compression_level=1, window_log=window)
    packed = zstandard.ZstdCompressor(compression_params=parameters).compress(
        event * (256 * MEBI // len(event))
    )
    log = _rows_of(Log(), 1)
    log.event(40, b"\2\1\0\1" + lenenc(len(lenenc(len(packed)))) + lenenc(len(packed)) + b"\0" + packed)
    return bytes(log.getvalue())


def _block(claimed: int, real: int) -> bytes:
    """MariaDB's compressed rows event of zeros."""
    from .writer import Log, Table

    table = Table("shop", "orders", [("id", "INT UNSIGNED")])
    log = Log("10.6.5-MariaDB", checksum=False)
    log.begin()
    log.table_map(table)
    body = log._post_header(166, 8, 100, 1) + b"\1\1"
    packer = zlib.compressobj(9)
    area = b"".join([packer.compress(bytes(MEBI)) for _ in range(real // MEBI)]) + packer.flush()
    log.event(166, body + b"\x84" + struct.pack(">I", claimed) + area)
    return log.getvalue()


def _compressed_columns(values: int, size: int) -> bytes:
    """Rows of one of MariaDB's COMPRESSED columns, whose values are zeros."""
    from .writer import Log
    from .writer import numbering as n

    value = b"\x84" + struct.pack(">I", size) + zlib.compress(bytes(size), 9)
    log = Log("10.6.5-MariaDB", checksum=False)
    log.begin()
    # BLOB_COMPRESSED with four bytes of length
    log.event(n.TABLE_MAP, log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\1s\0\1t\0\1\x8c\1\4\1")
    rows = b"\xfe" + struct.pack("<I", len(value)) + value
    log.event(23, log._post_header(23, 8, 7, 1) + b"\1\1" + rows * values)
    log.commit()
    return log.getvalue()


def _json(document: bytes) -> bytes:
    from .writer import Log
    from .writer import numbering as n

    log = Log(checksum=False)
    log.begin()
    log.event(n.TABLE_MAP, log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\1s\0\1t\0\1\xf5\1\4\1")
    row = b"\0" + struct.pack("<I", len(document)) + document
    log.event(30, log._post_header(30, 10, 7, 1) + b"\1\1" + row * 16)
    log.commit()
    return log.getvalue()


def _deep_json() -> bytes:
    """Ten thousand nested arrays."""
    document = b"\4\0\0"
    for _ in range(10_000):
        size = struct.pack("<II", 1, 13 + len(document) - 1)
        document = b"\3" + size + document[:1] + b"\x0d\0\0\0" + document[1:]
    return _json(document)


def _shared_json() -> bytes:
    """Arrays of two entries that are both the next array: 2**60 values if all were printed."""
    levels = 60
    body = b""
    for _ in range(levels):
        body = struct.pack("<HH", 2, 10 + len(body)) + (b"\2" + struct.pack("<H", 10)) * 2 + body
    return _json(b"\2" + body)


def _wide_and_absent() -> bytes:
    """Rows of one byte, of 4096 columns, of which one is present and NULL."""
    from .writer import Log
    from .writer import numbering as n
    from .writer.wire import lenenc

    columns, rows = 4096, 60_000
    log = Log(checksum=False)
    log.begin()
    body = log._post_header(n.TABLE_MAP, 8, 7, 1) + b"\4shop\0\4wide\0" + lenenc(columns) + b"\xf6" * columns
    log.event(n.TABLE_MAP, body + lenenc(2 * columns) + b"\x41\x1e" * columns + b"\xff" * 512)
    log.event(30, log._post_header(30, 10, 7, 1) + lenenc(columns) + b"\1" + bytes(511) + b"\xff" * rows)
    log.commit()
    return log.getvalue()


def _events(events: Iterator[tuple[int, bytes]], version: str = "8.0.36") -> bytes:
    from .writer import Log

    out = bytearray(Log(version, checksum=False).getvalue())
    for code, body in events:
        end = len(out) + 19 + len(body)
        out += struct.pack("<IBIIIH", 0, code, 1, 19 + len(body), end & 0xFFFFFFFF, 0) + body
    return bytes(out)


_BEGIN = struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0BEGIN"


def _table_ids() -> bytes:
    """Half a million ids of one table, in one transaction."""

    def events() -> Iterator[tuple[int, bytes]]:
        yield 2, _BEGIN
        for number in range(1 << 19):
            yield 19, number.to_bytes(6, "little") + b"\1\0" + b"\1s\0\1t\0" + b"\1\3\0\0"

    return _events(events())


def _tables(count: int, columns: int, *, rows: bool, one_transaction: bool) -> bytes:
    """Tables with columns and rows, each with a different name."""
    from .writer.wire import lenenc

    bits = b"\xff" * ((columns + 7) // 8)
    kinds = lenenc(columns) + b"\3" * columns + lenenc(0) + bytes(len(bits))

    def events() -> Iterator[tuple[int, bytes]]:
        for number in range(count):
            if not number or not one_transaction:
                yield 2, _BEGIN
            name = f"t{number}".encode()
            identity = number.to_bytes(6, "little") + b"\1\0"
            yield 19, identity + b"\1s\0" + lenenc(len(name)) + name + b"\0" + kinds
            if rows:
                yield 30, identity + b"\2\0" + lenenc(columns) + bits + bits
            if not one_transaction:
                yield 16, bytes(8)

    return _events(events())


def _transactions(*, rows: bool) -> bytes:
    """Three hundred thousand transactions of one row, or without rows."""

    def events() -> Iterator[tuple[int, bytes]]:
        identity = (7).to_bytes(6, "little") + b"\1\0"
        for number in range(300_000):
            yield 33, b"\1" + bytes(16) + struct.pack("<q", number + 1) + b"\2" + bytes(16)
            yield 2, _BEGIN
            yield 19, identity + b"\1s\0\1t\0\1\3\0\0"
            yield 30, identity + b"\2\0\1\1" + (b"\0" + bytes(4) if rows else b"")
            yield 16, bytes(8)

    return _events(events())


def _open_transaction() -> bytes:
    """One transaction of a million rows that never ends."""

    def events() -> Iterator[tuple[int, bytes]]:
        identity = (7).to_bytes(6, "little") + b"\1\0"
        yield 2, _BEGIN
        yield 19, identity + b"\1s\0\1t\0\1\3\0\0"
        for _ in range(1000):
            yield 30, identity + b"\2\0\1\1" + (b"\0" + bytes(4)) * 1000

    return _events(events())


def _members() -> bytes:
    """An ENUM of half a million members."""
    from .writer.wire import lenenc

    members = lenenc(500_000) + b"\1a" * 500_000
    identity = (7).to_bytes(6, "little") + b"\1\0"
    body = identity + b"\1s\0\1t\0\1\xfe\2\xf7\2\0" + b"\6" + lenenc(len(members)) + members
    return _events(iter([(2, _BEGIN), (19, body), (30, identity + b"\2\0\1\1\0\1\0")]))


def _gtid_set() -> bytes:
    """PREVIOUS_GTIDS that claims 2**40 sources, and one with a hundred thousand intervals."""
    many = b"".join(struct.pack("<qq", 2 * i + 1, 2 * i + 2) for i in range(100_000))
    return _events(
        iter(
            [
                (35, struct.pack("<Q", 1 << 40)),
                (35, struct.pack("<Q", 1) + bytes(16) + struct.pack("<Q", 1 << 40)),
                (35, struct.pack("<Q", 1) + bytes(16) + struct.pack("<Q", 100_000) + many),
            ]
        )
    )


def _previous_gtids() -> bytes:
    """PREVIOUS_GTIDS of 60 MiB: four million intervals of one source."""
    count = 60 * MEBI // 16
    numbers = array("q", range(1, 2 * count + 1)).tobytes()
    return _events(iter([(35, struct.pack("<Q", 1) + bytes(16) + struct.pack("<Q", count) + numbers)]))


def _gtid_list() -> bytes:
    """A GTID_LIST of 64 MiB: four million domains."""
    count = 4 * MEBI - 1
    each = b"".join([struct.pack("<IIQ", domain, 1, 1) for domain in range(count)])
    return _events(iter([(163, struct.pack("<I", count) + each)]), "10.6.5-MariaDB")


def _foreign_transactions() -> bytes:
    """Half a million transactions, each of another server, after an empty set."""

    def events() -> Iterator[tuple[int, bytes]]:
        yield 35, bytes(8)
        for number in range(1 << 19):
            yield 33, b"\1" + number.to_bytes(16, "big") + struct.pack("<q", 1) + b"\2" + bytes(16)
            yield 2, _BEGIN
            yield 16, bytes(8)

    return _events(events())


def _damage_everywhere() -> bytes:
    """Every second event of half a million is broken."""
    data = bytearray(
        _events((2, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0SELECT 1") for _ in range(1 << 19))
    )
    length = 19 + 13 + 9
    first = len(data) - length * (1 << 19)
    for at in range(first, len(data), 2 * length):
        data[at + 9 : at + 13] = b"\xff\xff\xff\x7f"
    return bytes(data)


def _ddl() -> bytes:
    """Fifty thousand CREATE TABLE statements."""

    def events() -> Iterator[tuple[int, bytes]]:
        for number in range(50_000):
            yield 2, struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0CREATE TABLE t%d (a INT)" % number

    return _events(events())


def _packed_file(kind: str) -> bytes:
    from .writer import Log

    head = Log().getvalue()
    piece = bytes(MEBI)
    if kind == "zst":
        import zstandard

        packer = zstandard.ZstdCompressor().compressobj()
        return bytes(
            packer.compress(head) + b"".join([packer.compress(piece) for _ in range(256)]) + packer.flush()
        )
    if kind == "xz":
        xz = lzma.LZMACompressor(preset=0)
        return xz.compress(head) + b"".join([xz.compress(piece) for _ in range(256)]) + xz.flush()
    return gzip.compress(head + piece * 256, 1)


_GROUP = "a group"
_TRANSACTIONS = "a group's transactions (group_bytes)"
_LIMITED = {"limits": {"decompressed_bytes": 64 * MEBI}}

INPUTS = [
    Hostile("cut at 40 places", _cut, 32, _GROUP),
    Hostile("40 times up to 30 bytes flipped", _flipped, 32, _GROUP, options={"on_error": "skip"}),
    Hostile("36 lengths of events, up to 4 GiB", _lengths, 32, _GROUP, options={"on_error": "skip"}),
    Hostile("a header that claims 4 GiB, mapped", _claims_4_gib, 32, _GROUP),
    Hostile("the same, read piece by piece", _claims_4_gib, 32, _GROUP, options={"mmap": False}),
    Hostile(
        "a 4 GiB event in a zstd payload",
        lambda: _payload(_inner_event(2, 0xFFFFFFFF), 4096 * MEBI),
        64,
        "event_bytes, from its header",
    ),
    Hostile(
        "the same, its events",
        lambda: _payload(_inner_event(2, 0xFFFFFFFF), 4096 * MEBI),
        64,
        "event_bytes, from its header",
        options={"way": "events"},
    ),
    Hostile(
        "a 400 MiB event in a zstd payload",
        lambda: _payload(_inner_event(5, 400 * MEBI), 400 * MEBI),
        512,
        "event_bytes (1 GiB)",
    ),
    Hostile(
        "that with event_bytes=16 MiB",
        lambda: _payload(_inner_event(5, 400 * MEBI), 400 * MEBI),
        64,
        "event_bytes",
        limits={"event_bytes": 16 * MEBI},
    ),
    Hostile("256 MiB of small events in a zstd payload", _payload_of_small_events, 64, "chunks of 17 MiB"),
    Hostile(
        "the same with a zstd window of 128 MiB",
        lambda: _payload_of_small_events(window=27),
        192,
        "a window and chunks",
    ),
    Hostile(
        "a zstd window of 1 GiB",
        lambda: _payload(b"x", 4 * MEBI, window=30),
        64,
        "windows are at most 128 MiB",
    ),
    Hostile(
        "a zstd payload that claims 2**60 bytes",
        lambda: _payload(b"x", 4 * MEBI, claimed=1 << 60),
        64,
        "its claim is not trusted",
    ),
    Hostile(
        "a zlib block of 512 MiB, 64 MiB allowed",
        lambda: _block(512 * MEBI, 512 * MEBI),
        96,
        "decompressed_bytes",
        **_LIMITED,
    ),
    Hostile(
        "a zlib block that claims 4 GiB and has 8 MiB",
        lambda: _block(0xFFFFFFFF, 8 * MEBI),
        64,
        "its claim is not trusted",
    ),
    Hostile(
        "2000 COMPRESSED values of 1 MiB, 64 MiB allowed",
        lambda: _compressed_columns(2000, MEBI),
        192,
        "decompressed_bytes, held twice while joined",
        **_LIMITED,
    ),
    Hostile("JSON of 10,000 levels", _deep_json, 32, "100 levels", options={"way": "rows"}),
    Hostile("JSON of 2**60 shared values", _shared_json, 32, "its own length", options={"way": "rows"}),
    Hostile(
        "rows of a byte, records of 139 KB, 64 MiB allowed",
        _wide_and_absent,
        176,
        "record_bytes, held twice when exceeded",
        limits={"record_bytes": 64 * MEBI},
    ),
    Hostile("half a million table ids in a transaction", _table_ids, 96, "a million ids at most"),
    Hostile(
        "20,000 tables of 100 columns, rows in each",
        lambda: _tables(20_000, 100, rows=True, one_transaction=False),
        96,
        "table_definitions (16384, each of weight 4)",
    ),
    Hostile(
        "the same with table_definitions=64",
        lambda: _tables(20_000, 100, rows=True, one_transaction=False),
        48,
        "table_definitions",
        limits={"table_definitions": 64},
    ),
    Hostile(
        "3000 tables of 4096 columns in a transaction, table_definitions=64",
        lambda: _tables(3000, 4096, rows=False, one_transaction=True),
        128,
        "table_definitions",
        limits={"table_definitions": 64},
    ),
    Hostile("an ENUM of 500,000 members", _members, 64, "members as Python texts"),
    Hostile("300,000 transactions of one row", lambda: _transactions(rows=True), 64, _TRANSACTIONS),
    Hostile("300,000 transactions without rows", lambda: _transactions(rows=False), 64, _TRANSACTIONS),
    Hostile("a transaction of a million rows without an end", _open_transaction, 32, _GROUP),
    Hostile(
        "GTID sets that claim 2**40 sources and intervals",
        _gtid_set,
        64,
        "their claims are not trusted",
        options={"way": "events", "on_error": "skip"},
    ),
    *(
        Hostile(kind + also, make, bound, "intervals and sources of a GTID set", options={"way": way})
        for kind, make, bound in (
            ("PREVIOUS_GTIDS of 60 MiB", _previous_gtids, 64),
            ("a GTID_LIST of 64 MiB", _gtid_list, 72),
            ("half a million transactions, each of another server", _foreign_transactions, 128),
        )
        for also, way in (("", "batches"), (", events", "events"))
    ),
    Hostile(
        "every second event of 524,288 broken",
        _damage_everywhere,
        48,
        "10,000 places are kept",
        options={"on_error": "skip"},
    ),
    Hostile(
        "50,000 CREATE TABLE, followed", _ddl, 64, "a definition for each table", options={"schema": "ddl"}
    ),
    *(
        Hostile(
            f"a .{kind} file of 256 MiB of zeros", partial(_packed_file, kind), 48, "steps", suffix=f".{kind}"
        )
        for kind in ("gz", "xz", "zst")
    ),
]


if __name__ == "__main__":
    read(*json.loads(sys.argv[1]))
