"""The GTID of a transaction, from the fields of its record."""

from __future__ import annotations

from typing import Any

from .gtids import Gtid, MariadbGtid


def gtid_of(fields: tuple[int, bytes, bytes, int, int, int]) -> Gtid | MariadbGtid | None:
    """The GTID in the fields of a transaction; None if it is anonymous.

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
    """The GTID of a record of TRANSACTION_DTYPE; None if it has none."""
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
