"""The raw events of a server's logs, run by run, across lost connections, restarts and failovers."""

from __future__ import annotations

import datetime as dt
import threading
import uuid as _uuid
from collections.abc import Callable, Iterator
from typing import Any, Self

from .._decode.executed import Executed, last_of_domains
from .._format.event_header import FIRST_EVENT, LENGTH_AT, SERVER_ID_AT, TYPE_AT, length_of, type_of
from .._format.event_types import EventType
from ..errors import (
    AuthenticationError,
    BinlogError,
    DivergedError,
    IdentityError,
    PositionError,
    ProtocolError,
    PurgedError,
    ServerError,
    UnreachableError,
)
from ..gtids import AnyGtid, AnyGtidSet, Gtid, GtidSet, MariadbGtid, MariadbGtidSet, gtid_of, set_of_one
from ..limits import DEFAULT_LIMITS, Limits
from .address import Address
from .connection import Connection, Facts
from .dump import Begin, Dump, LineLost
from .gtid_dump import GtidDump
from .refusals import COPY_AGAIN
from .run import ServerRun, is_before, numbered
from .start import (
    Start,
    by_gtids,
    encoded,
    gtids_at,
    lacking,
    random_id,
    start_of,
    status_of,
    still_has,
    unknown_sources,
)

_FIRST_PAUSE = 0.1  # seconds before the second try to connect; each further one waits twice as long, up to
_LONGEST_PAUSE = 15.0
_HEAD = (EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST)
_MOST_IDENTITIES = 5  # server ids that are tried, one after the other


class ServerStream:
    """A server's logs as runs of complete raw events.

    >>> from binlog_core.server.address import Address
    >>> from binlog_core.server.stream import ServerStream
    >>> with ServerStream(Address.of("mysql://repl@db1"), "mysql-bin.000042", 4) as stream:   # doctest: +SKIP
    ...     for run in stream:
    ...         if run.kind == "events":
    ...             write(run.file, run.position, run.events)

    Joined in order, the "events" of a log from position 4 on are its file without the four bytes in front
    (with the in-use flag cleared while it still grows). A run never crosses a log's end, and "file" comes
    before the first run of each. After a lost connection the stream continues at the byte where the last
    complete event ended, and the runs do not show it. Only if another host of the address has to take over,
    there is a run "failover", and then a "file" of that server.

    Parameters
    ----------
    address : Address
        The server, or several of which one is read.
    file : str
        The log to begin with; "" means the oldest that the server has.
    position : int
        Position of the first event: 4 for the first one of a log.
    start : optional
        Instead of these: "now", a datetime, a `Position`, a `GtidSet` or a `MariadbGtidSet`.
    follow : bool
        False: end where the server's logs ended at the start, or where they end if the server does not say.
    stop : (str, int), optional
        File and position of the first event not to be read.
    limits : Limits, optional
        Its `event_bytes` limit one event.
    on_reconnect : callable, optional
        Called with a description of each connection that was lost and restored, after the first one.
    stopping : threading.Event, optional
        Ends the stream when set.

    Attributes
    ----------
    file, position : str, int
        Everything before it has been handed out.
    facts : Facts
        What the server said about itself on the last connection.
    reconnects : int
        Connections that were lost and restored.
    ended : bool
        Whether everything that was asked for has been handed out.

    Raises
    ------
    UnreachableError
        No host answers, a lost connection did not come back within the address's `reconnect` seconds, or
        (without `follow`) nothing new came for as long.
    AuthenticationError, PrivilegeError, PurgedError, PositionError, DivergedError, IdentityError, ServerError
        The server refuses.
    ProtocolError
        What answers is not a server.
    DecodeError
        An event is larger than `Limits.event_bytes`.
    """

    def __init__(
        self,
        address: Address,
        file: str = "",
        position: int = FIRST_EVENT,
        *,
        start: Any = None,
        follow: bool = True,
        stop: tuple[str, int] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        on_reconnect: Callable[[str], None] | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        self.address = address
        self.reconnects = 0
        self.ended = False
        self.on_reconnect = on_reconnect
        self._stopping = stopping or threading.Event()
        self.done_gtid: AnyGtid | None = None  # for sources: the transaction of `done_records`
        self.doubt: str | None = None  # for sources: why it may be another server than the one that is meant
        self.begun: ServerRun | None = None  # for sources: the "file" of the log that is next
        self._follow = follow
        self._stop, self._stop_given = stop, stop is not None
        self._limits = limits
        self._uuid = str(_uuid.uuid4())
        self._server_id = address.server_id or random_id()
        self._identities = 1
        self._identity: bytes | None  # of the log at hand: its descriptor's time and server
        self._reached: tuple[str, int] | None  # the furthest place
        self._closed = False
        self._lost_at: float | None = None  # nothing has come since
        self._stalled_at: float | None = None  # without `follow`: nothing new has come since
        self._pause = 0.0  # seconds before the next try to connect
        self._dump: Dump | None = None
        self._running: Gtid | MariadbGtid | None = None  # may have begun without having ended
        self._told = False  # whether a reader said what it has processed, of all that the dump sent
        self._known_descriptor = False
        self._successor: tuple[Connection, Facts] | None = None
        self._succeeding = False  # the reader has left the lost server's log
        self._start = start if start is not None else (file, position)  # None: events were read
        while not self._connect():
            pass

    def _connect(self) -> bool:
        """The first connection; False: it was lost, and another may be tried now."""
        met = self._lost_at is not None
        try:
            with _ClosingOnError(Connection(self.address)) as connection:
                facts = connection.facts()
                met = True  # the address is right, whatever comes
                self._begin(connection, facts)
        except UnreachableError as error:
            if not (error.lost or met) or not self._may_try_again(error):
                raise
            return False
        return True

    def _begin(self, connection: Connection, facts: Facts) -> None:
        """Begin on a server where `start` says."""
        begin = start_of(connection, facts, self._start)
        if isinstance(self._start, GtidSet | MariadbGtidSet):
            self.doubt = unknown_sources(facts, self._start)
        if not self._follow and not self._stop_given:
            status = status_of(connection)
            self._stop = (status.file, status.offset) if status is not None else None
        self.facts = facts
        self.done_records, self.done_gtid = begin.records, begin.transaction
        self._check_has(facts, self._begun, connection.name)
        self._take_place(begin)
        self._begin_dump(connection, begin.begin)

    def _take_place(self, begin: Start) -> None:
        self._files, self._identity, self._reached = 0, None, None
        self.file, self.position = begin.begin.file, begin.begin.position
        self._executed, self._running = Executed(begin.gtids), None
        self._from_gtids = begin.gtids if begin.begin.gtids is not None else None

    def __iter__(self) -> Iterator[ServerRun]:
        """Runs until the logs end, `stop` is reached or the stream is stopped."""
        while (run := self.next_run()) is not None:
            yield run

    def next_run(self, timeout: float | None = None) -> ServerRun | None:
        """The next run; the events of the one before are no longer valid then.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait; 0 takes what is there. None waits without limit.

        Returns
        -------
        Run or None
            None: nothing in time, or `ended`, or stopped.
        """
        now = self.address.world.now
        until = None if timeout is None else now() + timeout
        while not (self.ended or self._closed or self._stopping.is_set()):
            if self._successor is not None and not self._succeed(*self._successor):
                continue
            assert self._dump is not None
            try:
                run = self._dump.next_run(self._wait_for(self._dump, until))
            except LineLost as lost:
                self._lost(str(lost))
                if self._successor is not None:
                    return ServerRun("failover", self.file, self.position, memoryview(b""), False)
                continue
            except IdentityError as error:
                self._other_identity(error)
                continue
            except PurgedError as error:
                raise self._with_what_it_has(error) from None
            if not self._follow:
                self._check_progress(self._dump)
            if run is None:
                self.ended = self._dump.ended
            elif (run := self._noted(run)) is not None:
                return run
            if until is not None and now() >= until:
                return None
        return None

    def _wait_for(self, dump: Dump, until: float | None) -> float | None:
        """Seconds that the dump may take: to a time, and without `follow` no more than without progress."""
        now = self.address.world.now()
        if not self._follow:
            if self._stalled_at is None:
                self._stalled_at = now
            end = self._stalled_at + dump.patience
            until = end if until is None else min(until, end)
        return None if until is None else max(0.0, until - now)

    def _check_progress(self, dump: Dump) -> None:
        """A reader that does not follow must come to an end, whatever keeps its connection busy."""
        known, place = self._reached, dump.reached
        if known is None or numbered(known[0])[0] != numbered(place[0])[0] or is_before(known, place):
            self._reached, self._stalled_at = place, None
        elif self._stalled_at is not None and self.address.world.now() >= self._stalled_at + dump.patience:
            raise dump.stalled()

    def _with_what_it_has(self, error: PurgedError) -> PurgedError:
        """The error about purged logs, with the logs that the server still has."""
        try:
            with Connection(self.address, [self._dump_host]) as connection:
                has = still_has(connection, self.facts)
        except BinlogError:
            return error
        if not has:
            return error
        return PurgedError(
            f"{error.message}; it has {has}",
            code=error.code,
            sqlstate=error.sqlstate,
            path=error.path,
            offset=error.offset,
        )

    @property
    def stopping(self) -> threading.Event:
        """Ends the stream when set; another event may take its place."""
        return self._stopping

    @stopping.setter
    def stopping(self, event: threading.Event) -> None:
        self._stopping = event
        if self._dump is not None:
            self._dump.stop = event

    @property
    def begun_at(self) -> AnyGtidSet | None:
        """The GTIDs that reading began with, if it began with GTIDs."""
        return self._from_gtids

    @property
    def host(self) -> tuple[str, int]:
        """The host that sends."""
        return self._dump_host

    @property
    def gtids(self) -> AnyGtidSet | None:
        """The GTIDs delivered so far, without the transaction that may still continue; None: not known.

        A reader that decodes the events knows more: after a run "failover" it sets what it has processed.
        """
        self._note_running()
        return self._executed.snapshot(self._running).known()

    @gtids.setter
    def gtids(self, gtids: AnyGtidSet | None) -> None:
        self._executed, self._running, self._told = Executed(gtids), None, True

    def acknowledge(self, file: str, position: int) -> None:
        """Tell a semi-synchronous server that everything before a position is stored safely."""
        if self.address.semi_sync and self._dump is not None:
            try:
                self._dump.acknowledge(file, position)
            except LineLost:
                pass  # the next read notices it too

    def stop(self) -> None:
        """End the stream, from another thread or a signal handler."""
        self.stopping.set()

    def close(self) -> None:
        """End the connection; may be called again."""
        self._closed = True
        if self._dump is not None:
            self._dump.close()
        if self._successor is not None:
            self._successor[0].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ runs

    def _noted(self, run: ServerRun) -> ServerRun | None:
        """The run to return, or None; `file` and `position` move on with it."""
        if run.kind == "file":
            place, here = (run.file, run.position), (self.file, self.position)
            if self._files and self._from_gtids is None and is_before(place, here):
                raise ProtocolError(
                    f"the server goes back to {run.file} {run.position}", path=self.file, offset=self.position
                )
            known = self._files and place == here
            self.file, self.position = place
            if self._files and not known and self._reaches_stop(run.file, run.position):
                self.ended = True
                return None
            if not self._files and self._stop is not None and self._reaches_stop(run.file, -1):
                raise PositionError(
                    f"stop= is in {self._stop[0]}, before the log where reading begins",
                    path=run.file,
                )
            self._files += 1
            if known:
                return None  # the connection was restored
            self._identity = None
            return run
        if run.kind == "descriptor" or (run.kind == "events" and run.position == FIRST_EVENT):
            self._check_identity(run)
            if self._known_descriptor and run.kind == "descriptor":
                return None
        if run.kind in ("events", "heartbeat"):
            self._lost_at, self._pause = None, 0.0
        if run.kind == "heartbeat" and run.file == self.file:
            self.position = max(self.position, run.position)  # what is before it and was not sent is known
        if run.kind != "events":
            return run
        if self._start is not None and not _is_head(run.events):
            self._start = None
        self._note_gtids()
        if self._stop is not None and self._reaches_stop(run.file, run.end):
            self.ended = True
            wanted = self._stop[1] - run.position if run.file == self._stop[0] else 0
            run = run._replace(events=run.events[: max(0, wanted)])
            if not run.events:
                return None
        self.position = run.end
        return run

    def _check_identity(self, run: ServerRun) -> None:
        identity = bytes(run.events[:TYPE_AT]) + bytes(run.events[SERVER_ID_AT:LENGTH_AT])
        self._known_descriptor = self._identity is not None
        if self._known_descriptor and identity != self._identity:
            raise DivergedError(
                "the server's log of this name is not the one that was read: it was restored or reset;"
                f" {COPY_AGAIN}",
                path=self.file,
                offset=self.position,
            )
        self._identity = identity

    def _note_gtids(self) -> None:
        assert self._dump is not None
        state, runs = self._dump.gtids()
        if state is not None:
            if isinstance(state, GtidSet):
                self._executed.contain(state)
            else:
                self._executed.contain(last_of_domains(state))
        self._executed.add(runs)

    def _note_running(self) -> None:
        if self._told:  # the dump knows less: without an XID it does not see that a transaction has ended
            return
        if self._dump is not None and self._dump.between_transactions is not None:
            found = self._dump.running_gtid()
            self._running = gtid_of(found) if found is not None else None

    def _reaches_stop(self, file: str, position: int) -> bool:
        """Whether a place is `stop`, or after it; this cannot be known for logs of another name."""
        if self._stop is None:
            return False
        return (file, position) == self._stop or is_before(self._stop, (file, position))

    # ------------------------------------------------------------ one connection after another

    def _begin_dump(self, connection: Connection, begin: Begin) -> None:
        if self.facts.by_gtids_only and self._stop_given:
            raise PositionError(
                f"stop={self._stop!r} is a place in a file, and with binlog_storage_engine=innodb a server's"
                " log has no files: stop at a time, or with follow=False where the log ends",
                path=connection.name,
            )
        kind = GtidDump if self.facts.by_gtids_only else Dump
        self._dump = kind(
            connection,
            self.facts,
            begin,
            server_id=self._server_id,
            uuid=self._uuid,
            wait=self._follow,
            limits=self._limits,
            stop=self._stopping,
        )
        self._told = self._succeeding = False

    def _lost(self, why: str) -> None:
        """Connect again, to the same server or to another.

        The time for it is the address's `reconnect`. A server that accepts the connection and sends nothing
        does not count as back.
        """
        if self._closed or self.stopping.is_set():
            return
        hosts = list(self.address.hosts)
        if self._dump is not None:
            self._note_running()
            self._dump.close()
            hosts.sort(key=lambda host: host != self._dump_host)
        problem: ServerError = UnreachableError(why, path=self.address.name)
        while True:
            if not self._may_try_again(problem):
                return
            found = self._try(hosts)
            if found is None:
                self.reconnects += 1
                if self.on_reconnect is not None:
                    host = f"{self._dump_host[0]}:{self._dump_host[1]}"
                    self.on_reconnect(f"{why}; continued at {self.file} {self.position} with {host}")
                return
            problem = found
            problem.message = f"{why}, and {problem.message}"

    def _may_try_again(self, problem: ServerError) -> bool:
        """Pause before the next try to connect; False: stopped. Raises the problem when the time is up."""
        world = self.address.world
        if self._lost_at is None:
            self._lost_at = world.now()
        left = self._lost_at + self.address.reconnect - world.now()
        if left <= 0:
            if isinstance(problem, UnreachableError):
                problem.lost = False
            raise problem
        if self._pause and (world.wait(self.stopping, min(self._pause, left)) or self._closed):
            return False
        self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
        return True

    @property
    def _dump_host(self) -> tuple[str, int]:
        if self._successor is not None:
            return self._successor[0].host
        return self._dump.host if self._dump is not None else self.address.hosts[0]

    def _try(self, hosts: list[tuple[str, int]]) -> ServerError | None:
        """Continue with the first possible host; the error of the last one if none is."""
        problem: ServerError | None = None
        for host in hosts:
            try:
                with _ClosingOnError(Connection(self.address, [host])) as connection:
                    facts = connection.facts()
                    if self._is_same(facts) and not self._succeeding:
                        self.facts = facts
                        self._check_not_cut(connection)
                        self._begin_dump(connection, self._again())
                        return None
                    if self._begins_anywhere:
                        self._begin(connection, facts)
                        return None
                    self._check_successor(connection, facts)
                    self._successor = connection, facts
                    return None
            except (UnreachableError, LineLost, _Behind) as error:
                problem = error if isinstance(error, ServerError) else UnreachableError(str(error))
            except AuthenticationError as error:
                if len(hosts) == 1:
                    raise
                problem = error
        return problem

    @property
    def _begins_anywhere(self) -> bool:
        """Whether nothing was read, and `start` means the same on every server."""
        start = self._start
        return start == ("", FIRST_EVENT) or isinstance(start, dt.datetime | GtidSet | MariadbGtidSet)

    def _is_same(self, facts: Facts) -> bool:
        """Whether this is the server that was read before, judged by its own facts."""
        if facts.by_gtids_only:
            return False  # without positions it can only go on as another server would
        if facts.mariadb or self.facts.mariadb:
            return facts.mariadb == self.facts.mariadb and facts.server_id == self.facts.server_id
        return facts.uuid == self.facts.uuid

    def _check_not_cut(self, connection: Connection) -> None:
        """Check that MariaDB's log still has what was read of it: a reader by GTIDs does not notice."""
        if not isinstance(self._from_gtids, MariadbGtidSet):
            return
        begun, here = (gtids_at(connection, self.facts, self.file, at) for at in (FIRST_EVENT, self.position))
        if begun is not None and here is None:
            raise DivergedError(
                "the server's log ends before the place up to which it was read: transactions were lost;"
                f" {COPY_AGAIN}",
                path=self.file,
                offset=self.position,
            )

    def _again(self) -> Begin:
        """The place at which the same server continues."""
        if self._from_gtids is None:
            return Begin(self.file, self.position)
        if isinstance(self._from_gtids, MariadbGtidSet):
            return Begin(self.file, self.position, str(self.gtids or self._from_gtids))
        tags = self.facts.number >= (8, 3)
        return Begin(self.file, self.position, encoded(self._from_gtids, tags=tags))

    def _check_successor(self, connection: Connection, facts: Facts) -> None:
        """Check that another server can continue: that by its GTIDs it has everything that was read."""
        if self._stop_given:
            raise DivergedError(
                "another server has taken over, but stop= is a place in the logs of the one that was lost:"
                " continue from the last group's position, with a stop= of the new server",
                path=connection.name,
            )
        ours = self.gtids
        if ours is None or not facts.gtids or facts.mariadb != self.facts.mariadb:
            raise DivergedError(
                "another server answers than the one that was read, and there are no GTIDs to continue by:"
                f" {COPY_AGAIN}",
                path=connection.name,
            )
        self._check_has(facts, ours, connection.name)
        self._check_has(facts, self._begun, connection.name)

    def _check_has(self, facts: Facts, ours: AnyGtidSet | None, name: str) -> None:
        """Check that a server has all transactions that were read."""
        if ours is not None and (missing := lacking(facts, ours)) is not None:
            raise _Behind(
                f"the server lacks transactions that were read, for example {missing}: it is behind,"
                " or they were lost with the other server; let it catch up, or"
                f" {COPY_AGAIN}",
                path=name,
            )

    def _succeed(self, connection: Connection, facts: Facts) -> bool:
        """Continue with another server, after the last complete transaction; False: not with this one yet."""
        self._successor = None
        try:
            with _ClosingOnError(connection):
                self._check_has(facts, self.gtids, connection.name)  # now also what the dump did not know
                self._check_has(facts, self._begun, connection.name)
                begin = by_gtids(connection, facts, self.gtids or GtidSet())
                self.facts = facts
                self._take_place(begin)
                self._stop = None
                self._begin_dump(connection, begin.begin)
        except (_Behind, UnreachableError, LineLost):
            self._succeeding = True
            self._lost("another server has taken over")
            return False
        return True

    @property
    def _begun(self) -> AnyGtidSet | None:
        """The transaction of which rows were delivered, and whose end was not."""
        if not self.done_records or self.done_gtid is None:
            return None
        return set_of_one(self.done_gtid)

    def _other_identity(self, error: IdentityError) -> None:
        """Another replica has the same server id: take another id, unless the user gave this one."""
        if self.address.server_id is not None or self._identities >= _MOST_IDENTITIES:
            raise error
        self._identities += 1
        self._server_id, self._uuid = random_id(), str(_uuid.uuid4())
        self._lost("the server id was taken")


class _Behind(DivergedError):
    """The server lacks transactions, but may catch up."""


class _ClosingOnError:
    """Closes a connection if the work with it fails."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._connection.close()


def _is_head(events: memoryview) -> bool:
    """Whether events only say how a log begins."""
    at = 0
    while at < len(events):
        if type_of(events, at) not in _HEAD:
            return False
        at += length_of(events, at)
    return True
