"""The definitions of a table, found before its rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._base.change_columns import INSERT
from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection
from .._tables.tables import Table
from ..errors import BinlogError, SchemaError
from ..index.finding import Indexes
from ..lake.plan.parts import plan_logs, start_of
from ..lake.rows.fit import widened
from ..lake.rows.source_options import SourceOptions
from ..lake.rows.types import import_pyarrow, key_metadata, lake_type
from ..limits import Limits
from ..report import NAMES_REMEDY, Report
from ..schema.definitions import Definitions
from ..splits import Split
from ..splits.following import tracker_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ..events import QueryEvent

_MOST_NAMES = 10
_GROUPS_LOOKED_AT = 256


@dataclass(slots=True)
class Found:
    """What the logs contain about a table.

    Parameters
    ----------
    definitions : list of Table
        The distinct definitions, in the order of the logs.
    partial : bool
        Whether one of the first row images lacks columns.
    """

    definitions: list[Table]
    partial: bool

    @property
    def primary_key(self) -> tuple[str, ...] | None:
        """The primary key in the last definition that has one."""
        keys = [table.primary_key for table in self.definitions if table.primary_key]
        return keys[-1] if keys else None

    def fields(self) -> list[pa.Field]:
        """The columns of all definitions, each with its widest type.

        Raises
        ------
        SchemaError
            A column has types of which none holds the values of the others.
        """
        pa = import_pyarrow()
        types: dict[str, Any] = {}
        for table in self.definitions:
            for column in table.columns:
                here = lake_type(column)
                known = types.setdefault(column.name, here)
                wide = known if widened(here, known) else here if widened(known, here) else None
                if wide is None:
                    raise SchemaError(
                        f"the column is {known} in one definition and {here} in another: give a schema",
                        table=table.full_name,
                        column=column.name,
                    )
                types[column.name] = wide
        key = self.primary_key or ()
        places = {name: key_metadata(place) for place, name in enumerate(key)}
        return [pa.field(name, kind, metadata=places.get(name)) for name, kind in types.items()]


class _Watched(Selection):
    """A selection that notes the names of all tables."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.tables_seen: dict[str, None] = {}

    def wants_table(self, table: Table) -> bool:
        self.tables_seen[table.full_name] = None
        return super().wants_table(table)


class _Watcher(Definitions):
    """Notes the definitions that rows have."""

    def __init__(self, inner: Definitions | None) -> None:
        self.inner = inner
        self.seen: list[Table] = []

    @property
    def follows(self) -> bool:
        return self.inner is not None and self.inner.follows

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        if self.inner is not None:
            self.inner.follow(event, report, mariadb=mariadb, path=path, transaction=transaction)

    def complete(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        if self.inner is not None:
            table = self.inner.complete(table, report, path=path, offset=offset)
        # Table ids and flags do not make another definition.
        if not any(same_definition(table, known) for known in self.seen):
            self.seen.append(table)
        return table


def same_definition(one: Table, other: Table) -> bool:
    """Whether the columns and the key are the same."""
    return one.columns == other.columns and one.primary_key == other.primary_key


def find_definitions(
    paths: Iterable[str], options: SourceOptions, *, every: bool, required: bool = True
) -> Found:
    """The definitions of ``options.table``.

    Parameters
    ----------
    paths : iterable of str
        The logs.
    options : SourceOptions
        The options of the source.
    every : bool
        Find all definitions, which means reading all logs; otherwise only the first one.
    required : bool
        Raise an error if no log has rows of the table.

    Raises
    ------
    SchemaError
        No log has rows of the table, their columns have no names, or they cannot be decoded.
    """
    logs, first = _logs_of(paths, options)
    search = _Search(options, every=every)
    for i, log in enumerate(logs):
        if search.read(log, rows=i >= first):
            break
    if required and not search.watcher.seen:
        names = sorted(search.others)
        known = f"; they have rows of {', '.join(names[:_MOST_NAMES])}" if names else ""
        more = " and others" if len(names) > _MOST_NAMES else ""
        raise SchemaError(
            f"no rows of this table in {len(logs) - first} logs{known}{more}", table=options.table
        )
    return search.found()


def _logs_of(paths: Iterable[str], options: SourceOptions) -> tuple[list[Split], int]:
    """All logs, and the index of the first one whose rows are read."""
    paths = list(paths)
    logs = plan_logs(paths, options)
    try:
        return logs, start_of(paths, logs, options).log
    except BinlogError:  # purged: reading from it reports that, and a stream's checkpoint may be further on
        return logs, 0


class _Search:
    """Looks for the definitions of a table, log by log."""

    def __init__(self, options: SourceOptions, *, every: bool) -> None:
        self._options = options
        self._every = every
        self._reading = options.read_options()
        if options.follows:
            tracker = tracker_of(options.schema_start, keep_timeline=False)
            inner: Definitions | None = Definitions.following(tracker)
        else:
            schema: Any = self._reading.schema
            inner = Definitions(schema) if schema is not None else None
        self.watcher = _Watcher(inner)
        self.others: dict[str, None] = {}
        self._partial = False

    def read(self, log: Split, *, rows: bool = True) -> bool:
        """Read a log, or only its statements without `rows`; True if no further log is needed."""
        if not rows and not self._options.follows:
            return False
        groups = self._rows_of(log, self._reading.tables if rows else ())
        for looked, (image_is_partial, tells) in enumerate(groups, 1):
            self._partial = self._partial or image_is_partial
            # Images of inserts are whole with every binlog_row_image.
            if not self._every and (tells or looked == _GROUPS_LOOKED_AT):
                break
        return bool(self.watcher.seen) and not self._every

    def found(self) -> Found:
        """The results so far.

        Raises
        ------
        SchemaError
            The columns have no names, or their rows cannot be decoded.
        """
        for table in self.watcher.seen:
            if table.undecodable is not None:
                raise SchemaError(f"rows cannot be decoded: {table.undecodable}", table=table.full_name)
            if self._options.unnamed == "refuse" and not all(column.named for column in table.columns):
                raise SchemaError(
                    f"the log does not have the column names: {NAMES_REMEDY};"
                    ' unnamed="positions" calls them c0, c1 …',
                    table=table.full_name,
                )
        return Found(self.watcher.seen if self._every else self.watcher.seen[:1], self._partial)

    def _rows_of(self, log: Split, tables: tuple[str, ...] | None) -> Iterator[tuple[bool, bool]]:
        """For each group, whether a row image is partial, and whether it has images that could be."""
        options = self._options
        selection = _Watched(tables=tables, columns={"*": ()})  # no value is decoded
        selection = selection.without_repeated(log.before)
        file = options.access.file(log.path)
        with file.open() as source, closing(Indexes()) as indexes:
            rules = options.rules(Report())
            if not self._every:
                rules = rules._replace(limits=Limits(group_rows=1))
            decoder = LogDecoder(source, selection, rules, self.watcher)
            try:
                groups = indexes.groups(decoder, file, self.watcher) if options.index else decoder.groups()
                for group in groups:
                    for batch in group.batches:
                        image = batch.array["image"]
                        yield bool(image["absent_bitmap"].any()), bool((image["op"] != INSERT).any())
            finally:
                self.others.update(selection.tables_seen)
