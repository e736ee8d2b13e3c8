"""A table in the lake against the same table on its server, at one position of the server's log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BinlogError, MirrorError
from ...schema.given import parse_create_table
from ...schema.table_definitions import TableSchema
from ...server.connection import Connection
from ..rows.types import import_pyarrow, plain_type
from .copies import batches_of
from .marks import Mark, place_of, position_mark
from .mirroring import Mirroring
from .state import Lake, TableState
from .values import SESSION, SelectList, quoted

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_NAMED = 100
_LOCK_WAIT = 30  # seconds


@dataclass(frozen=True)
class Compared:
    """What a comparison of a table found.

    Parameters
    ----------
    table : str
        ``database.table``.
    rows : int
        That the server has.
    differ : int
        Rows that are not the same on both sides.
    missing, extra, changed : list of dict
        Keys of rows that the lake lacks, that it alone has, and that have other values in it; at most 100 of
        each.
    reason : str or None
        Why it could not be compared.
    """

    table: str
    rows: int = 0
    differ: int = 0
    missing: list[dict[str, Any]] = field(default_factory=list)
    extra: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None

    @property
    def agrees(self) -> bool:
        """All rows were compared, and are the same."""
        return self.reason is None and not self.differ


def compare(work: Mirroring, lake: Lake, tables: Sequence[TableState]) -> list[Compared]:
    """Bring tables to one position, and compare them there with the server.

    Raises
    ------
    BinlogError
        The server cannot be read.
    """
    work.until_now()
    chosen = [one for one in tables if one.stage == "following"]
    out = [
        Compared(
            one.full_name, reason=f"the table is {one.stage}" + (f": {one.reason}" if one.reason else "")
        )
        for one in tables
        if one.stage not in ("following", "dropped")
    ]
    if not chosen:
        return out
    with Connection(work.address) as viewing:
        mark = _view(viewing, work, chosen)
        asked = time.time()
        work.archive()
        plan = work.plan(chosen)
        logs = plan.logs()
        at = place_of(mark, logs, plan.access)
        last = logs[at[0]].version_base + at[1]
        work.replay(last, asked)
        for one in chosen:
            if one.stage != "following" or not work.stands_at(one, last):
                out.append(
                    Compared(one.full_name, reason=one.reason or "the table changed while it was compared")
                )
                continue
            try:
                out.append(_compare(viewing, lake, one, mariadb=work.mariadb))
            except BinlogError as error:
                out.append(Compared(one.full_name, reason=str(error)))
    return sorted(out, key=lambda one: one.table)


def _view(viewing: Connection, work: Mirroring, tables: Sequence[TableState]) -> Mark:
    """Open a consistent view of some tables, and tell at which position of the log."""
    names = ", ".join(f"{quoted(one.database)}.{quoted(one.name)} READ" for one in tables)
    with Connection(work.address) as locking:
        locking.query(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT}")
        viewing.query(SESSION)
        viewing.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if work.old:  # MySQL before 5.7 commits while tables are locked
            locking.query("FLUSH TABLES WITH READ LOCK", right="RELOAD", patience=_LOCK_WAIT + 5)
        else:
            locking.query(f"LOCK TABLES {names}", right="LOCK TABLES", patience=_LOCK_WAIT + 5)
        try:
            viewing.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return position_mark(locking)
        finally:
            locking.query("UNLOCK TABLES")


def _compare(viewing: Connection, lake: Lake, state: TableState, *, mariadb: bool) -> Compared:
    name = f"{quoted(state.database)}.{quoted(state.name)}"
    text = str(viewing.query(f"SHOW CREATE TABLE {name}", right="SELECT")[0][1])
    definition = parse_create_table(text, state.database, state.name)
    selection = SelectList.of(definition, mariadb=mariadb)
    sql = f"SELECT {', '.join(selection.expressions)} FROM {name}"
    dataset = lake.opened(state).dataset()
    here = selection.schema
    if lacking := [one for one in here.names if one not in dataset.schema.names]:
        return Compared(state.full_name, reason=f"the lake lacks the columns {', '.join(lacking)}")

    # An ALTER may have left the lake's types wider than the server's, never narrower.
    schema = import_pyarrow().schema(
        [(name, plain_type(dataset.schema.field(name).type)) for name in here.names]
    )

    def theirs() -> Iterator[pa.RecordBatch]:
        for batch in batches_of(viewing, sql, selection):
            yield _as(batch, schema)

    def ours() -> Iterator[pa.RecordBatch]:
        for batch in dataset.to_batches(columns=here.names):
            yield _as(batch, schema)

    server, mine = _digests(theirs()), _digests(ours())
    only_server, only_lake = _difference(server, mine), _difference(mine, server)
    if not len(only_server) and not len(only_lake):
        return Compared(state.full_name, len(server))
    return _named(state, definition, len(server), theirs(), ours(), only_server, only_lake)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    pa = import_pyarrow()
    try:
        return pa.record_batch([batch.column(one.name).cast(one.type) for one in schema], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise MirrorError(f"the columns have other types than the server's: {error}") from None


def _digests(batches: Iterator[pa.RecordBatch]) -> NDArray[np.uint64]:
    """A number for each row, of all its values; sorted."""
    parts = [row_digests(batch) for batch in batches]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.uint64)


def row_digests(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """A number for each row: the same for the same values.

    Parameters
    ----------
    batch : pyarrow.RecordBatch

    Returns
    -------
    ndarray of uint64, shape (n_rows,)
    """
    rows = zip(*(_as_bytes(column) for column in batch.columns), strict=True)
    data = b"".join(
        blake2b(repr(row).encode("utf-8", "surrogateescape"), digest_size=8).digest() for row in rows
    )
    return np.frombuffer(data, np.uint64)


def _as_bytes(column: pa.Array) -> list[Any]:
    pa = import_pyarrow()
    types = pa.types
    if types.is_temporal(column.type):  # Python has no year 0 and none beyond 9999
        column = column.cast(pa.int32() if types.is_date32(column.type) else pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _difference(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of `one` that `other` lacks or has less often; each as often as it is too many."""
    values, counts = np.unique(one, return_counts=True)
    known, known_counts = np.unique(other, return_counts=True)
    places = np.searchsorted(known, values)
    places[places == len(known)] = 0
    there = known[places] == values if len(known) else np.zeros(len(values), bool)
    left = counts - np.where(there, known_counts[places] if len(known) else 0, 0)
    return np.repeat(values, np.maximum(left, 0))


def _named(
    state: TableState,
    definition: TableSchema,
    rows: int,
    theirs: Iterator[pa.RecordBatch],
    ours: Iterator[pa.RecordBatch],
    only_server: NDArray[np.uint64],
    only_lake: NDArray[np.uint64],
) -> Compared:
    key = definition.row_key or tuple(column.name for column in definition.columns)
    mine, others = _keys(ours, only_lake, key), _keys(theirs, only_server, key)
    changed = mine.keys() & others.keys()
    missing, extra = others.keys() - changed, mine.keys() - changed

    def told(known: dict[str, dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
        return [known[name] for name in sorted(names)[:_MOST_NAMED]]

    return Compared(
        state.full_name,
        rows,
        max(len(changed) + len(missing) + len(extra), 1),
        told(others, missing),
        told(mine, extra),
        told(others, set(changed)),
    )


def _keys(
    batches: Iterator[pa.RecordBatch], wanted: NDArray[np.uint64], key: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Keys of the rows with some digests, by their text."""
    pa = import_pyarrow()
    out: dict[str, dict[str, Any]] = {}
    for batch in batches:
        kept = np.isin(row_digests(batch), wanted)
        if kept.any():
            for row in batch.select(list(key)).filter(pa.array(kept)).to_pylist():
                out[repr(row)] = row
    return out
