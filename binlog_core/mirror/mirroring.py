"""The work of a mirror: copies new tables, replays the log, and keeps track of each table's position."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from .._decode.selection import unmatched
from ..errors import (
    ApplyStopped,
    BinlogError,
    CopyNeeded,
    MirrorError,
    SchemaError,
    ServerError,
    UnreachableError,
)
from ..lake.runner import Runner
from ..lake.tables.table import App
from ..report import BinlogWarning
from ..schema.ddl import DdlTracker
from ..schema.table_definitions import TableSchema
from ..server.address import Address
from ..server.connection import Connection
from .applying import apply_round, needs_copy
from .changes import Decoded, LogPlan, decode, definitions_at, merged
from .columns import EVERYTHING, ColumnSettings
from .copies import (
    Copied,
    Copy,
    Planned,
    charsets_of_server,
    clean_up,
    commit_copy,
    is_hidden,
    plan_copy,
    remove_notes,
    run_copies,
    selected,
    tables_of_server,
)
from .history import History
from .joining import compact
from .losses import check_filters, check_settings, logs_computed, warn_of_losses
from .marks import Mark, check_server, identity, place_of, take_mark
from .receiving import Receiver
from .settings import settle, unused
from .state import CHANGES, GTIDS, Lake, MirrorState, Offset, TableState
from .unlogged import Reach, reach_of
from .values import set_for_reading

_ROUND_BYTES = 256 << 20  # of the logs, decoded at a time
_AT_ONCE, _FEW_BYTES = 8, 1 << 20  # tables with at most so many bytes, applied at the same time
_MOST_FAILURES = 3  # in a row, before a table is parked
_MOST_LOOKS = 20  # at a table that is missing or changes: MySQL 5.7 lists tables whose files are gone
_AGAIN = 300.0  # seconds after which tables that could not be read or written are tried again
_MOST_ROUNDS = 64  # that changed a table, before its small files are merged: later ones search all of them
_SAVING = 20  # times as long as the last save took, before another that can wait
_PAUSE = 1.0  # seconds before what failed is tried again
_LOOK = 10.0  # seconds between two looks at the server's tables and settings
_ASK = 1.0  # seconds between two questions where its log ends
_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
GONE = frozenset((1146, 1049))  # no such table, no such database
CHANGED = frozenset((1054, 1412))  # no such column, the definition changed
_CASE = "lower_case_table_names"
_COPY = "binlog_core.copy"  # in a commit


class Mirroring:
    """A mirror at work.

    Parameters
    ----------
    runner : Runner
        Who reads and writes.
    lake : Lake
        The lake.
    state : MirrorState
        The mirror's state, which is saved after each step.
    address : Address
        The address of the server, with the password.
    receiver : Receiver
        Brings the archive up to the server's position.
    stop : threading.Event
        Ends the mirror when set.
    stepped : callable of MirrorState
        Called after each step.
    compact : float or None
        Seconds after which a table's small files are merged.
    rate : float or None
        The most bytes that copies read in a second.
    passed : callable of MirrorState
        Called when everything that was there is done.
    columns : ColumnSettings
        Which columns are left out or masked.
    serve, halt
        Called between steps, and the event that ends a long step then: see `serving`. None: `stop`.
    """

    def __init__(
        self,
        runner: Runner,
        lake: Lake,
        state: MirrorState,
        address: Address,
        receiver: Receiver,
        stop: threading.Event,
        stepped: Callable[[MirrorState], None] = lambda state: None,
        *,
        compact: float | None = None,
        rate: float | None = None,
        passed: Callable[[MirrorState], None] = lambda state: None,
        serve: Callable[[Mirroring], None] = lambda work: None,
        halt: threading.Event | None = None,
        columns: ColumnSettings = EVERYTHING,
    ) -> None:
        self._passed, self._serve = passed, serve
        self._halt = stop if halt is None else halt
        self._compact_after, self._rate = compact, rate
        self.runner = runner
        self._lake = lake
        self.state, self.columns = state, columns
        settle(state, columns)
        self.address = address
        self._receiver, self._world = receiver, address.world
        self._behind = False  # what the server had when it was asked
        self._look_due = True  # statements in the log may have made tables, or removed some
        self._again_at = self._save_again = 0.0
        self.server = ""  # the identity of the server whose logs the archive ends with: see `marks.identity`
        self._answered = False  # whether a server was there: otherwise the address may be wrong
        self._stop = stop
        self._stepped = stepped
        self._history = History(runner, lake, state.id) if state.history else None
        self.mariadb = False
        self.old = False  # MySQL before 5.7
        self.by_gtids = False  # a server whose log has no positions
        self.logs_computed = True  # generated columns, of updated rows
        # Cleanups to do: at first those of a run that was killed, and of tables that are not wanted any more.
        self._left: list[Callable[[], None]] = [partial(remove_notes, lake, state), self._remove_changes]
        self._left.append(partial(lake.remove_key_indexes, state))
        self._leave_unwanted()
        self._told: set[str] = set()  # patterns of tables and columns that mean none
        self._missed: Counter[str] = Counter()  # how often a table was gone or changed when it was copied
        self._rounds: Counter[str] = Counter()  # that changed a table since its files were merged
        self._reach = Reach()
        self._case = ""  # of names of tables: "0" is as they are written, "1" in lower case

    def _warn_of_unused(self) -> None:
        """Warn once of patterns of columns that mean none: of a wrong name, values are in the lake."""
        found = set(unused(self.state, self.columns))
        if new := sorted(found - self._told):
            warnings.warn(
                f"exclude_columns and mask_columns: no column is {', '.join(new)} (names of databases and"
                " tables are as the server has them, also their case)",
                BinlogWarning,
                stacklevel=2,
            )
        self._told |= found

    def _warn_of_unmatched(self, names: Iterable[str]) -> None:
        """Warn once of patterns of tables that mean none: a user without SELECT sees no tables."""
        found = unmatched(self.state.patterns, names)
        for pattern in dict.fromkeys(one for one in found if one not in self._told):
            warnings.warn(
                f"no table of the server is {pattern!r}: its name is another, or the user lacks SELECT on it",
                BinlogWarning,
                stacklevel=2,
            )
        self._told.update(found)

    def _leave_unwanted(self) -> None:
        unwanted = self.state.leave_unwanted()
        for one in unwanted:
            one.end_copy()
        tables = (*self.state.tables.values(), *unwanted)
        self._left += [partial(self._lake.remove_key_indexes, self.state)] if unwanted else []
        self._left += [partial(clean_up, self._lake, one, copy) for one in tables for copy in one.left]

    def amended(self, *, look: bool) -> None:
        """Go on after others have changed the state; `look`: for tables of the server that are wanted now."""
        self._behind = True  # those that go on again
        self._leave_unwanted()
        if look:
            with suppress(UnreachableError):  # the next look finds them
                self._look()
        self._save()

    # ------------------------------------------------------------ runs

    def until_now(self) -> None:
        """Bring all tables to the server's present position, or beyond it."""
        self._examine()
        if self._world.now() >= self._again_at:
            self._warn_of_losses()
            for one in self.state.tables.values():
                one.try_again()
            self._again_at = self._world.now() + _AGAIN
        asked = self._world.time()
        self.archive()
        end: int | None = None
        while True:
            self._serve(self)
            self._look()
            self._copy()
            self._warn_of_unused()
            self.replay(None, asked)
            self._compact()
            self._passed(self.state)
            copying = [one for one in self.state.tables.values() if one.stage == "copying"]
            if not copying or self._stop.is_set():
                return
            # Some changes lead to a copy, without a key all of them: if they go on, this would not end.
            if end is not None and all((one.place or 0) >= end for one in copying):
                return
            end = end or self.plan(()).end()
            asked = self._world.time()
            self.archive()

    def follow(self) -> None:
        """Continue until stopped; wait up to `Address.reconnect` seconds for a server that is lost."""
        lost_at: float | None = None
        while not self._stop.is_set():
            try:
                self.until_now()
                lost_at = None
                self._stream()
            except UnreachableError as error:
                lost_at = self._world.now() if lost_at is None else lost_at
                self._answered |= error.lost
                if not self._answered or self._world.now() - lost_at >= self.address.reconnect:
                    raise
                self._serve(self)
                self._world.wait(self._stop, _PAUSE)

    def _stream(self) -> None:
        """Replay what the server sends, as it comes, until it is time to look at its tables again."""
        if not self._receiver.streams:
            self._world.wait(self._halt, _PAUSE)
            return
        self._receiver.begin()
        look_at = self._world.now() + _LOOK
        while not self._stop.is_set() and (left := look_at - self._world.now()) > 0:
            self._serve(self)
            if any(one.stage == "copying" for one in self.state.tables.values()):
                self._receiver.wait(_PAUSE, self._halt)  # it was tried just now
                return
            self._look_due = False
            more = self._receiver.wait(min(left, _ASK), self._halt)
            if self._stop.is_set():
                return
            asked, end = self._receiver.asked()
            known = end is not None and self._receiver.has(end)
            if more or self._behind:
                self._behind = not known
                self.replay(None, asked if known else None)
            elif known:
                self._note(asked)
            self._compact()
            self._passed(self.state)
            if self._look_due:
                return

    def _note(self, asked: float | None) -> None:
        """Note in the lake that this works, and from when the tables that follow have everything."""
        places = [one.place for one in self.state.tables.values() if one.stage == "following"]
        self._lake.note(asked, max((one for one in places if one is not None), default=None))

    def _save(self, *, soon: bool = False) -> None:
        """Save the state of all tables; `soon`: unless that would be most of the work, as the tables tell."""
        self._lake.note(None, None)
        began = self._world.now()
        if not soon or began >= self._save_again:
            self._lake.save(self.state)
            ended = self._world.now()
            self._save_again = ended + _SAVING * (ended - began)
        self._stepped(self.state)

    def plan(self, tables: Iterable[TableState]) -> LogPlan:
        """The archive, for reading some tables."""
        names = [one.full_name for one in tables]
        storage, run, lower = self._lake.storage_options, self.runner.light, self._case == "1"
        counted, more = self._reach.parents(names) - set(names), self.columns.read
        return LogPlan(
            self.state.archive, names, storage, run, lower_case=lower, counted=counted, metadata=more
        )

    # ------------------------------------------------------------ the server

    def archive(self) -> None:
        """Bring the archive up to the server's position, and use that server from now on."""
        self._receiver.up_to_now()
        if self._stop.is_set():
            return  # maybe before there was an archive
        server = self.plan(()).server()
        self.server = identity(server["uuid"], server["server_id"])
        hosts = sorted(self.address.hosts, key=lambda one: f"{one[0]}:{one[1]}" != server["address"])
        self.address = replace(self.address, hosts=tuple(hosts))

    def _examine(self) -> None:
        with Connection(self.address) as connection:
            facts = connection.facts()
            self._answered = True
            self.mariadb, self.old = facts.mariadb, not facts.mariadb and facts.number < (5, 7)
            self.by_gtids, self.logs_computed = facts.by_gtids_only, logs_computed(facts)
            check_settings(connection)
            self._case = connection.variables([_CASE]).get(_CASE, "")

    def _find_reach(self) -> None:
        with Connection(self.address) as connection:
            self._reach = reach_of(connection, connection.facts())

    def _warn_of_losses(self) -> None:
        self._find_reach()
        with Connection(self.address) as connection:
            warn_of_losses(connection, self._reach, self.state.wants)

    def _look(self) -> None:
        """Find tables that are new, or exist again, and those that the log shows to be gone."""
        self._tidy()
        tables = self.state.tables
        with Connection(self.address) as connection:
            here = tables_of_server(connection)
            wanted = {
                name: place
                for name, place in sorted(here.items())
                if place[0].lower() not in _SYSTEM and self.state.wants(name)
            }
            check_filters(connection, {database for database, _ in wanted.values()})
            lacking = [one for name, one in tables.items() if one.stage == "copying" and name not in here]
            lacking = [one for one in lacking if not is_hidden(connection, one)]
        self._warn_of_unmatched((*wanted, *tables))
        for name, (database, table) in wanted.items():
            if name not in tables:
                self.state.begin(database, table)
            elif tables[name].stage == "dropped":
                tables[name].copy_anew()
            else:
                continue
            if self.state.paused:  # one that is there may have been resumed since
                tables[name].pause()
        if any(one.place is not None and not one.gone for one in lacking):
            self.archive()  # up to what ended them
        for state in lacking:
            if state.place is None or self._is_gone(state, state.place):
                self._end(state)
            else:
                reason = "the server lacks the table, and its log does not show a DROP or RENAME"
                state.park(reason, again=True)
        self._save()

    def _is_gone(self, state: TableState, place: int) -> bool:
        """Whether the log shows that a table was dropped or renamed; that the server lacks it is no proof."""
        state.gone = state.gone or self.plan(()).ends(self.state.offsets[place], state.full_name)
        return state.gone

    def _end(self, state: TableState) -> None:
        """The server dropped a table: empty it in the lake; its history stays."""
        try:
            if state.copy is not None:
                clean_up(self._lake, state, state.copy["id"])
                state.copy = None
            named = self.state.by_names() if state.place is None else {}
            if self._lake.other(state, self.state, named) is None:
                self._lake.opened(state).empty()
        except Exception as error:  # of the format's library, the catalog and the stores below them
            self._failed(state, _outage(error))
            return
        state.copy_anew()
        state.stage = "dropped"

    # ------------------------------------------------------------ copies

    def _copy(self) -> None:
        """Copy tables without a complete copy."""
        copying = [one for one in self.state.tables.values() if one.stage == "copying"]
        if not copying:
            return
        begun = [one for one in copying if one.copy is None]
        if begun:
            named = self.state.by_names()
            with Connection(self.address) as connection:
                mark = asdict(take_mark(connection, connection.facts()))
                set_for_reading(connection)  # with the settings of the sessions that read the chunks
                for state in begun:
                    try:
                        self._lake.check_no_other(state, self.state, named)
                        copy = plan_copy(
                            connection,
                            state,
                            mark,
                            mariadb=self.mariadb,
                            logs_computed=self.logs_computed,
                            settings=self.columns,
                        )
                        state.copy = asdict(copy)
                    except BinlogError as error:
                        self._failed(state, error)
                    except Exception as error:  # of the format's library, the catalog and the stores below
                        self._failed(state, _outage(error))
            self._save()
        copies = {
            one.full_name: selected(one, Copy(**one.copy), mariadb=self.mariadb)
            for one in copying
            if one.copy is not None
        }
        found = run_copies(
            self.runner,
            self._lake,
            self.address,
            copies,
            rate=self._rate,
            stop=self._halt,
            stepped=partial(self._stepped, self.state),
            mask_key=self.columns.key,
        )
        if self._halt.is_set():
            return  # the archive may stop too; the chunks that were read are kept for the next time
        self.archive()
        for name, (_, copy, *_) in copies.items():
            try:  # the archive cannot get the rest of its log from another server
                check_server(copy.mark["server"], self.server)
            except MirrorError as error:
                found[name] = error
        plan = self.plan(copying)
        begins = self._begins(plan, [copies[name] for name, one in found.items() if isinstance(one, list)])
        exact = plan.end()
        for name, result in found.items():
            state, copy, *_ = copies[name]
            begin = result if isinstance(result, BinlogError) else begins[Mark(**copy.mark)]
            if isinstance(begin, BinlogError):
                self._give_up(state, copy, begin)
            else:
                assert not isinstance(result, BinlogError)
                self._finish(copies[name], result, begin, exact)
            self._save(soon=True)
        self._save()
        self._tidy()

    def _give_up(self, state: TableState, copy: Copy, error: BinlogError) -> None:
        """Remove a failed copy, so that it begins again."""
        try:
            clean_up(self._lake, state, copy.id)
        except Exception as other:  # of the format's library, the catalog and the stores below them
            self._failed(state, _outage(other))  # the next round tries it again
            return
        state.copy = None
        self._failed(state, error)

    def _failed(self, state: TableState, error: BinlogError) -> None:
        """Count a failed copy; if the table was dropped or changed, the next look at the server shows it."""
        if isinstance(error, ServerError) and error.code in GONE | CHANGED:
            self._missed[state.full_name] += 1
            if self._missed[state.full_name] == _MOST_LOOKS:
                del self._missed[state.full_name]
                state.park(str(error), again=True)
            return
        state.failures += 1
        if isinstance(error, SchemaError) or state.failures >= _MOST_FAILURES:
            state.park(str(error), again=not isinstance(error, SchemaError))

    def _begins(self, plan: LogPlan, copies: list[Planned]) -> dict[Mark, int | BinlogError]:
        """The place where the log continues after each mark; its offset has the definitions from there on.

        Or an error: a copy may have taken longer than the archive keeps its logs.
        """
        tables: dict[Mark, list[TableSchema]] = {}
        for one in copies:
            tables.setdefault(Mark(**one.copy.mark), []).append(one.definition)
        if not tables:
            return {}
        with Connection(self.address) as connection:
            charsets, logs = charsets_of_server(connection), plan.logs()
        found: dict[Mark, int | BinlogError] = {}
        for mark, definitions in tables.items():
            try:
                begin = plan.begin(place_of(mark, logs, plan.access), definitions, charsets)
            except MirrorError as error:
                found[mark] = error
                continue
            place = found[mark] = plan.version(begin)
            known = self.state.offsets.get(place)
            names = [(one.database, one.name) for one in definitions]
            # Once for all tables: it has the definitions of all of them.
            self.state.offsets[place] = begin if known is None else merged(known, begin, names)
        return found

    def _finish(self, planned: Planned, files: list[Copied], place: int, exact: int) -> None:
        state, copy, definition, selection = planned
        offset = self.state.offsets[place]
        try:
            table = self._lake.opened(state)
            if table.last_commit().get(_COPY) != copy.id:
                mark = str(Mark(**copy.mark))
                properties = {_COPY: copy.id, "binlog_core.mark": mark, **_gtids_property(offset)}
                commit_copy(table, selection.lake_schema, files, App(self.state.id, place), properties)
            kept = {one.name for one in table.files()}
        except Exception as error:  # of the format's library, the catalog and the stores below them
            self._failed(state, _outage(error))
            return
        del self._missed[state.full_name]
        state.end_copy()
        state.reason, state.gone, state.suspect = None, False, None
        state.stage, state.place, state.exact_from = "following", place, exact
        state.keyless, state.unlogged = definition.row_key is None, list(copy.unlogged)
        state.note_rules(copy.rules)
        state.compacted = self._world.time()  # its files are as large as they should be
        state.as_of = state.history = None
        self._left.append(partial(clean_up, self._lake, state, copy.id, kept))

    def _tidy(self) -> None:
        """Do the cleanups; those that fail are tried again in the next round."""
        left, self._left = self._left, []
        for remove in left:
            try:
                remove()
            except Exception:  # of the stores
                self._left.append(remove)

    def _compact(self) -> None:
        """Merge the small files of tables whose turn it is."""
        for state in self.state.tables.values():
            if self._compact_after is None:
                return
            due = self._world.time() - state.compacted >= self._compact_after
            due |= self._rounds[state.full_name] >= _MOST_ROUNDS
            if not due or state.stage != "following" or self._stop.is_set():
                continue
            try:
                found = [(self._lake.opened(state), self._lake.folder(state))]
                found += self._history.tables(state) if self._history is not None else ()
                for table, folder in found:
                    compact(self.runner, table, folder)
            except Exception as error:  # of deltalake and the stores below it
                warnings.warn(
                    f"the files of {state.full_name} cannot be compacted: {type(error).__name__}: {error}",
                    BinlogWarning,
                    stacklevel=2,
                )
            state.compacted = self._world.time()
            del self._rounds[state.full_name]
            self._save(soon=True)

    # ------------------------------------------------------------ the log

    def replay(self, last: int | None, asked: float | None) -> None:
        """Replay the archive up to a place; tables that are furthest behind go first.

        Parameters
        ----------
        last : int or None
            The version of the place; None: the archive's present end.
        asked : float or None
            The time, in seconds since 1970 UTC, up to which the archive has everything that was committed;
            None: that is not known.
        """
        if self.state.round is not None and self.plan(()).lacking(self.state.round["start"]):
            self.state.round = None  # tables skip what they have of it already
        if self.state.round is not None:
            self._round()
        while not self._stop.is_set():
            self._serve(self)
            self._begin_histories()
            following = [one for one in self.state.tables.values() if one.stage == "following"]
            if not following:
                return
            places = sorted({one.place for one in following if one.place is not None})
            group = [one for one in following if one.place == places[0]]
            start, plan = self.state.offsets[places[0]], self.plan(group)
            if places[1:] and (log := plan.lacking(start)):  # if all tables need it, it is an error
                for one in group:
                    reason = f"the archive no longer has the log {log}, from which the table must continue"
                    one.park(f"needs resync: {reason}", again=True)
                self._save()
                continue
            stop = start
            if last is None or places[0] < last:
                ends = [*places[1:2], *([] if last is None else [last])]
                stop = plan.behind(start, _ROUND_BYTES, min(ends, default=None))
            if plan.version(stop) <= places[0]:  # there is no further transaction before the end
                if asked is not None:
                    for one in following:
                        one.as_of = asked
                self._note(asked)
                self._save()
                return
            self.state.round = {"start": start, "end": stop, "tables": [one.full_name for one in group]}
            self._save()
            self._round(plan)

    def _begin_histories(self) -> None:
        """Begin histories that do not exist yet or have a gap, with the present rows of their tables."""
        for one in self.state.tables.values():
            if self._history is None or one.stage != "following" or one.keyless or one.history == one.place:
                continue
            if self._tried(one, partial(self._history.begin, one)):
                one.history = one.place
                self._save(soon=True)

    def _round(self, plan: LogPlan | None = None) -> None:
        """Apply the round in `state.round`, for the first time or again; `plan`: that of its tables."""
        work = self.state.round
        assert work is not None
        tables = [self.state.tables[name] for name in work["tables"] if name in self.state.tables]
        version = (plan or self.plan(())).version(work["end"])
        tables = [one for one in tables if one.stage == "following" and (one.place or 0) < version]
        if tables:
            plan = plan or self.plan(tables)
            decoded = self._decoded(plan, tables, work["start"], work["end"])
            self._look_due |= bool(decoded.statements)
            if decoded.needs_reach:
                self._find_reach()
                if not self.plan(tables).counted <= plan.counted:
                    decoded = self._decoded(self.plan(tables), tables, work["start"], work["end"])
            for name, reason in self._reach.suspects([one.full_name for one in tables], decoded).items():
                self.state.tables[name].suspect = reason
            self._apply_each([one for one in tables if one.stage == "following"], decoded, work, version)
        moved = [one for one in tables if one.place == version]
        if moved:
            known = self.state.offsets.get(version)
            names = [(one.database, one.name) for one in moved]
            self.state.offsets[version] = work["end"] if known is None else merged(known, work["end"], names)
        self.state.round = None
        self._save()
        self._remove_changes()

    def _remove_changes(self) -> None:
        self._lake.remove(CHANGES)

    def _decoded(
        self, plan: LogPlan, tables: list[TableState], start: dict[str, Any], end: dict[str, Any]
    ) -> Decoded:
        """The changes of the plan's tables; a table that cannot be decoded is parked or copied again."""
        wanted = tables
        while True:
            try:
                return decode(
                    self.runner,
                    self._lake,
                    plan,
                    start,
                    end,
                    by_case=self._case == "0",
                    columns={one.full_name: one.rules for one in wanted if one.columns},
                    mask_key=self.columns.key,
                )
            except BinlogError as error:
                state = next((one for one in wanted if one.full_name == error.table), None)
                if state is None:
                    raise
                state.failures += 1
                if isinstance(error, SchemaError) and state.failures < _MOST_FAILURES:
                    # For example after a swap with a table that was not followed: a copy has its definition.
                    failures = state.failures
                    state.copy_anew()
                    state.failures = failures
                else:
                    state.park(str(error))
                wanted = [one for one in tables if one.stage == "following"]
                plan = self.plan(wanted)

    def _apply_each(
        self, tables: list[TableState], decoded: Decoded, work: Mapping[str, Any], version: int
    ) -> None:
        """Bring tables up to date, several with few changes at a time, since commits wait for storage."""
        # Read once, for all tables.
        definitions = definitions_at(work["start"]), definitions_at(work["end"])

        def apply(one: TableState) -> None:
            self._apply(one, decoded, definitions, work, version)

        few: dict[bool, list[TableState]] = {True: [], False: []}
        for one in tables:
            if not decoded.statements and one.full_name not in decoded.files:
                apply(one)  # nothing but its place changes
                continue
            size = sum(file.bytes for file in decoded.files.get(one.full_name, ()))
            few[size <= _FEW_BYTES and self.state.format == "delta"].append(one)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(apply, few[True]):
                self._stepped(self.state)
        for one in few[False]:
            apply(one)
            self._stepped(self.state)

    def _apply(
        self,
        state: TableState,
        decoded: Decoded,
        definitions: tuple[DdlTracker, DdlTracker],
        work: Mapping[str, Any],
        version: int,
    ) -> None:
        statements = decoded.about(state.full_name)
        files = decoded.files.get(state.full_name, [])
        changed = files or any(one.kind != "create" for one in statements)
        definition, later = (known.definition(state.database, state.name) for known in definitions)
        key = definition.row_key if definition is not None else None
        if state.rules.concerned(statements):  # also the history is not to have what is left out or masked
            state.copy_anew()
            return
        history = self._history if state.history == state.place and not state.keyless else None
        if history is not None and changed:
            append = partial(history.append, state, files, statements, decoded.folder, version)
            if not self._tried(state, append):
                return
        state.gone |= any(one.kind in ("drop", "rename") for one in statements)
        if needs_copy(state, statements, files, key, later, logs_computed=self.logs_computed):
            state.copy_anew()
            return
        if changed:
            if not key:
                state.park("the table has no primary key, and no UNIQUE key without NULLs")
                return
            properties = _gtids_property(work["end"])
            if not self._tried(
                state,
                partial(
                    apply_round,
                    self.runner,
                    self._lake,
                    state,
                    key,
                    decoded,
                    self.state.id,
                    version,
                    properties,
                    definition,
                    self.mariadb,
                ),
            ):
                return
            self._rounds[state.full_name] += 1
        state.place, state.failures = version, 0
        if history is not None:
            state.history = version

    def _tried(self, state: TableState, write: Callable[[], None]) -> bool:
        """Write to a table; False if it failed: it is copied or parked, or tried again next time."""
        try:
            write()
        except CopyNeeded as error:
            state.copy_anew()
            state.reason = str(error)
        except (ApplyStopped, ValueError, TypeError, SchemaError) as error:
            state.park(str(error))
        except Exception as error:  # of deltalake and the stores below it
            state.failures += 1
            if state.failures >= _MOST_FAILURES:
                state.park(f"it cannot be written: {type(error).__name__}: {error}", again=True)
        else:
            return True
        return False


def _outage(error: Exception) -> BinlogError:
    """An error that may go away by itself."""
    return BinlogError(f"{type(error).__name__}: {error}")


def _gtids_property(offset: Offset) -> dict[str, str]:
    """The property of a commit with the GTIDs that the table then contains."""
    return {"binlog_core.gtids": offset[GTIDS]} if offset.get(GTIDS) else {}
