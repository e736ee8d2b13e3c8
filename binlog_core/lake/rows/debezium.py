"""Changes as Debezium's connectors write them: one event a row, values as JSON by its documented defaults.

That is ``decimal.handling.mode=precise``, ``time.precision.mode=adaptive_time_microseconds``,
``bigint.unsigned.handling.mode=long`` and ``binary.handling.mode=bytes``, by Kafka Connect's JSON converter
with ``schemas.enable=false`` and ``provide.transaction.metadata=true``.

Source: Debezium documentation, "Debezium connector for MySQL", "Data change events", "Data type mappings",
"Transaction metadata".
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.change_columns import POSTIMAGE
from ..._base.json_text import JsonText
from ..._core._values import DebeziumEvents, EventTable, JsonTexts
from ..._tables.column_types import KINDS, Kind
from ..._tables.tables import Column, records_at_a_time
from ...batch.change_batch import ChangeBatch

if TYPE_CHECKING:
    from ..._core._values import RowReader

_UNAVAILABLE = "__debezium_unavailable_value"
_ROWS = 8192  # at a time
_encode = JsonText(separators=(",", ":")).encode


class Events(NamedTuple):
    """Some events; the texts are good until the next ones are made.

    Parameters
    ----------
    batch, record : ndarray of int64
        Of each event the change's place: number of the batch, and of the record in it.
    keys : JsonTexts
        The primary keys; an empty text where the log does not have it.
    values : JsonTexts
        The envelopes.
    """

    batch: NDArray[np.int64]
    record: NDArray[np.int64]
    keys: JsonTexts
    values: JsonTexts


class Envelopes:
    """Makes the events of groups, numbered within their transactions.

    Parameters
    ----------
    mariadb : bool
        Whether to write as Debezium's MariaDB connector does, not as its MySQL connector.
    end : bytes
        What is written after each envelope.
    """

    def __init__(self, *, mariadb: bool, end: bytes = b"") -> None:
        source = {
            "version": version("binlog_core"),
            "connector": "mariadb" if mariadb else "mysql",
            "name": "binlog_core",
        }
        beginning = _encode(source)[:-1] + b',"ts_ms":'
        self._events = DebeziumEvents(_encode, _encoder, beginning, end)

    def of(
        self,
        path: str | None,
        readers: Iterable[tuple[ChangeBatch, RowReader]],
        keep: Callable[[ChangeBatch], NDArray[np.bool_] | None] = lambda batch: None,
    ) -> Iterator[Events]:
        """The events of one group in log order; `keep`: which records of a batch to use, None: all."""
        found = list(readers)
        if not found:
            return
        chosen = [_chosen(batch, keep(batch)) for batch, _ in found]
        number = np.repeat(np.arange(len(found)), [len(rows) for rows in chosen])
        record = np.concatenate(chosen)
        images = [batch.array["image"][rows] for (batch, _), rows in zip(found, chosen, strict=True)]
        position, row = (np.concatenate([image[name] for image in images]) for name in ("position", "row"))
        order = np.lexsort((row, position))
        number, record = number[order], record[order]
        tables = [_event_table(batch, reader) for batch, reader in found]
        file = os.path.basename(path or "")
        step = min(_ROWS, *(records_at_a_time(batch.columns) for batch, _ in found))
        for at in range(0, len(order), step):
            yield self._some(tables, number[at : at + step], record[at : at + step], file)

    def _some(
        self, tables: list[EventTable], number: NDArray[np.intp], record: NDArray[np.intp], file: str
    ) -> Events:
        self._events.clear()
        now = time.time_ns()
        ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
        counts, begin = [0], 0
        for end in ends:  # each run of one table
            self._events.add(tables[number[begin]], record[begin:end], file, now)
            counts.append(len(self._events.values))
            begin = end
        batch = np.repeat(number[[0, *ends[:-1]]], np.diff(counts))
        return Events(batch, self._events.places(), self._events.keys, self._events.values)


def _event_table(batch: ChangeBatch, reader: RowReader) -> EventTable:
    names = [column.name for column in batch.columns]
    key = [names.index(name) for name in batch.table.primary_key or () if name in names]
    return EventTable(reader, np.array(key, np.int64), batch.table.full_name)


def _chosen(batch: ChangeBatch, kept: NDArray[np.bool_] | None) -> NDArray[np.intp]:
    wanted = batch.array["image"]["op"] != POSTIMAGE
    return np.flatnonzero(wanted if kept is None else wanted & kept)


_Encoder = Callable[[Any], Any]


def _encoder(column: Column) -> _Encoder:
    """What to do with a value that only Python can make: a date that no calendar has, bytes that are not what
    the column holds, a document that is logged as changes.
    """
    zero = 0 if column.nullable is False else None
    moment = None if zero is None else "1970-01-01T00:00:00Z"
    match column.kind:
        case Kind.JSON:
            return lambda value: value if isinstance(value, str) else _UNAVAILABLE
        case Kind.TIMESTAMP:
            return lambda value: moment
    return _plain if KINDS[column.kind].stored != "moment" else lambda value: zero


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
