"""From raw changes to a table: the part of a round about the table, in batches of one definition each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..errors import CopyNeeded
from ..lake.apply.alterations import ServerColumns
from ..lake.apply.batch import apply_images
from ..lake.apply.file_target import FileTarget
from ..lake.apply.jobs import Folder, Here, Jobs
from ..lake.rows.fit import SPECIAL, STATEMENT
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.results import FileStatistics, ReportedStatement
from ..lake.tables.table import App, FileTable
from ..schema.ddl import DdlTracker
from ..schema.table_definitions import TableSchema
from .changes import Decoded
from .copies import computed_columns
from .joining import ON_DRIVER
from .lake import Lake
from .raw import OnRaw, between, pieces
from .state import TableState

_APPLIED = ("alter", "truncate", "unknown")  # other statements lead to a new copy, or end the table
_VERSION, _ORDINAL = "_commit_version", "_change_ordinal"


def needs_copy(
    state: TableState,
    statements: Sequence[ReportedStatement],
    files: Sequence[FileStatistics],
    key: tuple[str, ...] | None,
    later: TableSchema | None,
    *,
    logs_computed: bool,
) -> bool:
    """Whether a round of a table leads to a copy.

    Parameters
    ----------
    state, statements, files
        The table, what was done to it, and the files with its row images.
    key : tuple of str or None
        Its key at the beginning of the round.
    later : TableSchema or None
        Its definition at the end.
    logs_computed : bool
        Whether the server logs generated columns of updated rows.
    """
    for one in statements:
        if one.kind in ("drop", "rename") or (one.kind == "create" and one.clears):
            return True
        if one.kind == "truncate" and state.rules.soft:
            return True  # beside which the deleted rows stay
        if one.kind in ("alter", "unknown") and one.version < state.exact_from:
            return True  # the copy may have the change already
    if state.keyless and (files or any(one.kind != "create" for one in statements)):
        return True
    if later is not None and (later.row_key != key or not _has_unlogged(state, later, logs_computed)):
        return True
    # It had another key in between, and maybe two rows with this one.
    return bool(key) and any(_without_case(file.key) != _without_case(key) for file in files)


def _has_unlogged(state: TableState, definition: TableSchema, logs_computed: bool) -> bool:
    """Whether the columns that a table lacks are those that the server does not log now."""
    unlogged = () if logs_computed else computed_columns(definition)
    present = {column.name.lower() for column in definition.columns}
    return {one.lower() for one in unlogged} == {one.lower() for one in state.unlogged} & present


def _without_case(key: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(name.lower() for name in key or ())


class Batch(NamedTuple):
    """Part of a table's changes in which its columns have one type each.

    Parameters
    ----------
    below : int
        The place after the batch: it has changes of lower versions, except those of an earlier batch.
    statements : list of ReportedStatement
        Its statements.
    files : list of FileStatistics
        The files with its row images.
    """

    below: int
    statements: list[ReportedStatement]
    files: list[FileStatistics]


def batches(
    files: Sequence[FileStatistics], statements: Sequence[ReportedStatement], end: int
) -> list[Batch]:
    """A table's changes in a round: one batch, or, if its types change, one up to each ALTER."""
    cuts = [end]
    if len({file.schema for file in files}) > 1:
        cuts = [*(one.version for one in statements if one.kind in ("alter", "unknown")), end]
    out = []
    since = 0
    for cut in dict.fromkeys(cuts):
        within = [one for one in statements if since <= one.version < cut]
        used = [file for file in files if file.first_version < cut and file.last_version >= since]
        if within or used:
            out.append(Batch(cut, within, used))
        since = cut
    return out


def apply_round(
    runner: Runner,
    lake: Lake,
    state: TableState,
    keys: Sequence[str],
    decoded: Decoded,
    app_id: str,
    end: int,
    properties: dict[str, str],
    definition: TableSchema | None = None,
    mariadb: bool = False,
) -> None:
    """Bring a table up to the end of a round.

    Parameters
    ----------
    runner, lake, state, keys, decoded, app_id
        Who does the work, the table, and the changes since its place.
    end : int
        The place after the round.
    properties : dict
        Properties of the last commit.
    definition : TableSchema or None
        The table's definition at the beginning of the round.
    mariadb : bool
        Whether the server is MariaDB, where updates may lack generated columns that they changed: 11.8 logs
        them only in inserts, and 10.11 with MINIMAL images no virtual ones. MySQL logs all that changed.

    Raises
    ------
    ApplyStopped, ValueError, SchemaError
        Its changes cannot be applied.
    CopyNeeded
        The lake's table is gone, or lacks commits that it had.
    """
    statements = [one for one in decoded.about(state.full_name) if one.kind in _APPLIED]
    table, place = lake.opened(state), lake.folder(state)
    # The table may have a commit that was made but not recorded in the mirror's state.
    applied = table.applied(app_id)
    since = max(state.place or 0, applied or 0)
    if not table.exists or (applied is not None and applied < (state.committed or 0)):
        raise CopyNeeded("the lake's table was removed, or an earlier one was put back")
    columns = _ServerColumns(state, definition, by_case=decoded.by_case)
    for batch in batches(decoded.files.get(state.full_name, []), statements, end):
        columns.follow(batch.statements, until=since)
        present = columns.present()
        columns.follow(batch.statements, since=since)
        if batch.below <= since:
            continue
        fields = _key_fields(table, keys)
        changes = _changes(runner, lake, decoded.folder, batch, since, fields, columns.are_kept)
        since = batch.below
        if changes is None:
            continue
        into = FileTarget(
            table,
            place,
            properties=properties if batch.below == end else None,
            vectors=lake.vectors,
            index=lake.key_index(state, app_id),
        )
        computed = columns.generated if mariadb else ()
        apply_images(
            changes,
            into,
            tuple(keys),
            app=App(app_id, batch.below),
            present=present,
            computed=computed,
            same_key=True,  # a table whose key changes in the round is copied
        )
        state.committed = batch.below


class _ServerColumns:
    """The columns of the server's table: the lake's keeps those that were dropped, too.

    Attributes
    ----------
    generated : set of str
        The names, in small letters, of all columns so far that the server computes.
    names : set of str or None
        The names, in small letters, of all columns so far; None if they are not known.
    """

    def __init__(self, state: TableState, definition: TableSchema | None, *, by_case: bool) -> None:
        spelt = str if by_case else str.lower
        self._place = spelt(state.database), spelt(state.name)
        known = (
            [] if definition is None else [replace(definition, database=self._place[0], name=self._place[1])]
        )
        self._tracker = DdlTracker(known, keep_timeline=False, lower_case=not by_case)
        self.generated: set[str] = set()
        self.names: set[str] | None = set()
        self._unlogged = {name.lower() for name in state.unlogged}
        self._own = {name.lower() for name in state.rules.added}  # of the lake
        self._note()

    def present(self) -> ServerColumns | None:
        """The columns by their names in small letters; None if they are not known."""
        known = self._tracker.definition(*self._place)
        return None if known is None else {column.name.lower(): column for column in known.columns}

    def follow(
        self, statements: Iterable[ReportedStatement], since: int = 0, until: int | None = None
    ) -> None:
        """Follow the statements between two places."""
        for one in statements:
            if since <= one.version and (until is None or one.version < until):
                self._tracker.apply_statement(self._place[0], one.sql)
                self._note()

    def are_kept(self, names: Iterable[str]) -> list[str]:
        """Those among the names of changes' columns that the lake has: not what only the log has.

        MariaDB logs a hidden DB_ROW_HASH_1, and in updates leaves it out.
        """
        return [name for name in names if name in SPECIAL or self._is_kept(name.lower())]

    def _is_kept(self, name: str) -> bool:
        known = self.names is None or name in self.names or name in self._own
        return known and name not in self._unlogged

    def _note(self) -> None:
        known = self._tracker.definition(*self._place)
        if known is None or self.names is None:
            self.names = None
        else:
            self.names.update(column.name.lower() for column in known.columns)
        columns = () if known is None else known.columns
        self.generated.update(column.name.lower() for column in columns if column.generated)


def _key_fields(table: FileTable, keys: Sequence[str]) -> list[Any]:
    """The key's columns as the table has them, for a batch that has only statements."""
    pa, schema = import_pyarrow(), table.columns
    return [pa.field(name, schema.field(name).type) for name in keys]


def _changes(
    runner: Runner,
    lake: Lake,
    folder: str,
    batch: Batch,
    since: int,
    keys: Sequence[Any],
    kept: Callable[[Iterable[str]], list[str]],
) -> Jobs | None:
    """The rows and statements of a batch, in this process if they are few, otherwise with the workers.

    `kept`: chooses among the names of columns.
    """
    pa, place = import_pyarrow(), Folder(folder, lake.storage_options)
    names = [file.name for file in batch.files]
    many = sum(file.bytes for file in batch.files) > ON_DRIVER
    parts = [] if many else [between(one, since, batch.below) for one in pieces(place, names)]
    parts = [one.select(kept(one.column_names)) for one in parts]
    schemas = [file.schema for file in batch.files] or [pa.schema(keys)]
    types = {"_change_type": pa.string(), _VERSION: pa.int64(), _ORDINAL: pa.int64(), STATEMENT: pa.string()}
    schema = pa.unify_schemas([*schemas, pa.schema(types)], promote_options="permissive")
    schema = pa.schema([schema.field(name) for name in kept(schema.names)])
    rows = [
        dict(zip(types, (one.kind, one.version, one.ordinal, one.sql), strict=True))
        for one in batch.statements
        if one.version >= since
    ]
    statements = pa.Table.from_pylist(rows, schema)
    if many:
        return OnRaw(runner, place, tuple(names), schema, since, batch.below, statements)
    found = pa.concat_tables([*parts, statements], promote_options="permissive")
    return Here(found) if found.num_rows else None
