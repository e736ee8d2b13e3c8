"""The copies of a mirror: planned, read beside the replay of other tables, and committed at their marks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from ..errors import BinlogError, MirrorError, SchemaError, ServerError, UnreachableError
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.table import App, DataFile
from ..schema.table_definitions import TableSchema
from ..server.address import Address
from ..server.connection import Connection
from ..server.world import Started
from .changes import LogPlan, merged
from .chunks import CHUNK_BYTES, VECTOR_BYTES, Outage, outage
from .columns import ColumnSettings
from .copies import (
    COPY,
    Copy,
    Planned,
    charsets_of_server,
    clean_up,
    commit_copy,
    plan_copy,
    run_copies,
    selected,
)
from .finishing import finished
from .lake import Lake
from .marks import Mark, check_server, place_of, take_mark, unseen
from .state import GTIDS, MirrorState, Offset, TableState
from .values import set_for_reading

if TYPE_CHECKING:
    import pyarrow as pa

GONE = frozenset((1146, 1049))  # no such table, no such database
CHANGED = frozenset((1054, 1412))  # no such column, the definition changed
_MOST_FAILURES = 3  # in a row, before a table is parked
_MOST_LOOKS = 20  # at a table that is missing or changes: MySQL 5.7 lists tables whose files are gone
_FIRST = 4  # chunks that are found before it is begun: rounds wait for that
_AT_ONCE = 3  # batches of tables that are read at the same time
_ENDING = 30.0  # seconds in which a thread is to end
_DAY, _TOGETHER = 86400.0, 900.0  # seconds: copies of a table that are counted, and as one
Result = list[DataFile] | BinlogError


class Host(Protocol):
    """The mirror whose tables are copied."""

    runner: Runner
    lake: Lake
    state: MirrorState
    address: Address
    columns: ColumnSettings
    mariadb: bool
    logs_computed: bool
    server: str
    halt: threading.Event

    def archive(self) -> bool:
        """Bring the archive up to the server's position; False: the mirror is stopped, maybe before."""
        ...

    def plan(self, tables: Iterable[TableState]) -> LogPlan:
        """The archive, for reading some tables."""
        ...

    def save(self, *, soon: bool = False) -> None:
        """Save the state."""
        ...

    def stepped(self, state: MirrorState) -> None:
        """Tell of a step."""
        ...

    def clean(self, work: Callable[[], None]) -> None:
        """Do a cleanup later, until it succeeds."""
        ...


class Copying:
    """Copies tables.

    Parameters
    ----------
    host : Host
        The mirror.
    rate : float or None
        The most bytes that copies read in a second.
    """

    def __init__(self, host: Host, *, rate: float | None = None) -> None:
        self._host, self._rate = host, rate
        self._missed: Counter[str] = Counter()  # how often a table was gone or changed when it was copied
        # What threads have read, their errors, and the events of those that end.
        self._read: SimpleQueue[tuple[str, Result] | Exception | threading.Event] = SimpleQueue()
        # What threads read, by the ids of the copies, with what ends its thread.
        self._reading: dict[str, tuple[Planned, threading.Event]] = {}
        self._threads: list[tuple[Started, threading.Event]] = []  # that are at work

    # ------------------------------------------------------------ which

    def due(self) -> list[TableState]:
        """The tables that are to be copied now, suspect ones first; those that have to wait are parked."""
        found = [
            one
            for one in self._host.state.tables.values()
            if one.stage == "copying" and (one.copy is None or one.copy["id"] not in self._reading)
        ]
        for one in found:
            if one.copy is None and one.healing is not None and (reason := self._over(one)) is not None:
                one.park(f"{one.healing}: {reason}", again=True)
        return sorted(
            (one for one in found if one.stage == "copying"),
            key=lambda one: (one.suspect is None, one.healing is None),
        )

    def heal(self, state: TableState, reason: str) -> None:
        """Have a suspect table copied again; if that would be too much, it is followed as it is."""
        state.suspect = reason
        if self._over(state) is None:
            state.copy_anew(reason)

    def _over(self, state: TableState) -> str | None:
        """Why a table is not copied again by itself now, if so: too much was copied."""
        now = self._host.address.world.time()  # the clock may have been set back since
        state.healed = [(min(when, now), size) for when, size in state.healed if when > now - _DAY]
        spent, size = sum(size for _, size in state.healed), self._size(state)
        allowed = self._host.state.heal
        if 0 < allowed >= spent + size:
            return None
        return (
            f"a copy has about {size:,} bytes, after {spent:,.0f} in the last day, which is more than heal ="
            f" {allowed:,.0f} allows: copy it now (resync), wait, or allow more"
        )

    def _size(self, state: TableState) -> int:
        """About how many bytes a copy of a table has."""
        try:
            return sum(one.bytes for one in self._host.lake.opened(state).files())
        except Exception:  # of the format's library, the catalog and the stores below them: the copy says it
            return 0

    # ------------------------------------------------------------ how

    def here(self) -> None:
        """Copy what is due, and come back when it is done."""
        if not (due := self.due()):
            return
        copies = self._begun(due)
        found: dict[str, Result] = {}
        for name, _, result in self._results(copies, self._host.halt, self._stepped):
            found[name] = result
        if self._host.halt.is_set():
            return  # the archive may stop too; the chunks that were read are kept for the next time
        self._finish_all([(copies[name], result) for name, result in found.items()])

    def beside(self) -> None:
        """Have threads read what is due while other tables are replayed; `collect` has the results."""
        if self._is_full or not (due := self.due()) or not (copies := self._begun(due)):
            return
        stop = threading.Event()
        self._reading |= {one.copy.id: (one, stop) for one in copies.values()}
        work = partial(self._run, copies, stop)
        self._threads.append((self._host.address.world.start(work, "binlog_core mirror's copies"), stop))

    def leave_unwanted(self) -> None:
        """End the threads that read what is paused or not wanted any more; the rest of it is begun again."""
        for one, stop in self._reading.values():
            if one.state.stage != "copying" or _is_over(one):
                stop.set()

    def _stepped(self) -> None:
        self._host.stepped(self._host.state)

    @property
    def _is_full(self) -> bool:
        return len(self._threads) >= (1 if self._rate is not None else _AT_ONCE)

    @property
    def ready(self) -> bool:
        """Whether something is to be begun, and can be."""
        return not self._is_full and bool(self.due())

    @property
    def at_work(self) -> bool:
        """Whether threads read."""
        return bool(self._threads)

    def _run(self, copies: dict[str, Planned], stop: threading.Event) -> None:
        try:
            for _, planned, result in self._results(copies, stop):
                self._read.put((planned.copy.id, result))
        except Exception as error:  # raised by `collect`
            self._read.put(error)
        self._read.put(stop)

    def _results(
        self, copies: dict[str, Planned], stop: threading.Event, stepped: Callable[[], None] = lambda: None
    ) -> Iterable[tuple[str, Planned, Result]]:
        host = self._host
        found = run_copies(
            host.runner,
            host.lake,
            host.address,
            copies,
            rate=self._rate,
            stop=stop,
            stepped=stepped,
            mask_key=host.columns.key,
        )
        for name, result in found:
            if not isinstance(result, BinlogError):
                try:
                    key = host.columns.key
                    result = finished(host.runner, host.lake, copies[name], result, mask_key=key)
                except BinlogError as error:
                    result = error
                except (ValueError, TypeError) as error:  # a value that does not fit
                    result = BinlogError(f"{type(error).__name__}: {error}")
                except Exception as error:  # of the format's library, the catalog and the stores below
                    result = outage(error)
            yield name, copies[name], result

    def collect(self) -> bool:
        """Commit what threads have read; whether there was something.

        Raises
        ------
        Exception
            That of a thread.
        """
        found: list[tuple[Planned, Result]] = []
        error: Exception | None = None
        while True:
            try:
                one = self._read.get_nowait()
            except Empty:
                break
            if isinstance(one, threading.Event):
                self._leave(one)
            elif isinstance(one, Exception):
                error = one
            else:
                found.append((self._reading.pop(one[0])[0], one[1]))
        if found:
            self._finish_all(found)
        if error is not None:
            raise error
        return bool(found)

    def _leave(self, stop: threading.Event) -> None:
        """Forget what a thread that ends did not come to: what is wanted of it is begun again."""
        host = self._host
        self._threads = [one for one in self._threads if one[1] is not stop]
        for planned in [one for one, its in self._reading.values() if its is stop]:
            del self._reading[planned.copy.id]
            if _is_over(planned):
                host.clean(partial(clean_up, host.lake, planned.state, planned.copy.id))

    def end(self) -> None:
        """End the threads; the chunks that were read are kept for the next run."""
        for _, stop in self._threads:
            stop.set()
        for thread, _ in self._threads:
            thread.join(_ENDING)
        self._threads.clear()
        self._reading.clear()
        self._read = SimpleQueue()

    def _begun(self, due: list[TableState]) -> dict[str, Planned]:
        """Plan the copies that are not yet begun, and note all of them."""
        host = self._host
        if begun := [one for one in due if one.copy is None]:
            named = host.state.by_names()
            with Connection(host.address) as connection:
                mark = asdict(take_mark(connection, connection.facts()))
                set_for_reading(connection)  # with the settings of the sessions that read the chunks
                for state in begun:
                    try:
                        host.lake.check_no_other(state, host.state, named)
                        copy = plan_copy(
                            connection,
                            state,
                            mark,
                            mariadb=host.mariadb,
                            logs_computed=host.logs_computed,
                            settings=host.columns,
                            chunks=_FIRST,
                            size=VECTOR_BYTES if host.lake.vectors else CHUNK_BYTES,
                            slots=host.runner.slots,
                        )
                        state.copy = asdict(copy)
                    except BinlogError as error:
                        self.failed(state, error)
                    except Exception as error:  # of the format's library, the catalog and the stores below
                        self.failed(state, outage(error))
            host.save()
        return {
            one.full_name: selected(one, Copy(**one.copy), mariadb=host.mariadb)
            for one in due
            if one.copy is not None
        }

    # ------------------------------------------------------------ what they become

    def _finish_all(self, found: list[tuple[Planned, Result]]) -> None:
        host = self._host
        if not host.archive():
            return  # it may lack the marks, and the end up to which was read; the chunks are kept
        results: list[tuple[Planned, Result]] = []
        for planned, result in found:
            state, copy = planned.state, planned.copy
            if _is_over(planned):
                host.clean(partial(clean_up, host.lake, state, copy.id))
                continue
            if state.stage != "copying":
                continue  # it is paused: its chunks are kept
            try:  # the archive cannot get the rest of its log from another server
                check_server(copy.mark["server"], host.server)
            except MirrorError as error:
                result = error
            results.append((planned, result))
        plan = host.plan([planned.state for planned, _ in results])
        begins = self._begins(plan, [planned for planned, one in results if isinstance(one, list)])
        exact = plan.end()
        for planned, result in results:
            begin = result if isinstance(result, BinlogError) else begins[Mark(**planned.copy.mark)]
            if isinstance(begin, BinlogError):
                self._give_up(planned.state, planned.copy, begin)
            else:
                assert not isinstance(result, BinlogError)
                self._finish(planned, result, begin, exact)
            host.save(soon=True)
        host.save()

    def _give_up(self, state: TableState, copy: Copy, error: BinlogError) -> None:
        """Remove a failed copy, so that it begins again; after an outage it goes on with its chunks."""
        if isinstance(error, UnreachableError | Outage):
            self.failed(state, error)
            return
        try:
            clean_up(self._host.lake, state, copy.id)
        except Exception as other:  # of the format's library, the catalog and the stores below them
            self.failed(state, outage(other))  # the next round tries it again
            return
        state.copy = None
        if state.healing is not None:  # one that always fails is not to be read again without an end
            _note_healed(state, self._host.address.world.time(), self._size(state))
        self.failed(state, error)

    def failed(self, state: TableState, error: BinlogError) -> None:
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

        That is before an XA COMMIT that the copies may lack: what they have of the log comes once more then.
        Or an error: a copy may have taken longer than the archive keeps its logs.
        """
        tables: dict[Mark, list[TableSchema]] = {}
        for one in copies:
            tables.setdefault(Mark(**one.copy.mark), []).append(one.definition)
        if not tables:
            return {}
        with Connection(self._host.address) as connection:
            charsets, logs = charsets_of_server(connection), plan.logs()
        found: dict[Mark, int | BinlogError] = {}
        for mark, definitions in tables.items():
            try:
                place = place_of(mark, logs, plan.access)
                earlier = unseen(mark, place, logs, plan.access)
                begin = plan.begin(earlier or place, definitions, charsets)
                if earlier is not None:  # the archive may lack where it was prepared
                    plan.behind(begin, None, logs[place[0]].version_base + place[1])
            except MirrorError as error:
                found[mark] = error
                continue
            version = found[mark] = plan.version(begin)
            known = self._host.state.offsets.get(version)
            names = [(one.database, one.name) for one in definitions]
            # Once for all tables: it has the definitions of all of them.
            self._host.state.offsets[version] = begin if known is None else merged(known, begin, names)
        return found

    def _finish(self, planned: Planned, files: list[DataFile], place: int, exact: int) -> None:
        state, copy, definition, selection = planned
        offset = self._host.state.offsets[place]
        try:
            table = self._host.lake.opened(state, rules=copy.rules)
            if table.last_commit().get(COPY) != copy.id:
                mark = str(Mark(**copy.mark))
                properties = {COPY: copy.id, "binlog_core.mark": mark, **gtids_property(offset)}
                commit_copy(table, selection.lake_schema, files, App(self._host.state.id, place), properties)
            kept = {one.name for one in table.files()}
        except Exception as error:  # of the format's library, the catalog and the stores below them
            self.failed(state, outage(error))
            return
        del self._missed[state.full_name]
        state.end_copy()
        world = self._host.address.world
        if state.healing is not None:
            _note_healed(state, world.time(), sum(one.bytes for one in files))
        state.healing, state.reason, state.gone, state.suspect = None, None, False, None
        state.stage, state.place, state.exact_from, state.committed = "following", place, exact, place
        state.keyless = copy.versioned or not _is_usable(definition.row_key, selection.lake_schema, files)
        state.unlogged = list(copy.unlogged)
        state.note_rules(copy.rules)
        state.compacted = world.time()  # its files are as large as they should be
        state.as_of = state.history = state.proved = None
        self._host.clean(partial(clean_up, self._host.lake, state, copy.id, kept))


def _is_over(planned: Planned) -> bool:
    """Whether a copy was ended meanwhile."""
    copy = planned.state.copy
    return copy is None or copy["id"] != planned.copy.id


def _note_healed(state: TableState, when: float, size: int) -> None:
    """Note a copy; one that soon follows another with that one: a table may be copied every few seconds."""
    if state.healed and 0 <= when - state.healed[-1][0] < _TOGETHER:
        began, before = state.healed[-1]
        state.healed = (*state.healed[:-1], (began, before + size))
    else:
        state.healed = (*state.healed, (when, size))


def _is_usable(key: tuple[str, ...] | None, schema: pa.Schema, files: list[DataFile]) -> bool:
    """Whether changes can be applied by a key: not by a SET, nor by invalid dates, which are null."""
    types = import_pyarrow().types
    lists = any(types.is_nested(schema.field(name).type) for name in key or ())
    return bool(key) and not lists and not any(one.nulls.get(name) for one in files for name in key or ())


def gtids_property(offset: Offset) -> dict[str, str]:
    """The property of a commit with the GTIDs that the table then contains."""
    return {"binlog_core.gtids": offset[GTIDS]} if offset.get(GTIDS) else {}
