"""Row changes read from batches' structured arrays through numpy alone: fields, bitmaps and spans.

This does not use the code of ``rows()``: text, JSON and decimals are made here from the raw fields, with the
reference decoder's help.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from reference.charsets import decode_text
from reference.jsonb import apply_diffs, diffs_as_text, document_text
from reference.values import EXACT

from binlog_core._tables.column_types import Kind

INSERT, BEFORE, AFTER, DELETE = 1, 2, 3, 4
EPOCH = dt.datetime(1970, 1, 1)
UTC = dt.UTC


@dataclass
class ArrayChange:
    op: str
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None
    row: int


class BatchReader:
    """The images of one batch as dicts."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.bytes = memoryview(batch.buffer)
        self.image = batch.array["image"]
        self.row = batch.array["row"]
        self.nulls = np.unpackbits(self.image["null_bitmap"], axis=1, bitorder="little").astype(bool)
        self.absent = np.unpackbits(self.image["absent_bitmap"], axis=1, bitorder="little").astype(bool)
        self.invalid = {(int(i["record"]), int(i["column"])): i for i in batch.invalid}
        self.diffs = {(int(d["record"]), int(d["column"])) for d in batch.json_diffs}

    def record(self, record: int) -> dict[str, Any]:
        return {c.name: self.value(record, c) for c in self.batch.columns if not self.absent[record, c.index]}

    def value(self, record: int, column: Any) -> Any:
        field = self.row[column.name][record]
        if self.nulls[record, column.index]:
            assert not np.any(np.frombuffer(field.tobytes(), np.uint8)), "a NULL's slot is not zero"
            return None
        if (record, column.index) in self.diffs:
            return self.partial(record, column)
        return self.plain(field, record, column)

    def span(self, field: Any) -> bytes:
        start, length = int(field["offset"]), int(field["length"])
        assert start + length <= len(self.bytes)
        return bytes(self.bytes[start : start + length])

    def partial(self, record: int, column: Any) -> Any:
        """Apply a partial update's diffs to the document in the image before, if that has it."""
        diffs = self.span(self.row[column.name][record])
        if self.absent[record - 1, column.index] or self.nulls[record - 1, column.index]:
            return diffs_as_text(diffs)
        return apply_diffs(self.span(self.row[column.name][record - 1]), diffs)

    def plain(self, field: Any, record: int, column: Any) -> Any:
        match column.kind:
            case Kind.INT | Kind.BIT | Kind.YEAR:
                return int(field)
            case Kind.FLOAT | Kind.DOUBLE:
                return float(field)
            case Kind.DECIMAL:
                return unscaled(field, column.scale)
            case Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP:
                return self.date(field, record, column)
            case Kind.TIME:
                return dt.timedelta(microseconds=int(field.astype(np.int64)))
            case Kind.ENUM:
                index = int(field)
                return index if column.members is None else column.members[index - 1] if index else ""
            case Kind.SET:
                mask = int(field)
                return (
                    mask
                    if column.members is None
                    else [m for i, m in enumerate(column.members) if mask >> i & 1]
                )
            case Kind.NULL:
                return None
        raw = self.span(field)
        match column.kind:
            case Kind.JSON:
                return document_text(raw)
            case Kind.VECTOR:
                return list(struct.unpack(f"<{len(raw) // 4}f", raw))
            case Kind.TEXT:
                return decode_text(raw, column.collation)
            case Kind.BINARY:
                return raw.ljust(column.pad_to, b"\0")
        return raw

    def date(self, field: Any, record: int, column: Any) -> Any:
        if np.isnat(field):
            f = self.invalid[record, column.index]
            text = f"{f['year']:04d}-{f['month']:02d}-{f['day']:02d}"
            if column.kind == Kind.DATE:
                return text
            text += f" {f['hour']:02d}:{f['minute']:02d}:{f['second']:02d}"
            return text + f".{f['microsecond']:06d}"[: column.fsp + 1] if column.fsp else text
        if column.kind == Kind.DATE:
            return (EPOCH + dt.timedelta(days=int(field.astype(np.int64)))).date()
        value = EPOCH + dt.timedelta(microseconds=int(field.astype(np.int64)))
        return value.replace(tzinfo=UTC) if column.kind == Kind.TIMESTAMP else value


def unscaled(field: Any, scale: int) -> Decimal:
    """A DECIMAL field: an integer, or limbs of 64 bits of which the last has the sign."""
    if field.dtype.names is None:
        number = int(field)
    else:
        number = sum(int(field[name]) << 64 * i for i, name in enumerate(field.dtype.names))
    return Decimal(number).scaleb(-scale, EXACT)


def gtid_text(transaction: Any) -> str | None:
    match int(transaction["gtid_kind"]):
        case 1:
            tag = transaction["tag"].decode()
            source = uuid.UUID(bytes=transaction["uuid"].tobytes())
            return f"{source}:{tag + ':' if tag else ''}{transaction['sequence_number']}"
        case 2:
            return f"{transaction['domain_id']}-{transaction['server_id']}-{transaction['sequence_number']}"
    return None


def array_changes(batches: Iterable[Any]) -> list[ArrayChange]:
    """All row changes of the batches in log order: by position, then by row within the event there.

    Tables that cannot be decoded are left out: their batches hold raw events.
    """
    changes: list[ArrayChange] = []
    for batch in batches:
        if batch.table.undecodable:
            continue
        reader = BatchReader(batch)
        record = 0
        while record < len(reader.image):
            image = reader.image[record]
            op = int(image["op"])
            before = reader.record(record) if op in (BEFORE, DELETE) else None
            if op == BEFORE:
                record += 1
                assert reader.image["op"][record] == AFTER, "an update is two records"
                assert reader.image["row"][record] == image["row"]
            after = reader.record(record) if op in (INSERT, BEFORE) else None
            changes.append(
                ArrayChange(
                    {INSERT: "insert", BEFORE: "update", DELETE: "delete"}[op],
                    batch.table.database,
                    batch.table.name,
                    before,
                    after,
                    int(image["position"]),
                    int(image["timestamp"]),
                    gtid_text(batch.transactions[image["transaction"]]),
                    int(image["row"]),
                )
            )
            record += 1
    return sorted(changes, key=lambda change: (change.position, change.row))
