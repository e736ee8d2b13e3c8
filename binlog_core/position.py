"""A place in a log that you can return to, on the same server, its archive, or another server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from .errors import GtidError
from .gtids import AnyGtid, AnyGtidSet, Gtid, GtidSet, MariadbGtid, MariadbGtidSet, parse_gtid, parse_gtid_set

_FIELDS = frozenset(("file", "offset", "gtids", "server", "records", "transaction"))
_LONGEST_NAME = 512
WITHOUT_FILES = "<by GTID>"  # instead of a name: the log of a server that can be read by GTIDs alone


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group ended; with it as ``start=``, `binlog_core.open` continues exactly there.

    ``str(position)`` is its JSON text, which `parse` reads.

    Parameters
    ----------
    file : str
        The log's name; in a later segment of an archive, with its folder: ``timeline-2/bin.000001``. "" for a
        server that can be read by GTIDs alone (MariaDB with ``binlog_storage_engine=innodb``).
    offset : int
        The offset in that log of the transaction to continue with; 0 without a file.
    gtids : GtidSet, MariadbGtidSet or None
        The GTIDs before it; for MariaDB, the last GTID of each domain. None if the log does not have them.
    server : str or None
        UUID of the MySQL server; None for MariaDB and for files.
    records : int
        How many row images of the transaction at `offset` have been read, counting those of the selected
        tables and operations. It is not 0 if a group ends inside a transaction.
    transaction : Gtid, MariadbGtid or None
        The GTID of that transaction, if it has one and `records` is not 0: on another server a different
        transaction may come first.
    """

    file: str
    offset: int
    gtids: GtidSet | MariadbGtidSet | None = None
    server: str | None = None
    records: int = 0
    transaction: Gtid | MariadbGtid | None = None

    def __str__(self) -> str:
        fields: dict[str, Any] = {"file": self.file, "offset": self.offset} if self.file else {}
        if self.gtids is not None:
            fields["vendor"] = "mariadb" if isinstance(self.gtids, MariadbGtidSet) else "mysql"
            fields["gtids"] = "".join(str(self.gtids).split())
        if self.server is not None:
            fields["server"] = self.server
        if self.records:
            fields["records"] = self.records
        if self.transaction is not None:
            fields["transaction"] = str(self.transaction)
        import json

        return json.dumps(fields)

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read a position's JSON text.

        Raises
        ------
        ValueError
            The text is not a position.
        """
        import json

        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or not fields.keys() - {"vendor"} <= _FIELDS:
            raise _not_one(text, "expected the JSON text of a position")
        file, records = fields.get("file", ""), fields.get("records", 0)
        offset = fields.get("offset", None if file else 0)
        server, gtids, vendor = fields.get("server"), fields.get("gtids"), fields.get("vendor")
        transaction = fields.get("transaction")
        if not isinstance(file, str) or len(file) > _LONGEST_NAME or not (file or "gtids" in fields):
            raise _not_one(text, "expected a name for file")
        if not (_is_count(offset) and _is_count(records)):
            raise _not_one(text, "expected whole numbers of 0 or more for offset and records")
        if not all(one is None or isinstance(one, str) for one in (server, gtids, transaction)):
            raise _not_one(text, "expected texts for server, gtids and transaction")
        try:
            known: GtidSet | MariadbGtidSet | None = None
            if gtids is not None:
                known = MariadbGtidSet.parse(gtids) if vendor == "mariadb" else parse_gtid_set(gtids)
            running: AnyGtid | None = parse_gtid(transaction) if transaction is not None else None
        except GtidError as error:
            raise _not_one(text, error.message) from None
        return cls(file, offset, known, server, records, running)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A place in a file of MariaDB's binary log in InnoDB (``.ibb``), as ``start=`` of `binlog_core.open`.

    Reading starts with the first transaction whose commit record begins there or behind it.

    Parameters
    ----------
    offset : int
        The offset in the file itself, as errors about its pages give it.
    file : str
        The file's name; it may be left out if one file is opened.
    """

    offset: int
    file: str = ""

    def __post_init__(self) -> None:
        if not _is_count(self.offset):
            raise ValueError(f"offset={self.offset!r}: expected a whole number of 0 or more")
        if not isinstance(self.file, str):
            raise TypeError(f"file= takes a name, not {type(self.file).__name__}")


class Checkpoint(NamedTuple):
    """How far a log was read, so that another server's log can continue.

    Parameters
    ----------
    ended : GtidSet, MariadbGtidSet or None
        The transactions that have ended; None: not known.
    gtid : Gtid, MariadbGtid or None
        The transaction that has not ended.
    records : int
        Number of its row images that were already returned.
    awaited : bool
        Whether another server had sent them, and this one has not sent all of them again yet.
    """

    ended: AnyGtidSet | None
    gtid: Gtid | MariadbGtid | None
    records: int
    awaited: bool = False


def _is_count(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63


def _not_one(text: str, why: str) -> ValueError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return ValueError(f"not a position: {shown!r}: {why}")
