"""The changes of an export, returned like those of logs: groups of batches, in log order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from ..._base.change_columns import (
    ABSENT,
    DELETE,
    FILE_NUMBER_SHIFT,
    LAKE_COLUMNS,
    LAKE_METADATA,
    OPS,
    POSTIMAGE,
    PREIMAGE,
)
from ..._base.times import epoch_seconds
from ..._decode.group import Aside, Group
from ..._decode.gtid_selection import gtid_set, is_selected
from ..._decode.merge import ChangeReader
from ..._decode.selection import (
    OP_BITS,
    Selection,
    check_vendor,
    columns_by_pattern,
    is_wanted_name,
    names,
    ops_mask,
)
from ..._format.format_description import FormatDescription
from ..._sources.deltas import delta_options, import_deltalake
from ..._sources.log_names import name_within, unpacked
from ..._sources.object_stores import telling
from ..._tables.column_types import Kind
from ..._tables.full_names import full_name
from ..._tables.side_dtypes import TRANSACTION_DTYPE
from ..._tables.tables import Column, Table, record_dtype
from ...batch.change_batch import OUTCOMES, ChangeBatch
from ...batch.subsets import only
from ...conditions.bound import bind
from ...conditions.language import Condition, condition_of, refs_of
from ...errors import BinlogError, ConditionError, SchemaError
from ...gtids import Gtid, parse_gtid
from ...limits import DEFAULT_LIMITS
from ...log.opening import open as open_log
from ...position import Position
from ...report import Report
from .manifests import Export, ExportedTable, find_export
from .values import Heap, column_values

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ..._core._values import RowChange
    from ..._decode.selection import LogPlace
    from ...conditions.pushed import PushedFilters
    from ...gtids import AnyGtid
    from ...log.log import Log
    from ...log.options import LogOptions, Target

    Opener = Callable[..., "AbstractContextManager[Log | ExportedLog]"]
    _Dataset = tuple[tuple[str, str], pa.dataset.Dataset]  # of a table

_NEEDED = (*LAKE_COLUMNS, ABSENT)
_TOLD = ("_server_id", "_gtid", "_xid")  # of a transaction, where the table itself has no such column
_WINDOW_SHIFT = 26  # transactions that begin in this many bytes of a log are read at a time
_DATES = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_COMMITTED = OUTCOMES.index("committed")
_OP_OF = {name: op for op, name in OPS.items()}
# Gaps of the logs that an export cannot represent.
_LOSSES = (
    "statement_changes",
    "skipped_events",
    "rows_without_table_map",
    "undecodable_tables",
    "skipped_changes",
    "damaged_values",
    "lost_documents",
    "incidents",
    "missing_bytes",
)
_NOT_OF_EXPORTS = ("schema", "schema_start", "keys", "charset", "server", "password_file", "defaults_file")


def opener_of(target: Target, storage_options: dict[str, Any] | None) -> Opener:
    """The function that opens logs, or an export of them, for each pass: `binlog_core.open` or `ExportedLog`.

    Parameters
    ----------
    target : what `binlog_core.open` takes, or the directory of an export
    storage_options : dict or None
        As for `binlog_core.open`.

    Raises
    ------
    BinlogError
        An export cannot be read.
    """
    found = find_export(target, storage_options)
    return partial(open_log, target) if found is None else partial(ExportedLog, found)


class ExportedLog:
    """The parts of a Log that undo and history need, from the tables of an export.

    Parameters
    ----------
    export : Export
    **options
        As in `binlog_core.open`. Places are those of transactions: one that begins in the range is read
        completely.

    Raises
    ------
    ValueError
        An option that exports do not have.
    BinlogError
        The export cannot be read, or lacks something that is needed.
    """

    def __init__(self, export: Export, **options: Unpack[LogOptions]) -> None:
        for name in _NOT_OF_EXPORTS:
            if options.get(name) is not None:
                raise ValueError(f"{name}=: not for an export, which contains its tables' definitions")
        self._export = export
        self.limits = options.get("limits") or DEFAULT_LIMITS
        self._storage_options = options.get("storage_options")
        self._fits = False  # of the condition, to some table
        self._misfit: BinlogError | None = None
        self.format = FormatDescription(4, export.server_version)
        self.report = Report()
        self.selection = Selection(
            tables=names(options.get("tables")),
            exclude_tables=names(options.get("exclude_tables")),
            columns=columns_by_pattern(options.get("columns")),
            where=condition_of(options.get("where"), self.limits),
            ops=ops_mask(options.get("ops")),
            server_id=options.get("server_id"),
            gtids=gtid_set(options.get("gtids"), "gtids"),
            exclude_gtids=gtid_set(options.get("exclude_gtids"), "exclude_gtids"),
        )
        check_vendor(self.selection, mariadb=self.format.is_mariadb, path=export.path)
        start: Any = options.get("start")
        self._start, self._stop = self._place(start), self._place(options.get("stop"))
        self._tables = {
            name: table
            for name, table in sorted(export.tables.items())
            if is_wanted_name(full_name(*name), self.selection.tables, self.selection.exclude_tables)
        }
        self._datasets = {name: list(self._datasets_of(name)) for name in self._tables}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    # ------------------------------------------------------------ as of a Log

    def groups(self, *, asides: bool = False) -> Iterator[Group]:
        """Groups in log order; `asides`: with the statements that the manifest has."""
        if asides:
            for number in sorted(self._export.counts):
                for kind, count in self._export.counts[number].items():
                    if kind in _LOSSES:
                        self.report.add(kind, path=self._export.logs[number], count=count)
        windows, between = self._windows()
        statements: dict[int, list[Aside]] = {}
        for version, aside in self._statements(*between) if asides else ():
            statements.setdefault(version >> _WINDOW_SHIFT, []).append(aside)
        for window in sorted({*windows, *statements}):
            yield self._group(window, windows.get(window, []), statements.get(window, []))
        if self._misfit is not None:
            raise self._misfit

    indexed_groups = groups

    def matching(self, where: Condition | PushedFilters, batch: ChangeBatch) -> NDArray[np.bool_]:
        """Which records a condition selects; none of a table that it does not fit, if it fits another."""
        condition = where.of(batch.table)
        try:
            kept = (
                np.ones(len(batch), np.bool_)
                if condition is None
                else bind(condition, batch.table).kept(batch)
            )
        except ConditionError as error:
            if not self._fits:
                self._misfit = error.located(table=batch.table.full_name)
            return np.zeros(len(batch), np.bool_)
        self._fits, self._misfit = True, None
        return kept

    def rows(self) -> Iterator[RowChange]:
        """The changes, in log order."""
        return ChangeReader(self.report, skip_errors=False).changes(self.groups())

    def each_file(self) -> Iterator[ExportedLog]:
        """Itself: all logs of the export are read as one."""
        yield self

    # ------------------------------------------------------------ what is read

    def _place(self, place: LogPlace | None) -> int | dt.datetime | None:
        """A time, or the version of the first transaction at a place."""
        if place is None or isinstance(place, dt.datetime):
            return place
        logs = self._export.logs
        if isinstance(place, Position):
            place = place.file, place.offset
        if isinstance(place, tuple):
            name, position = place
            wanted = str(name)
            for matches in (
                lambda path: path == wanted,
                lambda path: unpacked(name_within(path)) == unpacked(name_within(wanted)),
            ):
                found = [number for number, path in logs.items() if matches(path)]
                if len(found) == 1:
                    return _version(found[0], position)
            raise BinlogError(f"the export does not contain the log {wanted}", path=self._export.path)
        if not isinstance(place, int):
            raise BinlogError(
                f"{place!r}: expected a time, GTID, position or FILE:POSITION of the export",
                path=self._export.path,
            )
        if len(logs) != 1:
            raise BinlogError(
                f"the export has {len(logs)} logs: expected FILE:POSITION or a time, not a position alone",
                path=self._export.path,
            )
        return _version(next(iter(logs)), place)

    def _datasets_of(self, name: tuple[str, str]) -> Iterator[pa.dataset.Dataset]:
        """Datasets of a table, each of files with the same columns."""
        import pyarrow.dataset as ds

        table = self._tables[name]
        with self._telling(name):
            by_schema: dict[Any, list[Any]] = {}
            sources = [ds.dataset(table.files, filesystem=self._export.filesystem)] if table.files else []
            sources += [_delta(path, self._storage_options) for path in table.deltas]
            for source in sources:
                for fragment in source.get_fragments():
                    by_schema.setdefault(fragment.physical_schema, []).append(fragment)
            for schema, fragments in by_schema.items():
                self._check_columns(name, schema)
                first = fragments[0]
                yield ds.FileSystemDataset(fragments, schema, first.format, first.filesystem)

    def _telling(self, name: tuple[str, str]) -> AbstractContextManager[None]:
        return telling(self._export.path, full_name(*name))

    def _check_columns(self, name: tuple[str, str], schema: pa.Schema) -> None:
        """Refuse files without a column that is needed."""
        needed = list(_NEEDED)
        selection = self.selection
        needed += ["_gtid"] * selection.selects_gtids + ["_server_id"] * (selection.server_id is not None)
        if isinstance(selection.where, Condition):
            asked = {ref.name for ref in refs_of(selection.where.tree) if ref.pseudo}
            needed += [column for column in ("_gtid", "_server_id", "_thread_id") if column in asked]
        own = _own_columns(self._tables[name])
        missing = [
            column
            for column in dict.fromkeys(needed)
            if column not in schema.names or (column in LAKE_METADATA and column in own)
        ]
        if missing:
            raise SchemaError(
                f"the export has no column {', '.join(missing)}, which this needs",
                path=self._export.path,
                table=full_name(*name),
            )

    def _windows(self) -> tuple[dict[int, list[_Dataset]], tuple[int, int]]:
        """Which datasets have rows of the range in which window; between which versions statements are."""
        windows: dict[int, list[_Dataset]] = {}
        start, stop = self._start, self._stop
        first = start if isinstance(start, int) else 0
        last = stop if isinstance(stop, int) else (1 << 63) - 1
        low, high = first, last
        timed = any(isinstance(one, dt.datetime) for one in (start, stop))
        columns = ["_commit_version"] + ["_commit_timestamp"] * timed
        for name, dataset in ((name, one) for name, some in self._datasets.items() for one in some):
            found: set[int] = set()
            with self._telling(name):
                for batch in dataset.scanner(columns=columns).to_batches():
                    versions = batch["_commit_version"].to_numpy(zero_copy_only=False)
                    kept = (versions >= first) & (versions < last)
                    if timed:
                        times = _times(batch["_commit_timestamp"])
                        if isinstance(start, dt.datetime):
                            before = times < epoch_seconds(start) * 1_000_000
                            low = max(low, int(versions[before].max(initial=-1)) + 1)
                            kept &= ~before
                        if isinstance(stop, dt.datetime):
                            behind = times >= epoch_seconds(stop) * 1_000_000
                            high = min(high, int(versions[behind].min(initial=high)))
                            kept &= ~behind
                    found.update(np.unique(versions[kept] >> _WINDOW_SHIFT).tolist())
            for window in found:
                windows.setdefault(window, []).append((name, dataset))
        return windows, (low, high)

    def _statements(self, low: int, high: int) -> Iterator[tuple[int, Aside]]:
        """The manifests' statements about tables that are wanted, between two versions."""
        selection = self.selection
        for one in self._export.statements:
            version = int(one["version"])
            concerned = [str(name) for name in one["tables"]]
            wanted = not concerned or any(
                is_wanted_name(name, selection.tables, selection.exclude_tables) for name in concerned
            )
            if wanted and low <= version < high:
                begin = version & ((1 << FILE_NUMBER_SHIFT) - 1)
                text, database = str(one["sql"]), str(one.get("default_database", ""))
                mode = int(one.get("sql_mode", 0))  # exports of earlier versions have neither
                yield version, Aside("statement", begin, int(one["ordinal"]), text, database, begin, mode)

    def _filter(self, window: int) -> pa.dataset.Expression:
        import pyarrow as pa
        import pyarrow.dataset as ds

        version, time = ds.field("_commit_version"), ds.field("_commit_timestamp")
        parts = [version >= window << _WINDOW_SHIFT, version < (window + 1) << _WINDOW_SHIFT]
        for place, is_start in ((self._start, True), (self._stop, False)):
            if isinstance(place, dt.datetime):
                moment = pa.scalar(epoch_seconds(place) * 1_000_000, pa.int64()).cast(
                    pa.timestamp("us", "UTC")
                )
                parts.append(time >= moment if is_start else time < moment)
            elif place is not None:
                parts.append(version >= place if is_start else version < place)
        return reduce(lambda a, b: a & b, parts)

    # ------------------------------------------------------------ groups

    def _group(self, window: int, datasets: list[_Dataset], asides: list[Aside]) -> Group:
        number = window >> (FILE_NUMBER_SHIFT - _WINDOW_SHIFT)
        path = self._export.logs.get(number, f"log {number}")
        known: dict[int, tuple[Any, ...]] = {}
        made: list[_Rows] = []
        for name, dataset in datasets:
            table = self._tables[name]
            columns = self._columns_read(table, dataset.schema)
            with self._telling(name):
                rows = dataset.to_table(columns=columns, filter=self._filter(window)).combine_chunks()
            made += self._by_definition(name, table, rows, self._export.counts.get(number, {}))
        for one in made:
            one.learn(known)
        places = {version: i for i, version in enumerate(sorted(known))}
        transactions = np.zeros(len(places), TRANSACTION_DTYPE)
        selected = np.zeros(len(places), np.bool_)
        for version, i in places.items():
            time, server_id, text, xid = known[version]
            gtid = None if text is None else parse_gtid(text)
            selected[i] = is_selected(gtid, self.selection.gtids, self.selection.exclude_gtids)
            outcome = self._export.not_committed.get(version, _COMMITTED)
            _fill(transactions[i : i + 1], version, outcome, time, server_id, gtid, xid)
        batches = [
            batch for one in made if len(batch := one.batch(path, transactions, places, selected, self))
        ]
        end = ((window + 1) << _WINDOW_SHIFT) & ((1 << FILE_NUMBER_SHIFT) - 1)
        return Group(batches, transactions, path, end, end, asides)

    def _columns_read(self, table: ExportedTable, schema: pa.Schema) -> list[str]:
        known = _own_columns(table)
        own = [one for one in schema.names if one.lower() in known]
        about = [one for one in (*_NEEDED, *_TOLD) if one in schema.names and one not in own]
        if self.selection.columns and self.selection.where is None:
            wanted: set[str] = set()
            for _, _, definition in table.definitions:
                found = self.selection.wanted_columns(definition)
                if found is None:
                    return [*own, *about]
                wanted.update(found)
            own = [one for one in own if one in wanted]
        return [*own, *about]

    def _by_definition(
        self, name: tuple[str, str], table: ExportedTable, rows: pa.Table, counts: dict[str, int]
    ) -> Iterator[_Rows]:
        """The rows of each definition."""
        versions = rows["_commit_version"].to_numpy()
        told = np.full(len(versions), -1, np.int64)
        definitions: list[Table] = []
        for first, last, definition in table.definitions:
            if definition not in definitions:
                definitions.append(definition)
            here = (versions >= first) & (versions <= last)
            which = definitions.index(definition)
            if (here & (told >= 0) & (told != which)).any():
                raise SchemaError(
                    "the export does not show which of two definitions some rows have",
                    path=self._export.path,
                    table=definition.full_name,
                )
            told[here] = which
        if (told < 0).any():
            raise SchemaError(
                "the export's manifest lacks the definition of some rows: its runs did not write them",
                path=self._export.path,
                table=full_name(*name),
            )
        for which in np.unique(told).tolist():
            chosen = rows if (told == which).all() else rows.filter(told == which)
            yield _Rows(definitions[which], chosen, counts, self._export.path)


class _Rows:
    """Row images of one definition, in log order."""

    def __init__(self, table: Table, rows: pa.Table, counts: dict[str, int], path: str) -> None:
        self.table, self._counts, self._path = table, counts, path
        versions, ordinals = (rows[name].to_numpy() for name in ("_commit_version", "_change_ordinal"))
        order = np.lexsort((ordinals, versions))
        self.rows = rows.take(order)
        self.versions, self.ordinals = versions[order], ordinals[order]
        self.ops = np.array([_OP_OF.get(one, 0) for one in self.rows["_change_type"].to_pylist()], np.uint8)
        self._check()

    def _check(self) -> None:
        versions, ordinals, ops = self.versions, self.ordinals, self.ops
        same = (versions[1:] == versions[:-1]) & (ordinals[1:] == ordinals[:-1])
        before, after = np.flatnonzero(ops == PREIMAGE), np.flatnonzero(ops == POSTIMAGE)
        why = None
        if same.any():
            why = "the export has duplicate changes: a log was exported in two runs"
        elif (ops == 0).any():
            why = "_change_type has a value that is not a change"
        elif len(after) and not len(before):
            why = (
                "the export has no update_preimage, only rows as they were after updates (--images after):"
                " what"
                " they were before is not known"
            )
        elif not (
            len(before) == len(after)
            and (after == before + 1).all()
            and (versions[before] == versions[after]).all()
            and (ordinals[before] + 1 == ordinals[after]).all()
        ):
            why = "an update's row image is missing: rows of the export were deleted"
        if why is not None:
            raise BinlogError(why, path=self._path, table=self.table.full_name)

    def learn(self, transactions: dict[int, tuple[Any, ...]]) -> None:
        """Collect what is known about each transaction: time, server, GTID, XID."""
        firsts = np.flatnonzero(np.append(True, self.versions[1:] != self.versions[:-1]))
        chosen = self.rows.take(firsts)
        times = _times(chosen["_commit_timestamp"]).tolist()
        names = {*chosen.column_names} - {column.name.lower() for column in self.table.columns}
        more = [chosen[name].to_pylist() if name in names else [None] * len(firsts) for name in _TOLD]
        for version, *told in zip(self.versions[firsts].tolist(), times, *more, strict=True):
            transactions[version] = tuple(told)

    def batch(
        self,
        path: str,
        transactions: NDArray[np.void],
        places: dict[int, int],
        selected: NDArray[np.bool_],
        log: ExportedLog,
    ) -> ChangeBatch:
        """The rows that are wanted, as a batch; `selected`: which transactions are."""
        table, selection = self.table, log.selection
        own = {name.lower(): name for name in self.rows.column_names}
        columns = tuple(column for column in table.columns if column.name.lower() in own)
        array = np.zeros(len(self.rows), record_dtype(len(table.columns), columns))
        image = array["image"]
        index = np.array([places[one] for one in self.versions.tolist()], np.uint32)
        image["op"], image["transaction"] = self.ops, index
        image["position"] = self.versions & ((1 << FILE_NUMBER_SHIFT) - 1)
        image["row"] = self.ordinals - (self.ops == POSTIMAGE)  # an update is one
        image["timestamp"], image["server_id"] = (transactions[k][index] for k in ("timestamp", "server_id"))
        heap, was = Heap(), np.isin(self.ops, (PREIMAGE, DELETE))
        for column in columns:
            self._fill(column, self.rows[own[column.name.lower()]], array, heap, was)
        by_name = {column.name: column for column in columns}
        for i, lacking in enumerate(self.rows[ABSENT].to_pylist()):
            for name in lacking or ():
                if name in by_name:
                    _set_bit(image["absent_bitmap"], np.array([i]), by_name[name])
        batch = ChangeBatch(table, columns, array, bytes(heap.data), transactions, path=path)
        kept = selected[index]
        for name, bit in OP_BITS.items():
            if not selection.ops & bit:
                kept &= ~np.isin(self.ops, [op for op, its in OPS.items() if its.startswith(name)])
        if selection.server_id is not None:
            kept &= image["server_id"] == selection.server_id
        if selection.where is not None:
            kept &= log.matching(selection.where, batch)
        return batch if kept.all() else only(batch, kept)

    def _fill(
        self, column: Column, values: pa.ChunkedArray, array: NDArray[np.void], heap: Heap, was: NDArray[Any]
    ) -> None:
        import pyarrow as pa

        chunk = values.combine_chunks()
        if isinstance(chunk, pa.ChunkedArray):  # of newer versions, where it has one chunk or none
            chunk = pa.concat_arrays(chunk.chunks)
        image = array["image"]
        null = chunk.is_null().to_numpy(zero_copy_only=False)
        try:
            array["row"][column.name], lost = column_values(
                column, chunk, heap, replaced="invalid_text" in self._counts
            )
        except (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError) as error:
            raise SchemaError(
                f"the export's values ({chunk.type}) do not fit the column's type: {error}",
                path=self._path,
                table=self.table.full_name,
                column=column.name,
            ) from error
        _set_bit(image["null_bitmap"], np.flatnonzero(null), column)
        # The row before must be known for certain. The row after is compared with the row itself.
        doubtful = np.zeros(len(null), np.bool_)
        doubtful[lost] = True
        if column.kind in _DATES and ("invalid_dates" in self._counts or column.nullable is False):
            doubtful |= null
        _set_bit(image["absent_bitmap"], np.flatnonzero(doubtful & was), column)


def _own_columns(table: ExportedTable) -> set[str]:
    """The table's own columns, in any of its definitions, in lower case."""
    return {column.name.lower() for _, _, definition in table.definitions for column in definition.columns}


def _version(number: int, position: int) -> int:
    return (number << FILE_NUMBER_SHIFT) + min(position, 1 << FILE_NUMBER_SHIFT)


def _set_bit(bitmap: NDArray[np.uint8], rows: NDArray[np.intp], column: Column) -> None:
    bitmap[rows, column.index // 8] |= np.uint8(1 << column.index % 8)


def _times(values: Any) -> NDArray[np.int64]:
    """Microseconds since 1970 of a column of timestamps, whatever their unit."""
    import pyarrow as pa

    found: NDArray[np.int64] = (
        values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).fill_null(0).to_numpy()
    )
    return found


def _fill(
    record: NDArray[np.void],
    version: int,
    outcome: int,
    time: int,
    server_id: int | None,
    gtid: AnyGtid | None,
    xid: int | None,
) -> None:
    record["begin_position"] = version & ((1 << FILE_NUMBER_SHIFT) - 1)
    record["end_position"] = record["begin_position"] + 1  # it has ended; the place is not known
    record["timestamp"], record["commit_time"] = time // 1_000_000, time
    record["outcome"] = outcome
    record["server_id"], record["xid"] = server_id or 0, xid or 0
    if isinstance(gtid, Gtid):
        record["gtid_kind"] = 1
        record["uuid"] = np.frombuffer(bytes.fromhex(gtid.uuid.replace("-", "")), np.uint8)
        record["tag"], record["sequence_number"] = gtid.tag.encode(), gtid.gno
    elif gtid is not None:
        record["gtid_kind"], record["domain_id"] = 2, gtid.domain_id
        record["server_id"], record["sequence_number"] = gtid.server_id, gtid.seq_no


def _delta(path: str, options: dict[str, Any] | None) -> pa.dataset.Dataset:
    import_deltalake()
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(path, storage_options=delta_options(options)).to_pyarrow_dataset()
    except TableNotFoundError as error:
        raise BinlogError(
            "not a Delta table: only exports to Parquet and Delta are read", path=path
        ) from error
    except DeltaError as error:
        raise BinlogError(f"the Delta table cannot be read: {error}", path=path) from error
