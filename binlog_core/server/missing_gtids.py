"""``ignore_missing_gtids``: purged transactions that a reader does not need.

A server with several writers has transactions of each. A set or state to start from may lack those of some:
as long as the server has them it sends them, and once it has purged them it refuses the start.
"""

from __future__ import annotations

import threading
import time
from uuid import uuid4

from .._decode.executed import last_of_domains
from ..errors import ServerError, UnreachableError
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet
from ..limits import DEFAULT_LIMITS
from .connection import Connection, Facts
from .dump import Begin, Dump, LineLost


def with_unneeded(connection: Connection, facts: Facts, gtids: AnyGtidSet, server_id: int) -> AnyGtidSet:
    """GTIDs to start from, with those that the server has purged and that are not needed.

    Parameters
    ----------
    connection : Connection
        Its address has `ignore_missing_gtids`.
    facts : Facts
    gtids : GtidSet or MariadbGtidSet
    server_id : int
        To ask for the oldest log of a MariaDB server.

    Raises
    ------
    ServerError
        The server does not say which transactions it has purged.
    """
    unneeded = set(connection.address.ignore_missing_gtids)
    if not unneeded:
        return gtids
    if isinstance(gtids, GtidSet):
        purged = GtidSet.parse(connection.variables(["gtid_purged"]).get("gtid_purged", ""))
        return gtids | GtidSet(part for part in purged.intervals() if part[0][0] in unneeded)
    if facts.by_gtids_only:
        raise ServerError(
            "ignore_missing_gtids needs the head of the server's oldest log, and with"
            " binlog_storage_engine=innodb it has none: add the domains' GTIDs to the start",
            path=connection.name,
        )
    known = list(gtids.intervals())
    places = {domain: number for (domain, _), (_, number) in known}
    for source, place in _oldest_state(connection, facts, server_id).intervals():
        if str(source[0]) in unneeded and places.get(source[0], 0) < place[1]:
            known = [part for part in known if part[0][0] != source[0]]
            known.append((source, place))
    return MariadbGtidSet(known)


def _oldest_state(connection: Connection, facts: Facts, server_id: int) -> MariadbGtidSet:
    """The GTIDs before a MariaDB server's oldest log: the last one of each domain."""
    patience = connection.address.connect_timeout
    end = time.monotonic() + patience
    with Connection(connection.address, [connection.host]) as another:
        dump = Dump(
            another,
            facts,
            Begin(),
            server_id=server_id,
            uuid=str(uuid4()),
            wait=False,
            limits=DEFAULT_LIMITS,
            stop=threading.Event(),
        )
        try:
            while (left := end - time.monotonic()) > 0 and dump.next_run(left) is not None:
                state, _ = dump.gtids()
                if isinstance(state, tuple):
                    return last_of_domains(state)
        except LineLost as lost:
            raise UnreachableError(str(lost), path=connection.name) from None
    raise UnreachableError(
        f"the server did not send the head of its oldest log within {patience:g} s", path=connection.name
    )
