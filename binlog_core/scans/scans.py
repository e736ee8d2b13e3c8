"""Scans of a log as tables: the row changes of one table, the events, the transactions.

Each is read again for every scan, group by group, with only the columns that the scan asks for.
"""

from __future__ import annotations

import copy
import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from .._base.change_columns import CHANGE_COLUMNS, DELETE, INSERT, POSTIMAGE, PREIMAGE
from .._base.json_text import encode_plain
from .._core._capsules import schema_capsule, stream_capsule
from .._core._values import JsonTexts, RowReader
from .._tables.full_names import canonical_name, own_name
from .._tables.given_names import near
from .._tables.tables import Column, Table, record_dtype
from .._tables.widening import wider
from ..batch.arrow_batch import ArrowBatch, change_column
from ..batch.arrow_types import ArrowField, ChangeColumn, ValueOptions, arrow_field, struct_field
from ..batch.change_batch import OUTCOMES, TRANSACTION_DTYPE, ChangeBatch
from ..conditions.pushed import pushed_condition
from ..errors import SchemaError
from ..events import GtidEvent, MariadbGtidEvent
from ..events.describe import Describer
from ..gtids import gtid_text
from ..log.batches import empty_batch, fitted
from ..log.passes import Prepared

if TYPE_CHECKING:
    from ..conditions.language import Condition
    from ..log.log import Log

_EVENTS_CHUNK = 4096
_EVENT_COLUMNS = {
    "file": None,
    "position": np.uint64,
    "timestamp": np.uint32,
    "server_id": np.uint32,
    "event_length": np.uint32,
    "type": None,
    "type_code": np.uint8,
    "table_name": None,
    "gtid": None,
    "info": None,
}
_TRANSACTION_COLUMNS = {
    "file": None,
    "begin_position": np.uint64,
    "end_position": np.uint64,
    "timestamp": np.uint32,
    "commit_time": np.int64,
    "gtid": None,
    "server_id": np.uint32,
    "xid": np.uint64,
    "thread_id": np.uint32,
    "outcome": None,
    "row_images": np.int64,
}


class Tables(dict[str, tuple[Column, ...]]):
    """The columns of tables by their full names.

    Attributes
    ----------
    empty : set of str
        Tables without row changes, which ``schema=`` defines.
    """

    def __init__(self, *given: Mapping[str, tuple[Column, ...]]) -> None:
        super().__init__(*given)
        self.empty: set[str] = set()


def find_tables(log: Log, wanted: Callable[[str], bool] | None = None) -> Tables:
    """Tables with row changes, or a definition in ``schema=``, and their columns; no value is decoded.

    The columns are those of all definitions; a type that changed is the wider one.

    Parameters
    ----------
    log : Log
    wanted : callable, optional
        Takes a full name; the columns of other tables are not collected.

    Raises
    ------
    SchemaError
        All of them have more columns than ``Limits.sql_columns``.
    """
    most, count = log.limits.sql_columns, 0
    found: dict[str, dict[str, Column]] = {}
    latest: dict[str, Table] = {}
    definitions = log.definitions_met()
    for table in definitions:
        columns = found.setdefault(table.full_name, {})
        if table.undecodable is not None or latest.get(table.full_name) is table:
            continue
        if wanted is not None and not wanted(table.full_name):
            continue
        before = len(columns)
        latest[table.full_name] = table
        for column in table.columns:
            known = columns.setdefault(column.name, column)
            if known is not column and arrow_field(known).type != arrow_field(column).type:
                columns[column.name] = wider(known, column) or known
        count += len(columns) - before
        if count > most:
            raise SchemaError(
                f"{len(found)} tables have more columns than Limits.sql_columns={most}: choose some with"
                " tables="
            )
    tables = Tables({name: tuple(columns.values()) for name, columns in found.items()})
    for table, _ in definitions.defined():
        if table.full_name in found:
            continue
        columns_wanted = wanted is None or wanted(table.full_name)
        if columns_wanted and (count := count + len(table.columns)) > most:
            break  # as many of a large server's schema as fit
        tables[table.full_name] = table.columns if columns_wanted else ()
        tables.empty.add(table.full_name)
    return tables


def find_table(log: Log, table: str) -> tuple[str, tuple[Column, ...]]:
    """The full name and the columns of one table, as in `find_tables`.

    Raises
    ------
    SchemaError
        The table does not exist, or several databases have one of this name; the message suggests names.
    """
    given = canonical_name(table)
    tables = find_tables(log, lambda full_name: given in (full_name, own_name(full_name)))
    name = by_any_name(tables).get(given)
    if name is None:
        raise unknown_table(table, tables)
    return name, tables[name]


def by_any_name(tables: Tables) -> dict[str, str]:
    """Full names of tables, by full name and by the name alone if only one database has it.

    A table that is only defined does not make the name of a table with rows ambiguous.
    """
    found: dict[str, str] = {}
    for names in (tables.empty, tables.keys() - tables.empty):
        short: dict[str, list[str]] = {}
        for name in names:
            short.setdefault(own_name(name), []).append(name)
        for own, full in short.items():
            found.pop(own, None)
            if len(full) == 1:
                found[own] = full[0]
    return found | {name: name for name in tables}


def unknown_table(name: str, tables: Collection[str]) -> SchemaError:
    """The error for a table without row changes in the logs."""
    return SchemaError(f"these logs have no row changes of a table {name!r}{near(name, tables)}")


class Scan(ABC):
    """A table that exists only in the log.

    Attributes
    ----------
    names : tuple of str
        The names of its columns.
    least : str
        The cheapest column: a stream must have a column, even if rows are only counted.
    """

    names: tuple[str, ...]
    least: str

    @abstractmethod
    def arrays(self, columns: Collection[str]) -> Iterator[object]:
        """The rows, as capsules named "arrow_array" with these columns, in the order of `names`."""

    @abstractmethod
    def fields(self, columns: Collection[str]) -> tuple[ArrowField, ...]:
        """The Arrow fields of these columns, in the order of `names`."""

    def only(self, columns: Collection[str] | None, filter_: str | None = None) -> ArrowScan:
        """The Arrow stream of some columns, or of all.

        Parameters
        ----------
        columns : collection of str or None
            The names of the columns; None gives all.
        filter_ : str or None
            The text of a pyarrow filter that will be applied to it: rows that do not match may be left out.
        """
        wanted = tuple(name for name in self.names if columns is None or name in columns)
        return ArrowScan(self, wanted or (self.least,))


class ArrowScan:
    """A scan of some columns as an Arrow stream, which reads the log again each time.

    Parameters
    ----------
    scan : Scan
    columns : tuple of str
    """

    def __init__(self, scan: Scan, columns: tuple[str, ...]) -> None:
        self.scan, self.columns = scan, columns

    def __arrow_c_schema__(self) -> object:
        """The schema, as PyCapsule."""
        return schema_capsule(struct_field(self.scan.fields(self.columns)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream, as PyCapsule; a requested schema is not followed."""
        return stream_capsule(struct_field(self.scan.fields(self.columns)), self.scan.arrays(self.columns))


class ChangesScan(Scan):
    """Row images of one table: its columns, null where an image lacks one, then `CHANGE_COLUMNS`.

    Parameters
    ----------
    log : Log
    name : str
        "database.table".
    columns : tuple of Column
        The columns of all its definitions, as `find_tables` gives them.
    where : str or Condition, optional
        As in ``Log.batches``.
    **options
        Options of ``ChangeBatch.export``.
    """

    def __init__(
        self,
        log: Log,
        name: str,
        columns: tuple[Column, ...],
        where: str | Condition | None = None,
        **options: Unpack[ValueOptions],
    ) -> None:
        own = {column.name for column in columns}
        self._log, self._name, self._columns, self._options = log, name, columns, options
        self._where: dict[str, Any] = {} if where is None else {"where": where}
        self.own = tuple(column.name for column in columns)
        self.about = tuple(name for name in CHANGE_COLUMNS if name not in own)
        self.names = (*self.own, *self.about)
        self.least = self.about[0]

    def only(self, columns: Collection[str] | None, filter_: str | None = None) -> ArrowScan:
        scan = self
        # An existing condition applies to whole changes, so the other image could match it; and values that
        # are not text in the log are text here.
        free = not self._where and self._log.settings.selection.where is None
        if filter_ is not None and free and self._options.get("text_errors", "raise") == "raise":
            where = pushed_condition(filter_, self._columns) if "[" not in glob.escape(self._name) else None
            if where is not None:
                scan = copy.copy(self)
                scan._where = {"where": where}
        return Scan.only(scan, columns)

    def arrays(self, columns: Collection[str]) -> Iterator[object]:
        for _, array in self._made(columns, lambda arrow: arrow.export()[1]):
            yield array

    def images(self, columns: Collection[str]) -> Iterator[tuple[Any, NDArray[np.uint8]]]:
        """pyarrow batches, and the op of each image; the two images of an update are next to each other."""
        import pyarrow

        for batch, images in self._made(columns, pyarrow.record_batch):
            yield images, batch.array["image"]["op"]

    def _made(
        self, columns: Collection[str], make: Callable[[ArrowBatch], Any]
    ) -> Iterator[tuple[ChangeBatch, Any]]:
        """Each batch, and the result made from its Arrow form."""
        pattern, chosen = glob.escape(self._name), self._chosen(columns)
        names = [column.name for column in chosen]
        prepared = Prepared(lambda batch: make(self._of(batch, chosen, columns)))
        for batch in self._log.batches(pattern, {pattern: names}, **self._where).take(prepared):
            yield batch, prepared.of(batch)

    def fields(self, columns: Collection[str]) -> tuple[ArrowField, ...]:
        chosen = self._chosen(columns)
        return self._of(empty_batch(chosen), chosen, columns).fields()

    def _chosen(self, columns: Collection[str]) -> tuple[Column, ...]:
        return tuple(column for column in self._columns if column.name in columns)

    def _of(self, batch: ChangeBatch, chosen: tuple[Column, ...], columns: Collection[str]) -> ArrowBatch:
        wanted = [name for name in self.about if name in columns]
        fit, mapped = fitted(chosen, batch, drop=True)
        return ArrowBatch(fit, columns=mapped, change_columns=wanted, **self._options)


class AllChangesScan(Scan):
    """Row images of all tables: `_table`, `image` (JSON, without absent columns), `CHANGE_COLUMNS`.

    Parameters
    ----------
    log : Log
    """

    least = "_table"

    def __init__(self, log: Log) -> None:
        self._log = log
        self.names = ("_table", "image", *CHANGE_COLUMNS)

    def fields(self, columns: Collection[str]) -> tuple[ArrowField, ...]:
        return self._of(empty_batch(()), columns).fields()

    def arrays(self, columns: Collection[str]) -> Iterator[object]:
        values: dict[str, Any] = {} if "image" in columns else {"columns": {"*": ()}}
        for batch in self._log.batches(**values):
            if batch.table.undecodable is None:
                yield self._of(batch, columns).export()[1]

    @staticmethod
    def _of(batch: ChangeBatch, columns: Collection[str]) -> ArrowBatch:
        extras = []
        if "_table" in columns:
            numbers = np.zeros(len(batch), np.uint32)
            extras.append(ChangeColumn("_table", numbers, labels=(batch.table.full_name,)))
        if "image" in columns:
            images = JsonTexts("readable", encode_plain)
            images.add_objects(RowReader(batch), np.arange(len(batch)))
            extras.append(ChangeColumn("image", images.offsets(), text=images.joined()))
        extras += [change_column(batch, name, None) for name in CHANGE_COLUMNS if name in columns]
        return ArrowBatch(batch, columns=(), change_columns=False, extras=extras)


class ChangedRowsScan:
    """Changed rows of one table, before and after side by side; needs pyarrow.

    Parameters
    ----------
    images : ChangesScan
        Its row images.
    """

    def __init__(self, images: ChangesScan) -> None:
        self._images = images

    def only(self, columns: Collection[str] | None, _filter: str | None = None) -> Any:
        """A pyarrow.RecordBatchReader of some columns: ``before_…`` and ``after_…`` of the table's, then
        `CHANGE_COLUMNS`, of which `_change_type` is insert, update or delete. None: of all.
        """
        import pyarrow as pa

        own, about = self._images.own, self._images.about

        def chosen(names: Iterable[str], beginning: str = "") -> list[str]:
            return [name for name in names if columns is None or f"{beginning}{name}" in columns]

        sides = chosen(own, "before_"), chosen(own, "after_")
        extras = chosen(about) or ["_row"]
        wanted = {*sides[0], *sides[1], *extras}
        schema = pa.schema(self._images.only(wanted))
        kind = pa.dictionary(pa.uint32(), pa.string())
        fields = [pa.field(f"before_{name}", schema.field(name).type) for name in sides[0]]
        fields += [pa.field(f"after_{name}", schema.field(name).type) for name in sides[1]]
        fields += [pa.field(n, kind) if n == "_change_type" else schema.field(n) for n in extras]

        def rows() -> Iterator[Any]:
            for images, ops in self._images.images(wanted):
                heads = np.flatnonzero(ops != POSTIMAGE)
                op = ops[heads]
                before = pa.array(heads, mask=op == INSERT)
                after = pa.array(heads + (op == PREIMAGE), mask=op == DELETE)
                found = [images[name].take(before) for name in sides[0]]
                found += [images[name].take(after) for name in sides[1]]
                for name in extras:
                    if name == "_change_type":
                        labels = pa.array(["insert", "update", "delete"])
                        codes = np.searchsorted((INSERT, PREIMAGE, DELETE), op).astype(np.uint32)
                        found.append(pa.DictionaryArray.from_arrays(pa.array(codes), labels))
                    else:
                        found.append(images[name].take(pa.array(heads)))
                yield pa.RecordBatch.from_arrays(found, schema=pa.schema(fields))

        return pa.RecordBatchReader.from_batches(pa.schema(fields), rows())


class _PlainScan(Scan):
    """A table of numbers and texts.

    Parameters
    ----------
    log : Log
    """

    columns: Mapping[str, Any]  # dtype by name; None: text
    least = "position"

    def __init__(self, log: Log) -> None:
        self._log = log
        self.names = tuple(self.columns)

    def fields(self, columns: Collection[str]) -> tuple[ArrowField, ...]:
        return self._of([], columns).fields()

    def arrays(self, columns: Collection[str]) -> Iterator[object]:
        for rows in self._rows(columns):
            yield self._of(rows, columns).export()[1]

    @abstractmethod
    def _rows(self, columns: Collection[str]) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of all columns, some at a time; columns that are not among `columns` may have any value."""

    def _of(self, rows: list[tuple[Any, ...]], columns: Collection[str]) -> ArrowBatch:
        made = []
        for i, (name, dtype) in enumerate(self.columns.items()):
            if name not in columns:
                continue
            values = [row[i] for row in rows]
            if dtype is None:
                labels = tuple(dict.fromkeys(values))
                codes = {label: code for code, label in enumerate(labels)}
                numbers: NDArray[Any] = np.array([codes[value] for value in values], np.uint32)
                made.append(ChangeColumn(name, numbers, labels=labels or ("",)))
            else:
                made.append(ChangeColumn(name, np.array(values, dtype)))
        none = np.zeros(len(rows), record_dtype(0, ()))
        batch = ChangeBatch(Table("", "", ()), (), none, b"", np.empty(0, TRANSACTION_DTYPE))
        return ArrowBatch(batch, columns=(), change_columns=False, extras=made)


class EventsScan(_PlainScan):
    """Every event, including those inside compressed transactions."""

    columns = _EVENT_COLUMNS

    def _rows(self, columns: Collection[str]) -> Iterator[list[tuple[Any, ...]]]:
        describes = "info" in columns
        for one in self._log.each_file():
            describer = Describer()
            rows: list[tuple[Any, ...]] = []
            path = one.files[0].name
            for event in one.events():
                told = describer.describe(event) if describes else ""
                gtid = event.gtid if isinstance(event, GtidEvent | MariadbGtidEvent) else None
                rows.append(
                    (
                        path,
                        event.position,
                        event.timestamp,
                        event.server_id,
                        event.event_length,
                        event.name,
                        event.type_code,
                        describer.table_of(event) or "",
                        str(gtid or ""),
                        told.encode("utf-8", "backslashreplace").decode(),
                    )
                )
                if len(rows) == _EVENTS_CHUNK:
                    yield rows
                    rows = []
            if rows:
                yield rows


class TransactionsScan(_PlainScan):
    """Transactions that change rows."""

    columns = _TRANSACTION_COLUMNS
    least = "begin_position"

    def _rows(self, columns: Collection[str]) -> Iterator[list[tuple[Any, ...]]]:
        waiting: tuple[Any, ...] | None = None  # the transaction in which the last group ended
        for group in self._log.groups(columns={"*": ()}):
            images = np.zeros(len(group.transactions), np.int64)
            for batch in group.batches:
                images += np.bincount(batch.array["image"]["transaction"], minlength=len(images))
            rows = [
                (
                    group.path,
                    int(one["begin_position"]),
                    int(one["end_position"]),
                    int(one["timestamp"]),
                    int(one["commit_time"]),
                    gtid_text(one) or "",
                    int(one["server_id"]),
                    int(one["xid"]),
                    int(one["thread_id"]),
                    OUTCOMES[one["outcome"]],
                    count,
                )
                for one, count in zip(group.transactions, images.tolist(), strict=True)
            ]
            if waiting is not None and rows and rows[0][:2] == waiting[:2]:
                rows[0] = (*rows[0][:-1], rows[0][-1] + waiting[-1])
            elif waiting is not None:
                rows.insert(0, waiting)
            waiting = rows.pop() if rows and not rows[-1][2] else None
            if rows:
                yield rows
        if waiting is not None:
            yield [waiting]
