"""The work of a mirror: copies new tables, replays the log, and keeps track of each table's position."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from .._decode.selection import unmatched
from ..errors import (
    ApplyStopped,
    BinlogError,
    CopyNeeded,
    SchemaError,
    UnreachableError,
)
from ..lake.runner import Runner
from ..lake.tables.results import ReportedStatement
from ..report import BinlogWarning
from ..schema.ddl import DdlTracker
from ..server.address import Address
from ..server.connection import Connection
from .applying import apply_round, needs_copy
from .changes import Decoded, LogPlan, decode, definitions_at, merged
from .chunks import outage
from .columns import EVERYTHING, ColumnSettings
from .copies import (
    clean_up,
    is_hidden,
    remove_notes,
    tables_of_server,
)
from .copying import Copying, gtids_property
from .history import History
from .joining import compact
from .lake import CHANGES, Lake
from .losses import check_filters, check_settings, logs_computed, warn_of_losses
from .marks import identity
from .receiving import Receiver
from .settings import settle, unused
from .state import MirrorState, TableState
from .unlogged import Reach, reach_of

_ROUND_BYTES = 256 << 20  # of the logs, decoded at a time
_AT_ONCE, _FEW_BYTES = 8, 1 << 20  # tables with at most so many bytes, applied at the same time
_MOST_FAILURES = 3  # in a row, before a table is parked
_AGAIN = 300.0  # seconds after which tables that could not be read or written are tried again
_MOST_ROUNDS = 64  # that changed a table, before its small files are merged: later ones search all of them
_SAVING = 20  # times as long as the last save took, before another that can wait
_PAUSE = 1.0  # seconds before what failed is tried again
_LOOK = 10.0  # seconds between two looks at the server's tables and settings
_ASK = 1.0  # seconds between two questions where its log ends
_NO_KEY = "it has changed, and has no key by which its log could be applied"
_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
_CASE = "lower_case_table_names"


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
    prove
        Called between rounds of a mirror that keeps running: see `proving`.
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
        prove: Callable[[Mirroring], None] = lambda work: None,
        columns: ColumnSettings = EVERYTHING,
    ) -> None:
        self._passed, self._serve, self._prove = passed, serve, prove
        self.halt = stop if halt is None else halt
        self._compact_after = compact
        self.runner = runner
        self.lake = lake
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
        self.stepped = stepped
        self._history = History(runner, lake, state.id) if state.history else None
        self.mariadb = False
        self.old = False  # MySQL before 5.7
        self.by_gtids = False  # a server whose log has no positions
        self.placed = False  # whether its snapshots say of which place in its log they are
        self.logs_computed = True  # generated columns, of updated rows
        # Cleanups to do: at first those of a run that was killed, and of tables that are not wanted any more.
        self._left: list[Callable[[], None]] = [partial(remove_notes, lake, state), self._remove_changes]
        self._leave_unwanted(first=True)
        self._told: set[str] = set()  # patterns of tables and columns that mean none
        self._copies = Copying(self, rate=rate)
        self._following = False  # copies are made beside the rounds
        self._rounds: Counter[str] = Counter()  # that changed a table since its files were merged
        self._reach = Reach()
        self._plans: dict[bool, tuple[Any, LogPlan]] = {}  # the last of some tables and of none, as asked for
        self._case = ""  # of names of tables: "0" is as they are written, "1" in lower case

    def _warn_of_unused(self) -> None:
        """Warn once of patterns of columns that mean none: of a wrong name, values are in the lake."""
        found = set(unused(self.state, self.columns))
        if new := sorted(found - self._told):
            warnings.warn(
                f"the options of columns and rows: nothing is {', '.join(new)} (names of databases and"
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

    def _leave_unwanted(self, *, first: bool = False) -> None:
        unwanted = self.state.leave_unwanted()
        for one in unwanted:
            one.end_copy()
        tables = (*self.state.tables.values(), *unwanted)
        self._left += [partial(self.lake.remove_key_indexes, self.state)] if unwanted or first else []
        self._left += [partial(clean_up, self.lake, one, copy) for one in tables for copy in one.left]

    def amended(self, *, look: bool) -> None:
        """Go on after others have changed the state; `look`: for tables of the server that are wanted now."""
        self._behind = True  # those that go on again
        self._leave_unwanted()
        self._copies.leave_unwanted()
        if look:
            with suppress(UnreachableError):  # the next look finds them
                self._look()
        self.save()

    def suspect(self, state: TableState, reason: str) -> None:
        """Have a table copied again that may lack changes, or note that if it would be too much."""
        self._copies.heal(state, reason)
        self.save()

    # ------------------------------------------------------------ runs

    def until_now(self) -> None:
        """Bring all tables to the server's present position, or beyond it."""
        self._examine()
        if self._world.now() >= self._again_at:
            self._warn_of_losses()
            for one in self.state.tables.values():
                one.try_again()
                if one.stage == "following" and one.suspect is not None:
                    self._copies.heal(one, one.suspect)
            self._again_at = self._world.now() + _AGAIN
        asked = self._world.time()
        if not self.archive():
            return
        end: int | None = None
        while True:
            self._serve(self)
            self._look()
            self._copy(begin=True)
            self._warn_of_unused()
            self.replay(None, asked)
            self._compact()
            self._passed(self.state)
            copying = [one for one in self.state.tables.values() if one.stage == "copying"]
            if not copying or self._following or self._stop.is_set():
                return
            # Some changes lead to a copy, without a key all of them: if they go on, this would not end.
            if end is not None and all((one.place or 0) >= end for one in copying):
                return
            end = end or self.plan(()).end()
            asked = self._world.time()
            self.archive()

    def follow(self) -> None:
        """Continue until stopped; wait up to `Address.reconnect` seconds for a server that is lost."""
        self._following = True
        try:
            self._follow()
        finally:
            self._copies.end()

    def _follow(self) -> None:
        lost_at: float | None = None
        while not self._stop.is_set():
            try:
                self.until_now()
                lost_at = None
                self._prove(self)
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
            self._world.wait(self.halt, _PAUSE)
            return
        self._receiver.begin()
        look_at = self._world.now() + _LOOK
        while not self._stop.is_set() and (left := look_at - self._world.now()) > 0:
            self._serve(self)
            self._prove(self)
            self._behind |= self._copy()
            if self._copies.ready:
                self._receiver.wait(_PAUSE, self.halt)  # it was tried just now
                return
            if self._copies.at_work:
                self.stepped(self.state)  # how far they are
            self._look_due = False
            more = self._receiver.wait(min(left, _ASK), self.halt)
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
        self.lake.note(asked, max((one for one in places if one is not None), default=None))

    def save(self, *, soon: bool = False) -> None:
        """Save the state of all tables; `soon`: unless that would be most of the work, as the tables tell."""
        self.lake.note(None, None)
        began = self._world.now()
        if not soon or began >= self._save_again:
            self.lake.save(self.state)
            ended = self._world.now()
            self._save_again = ended + _SAVING * (ended - began)
        self.stepped(self.state)

    def plan(self, tables: Iterable[TableState]) -> LogPlan:
        """The archive, for reading some tables."""
        names = [one.full_name for one in tables]
        lower, counted = self._case == "1", self._reach.parents(names) - set(names)
        before = self._plans.get(bool(names))  # the next round is most often about the same tables
        if before is not None and before[0] == (names, lower, counted):
            return before[1]
        found = LogPlan(
            self.state.archive,
            names,
            self.lake.storage_options,
            self.runner.light,
            lower_case=lower,
            counted=counted,
            metadata=self.columns.read,
        )
        self._plans[bool(names)] = (names, lower, counted), found
        return found

    # ------------------------------------------------------------ the server

    def archive(self) -> bool:
        """Bring the archive up to the server's position, and use that server from now on.

        False: the mirror is stopped, maybe before that.
        """
        self._receiver.up_to_now()
        if self._stop.is_set():
            return False  # maybe before there was an archive
        server = self.plan(()).server()
        self.server = identity(server["uuid"], server["server_id"])
        hosts = sorted(self.address.hosts, key=lambda one: f"{one[0]}:{one[1]}" != server["address"])
        self.address = replace(self.address, hosts=tuple(hosts))
        return True

    def _examine(self) -> None:
        with Connection(self.address) as connection:
            facts = connection.facts()
            self._answered = True
            self.mariadb, self.old = facts.mariadb, not facts.mariadb and facts.number < (5, 7)
            self.by_gtids, self.logs_computed = facts.by_gtids_only, logs_computed(facts)
            self.placed = self.mariadb and not self.by_gtids
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
        self.save()

    def _is_gone(self, state: TableState, place: int) -> bool:
        """Whether the log shows that a table was dropped or renamed; that the server lacks it is no proof."""
        state.gone = state.gone or self.plan(()).ends(self.state.offsets[place], state.full_name)
        return state.gone

    def _end(self, state: TableState) -> None:
        """The server dropped a table: empty it in the lake; its history stays."""
        try:
            if state.copy is not None:
                self.clean(partial(clean_up, self.lake, state, state.copy["id"]))
                state.end_copy()
            named = self.state.by_names() if state.place is None else {}
            if self.lake.other(state, self.state, named) is None and not state.lake_rules.soft:
                self.lake.opened(state).empty()
        except Exception as error:  # of the format's library, the catalog and the stores below them
            self._copies.failed(state, outage(error))
            return
        state.copy_anew()
        state.stage = "dropped"

    def _copy(self, *, begin: bool = False) -> bool:
        """Copy tables, or go on with that; whether some have come to an end."""
        if not self._following:
            self._copies.here()
            self._tidy()
            return True
        if begin:
            self._copies.beside()
        if found := self._copies.collect():
            self._tidy()
        return found

    def clean(self, work: Callable[[], None]) -> None:
        """Do a cleanup later, until it succeeds."""
        self._left.append(work)

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
        if self._compact_after is None:
            return
        before = self._world.time() - self._compact_after
        for name, state in self.state.tables.items():
            if state.compacted > before and self._rounds.get(name, 0) < _MOST_ROUNDS:
                continue
            if state.stage != "following" or self._stop.is_set():
                continue
            try:
                found = [(self.lake.opened(state), self.lake.folder(state))]
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
            self.save(soon=True)

    # ------------------------------------------------------------ the log

    def replay(self, last: int | None, asked: float | None) -> None:
        """Replay the archive up to a place; tables that are furthest behind go first.

        Parameters
        ----------
        last : int or None
            The version of the place; None: what the archive has by now, and maybe more.
        asked : float or None
            The time, in seconds since 1970 UTC, up to which the archive has everything that was committed;
            None: that is not known.
        """
        if self.state.round is not None and self.plan(()).lacking(self.state.round["start"]):
            self.state.round = None  # tables skip what they have of it already
        if self.state.round is not None:
            self._round()
        ahead, limit = False, self.plan(()).limit() if last is None else None
        while not self._stop.is_set():
            self._serve(self)
            self._begin_histories()
            following = [one for one in self.state.tables.values() if one.stage == "following"]
            if not following:
                return
            places = sorted({one.place for one in following if one.place is not None})
            if limit is not None and places[0] >= limit:  # whoever writes all the time does not keep it here
                self._reached(following, asked)
                return
            at = places[-1] if ahead else places[0]
            group = [one for one in following if one.place == at]
            start, plan = self.state.offsets[at], self.plan(group)
            if places[1:] and (log := plan.lacking(start)):  # if all tables need it, it is an error
                for one in group:
                    one.copy_anew(
                        f"the archive no longer has the log {log}, from which the table must continue"
                    )
                self.save()
                continue
            stop, later = start, [one for one in places if one > at]
            if last is None or at < last:
                ends = [*later[:1], *([] if last is None else [last])]
                stop = plan.behind(start, _ROUND_BYTES, min(ends, default=None))
            reached = plan.version(stop)
            if reached <= at and ahead:
                ahead = False
                continue
            if reached <= at:  # there is no further transaction before the end
                self._reached(following, asked)
                return
            # Those that are far behind, as after a copy, do not stop the others: they take turns.
            ahead = self._following and bool(later) and reached < later[0]
            self.state.round = {"start": start, "end": stop, "tables": [one.full_name for one in group]}
            self.lake.note(None, None)
            self.lake.begin_round(self.state)
            self._round(plan)

    def _reached(self, tables: list[TableState], asked: float | None) -> None:
        """Note that tables have everything that was committed by then, if that is known."""
        if asked is not None:
            for one in tables:
                one.as_of = asked
        self._note(asked)  # which says it too, so that the state need not be saved in each round for it
        self.save(soon=True)

    def _begin_histories(self) -> None:
        """Begin histories that do not exist yet or have a gap, with the present rows of their tables."""
        begun = False
        for one in self.state.tables.values():
            if self._history is None or one.stage != "following" or one.keyless or one.history == one.place:
                continue
            if self._tried(one, partial(self._history.begin, one), heals=False):
                one.history, begun = one.place, True
                self.save(soon=True)
        if begun:
            self.save()  # a round that began is saved alone: repeated, it would leave out these histories

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
                self._copies.heal(self.state.tables[name], reason)
            self._apply_each([one for one in tables if one.stage == "following"], decoded, work, version)
        moved = [one for one in tables if one.place == version]
        if moved:
            known = self.state.offsets.get(version)
            names = [(one.database, one.name) for one in moved]
            self.state.offsets[version] = work["end"] if known is None else merged(known, work["end"], names)
        self.state.round = None
        self.save()
        self._remove_changes()

    def _remove_changes(self) -> None:
        self.lake.remove(CHANGES)

    def _decoded(
        self, plan: LogPlan, tables: list[TableState], start: dict[str, Any], end: dict[str, Any]
    ) -> Decoded:
        """The changes of the plan's tables; a table that cannot be decoded is parked or copied again."""
        wanted = tables
        while True:
            try:
                return decode(
                    self.runner,
                    self.lake,
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
                # For example after a swap with a table that was not followed: a copy has its definition.
                self._heal(state, str(error))
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
                if one.unlogged or not self.logs_computed:
                    apply(one)  # another server may have taken over
                else:
                    self._reach_place(one, version)
                continue
            size = sum(file.bytes for file in decoded.files.get(one.full_name, ()))
            few[size <= _FEW_BYTES and self.state.format == "delta"].append(one)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(apply, few[True]):
                self.stepped(self.state)
        for one in few[False]:
            apply(one)
            self.stepped(self.state)

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
            state.copy_anew(f"a column of the mirror's options was altered: {statements[0].sql[:200]}")
            return
        history = self._history if state.history == state.place and not state.keyless else None
        if history is not None and changed:
            append = partial(history.append, state, files, statements, decoded.folder, version)
            if not self._tried(state, append, heals=False):
                return
        state.gone |= any(one.kind in ("drop", "rename") for one in statements)
        if needs_copy(state, statements, files, key, later, logs_computed=self.logs_computed):
            state.copy_anew(_why(state, statements))
            return
        if changed:
            if not key:
                state.copy_anew(_NO_KEY)
                return
            properties = gtids_property(work["end"])
            if not self._tried(
                state,
                partial(
                    apply_round,
                    self.runner,
                    self.lake,
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
        self._reach_place(state, version)

    def _reach_place(self, state: TableState, version: int) -> None:
        """Note that a table has everything up to a place, and its history too, if it had until now."""
        if self._history is not None and state.history == state.place and not state.keyless:
            state.history = version
        state.place, state.failures = version, 0

    def _tried(self, state: TableState, write: Callable[[], None], *, heals: bool = True) -> bool:
        """Write to a table; False if it failed: it is copied or parked, or tried again next time.

        `heals`: whether a copy of the table helps.
        """
        try:
            write()
        except CopyNeeded as error:
            state.copy_anew(str(error))
        except (ApplyStopped, ValueError, TypeError, SchemaError) as error:
            if heals:
                self._heal(state, str(error))
            else:
                state.park(str(error))
        except Exception as error:  # of deltalake and the stores below it
            state.failures += 1
            if state.failures >= _MOST_FAILURES:
                state.park(f"it cannot be written: {type(error).__name__}: {error}", again=True)
        else:
            return True
        return False

    def _heal(self, state: TableState, reason: str) -> None:
        """Have a table copied again whose changes cannot be applied; one after another, it waits."""
        failures = state.failures + 1
        if failures >= _MOST_FAILURES:
            state.park(
                f"{reason} (also after {failures - 1} copies: it is tried again in a while)", again=True
            )
            return
        state.copy_anew(reason)
        state.failures = failures


def _why(state: TableState, statements: Sequence[ReportedStatement]) -> str:
    """Why a round of a table leads to a copy."""
    if state.keyless:
        return _NO_KEY
    shown = "; ".join(one.sql[:200] for one in statements if one.kind != "create")
    return f"the log does not show all that was done: {shown}" if shown else "its key is another"
