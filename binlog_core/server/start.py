"""Where reading begins and ends: what ``start=`` and ``stop=`` mean on a server."""

from __future__ import annotations

import datetime as dt
import random
import struct
import threading
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from .._base.times import epoch_seconds
from .._decode.executed import latest
from .._format.event_header import FIRST_EVENT, timestamp_of
from ..errors import DivergedError, PrivilegeError, ProtocolError, ServerError, UnreachableError
from ..gtids import AnyGtid, AnyGtidSet, GtidSet, MariadbGtidSet, parse_gtid_set
from ..limits import DEFAULT_LIMITS
from ..position import Position
from .answers import log_name, maybe, understood, whole
from .connection import LIST_BYTES, Connection, Facts
from .dump import Begin, Dump, LineLost
from .gtid_dump import gtids_to_begin_with
from .missing_gtids import with_unneeded
from .refusals import COPY_AGAIN, clean_text

_STATUS_RIGHT = "REPLICATION CLIENT"
_SYNTAX_ERROR = 1064


@dataclass(frozen=True, slots=True)
class Start:
    """Where a stream begins.

    Parameters
    ----------
    begin : Begin
        The place.
    gtids : GtidSet, MariadbGtidSet or None
        The GTIDs before it, if they are known.
    records : int
        How many row images after that place have been read already.
    transaction : Gtid, MariadbGtid or None
        The GTID of the transaction that they belong to; None if it is simply the next one.
    """

    begin: Begin
    gtids: AnyGtidSet | None = None
    records: int = 0
    transaction: AnyGtid | None = None


def start_of(connection: Connection, facts: Facts, start: Any) -> Start:
    """What ``start=`` means on this server.

    Parameters
    ----------
    connection : Connection
        A connection to the server.
    facts : Facts
        What the server says about itself.
    start : None, "now", (str, int), datetime, Position, GtidSet or MariadbGtidSet

    Raises
    ------
    PrivilegeError
        "now" needs REPLICATION CLIENT on a server without GTIDs.
    DivergedError
        A position is of another server, and its GTIDs do not prove that this one has the same history.
    ServerError
        The GTIDs are of the other vendor, or the server has no GTIDs.
    """
    if facts.by_gtids_only:
        return _without_files(connection, facts, start)
    if start is None:
        return Start(Begin())
    if isinstance(start, Position):
        return _at_position(connection, facts, start)
    if isinstance(start, GtidSet | MariadbGtidSet):
        return by_gtids(connection, facts, start)
    if isinstance(start, tuple):
        return Start(Begin(start[0], int(start[1])), gtids_at(connection, facts, start[0], int(start[1])))
    if isinstance(start, dt.datetime):
        return Start(Begin(_log_of(connection, facts, start)))
    assert start == "now"
    status = status_of(connection)
    if status is not None:
        before = gtids_at(connection, facts, status.file, status.offset)
        return Start(Begin(status.file, status.offset), before or status.gtids or _executed(facts))
    if facts.gtids:
        return by_gtids(connection, facts, _had(facts))
    raise PrivilegeError(
        f"start='now' needs the privilege {_STATUS_RIGHT} on a server without GTIDs:"
        f" GRANT {_STATUS_RIGHT} ON *.* TO the user",
        path=connection.name,
    )


def _without_files(connection: Connection, facts: Facts, start: Any) -> Start:
    found = by_gtids(connection, facts, gtids_to_begin_with(connection, facts, start))
    if not isinstance(start, Position) or not start.records:
        return found
    if start.transaction is None:
        raise _inside_unknown(connection)
    return Start(found.begin, found.gtids, start.records, start.transaction)


def by_gtids(connection: Connection, facts: Facts, gtids: AnyGtidSet) -> Start:
    """Start with all transactions that are not in a set (on MariaDB: after the last GTID of each domain)."""
    if not gtids:  # an empty set is of both vendors
        gtids = _nothing(facts)
    if facts.mariadb != isinstance(gtids, MariadbGtidSet):
        form = "domain-server-number (MariaDB)" if facts.mariadb else "UUID:interval (MySQL)"
        raise ServerError(f"the GTIDs are not of this server's vendor: expected {form}", path=connection.name)
    if not facts.gtids:
        raise ServerError(
            "the server has no GTIDs (gtid_mode is not ON): start from a file and position",
            path=connection.name,
        )
    gtids = with_unneeded(connection, facts, gtids, connection.address.server_id or random_id())
    if isinstance(gtids, MariadbGtidSet):
        text = listed(gtids)
        return Start(Begin("", FIRST_EVENT, text), MariadbGtidSet.parse(text))
    return Start(Begin("", FIRST_EVENT, encoded(gtids, tags=facts.number >= (8, 3))), gtids)


def lacking(facts: Facts, gtids: AnyGtidSet) -> str | None:
    """One of a set's transactions that a server does not have, or not yet; None if it has all."""
    executed = _had(facts)
    if isinstance(gtids, GtidSet) and isinstance(executed, GtidSet):
        missing = next(iter(gtids - executed), None)
        return None if missing is None else str(missing)
    last = {domain: number for (domain, _), (_, number) in executed.intervals()}
    for (domain, server), (_, number) in gtids.intervals():
        if last.get(domain, 0) < number:
            return f"{domain}-{server}-{number}"
    return None


def unknown_sources(facts: Facts, gtids: AnyGtidSet) -> str | None:
    """A UUID or MariaDB domain in a set whose transactions a server has never had; None if there is none."""
    executed = _had(facts)
    known: set[Any] = {source[0] for source, _ in executed.intervals()} | {facts.uuid}
    unknown = list(dict.fromkeys(source[0] for source, _ in gtids.intervals() if source[0] not in known))
    if not unknown:
        return None
    what = "domain" if isinstance(gtids, MariadbGtidSet) else "server"
    more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    return f"transactions of {what} {unknown[0]}{more} are expected, but this server never had one of them"


def _at_position(connection: Connection, facts: Facts, position: Position) -> Start:
    file = position.file.rpartition("/")[2]  # taken from an archive, it may name a segment
    done = position.records, position.transaction
    here = Start(Begin(file, position.offset), position.gtids, *done)
    if facts.mariadb:
        if position.server is not None or isinstance(position.gtids, GtidSet):
            raise DivergedError(
                f"the position is from a MySQL server, and this is MariaDB: {COPY_AGAIN}",
                path=connection.name,
            )
        if position.gtids is None or gtids_at(connection, facts, file, position.offset) == position.gtids:
            return here
    elif isinstance(position.gtids, MariadbGtidSet):
        raise DivergedError(
            f"the position is from a MariaDB server, and this is MySQL: {COPY_AGAIN}", path=connection.name
        )
    elif position.gtids is not None and facts.gtids:
        executed = _executed(facts) or GtidSet()
        if not position.gtids <= executed:
            raise DivergedError(
                "the position has transactions that this server never had, for example"
                f" {next(iter(position.gtids - executed))}: it was restored, or has another history;"
                f" {COPY_AGAIN}",
                path=connection.name,
            )
        if position.server == facts.uuid:
            return here
    elif position.server in (None, facts.uuid):
        return here
    if position.gtids is None:
        raise DivergedError(
            f"the position is from server {clean_text(str(position.server))}, this is {facts.uuid}, and"
            f" no GTIDs prove that they share a history: {COPY_AGAIN}",
            path=connection.name,
        )
    if position.records and position.transaction is None:
        raise _inside_unknown(connection)
    found = by_gtids(connection, facts, position.gtids)
    return Start(found.begin, found.gtids, *done)


def _inside_unknown(connection: Connection) -> DivergedError:
    return DivergedError(
        "the position is inside a transaction, does not have its GTID, and is from another server:"
        f" {COPY_AGAIN}",
        path=connection.name,
    )


def _nothing(facts: Facts) -> AnyGtidSet:
    return MariadbGtidSet() if facts.mariadb else GtidSet()


def _had(facts: Facts) -> AnyGtidSet:
    return _executed(facts) or _nothing(facts)


def _executed(facts: Facts) -> AnyGtidSet | None:
    if not facts.gtids:
        return None
    return MariadbGtidSet.parse(facts.executed) if facts.mariadb else GtidSet.parse(facts.executed)


def gtids_at(connection: Connection, facts: Facts, file: str, offset: int) -> AnyGtidSet | None:
    """The GTIDs before a place, if the server can be asked, as MariaDB can."""
    if not facts.mariadb or not file:
        return None
    try:
        name = file.replace("\\", "\\\\").replace("'", "''")
        text = connection.query(f"SELECT BINLOG_GTID_POS('{name}', {offset})", maybe, least=1)[0][0]
    except (UnreachableError, ProtocolError):
        raise
    except ServerError:
        return None
    with understood("BINLOG_GTID_POS"):
        return None if text is None else MariadbGtidSet.parse(text)


@dataclass(frozen=True, slots=True)
class Status:
    """Where a server writes now, the only databases that it logs if it has a list, those it does not log."""

    file: str
    offset: int
    gtids: AnyGtidSet | None
    logged: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def status_of(connection: Connection) -> Status | None:
    """Where the server writes now; None: the user may not ask."""
    # MySQL from 8.2 on, and before; MariaDB.
    for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            rows = connection.query(
                statement, log_name, whole, maybe, maybe, most=LIST_BYTES, right=_STATUS_RIGHT
            )
        except PrivilegeError:
            return None
        except ServerError as error:
            if error.code != _SYNTAX_ERROR:
                raise
            continue
        if not rows:
            return None
        file, offset, *rest = rows[0]
        text = "".join((rest[2] or "").split()) if len(rest) > 2 else ""
        filters = [tuple(names.split(",")) if names else () for names in rest[:2]]
        with understood(statement):
            return Status(file, offset, parse_gtid_set(text) if text else None, *filters)
    return None


def logs_of(connection: Connection) -> list[tuple[str, int]] | None:
    """Names and sizes of the logs that the server has; None: the user may not ask."""
    try:
        rows = connection.query("SHOW BINARY LOGS", log_name, whole, most=LIST_BYTES, right=_STATUS_RIGHT)
    except PrivilegeError:
        return None
    return [(name, size) for name, size, *_ in rows]


def still_has(connection: Connection, facts: Facts) -> str:
    """The logs that a server still has, for an error; "" if it does not say."""
    parts = []
    if logs := logs_of(connection):
        parts.append(f"the logs from {clean_text(logs[0][0])} to {clean_text(logs[-1][0])}")
    if facts.gtids and not facts.mariadb:
        purged = connection.variables(["gtid_purged"]).get("gtid_purged", "")
        parts.append(f"gtid_purged={clean_text(''.join(purged.split()))!r}")
    return ", ".join(parts)


def _log_of(connection: Connection, facts: Facts, moment: dt.datetime) -> str:
    """The last log that began before the second of a moment; "" where the logs cannot be listed.

    The log before one that began in this second may end in it, too.
    """
    logs = logs_of(connection)
    wanted = epoch_seconds(moment)
    if not logs:
        return ""
    low, high = 0, len(logs) - 1  # if even the first began then or later, it is the first
    while low < high:
        middle = (low + high + 1) // 2
        if _begin_of(connection, facts, logs[middle][0]) < wanted:
            low = middle
        else:
            high = middle - 1
    return logs[low][0]


def _begin_of(connection: Connection, facts: Facts, file: str) -> int:
    """When a log began, in seconds since 1970 UTC."""
    patience = connection.address.connect_timeout
    now = connection.address.world.now
    end = now() + patience
    with Connection(connection.address, [connection.host]) as another:
        dump = Dump(
            another,
            facts,
            Begin(file),
            server_id=connection.address.server_id or random_id(),
            uuid=str(uuid4()),
            wait=False,
            limits=DEFAULT_LIMITS,
            stop=threading.Event(),
        )
        try:
            while (left := end - now()) > 0 and (run := dump.next_run(left)) is not None:
                if run.kind == "events":
                    return timestamp_of(run.events)
        except LineLost as lost:
            raise UnreachableError(str(lost), path=connection.name) from None
    raise UnreachableError(
        f"the server did not send {clean_text(file)} within {patience:g} s", path=connection.name
    )


def random_id() -> int:
    """A server id that no replica is likely to have."""
    return random.SystemRandom().randrange(2**31, 2**32 - 1)


def encoded(gtids: GtidSet, *, tags: bool) -> bytes:
    """A set as COM_BINLOG_DUMP_GTID takes it.

    Parameters
    ----------
    gtids : GtidSet
        The set.
    tags : bool
        Whether the server knows tags (8.3 and later); the form with them is used only if the set has some.

    Raises
    ------
    ServerError
        The set has tags, which the server does not know.
    """
    sources: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for source, interval in gtids.intervals():
        sources.setdefault(source, []).append(interval)
    tagged = any(tag for _, tag in sources)
    if tagged and not tags:
        raise ServerError("the GTIDs have tags, which this server does not know (8.3 and later do)")
    out = bytearray(struct.pack("<Q", (1 << 56 | len(sources) << 8 | 1) if tagged else len(sources)))
    for (uuid, tag), intervals in sources.items():
        out += UUID(uuid).bytes
        if tagged:
            out += bytes([len(tag) << 1]) + tag.encode()
        out += struct.pack("<Q", len(intervals))
        for first, last in intervals:
            out += struct.pack("<QQ", first, last + 1)
    return bytes(out)


def listed(gtids: MariadbGtidSet) -> str:
    """A set as MariaDB's ``@slave_connect_state`` takes it: the last GTID of each domain."""
    return str(latest(gtids))
