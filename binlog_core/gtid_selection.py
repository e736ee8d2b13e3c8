"""``gtids=`` and ``exclude_gtids=``: which transactions are read."""

from __future__ import annotations

from typing import Any

from .gtids import Gtid, GtidSet, MariadbGtid, MariadbGtidSet, parse_gtid_set

AnyGtidSet = GtidSet | MariadbGtidSet


def gtid_set(given: str | AnyGtidSet | None) -> AnyGtidSet | None:
    """A GTID set as given to `binlog_core.open`: text of either vendor, or a set."""
    return parse_gtid_set(given) if isinstance(given, str) else given


def gtid_of(fields: tuple[int, bytes, bytes, int, int, int]) -> Gtid | MariadbGtid | None:
    """The GTID in the fields of a transaction; None for an anonymous one.

    Parameters
    ----------
    fields : (gtid_kind, uuid, tag, domain_id, server_id, sequence_number)
    """
    kind, uuid, tag, domain_id, server_id, number = fields
    if kind == 1:
        digits = uuid.hex()
        text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return Gtid(text, tag.rstrip(b"\0").decode("ascii", "replace"), number)
    return MariadbGtid(domain_id, server_id, number) if kind == 2 else None


def gtid_text(transaction: Any) -> str | None:
    """The GTID of a record of TRANSACTION_DTYPE, None where it has none."""
    gtid = gtid_of(
        (
            int(transaction["gtid_kind"]),
            transaction["uuid"].tobytes(),
            bytes(transaction["tag"]),
            int(transaction["domain_id"]),
            int(transaction["server_id"]),
            int(transaction["sequence_number"]),
        )
    )
    return str(gtid) if gtid is not None else None


def is_selected(
    gtid: Gtid | MariadbGtid | None, wanted: AnyGtidSet | None, excluded: AnyGtidSet | None
) -> bool:
    """A transaction without GTID is in no set."""
    if wanted is not None and not _has(wanted, gtid):
        return False
    return excluded is None or not _has(excluded, gtid)


def _has(gtids: AnyGtidSet, gtid: Gtid | MariadbGtid | None) -> bool:
    if isinstance(gtids, GtidSet):
        return isinstance(gtid, Gtid) and gtid in gtids
    return isinstance(gtid, MariadbGtid) and gtid in gtids


def union(a: AnyGtidSet | None, b: AnyGtidSet | None) -> AnyGtidSet | None:
    """Of two sets; where a log has GTIDs of both vendors, those of the first."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, GtidSet):
        return a | b if isinstance(b, GtidSet) else a
    return a | b if isinstance(b, MariadbGtidSet) else a
