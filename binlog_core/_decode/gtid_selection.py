"""``gtids=`` and ``exclude_gtids=``: which transactions are read."""

from __future__ import annotations

from collections.abc import Iterable

from ..gtids import (
    AnyGtid,
    AnyGtidSet,
    Gtid,
    GtidSet,
    MariadbGtid,
    MariadbGtidSet,
    parse_gtid_set,
    set_of_one,
)

GtidArgument = str | AnyGtid | AnyGtidSet | Iterable[str | AnyGtid | AnyGtidSet]


def gtid_set(given: GtidArgument | None, argument: str) -> AnyGtidSet | None:
    """A GTID set as given to `binlog_core.open`: text of either vendor, a GTID, a set, or several of them.

    Parameters
    ----------
    given : str, GTID, GTID set, iterable of them, or None
    argument : str
        Name of the argument, for errors.

    Raises
    ------
    GtidError
        A text is not a set, or several are of both vendors.
    TypeError
        It is neither text nor GTIDs.
    """
    if given is None or isinstance(given, GtidSet | MariadbGtidSet):
        return given
    if isinstance(given, str):
        return parse_gtid_set(given)
    if isinstance(given, Gtid | MariadbGtid):
        return set_of_one(given)
    if isinstance(given, Iterable) and not isinstance(given, bytes | bytearray | memoryview):
        gathered: AnyGtidSet | None = None
        for one in given:
            if not isinstance(one, str | Gtid | MariadbGtid | GtidSet | MariadbGtidSet):
                raise _not_gtids(argument, one)
            if part := gtid_set(one, argument):
                gathered = part if gathered is None else gathered | part
        return GtidSet() if gathered is None else gathered
    raise _not_gtids(argument, given)


def _not_gtids(argument: str, given: object) -> TypeError:
    return TypeError(f"{argument}= takes GTIDs, sets of them or their text, not {type(given).__name__}")


def is_selected(gtid: AnyGtid | None, wanted: AnyGtidSet | None, excluded: AnyGtidSet | None) -> bool:
    """Whether a transaction is selected; one without GTID is in no set."""
    if wanted is not None and not _has(wanted, gtid):
        return False
    return excluded is None or not _has(excluded, gtid)


def _has(gtids: AnyGtidSet, gtid: AnyGtid | None) -> bool:
    if isinstance(gtids, GtidSet):
        return isinstance(gtid, Gtid) and gtid in gtids
    return isinstance(gtid, MariadbGtid) and gtid in gtids


def union(a: AnyGtidSet | None, b: AnyGtidSet | None) -> AnyGtidSet | None:
    """Combine two sets; if a log has GTIDs of both vendors, keep those of the first."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, GtidSet):
        return a | b if isinstance(b, GtidSet) else a
    return a | b if isinstance(b, MariadbGtidSet) else a
