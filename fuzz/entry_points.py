"""Fuzz targets over the Python entry points: functions of bytes that let through only what is a bug.

Whatever the bytes are, a call ends, with a result or an error of binlog_core.errors. Everything else that is
raised, a crash, a sanitizer's report or a run-away ends the fuzzer. Inputs reach the decoder as NumPy arrays
of exactly their size.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

import binlog_core
from binlog_core import gtids
from binlog_core._jsonb import apply_json_diffs, jsonb_to_text, parse_json_diffs
from binlog_core.compression import inflate_block, payload_chunks
from binlog_core.errors import BinlogError
from binlog_core.events import EventHeader, parse_event
from binlog_core.format import FormatDescription, detect
from binlog_core.plans import plan_of
from binlog_core.schema import parse_create_table
from binlog_core.table_map import TableMaps

warnings.simplefilter("ignore", binlog_core.BinlogWarning)

LIMITS = binlog_core.Limits(
    group_rows=64, group_bytes=4096, payload_bytes=1 << 20, decompressed_bytes=1 << 20
)
OP = np.dtype(
    [("detail", "u1", (4,)), ("column", "<u2"), ("out_width", "<u2"), ("width", "<u4"), ("out", "<u4")]
)
MAX_BATCH = 1 << 16  # records worth turning into Arrow


def target(function: Callable[[bytes], Any]) -> Callable[[bytes], None]:
    @wraps(function)
    def run(data: bytes) -> None:
        try:
            function(data)
        except BinlogError as error:
            str(error)

    return run


def exact(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).copy()


DATA = Path(__file__).resolve().parent.parent / "tests" / "data"


def _head(name: str) -> bytes:
    """Magic and descriptor of a golden log whose events have no checksum."""
    data = (DATA / name).read_bytes()
    return data[: 4 + int.from_bytes(data[13:17], "little")]


def _format(head: bytes) -> FormatDescription:
    found = detect(head, "<head>", verify_checksum=True).format
    assert found is not None and not found.core_arrays()[3]
    return found


HEADS = [_head("mysql97/checksum_none.binlog"), _head("maria1011/checksum_none.binlog")]
FORMATS = [_format(head) for head in HEADS]


def _read(data: Any, road: int, **options: Any) -> None:
    with binlog_core.open(data, limits=LIMITS, **options) as log:
        if road == 0:
            log.headers()
        elif road == 1:
            for event in log.events():
                repr(event)
        elif road == 2:
            for change in log.rows():
                repr(change)
        else:
            for batch in log.batches():
                if len(batch.array) < MAX_BATCH:
                    batch.to_arrow(text_errors="replace" if road == 3 else "raise").validate(full=True)
        str(log.report)


def _read_as(options: int, data: bytes) -> None:
    road = options & 7
    source: Any = io.BytesIO(data) if options & 8 else exact(data)
    _read(
        source,
        road,
        verify_checksum=bool(options & 16),
        on_error="skip" if options & 32 else "raise",
        strict=bool(options & 64),
        rows_v0=bool(options & 128),
    )


@target
def log(data: bytes) -> None:
    """Options, then the bytes of a file: a log, or one packed by gzip, xz or zstd."""
    if data:
        _read_as(data[0], data[1:])


@target
def wire(data: bytes) -> None:
    """Options, then events as type u8, length u16, body, behind a head that a server could have written."""
    if len(data) < 2:
        return
    out = bytearray(HEADS[data[1] & 1])
    at = 2
    while at + 3 <= len(data):
        kind, length = struct.unpack_from("<BH", data, at)
        body = data[at + 3 : at + 3 + length]
        end = len(out) + 19 + len(body)
        out += struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), end, 0) + body
        at += 3 + length
    _read_as(data[0] & 0xEF, bytes(out))


@target
def event(data: bytes) -> None:
    """Type, then the body of an event."""
    if data:
        header = EventHeader(4, 0, data[0], 1, 19 + len(data) - 1, 0, 0)
        for description in FORMATS:
            try:
                repr(parse_event(header, exact(data[1:]), description))
            except BinlogError:
                pass


@target
def table_map(data: bytes) -> None:
    """The body behind the flags; a plan writes inside its record only."""
    for mariadb in (False, True):
        try:
            table, _ = TableMaps().table_of(data, flags=0, mariadb=mariadb)
        except BinlogError:
            continue
        plan = plan_of(table)
        if not plan.raw:
            end = plan.image_len
            ops = np.frombuffer(plan.ops, OP)
            for op in ops[ops["out_width"] > 0]:
                assert int(op["out"]) >= end
                end = int(op["out"]) + int(op["out_width"])
            assert end <= plan.dtype.itemsize
        plan_of(table, [c.name for c in table.columns[::2]])


@target
def json_diffs(data: bytes) -> None:
    """Length u16 of a document, the document, then diffs."""
    if len(data) < 2:
        return
    (length,) = struct.unpack_from("<H", data)
    document, diffs = data[2 : 2 + length], data[2 + length :]
    for call in (lambda: jsonb_to_text(exact(document)), lambda: parse_json_diffs(exact(diffs))):
        try:
            call()
        except BinlogError:
            pass
    apply_json_diffs(exact(document), exact(diffs)).decode("utf-8")


@target
def packed(data: bytes) -> None:
    """A compressed transaction's body, or with an odd first byte a block as MariaDB packs it."""
    if data and data[0] & 1:
        inflate_block(exact(data[1:]), limit=1 << 20)
    else:
        size = sum(len(chunk) for chunk in payload_chunks(exact(data[1:]), limit=1 << 20))
        assert size <= 1 << 20


@target
def gtid_sets(data: bytes) -> None:
    """Encoded sets, and sets as text, which come back from their own text."""
    if not data:
        return
    if data[0] & 1:
        found = gtids.GtidSet.from_bytes(data[1:])
    else:
        text = data[1:].decode("utf-8", "replace")
        found = gtids.parse_gtid_set(text)
    assert type(found).parse(str(found)) == found


@target
def create_table(data: bytes) -> None:
    """The text of a CREATE TABLE statement."""
    parse_create_table(data.decode("utf-8", "replace"), "test")
