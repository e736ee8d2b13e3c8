"""Debezium's change events, made one by one of Python values: what the compiled ones are compared with.

Source: Debezium documentation, "Debezium connector for MySQL", "Data change events", "Data type mappings",
"Transaction metadata".
"""

from __future__ import annotations

import base64
import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import localcontext
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from binlog_core._base.change_columns import DELETE, INSERT, POSTIMAGE, PREIMAGE
from binlog_core._base.json_text import JsonText
from binlog_core._core._values import RowReader
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import Column
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.gtids import gtid_text

_EPOCH_DAY = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_UNAVAILABLE = "__debezium_unavailable_value"
_SRID_LEN = 4
encode = JsonText(separators=(",", ":")).encode


class Event(NamedTuple):
    """One event.

    Parameters
    ----------
    batch, record : int
        The change's place: number of the batch, and of the record in it.
    key : bytes or None
        JSON of the primary key, if the log has it.
    value : bytes
        JSON of the envelope.
    """

    batch: int
    record: int
    key: bytes | None
    value: bytes


@dataclass
class _Transaction:
    begin: int = -1
    total: int = 0
    tables: dict[str, int] = field(default_factory=dict)


class Envelopes:
    """Makes the events of groups, numbered within their transactions.

    Parameters
    ----------
    mariadb : bool
        Whether to write as Debezium's MariaDB connector does, not as its MySQL connector.
    now : int
        Nanoseconds since 1970 UTC: the time of processing.
    """

    def __init__(self, *, mariadb: bool, now: int) -> None:
        self._now = now
        self._connector = "mariadb" if mariadb else "mysql"
        self._version = version("binlog_core")
        self._transaction = _Transaction()

    def of(
        self,
        path: str | None,
        readers: Iterable[tuple[ChangeBatch, RowReader]],
    ) -> Iterator[Event]:
        """The events of one group in log order."""
        found = list(readers)
        if not found:
            return
        chosen = [np.flatnonzero(batch.array["image"]["op"] != POSTIMAGE) for batch, _ in found]
        number = np.repeat(np.arange(len(found)), [len(rows) for rows in chosen])
        record = np.concatenate(chosen)
        images = [batch.array["image"][rows] for (batch, _), rows in zip(found, chosen, strict=True)]
        position, row = (np.concatenate([image[name] for image in images]) for name in ("position", "row"))
        file = os.path.basename(path or "")
        for i in np.lexsort((row, position)).tolist():
            batch, reader = found[number[i]]
            for key, value in self._events(batch, reader, int(record[i]), file):
                yield Event(int(number[i]), int(record[i]), key, value)

    def _events(
        self, batch: ChangeBatch, reader: RowReader, record: int, file: str
    ) -> Iterator[tuple[bytes | None, bytes]]:
        """One event; for an update that changes the primary key two, as in Debezium."""
        encoders, image = self._encoders_of(batch), batch.array["image"][record]
        op = int(image["op"])
        image_of = encoded(reader.values(record), encoders)
        before, after = (None, image_of) if op == INSERT else (image_of, None)
        if op == PREIMAGE:
            after = encoded(reader.values(record + 1), encoders)
        keys = batch.table.primary_key or ()
        old, new = ({k: one[k] for k in keys if k in one} if one else {} for one in (before, after))
        moved = op == PREIMAGE and any(name in new and new[name] != old.get(name) for name in keys)
        source = self._source(batch, image, file)
        if moved:
            yield self._event(batch, image, source, "d", before, None, old)
            yield self._event(
                batch, image, source, "c", None, {**(before or {}), **(after or {})}, {**old, **new}
            )
            return
        letter = {INSERT: "c", PREIMAGE: "u", DELETE: "d"}[op]
        yield self._event(batch, image, source, letter, before, after, {**new, **old})

    def _event(
        self,
        batch: ChangeBatch,
        image: Any,
        source: dict[str, Any],
        op: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        key: dict[str, Any],
    ) -> tuple[bytes | None, bytes]:
        now = self._now
        value = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": self._place(batch, image, source),
            "op": op,
            "ts_ms": now // 1_000_000,
            "ts_us": now // 1000,
            "ts_ns": now,
        }
        return (encode(key) if key else None), encode(value)

    def _source(self, batch: ChangeBatch, image: Any, file: str) -> dict[str, Any]:
        transaction = batch.transactions[image["transaction"]]
        moment = int(transaction["commit_time"])
        if moment < 0:
            moment = int(image["timestamp"]) * 1_000_000
        return {
            "version": self._version,
            "connector": self._connector,
            "name": "binlog_core",
            "ts_ms": moment // 1000,
            "snapshot": "false",
            "db": batch.table.database,
            "sequence": None,
            "ts_us": moment,
            "ts_ns": moment * 1000,
            "table": batch.table.name,
            "server_id": int(image["server_id"]),
            "gtid": gtid_text(transaction),
            "file": file,
            "pos": int(image["position"]),
            "row": int(image["row"]),
            "thread": None,
            "query": None,
        }

    def _place(self, batch: ChangeBatch, image: Any, source: Mapping[str, Any]) -> dict[str, Any]:
        """The event's number in its transaction, and among those of its table in it."""
        begin = int(batch.transactions["begin_position"][image["transaction"]])
        here = self._transaction
        if begin != here.begin:
            here = self._transaction = _Transaction(begin)
        here.total += 1
        name = batch.table.full_name
        here.tables[name] = here.tables.get(name, 0) + 1
        told = source["gtid"] or f"file={source['file']},pos={begin}"
        return {"id": told, "total_order": here.total, "data_collection_order": here.tables[name]}

    def _encoders_of(self, batch: ChangeBatch) -> dict[str, _Encoder]:
        return {column.name: encoder(column) for column in batch.columns}


_Encoder = Callable[[Any], Any]


def encoded(values: Mapping[str, Any], encoders: Mapping[str, _Encoder]) -> dict[str, Any]:
    return {name: None if value is None else encoders[name](value) for name, value in values.items()}


def encoder(column: Column) -> _Encoder:
    """A function that makes the JSON value of a column's Python value."""
    invalid = 0 if column.nullable is False else None  # of a date that no calendar has

    def decimal(value: Any) -> str:
        with localcontext(prec=80):
            whole = int(value.scaleb(column.scale))
        length = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
        return base64_text(whole.to_bytes(length, "big", signed=True))

    def bits(value: int) -> Any:
        if column.length == 1:
            return bool(value)
        return base64_text(value.to_bytes((column.length + 7) // 8, "little"))

    def date(value: Any) -> Any:
        return (value - _EPOCH_DAY).days if isinstance(value, dt.date) else invalid

    def datetime(value: Any) -> Any:
        if not isinstance(value, dt.datetime):
            return invalid
        micros = (value - _EPOCH) // _MICROSECOND
        return micros // 1000 if column.fsp <= 3 else micros

    def timestamp(value: Any) -> Any:
        if not isinstance(value, dt.datetime):
            return "1970-01-01T00:00:00Z" if invalid == 0 else None
        text = value.strftime("%Y-%m-%dT%H:%M:%S")
        return f"{text}.{value.microsecond:06}"[: len(text) + 1 + column.fsp].rstrip(".") + "Z"

    def geometry(value: Any) -> Any:
        if not isinstance(value, bytes):
            return value
        srid = int.from_bytes(value[:_SRID_LEN], "little")
        return {"wkb": base64_text(value[_SRID_LEN:]), "srid": srid}

    by_kind: dict[Kind, _Encoder] = {
        **dict.fromkeys((Kind.NULL, Kind.FLOAT, Kind.DOUBLE, Kind.YEAR, Kind.ENUM), _plain),
        **dict.fromkeys((Kind.TEXT, Kind.BINARY, Kind.VECTOR), _plain),
        Kind.INT: lambda value: value - (1 << 64) if value >> 63 == 1 else value,
        Kind.DECIMAL: decimal,
        Kind.BIT: bits,
        Kind.DATE: date,
        Kind.DATETIME: datetime,
        Kind.TIMESTAMP: timestamp,
        Kind.TIME: lambda value: value // _MICROSECOND if isinstance(value, dt.timedelta) else invalid,
        Kind.SET: lambda value: ",".join(value) if isinstance(value, list) else value,
        Kind.JSON: lambda value: value if isinstance(value, str) else _UNAVAILABLE,  # a partial update
        Kind.GEOMETRY: geometry,
    }
    return by_kind[column.kind]


def _plain(value: Any) -> Any:
    return base64_text(value) if isinstance(value, bytes) else value


def base64_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
