"""A feed from a real server."""

from __future__ import annotations

import contextlib
import threading
import uuid as _uuid
import warnings
from collections.abc import Iterator

from .._format.event_header import FIRST_EVENT
from ..errors import DecodeError, PositionError, PurgedError, ServerError, UnreachableError
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet
from ..limits import DEFAULT_LIMITS
from ..report import BinlogWarning
from ..server.address import Address
from ..server.answers import log_name, whole
from ..server.connection import LIST_BYTES, Connection
from ..server.dump import Begin, Dump
from ..server.dump import LineLost as DumpLost
from ..server.gtid_dump import GtidDump, gtids_to_begin_with
from ..server.start import encoded, lacking, listed, status_of, unknown_sources
from .feed import FeedRun, Identity, LineLost, LogMissing, Start
from .own_logs import FIRST_LOG, OwnLogs

_GRACE = 0.02  # seconds to wait for more before the received bytes are written to disk
_TICK = 0.5  # seconds between two signs of life
_NOTHING = memoryview(b"")


class LiveFeed:
    """A connection to one server; each dump has its own connection.

    Parameters
    ----------
    address : Address
    host : (str, int)
        Host and port, one of the address.
    server_id : int
        The server id of this client.
    stop : threading.Event
        Ends waiting when set.
    """

    def __init__(
        self, address: Address, host: tuple[str, int], server_id: int, stop: threading.Event
    ) -> None:
        self._address = address
        self._host = host
        self._server_id = server_id
        self._stop = stop
        self._uuid = str(_uuid.uuid4())
        self._dump: Dump | None = None
        self.behind = False  # it lacks transactions of the archive
        with _lost(), self._connect() as connection:
            self._facts = facts = connection.facts()
            if facts.by_gtids_only and address.semi_sync:
                raise ServerError(
                    "with binlog_storage_engine=innodb a server waits for no replica: leave out semi_sync",
                    path=connection.name,
                )
            status = status_of(connection) if not facts.by_gtids_only else None
        # Not its clock: events have the time of the session, or of the primary.
        self.end = (status.file, status.offset) if status is not None else None
        self.identity = Identity(
            f"{host[0]}:{host[1]}", facts.version, facts.uuid, facts.server_id, not facts.by_gtids_only
        )
        self._own: tuple[MariadbGtidSet, bytes | None] = MariadbGtidSet(), None  # without files: see `go_on`

    def _connect(self) -> Connection:
        return Connection(self._address, [self._host])

    def _begin(self, begin: Begin, *, wait: bool) -> Dump:
        self._end_dump()
        connection = self._connect()
        try:
            kind = GtidDump if self._facts.by_gtids_only else Dump
            self._dump = kind(
                connection,
                self._facts,
                begin,
                server_id=self._server_id,
                uuid=self._uuid,
                wait=wait,
                limits=DEFAULT_LIMITS,
                stop=self._stop,
            )
        except BaseException:
            connection.close()
            raise
        return self._dump

    # ------------------------------------------------------------ where

    def locate(self, start: Start) -> tuple[str, int]:
        """The log, and the place in it, where a dump begins."""
        with _lost():
            if not self.identity.files:
                return self._locate_by_gtids(start)
            if isinstance(start, tuple):
                begin = Begin(*start)
            elif start == "now":
                return self._now()
            elif start is None:
                begin = Begin()
            else:
                begin = self._behind(start)
            dump = self._begin(begin, wait=False)
            end = self._address.world.now() + self._address.connect_timeout
            while (left := end - self._address.world.now()) > 0 and (run := dump.next_run(left)) is not None:
                if run.kind == "file":
                    self._end_dump()
                    return run.file, run.position
        raise LineLost("the server does not name the log that it sends", path=self._address.name)

    def lacking(self, gtids: AnyGtidSet) -> str | None:
        """One of these transactions that the server does not have yet; None: it has all."""
        found = lacking(self._facts, gtids)
        self.behind = found is not None
        return found

    def _locate_by_gtids(self, start: Start) -> tuple[str, int]:
        with self._connect() as connection:
            gtids = gtids_to_begin_with(connection, self._facts, start)
        begin = self._behind(gtids or MariadbGtidSet())
        assert isinstance(begin.gtids, str)
        self.go_on(MariadbGtidSet.parse(begin.gtids), None)
        return FIRST_LOG, FIRST_EVENT

    def go_on(self, gtids: AnyGtidSet, description: bytes | None) -> None:
        """For a server without files: begin the next dump after the last GTID of each domain."""
        assert isinstance(gtids, MariadbGtidSet)
        self._own = gtids, description

    def _behind(self, gtids: AnyGtidSet) -> Begin:
        if (doubt := unknown_sources(self._facts, gtids)) is not None:
            warnings.warn(f"{doubt} ({self._address.name})", BinlogWarning, stacklevel=2)
        if isinstance(gtids, GtidSet) and not self._facts.mariadb:
            return Begin(gtids=encoded(gtids, tags=self._facts.number >= (8, 3)))
        if isinstance(gtids, MariadbGtidSet) and self._facts.mariadb:
            return Begin(gtids=listed(gtids))
        raise ServerError(
            "the archive's GTIDs belong to the other vendor: give another destination",
            path=self._address.name,
        )

    def _now(self) -> tuple[str, int]:
        with self._connect() as connection:
            new = not self._facts.mariadb and self._facts.number >= (8, 2)
            told = connection.query(
                "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS",
                log_name,
                whole,
                least=1,
                most=LIST_BYTES,
                right="REPLICATION CLIENT",
            )
        file, position, *_ = told[0]
        return file, position

    # ------------------------------------------------------------ events

    def dump(self, file: str, position: int, *, until_now: bool) -> Iterator[FeedRun]:
        """The events from a place on; in between, empty runs when there are no more for now."""
        if self.identity.files:
            yield from self._dumped(Begin(file, position), until_now=until_now)
            return
        before, description = self._own
        logs = OwnLogs(file, position, before, description, MariadbGtidSet.parse(self._facts.executed))
        for run in self._dumped(Begin(gtids=listed(before)), until_now=until_now):
            if run.description is not None and (head := logs.describe(run.description)) is not None:
                yield head
            if not run.data:
                yield FeedRun(logs.file, 0, run.data)
                continue
            assert self._dump is not None
            yield from logs.runs(run.data, self._dump.gtids()[1])
            if until_now and self._dump.between_transactions and logs.at_goal:
                return  # a server that writes faster than this reads would never end

    def _dumped(self, begin: Begin, *, until_now: bool) -> Iterator[FeedRun]:
        with _lost():
            dump = self._begin(begin, wait=not until_now)
            patience = _GRACE
            description = None
            stalled_at = self._address.world.now()
            begun = False
            while not self._stop.is_set():
                try:
                    run = dump.next_run(patience)
                except DecodeError as error:
                    if begun or begin.position == FIRST_EVENT:  # by GTIDs no place is asked for
                        raise
                    # No event begins where one did: it is another log of this name.
                    raise LogMissing(error.message, path=error.path, offset=error.offset) from error
                if run is not None and run.kind == "events":
                    begun = True
                    patience, stalled_at = _GRACE, self._address.world.now()
                    yield FeedRun(run.file, run.position, run.events, description, run.acknowledge)
                    description = None
                    continue
                if until_now and not dump.ended and self._address.world.now() >= stalled_at + dump.patience:
                    raise dump.stalled()
                if run is None or run.kind == "heartbeat":
                    yield FeedRun(dump.file, 0, _NOTHING, description)
                    description = None
                    if dump.ended:
                        return
                    patience = _TICK
                elif run.kind == "descriptor" and run.position > 4:
                    description = memoryview(bytes(run.events))

    def acknowledge(self, file: str, position: int) -> None:
        """Acknowledge that everything before the position is on disk."""
        with _lost():
            if self._dump is not None:
                self._dump.acknowledge(file, position)

    def close(self) -> None:
        """End the connection; may be called again."""
        self._end_dump()

    def _end_dump(self) -> None:
        dump, self._dump = self._dump, None
        if dump is not None:
            dump.close()


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Convert errors that another connection may solve, and errors about missing logs."""
    try:
        yield
    except DumpLost as error:
        raise LineLost(str(error)) from error
    except UnreachableError as error:
        lost = LineLost(error.message, path=error.path)
        lost.lost = error.lost
        raise lost from error
    except (PurgedError, PositionError) as error:
        raise LogMissing(error.message, path=error.path, offset=error.offset) from error
