"""Safe marks: places in a server's log whose transactions every later SELECT sees.

A server logs a transaction before other sessions see it. So its current position is not a safe mark, except
in a consistent snapshot of MariaDB or while nobody can commit. MariaDB's GTIDs are no safer than its
position: where the log has no positions (`Facts.by_gtids_only`) they are read while nobody can commit.

Only an XA COMMIT of MariaDB is in the log before the place of a snapshot and may not be in the snapshot.
While it goes on, XA RECOVER lists its transaction: a mark keeps these, and `unseen` finds them in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .._decode.boundaries import last_boundary
from .._format.event_types import EventType
from .._sources.log_names import name_within
from ..errors import MirrorError, PrivilegeError
from ..events import GtidEvent, MariadbGtidEvent, MariadbGtidListEvent, PreviousGtidsEvent
from ..gtids import GtidSet, MariadbGtid, MariadbGtidSet
from ..lake.access import Access
from ..lake.plan.xa import Xid, ends_of
from ..server.address import Address
from ..server.answers import log_name, maybe, text, understood, whole
from ..server.connection import LIST_BYTES, Connection, Facts
from ..server.refusals import clean_text
from ..server.start import status_of
from ..splits import Split

if TYPE_CHECKING:
    from ..log.log import Log


@dataclass(frozen=True)
class Mark:
    """A safe mark.

    Parameters
    ----------
    server : str
        The server, see `identity`: another one may lack transactions, or have logs of the same names.
    gtids : str or None
        On MySQL with GTIDs, the executed GTIDs.
    file, offset : str and int, or None
        On other servers, the log and the position.
    last : str or None
        On MariaDB without positions, the last GTID of each domain.
    prepared : str
        The XA transactions that may have been committed in the log before the place, and be seen later.
    """

    server: str
    gtids: str | None = None
    file: str | None = None
    offset: int | None = None
    last: str | None = None
    prepared: str = ""

    def __str__(self) -> str:
        return next(one for one in (self.gtids, self.last, self.file) if one is not None)


def identity(uuid: str | None, server_id: int) -> str:
    """The identity of a server: its UUID, or MariaDB's server id."""
    return uuid or str(server_id)


def connected(address: Address, server: str) -> Connection:
    """A connection to the same server as before.

    Raises
    ------
    MirrorError
        Another server answers.
    """
    connection = Connection(address)
    try:
        facts = connection.facts()
        check_server(server, identity(facts.uuid, facts.server_id))
    except BaseException:
        connection.close()
        raise
    return connection


def check_server(server: str, here: str) -> None:
    """Check that a server is the one whose tables were read: they fit only its own log.

    Raises
    ------
    MirrorError
        It is another server.
    """
    if here != server:
        raise MirrorError(
            f"the server {clean_text(server)} was read, and now it is {clean_text(here)}: expected one that"
            " stays the same while its tables are read"
        )


def take_mark(connection: Connection, facts: Facts) -> Mark:
    """A safe mark, taken now.

    Raises
    ------
    PrivilegeError
        MySQL without GTIDs and MariaDB without positions need RELOAD.
    """
    server = identity(facts.uuid, facts.server_id)
    if not facts.mariadb and facts.gtids:
        return Mark(server, gtids=facts.executed)
    if facts.mariadb and not facts.by_gtids_only:
        try:
            if (mark := snapshot_mark(connection, server)) is not None:
                return replace(mark, prepared=prepared(connection))
        finally:
            connection.query("ROLLBACK")
    connection.query("FLUSH TABLES WITH READ LOCK", right="RELOAD")
    try:
        return place_mark(connection, server, by_gtids=facts.by_gtids_only)
    finally:
        connection.query("UNLOCK TABLES")


def snapshot_mark(connection: Connection, server: str) -> Mark | None:
    """Open a consistent snapshot, and the place in MariaDB's log that it is of; None: the server has none.

    The snapshot has exactly the transactions before the place, whoever writes meanwhile: the server takes
    both under the lock under which transactions become visible in the order of the log. Only an XA COMMIT is
    logged before that, and without the lock: a snapshot may lack the last ones, see `prepared`.

    Parameters
    ----------
    connection : Connection
    server : str
        Its identity.
    """
    connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found = {
        name.lower(): value
        for name, value, *_ in connection.query("SHOW STATUS LIKE 'binlog_snapshot_%'", text, maybe)
    }
    if not found.get("binlog_snapshot_file"):
        return None
    with understood("SHOW STATUS"):
        file = log_name(found["binlog_snapshot_file"])
        return Mark(server, file=file, offset=whole(found.get("binlog_snapshot_position")))


def prepared(connection: Connection) -> str:
    """The XA transactions that are prepared, also those that are being committed: see `Mark`."""
    found = connection.query("XA RECOVER", whole, whole, whole, _bytes, most=LIST_BYTES)
    return " ".join(
        f"{kind}:{data[:gtrid].hex()}:{data[gtrid : gtrid + bqual].hex()}"
        for kind, gtrid, bqual, data, *_ in found
    )


class XaWork(NamedTuple):
    """How many XA COMMITs have begun on the server, and then what XA RECOVER lists: see `Mark.prepared`."""

    begun: int
    prepared: str


def xa_work(connection: Connection) -> XaWork:
    """The XA transactions before a snapshot; if none has begun to commit since, it lacks no others."""
    found = connection.query("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'", text, whole, least=1)
    return XaWork(found[0][1], prepared(connection))


def _bytes(value: Any) -> bytes:
    """The parts of an XID, which the server sends as binary data."""
    if value is None:
        raise ValueError("NULL: expected the parts of an XID")
    return value if isinstance(value, bytes) else str(value).encode()


def place_mark(connection: Connection, server: str, *, by_gtids: bool) -> Mark:
    """The end of the server's log: a safe mark only while no one can commit.

    Parameters
    ----------
    connection : Connection
    server : str
        Its identity.
    by_gtids : bool
        Whether its log has no positions: see `Facts.by_gtids_only`.
    """
    if by_gtids:
        found = connection.variables(["gtid_binlog_pos"]).get("gtid_binlog_pos", "")
        return Mark(server, last="".join(found.split()))
    status = status_of(connection)
    if status is None:
        raise PrivilegeError(
            "reading the server's position needs the privilege REPLICATION CLIENT: GRANT REPLICATION CLIENT"
            " ON *.* TO the user",
            path=connection.name,
        )
    return Mark(server, file=status.file, offset=status.offset)


def place_of(mark: Mark, logs: list[Split], access: Access) -> tuple[int, int]:
    """Where a mark is in an archive: the index of its log, and a transaction boundary in it.

    Every SELECT after the mark sees what is before it.

    Raises
    ------
    MirrorError
        The archive does not contain it.
    """
    if mark.gtids is not None:
        return _place_of_gtids(GtidSet.parse(mark.gtids), logs, access)
    if mark.last is not None:
        return _place_of_last(set(MariadbGtidSet.parse(mark.last)), logs, access)
    assert mark.file is not None
    assert mark.offset is not None
    for i in range(len(logs) - 1, -1, -1):
        name = name_within(logs[i].path).rpartition("/")[2].removesuffix(".zst")
        if name == mark.file:
            return i, mark.offset
    raise MirrorError(f"the archive does not have the server's log {mark.file}", path=logs[0].path)


def unseen(mark: Mark, place: tuple[int, int], logs: list[Split], access: Access) -> tuple[int, int] | None:
    """Where the first XA COMMIT begins that is before a mark's place and that later SELECTs may not see.

    None: there is none. Only a transaction's last end before the place counts, which is near it, unless the
    transaction was prepared, or committed, long ago.
    """
    left: set[Xid] = set()
    for one in mark.prepared.split():
        kind, gtrid, bqual = one.split(":")
        left.add((int(kind), bytes.fromhex(gtrid), bytes.fromhex(bqual)))
    found = None
    for i in range(place[0], -1, -1):
        if not left:
            break
        for xid, how, begin in reversed(ends_of(logs[i], access, place[1] if i == place[0] else None)):
            if xid in left:
                left.remove(xid)
                if how == "COMMIT":
                    found = i, begin
    return found


def _place_of_gtids(known: GtidSet, logs: list[Split], access: Access) -> tuple[int, int]:
    kinds = {EventType.PREVIOUS_GTIDS, EventType.GTID, EventType.GTID_TAGGED}
    for i in range(len(logs) - 1, -1, -1):
        with _opened(logs[i], access) as log:
            for event in log.events(types=kinds):
                if isinstance(event, PreviousGtidsEvent):
                    if not event.gtid_set <= known:
                        break
                elif isinstance(event, GtidEvent) and event.gtid is not None and event.gtid not in known:
                    return i, event.position
            else:
                return i, _end_of(logs[i], access)
    raise MirrorError(
        "the archive begins after the copy was made: it lacks the copy's GTIDs", path=logs[0].path
    )


def _place_of_last(last: set[MariadbGtid], logs: list[Split], access: Access) -> tuple[int, int]:
    """The place at which these are the last GTIDs of the domains, in the order of the log."""
    kinds = {EventType.MARIADB_GTID, EventType.MARIADB_GTID_LIST}
    for i in range(len(logs) - 1, -1, -1):
        met, place = False, None  # one of them; the transaction after the last one
        with _opened(logs[i], access) as log:
            for event in log.events(types=kinds):
                if isinstance(event, MariadbGtidListEvent):
                    met = {one.domain_id: one for one in event.gtids} == {one.domain_id: one for one in last}
                elif isinstance(event, MariadbGtidEvent):
                    if event.gtid in last:
                        met, place = True, None
                    elif met and place is None:
                        place = event.position
        if met:
            return i, _end_of(logs[i], access) if place is None else place
    raise MirrorError("the archive does not have the copy's last GTIDs", path=logs[0].path)


def _opened(log: Split, access: Access) -> Log:
    from ..log.opening import open as open_log

    return open_log(
        log.path,
        keys=access.keys,
        storage_options=access.storage_options,
        mmap=False,
        verify_checksum=False,
    )


def _end_of(log: Split, access: Access) -> int:
    with access.file(log.path).open() as source:
        return last_boundary(source, 0)
