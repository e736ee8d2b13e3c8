"""Compares tables in the lake with the server's, at one position in the server's log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
from .lake import Lake
from .marks import Mark, check_server, place_of, unseen
from .mirroring import Mirroring
from .state import TableState
from .values import set_for_reading
from .viewing import Seen, Viewed, Viewer, view

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 3
MEANWHILE = "the table changed while it was compared"
_FOLDER = "verify"
_ENGINE = re.compile(r"^\) ENGINE=(\w+)", re.MULTILINE)  # texts of SHOW CREATE TABLE have no line ends


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

    @property
    def difference(self) -> str | None:
        """How a table that was compared differs, without values of its keys; None: it does not."""
        if self.reason is not None or self.agrees:
            return None
        if self.differ:
            return f"compared with the server's, {self.differ:,} of {self.rows:,} rows differ"
        return f"it has values in columns that the server's lacks: {', '.join(self.columns)}"


def compare(work: Mirroring, lake: Lake, names: tuple[str, ...], *, heal: bool = False) -> list[Compared]:
    """Bring tables to one position, and compare them there with the server.

    Workers read both sides, and return counts, and keys of rows that differ. `names`: names and patterns
    of the tables, also of those that the server has since the last run; all if there are none. `heal`: have
    those that surely differ copied again.

    Raises
    ------
    BinlogError
        The server cannot be read.
    """
    for left in reversed(range(_TRIES)):
        try:
            if (found := _compare(work, lake, names, again=left > 0, heal=heal)) is not None:
                return found
        except ServerError as error:  # a table was dropped since they were listed: the next try knows
            if error.code not in GONE or not left:
                raise
    raise AssertionError


def _compare(
    work: Mirroring, lake: Lake, names: tuple[str, ...], *, again: bool, heal: bool
) -> list[Compared] | None:
    """See `compare`; `again`: whether there is another try, for which None asks."""
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
                    viewed[one.full_name] = planned(connection, lake, one, work)
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
            work.placed,
        )
        asked = work.address.world.time()
        mark, seen = view(work.runner, viewer)
        for part in seen if again else ():
            if isinstance(part.error, ServerError) and part.error.code in GONE:
                raise part.error
        chosen = [one for one in tables if one.full_name in viewed]
        last = bring_to(work, mark, chosen, asked)
        if last is None and again:
            return None
        for one in chosen:
            name = one.full_name
            if last is None:
                out.append(Compared(name, reason=MEANWHILE))
                continue
            try:
                stands = standing(work, lake, one, last)
                parts = [part for part in seen if part.table == name]
                out.append(compared(work.runner, stands, viewed[name], folder, parts))
            except Exception as error:
                out.append(Compared(name, reason=message_of(error)))
            if out[-1].agrees:
                one.proved = asked
            elif heal and viewed[name].has_snapshots and (reason := out[-1].difference) is not None:
                work.suspect(one, reason)
        work.save()
    finally:
        lake.remove(_FOLDER)
    return sorted(out, key=lambda one: one.table)


def bring_to(work: Mirroring, mark: Mark, tables: Sequence[TableState], asked: float) -> int | None:
    """Bring the lake to exactly the place of a mark, and that place.

    None: the server was read while an XA transaction was committed, and may have been without its rows.

    Parameters
    ----------
    work : Mirroring
    mark : Mark
        Where the server was read.
    tables : sequence of TableState
        The tables that were.
    asked : float
        A time before that, in seconds since 1970 UTC.

    Raises
    ------
    BinlogError
        The archive does not get there.
    """
    work.archive()
    check_server(mark.server, work.server)
    plan = work.plan(tables)
    logs = plan.logs()
    at = place_of(mark, logs, plan.access)
    recent = logs[max(at[0] - 1, 0) : at[0] + 1]  # where a commit that goes on can have begun
    if unseen(mark, (len(recent) - 1, at[1]), recent, plan.access) is not None:
        return None
    last = logs[at[0]].version_base + at[1]
    work.replay(last, asked)
    return last


class Standing(NamedTuple):
    """A table of the lake as it stands at a place; later rounds do not change its files."""

    name: str
    columns: pa.Schema
    special: list[str]
    files: list[DataFile]
    rows: int
    folder: Folder
    added: tuple[str, ...]


def standing(work: Mirroring, lake: Lake, state: TableState, place: int) -> Standing:
    """A table that stands at a place of the log.

    Raises
    ------
    MirrorError
        It does not.
    """
    if state.stage != "following" or not _stands_at(work, state, place):
        raise MirrorError(state.reason or MEANWHILE)
    table, folder = lake.opened(state), lake.folder(state)
    added = state.rules.added
    return Standing(state.full_name, table.columns, table.special, table.files(), table.rows, folder, added)


def _stands_at(work: Mirroring, state: TableState, place: int) -> bool:
    """Whether a table has everything in the log up to a place, and nothing after it."""
    if state.place is None or state.place >= place:
        return state.place == place
    plan = work.plan([state])
    return plan.version(plan.behind(work.state.offsets[state.place], None, place)) == state.place


def message_of(error: Exception) -> str:
    """What an error says, without its place."""
    return error.message if isinstance(error, BinlogError) else f"{type(error).__name__}: {error}"


def planned(
    connection: Connection, lake: Lake, state: TableState, work: Mirroring, *, divided: bool = True
) -> Viewed:
    """How a table is read; `divided`: by chunks, which are found now.

    Raises
    ------
    BinlogError
        It cannot be read, or not be compared.
    """
    copy = plan_copy(
        connection,
        state,
        {},
        mariadb=work.mariadb,
        logs_computed=work.logs_computed,
        settings=work.columns,
        chunks=None if divided else 0,
        slots=work.runner.slots,
    )
    own = {"metadata": (), "derives": False, "soft": False}  # columns that the server does not have
    copy = replace(copy, columns={**copy.columns, **own})
    _, _, definition, selection = selected(state, copy, mariadb=work.mariadb)
    here = lake.opened(state).columns
    names = spelled_like(selection.lake_schema.names, here.names)
    if lacking := [one for one in names if one not in here.names]:
        raise MirrorError(f"the lake lacks the columns {', '.join(lacking)}")
    # An ALTER may have left the lake's types wider than the server's, never narrower.
    schema = import_pyarrow().schema([(name, plain_type(here.field(name).type)) for name in names])
    key = tuple(spelled_like(definition.row_key or names, names))
    order = () if copy.versioned else definition.row_key or ()
    engine = _ENGINE.search(copy.definition)
    return Viewed(
        state.full_name,
        selection,
        schema,
        key,
        copy.chunks,
        tuple(order),
        tuple(here.names),
        engine[1] if engine is not None else "",
    )


def compared(
    runner: Runner, table: Standing, viewed: Viewed, folder: Folder, seen: Sequence[Seen]
) -> Compared:
    """Compare a table of the lake with what was read of the server's.

    Parameters
    ----------
    runner : Runner
        Who does the work.
    table : Standing
        The lake's.
    viewed : Viewed
        How the server's was read.
    folder : Folder
        Where the files of what was read are.
    seen : sequence of Seen
        These files.

    Raises
    ------
    BinlogError
        The server's could not be read.
    """
    for one in seen:
        if isinstance(one.error, ServerError) and one.error.code in GONE | CHANGED:
            return Compared(table.name, reason=MEANWHILE)
        if one.error is not None:
            raise one.error
    if table.special:  # its files alone may not show its rows
        return Compared(table.name, reason=f"the table in the lake has {', '.join(table.special)}")
    now = [table.columns.field(one.name).type for one in viewed.schema if one.name in table.columns.names]
    if now != viewed.schema.types or table.columns.names != [*viewed.columns]:
        return Compared(table.name, reason=MEANWHILE)
    rows = sum(one.rows for one in seen)
    theirs = [one.name for one in seen if one.name is not None]
    most, ours = max(rows, table.rows), (table.folder, table.files)
    counted = differing(runner, viewed, (folder, theirs), ours, most, folder)
    known = {*viewed.schema.names, *table.added}
    more = [name for name in table.columns.names if name not in known]  # of dropped ones, null
    held = [name for name in more if not all(runner.map(_Empty(table.folder, name), table.files))]
    return Compared(table.name, rows, *counted, columns=held)


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
