"""Compares tables in the lake with the server's, at one position in the server's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BinlogError, MirrorError, ServerError
from ..lake.apply.files import spelled_like, tables_of
from ..lake.apply.jobs import Folder
from ..lake.rows.types import import_pyarrow, plain_type
from ..lake.runner import Runner
from ..lake.tables.table import DataFile
from ..server.connection import Connection
from .copies import plan_copy, selected
from .copying import CHANGED, GONE
from .differences import differing
from .marks import check_server, place_of
from .mirroring import Mirroring
from .state import Lake, TableState
from .values import set_for_reading
from .viewing import Seen, Viewed, Viewer, view

_TRIES = 3
_MEANWHILE = "the table changed while it was compared"
_FOLDER = "verify"


@dataclass(frozen=True)
class Compared:
    """The result of comparing a table.

    Parameters
    ----------
    table : str
        The table, as ``database.table``.
    rows : int
        The number of rows on the server.
    differ : int
        The number of rows that are not the same on both sides.
    missing, extra, changed : list of dict
        Keys of rows that the lake lacks, that only the lake has, and that have other values in the lake; at
        most 100 of each.
    reason : str or None
        Why the table could not be compared; None if it was.
    columns : list of str
        The names of columns that hold values in the lake and that the server does not have.
    """

    table: str
    rows: int = 0
    differ: int = 0
    missing: list[dict[str, Any]] = field(default_factory=list)
    extra: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    columns: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether all rows were compared and are the same."""
        return self.reason is None and not self.differ and not self.columns


def compare(work: Mirroring, lake: Lake, names: tuple[str, ...]) -> list[Compared]:
    """Bring tables to one position, and compare them there with the server.

    Workers read both sides, and return counts, and keys of rows that differ. `names`: names and patterns
    of the tables, also of those that the server has since the last run; all if there are none.

    Raises
    ------
    BinlogError
        The server cannot be read.
    """
    for left in reversed(range(_TRIES)):
        try:
            return _compare(work, lake, names)
        except ServerError as error:  # a table was dropped since they were listed: the next try knows
            if error.code not in GONE or not left:
                raise
    raise AssertionError


def _compare(work: Mirroring, lake: Lake, names: tuple[str, ...]) -> list[Compared]:
    work.until_now()
    tables = work.state.chosen(names)
    out = [
        Compared(
            one.full_name, reason=f"the table is {one.stage}" + (f": {one.reason}" if one.reason else "")
        )
        for one in tables
        if one.stage not in ("following", "dropped")
    ]
    out += [
        Compared(one.full_name, reason=f"the server dropped the table, and the lake's has {rows} rows")
        for one in tables
        if one.stage == "dropped" and (rows := lake.opened(one).rows)
    ]
    viewed: dict[str, Viewed] = {}
    with Connection(work.address) as connection:
        set_for_reading(connection)
        for one in tables:
            if one.stage == "following":
                try:
                    viewed[one.full_name] = _planned(connection, lake, one, work)
                except Exception as error:  # of this table alone, also of its catalog and store
                    out.append(Compared(one.full_name, reason=message_of(error)))
    if not viewed:
        return sorted(out, key=lambda one: one.table)
    lake.remove(_FOLDER)
    folder = Folder(lake.own(_FOLDER), lake.storage_options)
    folder.make()
    try:
        found = tuple(viewed.values())
        sessions = sum(len(one.chunks) for one in found)
        viewer = Viewer(
            work.address,
            work.address.password,
            folder,
            found,
            work.server,
            sessions,
            work.old,
            work.by_gtids,
            work.columns.key,
        )
        asked = work.address.world.time()
        mark, seen = view(work.runner, viewer)
        work.archive()
        check_server(viewer.server, work.server)
        chosen = [one for one in tables if one.full_name in viewed]
        plan = work.plan(chosen)
        logs = plan.logs()
        at = place_of(mark, logs, plan.access)
        last = logs[at[0]].version_base + at[1]
        work.replay(last, asked)
        for one in chosen:
            name = one.full_name
            if one.stage != "following" or not _stands_at(work, one, last):
                out.append(Compared(name, reason=one.reason or _MEANWHILE))
                continue
            parts = [part for part in seen if part.table == name]
            try:
                out.append(_compared(work.runner, lake, one, viewed[name], folder, parts))
            except Exception as error:
                out.append(Compared(name, reason=message_of(error)))
    finally:
        lake.remove(_FOLDER)
    return sorted(out, key=lambda one: one.table)


def _stands_at(work: Mirroring, state: TableState, place: int) -> bool:
    """Whether a table has everything in the log up to a place, and nothing after it."""
    if state.place is None or state.place >= place:
        return state.place == place
    plan = work.plan([state])
    return plan.version(plan.behind(work.state.offsets[state.place], None, place)) == state.place


def message_of(error: Exception) -> str:
    """What an error says, without its place."""
    return error.message if isinstance(error, BinlogError) else f"{type(error).__name__}: {error}"


def _planned(connection: Connection, lake: Lake, state: TableState, work: Mirroring) -> Viewed:
    copy = plan_copy(
        connection, state, {}, mariadb=work.mariadb, logs_computed=work.logs_computed, settings=work.columns
    )
    copy = replace(copy, columns={**copy.columns, "metadata": ()})  # which the server does not have
    _, _, definition, selection = selected(state, copy, mariadb=work.mariadb)
    here = lake.opened(state).columns
    names = spelled_like(selection.lake_schema.names, here.names)
    if lacking := [one for one in names if one not in here.names]:
        raise MirrorError(f"the lake lacks the columns {', '.join(lacking)}")
    # An ALTER may have left the lake's types wider than the server's, never narrower.
    schema = import_pyarrow().schema([(name, plain_type(here.field(name).type)) for name in names])
    key = tuple(spelled_like(definition.row_key or names, names))
    return Viewed(state.full_name, selection, schema, key, copy.chunks)


def _compared(
    runner: Runner, lake: Lake, state: TableState, viewed: Viewed, folder: Folder, seen: Sequence[Seen]
) -> Compared:
    for one in seen:
        if isinstance(one.error, ServerError) and one.error.code in GONE | CHANGED:
            return Compared(state.full_name, reason=_MEANWHILE)
        if one.error is not None:
            raise one.error
    table = lake.opened(state)
    if found := table.special:  # its files alone may not show its rows
        return Compared(state.full_name, reason=f"the table in the lake has {', '.join(found)}")
    now = [table.columns.field(one.name).type for one in viewed.schema if one.name in table.columns.names]
    if now != viewed.schema.types:
        return Compared(state.full_name, reason=_MEANWHILE)
    rows = sum(one.rows for one in seen)
    theirs = [one.name for one in seen if one.name is not None]
    ours = table.files()
    place = lake.folder(state)
    counted = differing(runner, viewed, (folder, theirs), (place, ours), max(rows, table.rows), folder)
    known = {*viewed.schema.names, *state.rules.metadata}
    more = [name for name in table.columns.names if name not in known]  # of dropped ones, null
    held = [name for name in more if not all(runner.map(_Empty(place, name), ours))]
    return Compared(state.full_name, rows, *counted, columns=held)


@dataclass(frozen=True)
class _Empty:
    """Tests whether a column has no value in a file."""

    place: Folder
    column: str

    def __call__(self, file: DataFile) -> bool:
        import pyarrow.parquet as pq

        with self.place.open().open_input_file(file.name) as source:
            if self.column not in pq.read_schema(source).names:
                return True
        found = (one.column(0) for one in tables_of(self.place, [file], [self.column]))
        return all(one.null_count == len(one) for one in found)
