"""Groups: what a pass over a log returns at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._sources.log_names import name_within, unpacked
from ..batch.change_batch import ChangeBatch
from ..position import WITHOUT_FILES, Position

if TYPE_CHECKING:
    from .executed import Snapshot


_XID = r"X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'\s*,\s*(\d+)"
ALL_ASIDES = frozenset(
    ("statement", "lost", "savepoint", "xa start", "xa prepare", "xa commit", "xa rollback")
)


class Aside(NamedTuple):
    """Something in a log besides rows that matters to a replay of the rows.

    Parameters
    ----------
    kind : str
        "statement" for one that changed data, definitions or anything else on the server; "lost" if rows
        that were logged here have not been read; "savepoint"; "xa start", "xa prepare", "xa commit" and
        "xa rollback".
    position : int
        The position of the (outermost) event in its file.
    row : int
        How many changed rows of that event come before it.
    text : str
        The statement, cut after 4096 bytes; or what is lost and why; or ``X'…',X'…',format`` of an XA
        transaction.
    database : str
        The statement's default database.
    transaction : int
        Position of the first event of its transaction, or of the event itself if it is in none.
    sql_mode : int
        The server's bit mask, if the statement's text has quotes or backslashes that it decides about.
    of_session : bool
        Whether the statement depends on its session: its table may be a temporary one.
    """

    kind: str
    position: int
    row: int
    text: str
    database: str = ""
    transaction: int = 0
    sql_mode: int = 0
    of_session: bool = False

    @property
    def xid(self) -> str:
        """The id of its XA transaction, in the same form in all statements."""
        found = re.search(_XID, self.text, re.IGNORECASE)
        return ",".join(found.groups()).lower() if found else self.text


@dataclass(slots=True, repr=False)
class Group:
    """Batches that belong together: all changes between two places in a log.

    Parameters
    ----------
    batches : list of ChangeBatch
        One batch for each table definition, in the order in which the definitions first occur. Rows of an
        event in fragments that lie over a fragment's end are in batches of their own, in log order.
    transactions : ndarray, TRANSACTION_DTYPE
        The transactions of all batches.
    path : str
        The path of the file, or the name of the source.
    end_position : int
        Everything before this position has been delivered.
    resume_position : int
        The last transaction boundary up to there; store it as the checkpoint.
    asides : list of Aside
        What is in the log besides rows, in log order; empty without ``asides=True``.
    """

    batches: list[ChangeBatch]
    transactions: np.ndarray
    path: str
    end_position: int
    resume_position: int
    asides: list[Aside] = field(default_factory=list)
    _executed: Snapshot | None = field(default=None, repr=False)
    _records: int = field(default=0, repr=False)
    _server: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        rows = sum(map(len, self.batches))
        changes = f"{len(self.batches)} batches, {rows:,} records, {len(self.transactions):,} transactions"
        return f"<Group {self.path} to {self.end_position}: {changes}>"

    @property
    def position(self) -> Position:
        """The `start=` that continues exactly after this group, even if it ends inside a transaction.

        Its GTIDs are known if the log lists those before it and was read from its beginning.
        """
        executed = self._executed
        gtids = executed.gtids() if executed is not None else None
        running = executed.running if executed is not None and self._records else None
        name, offset = unpacked(name_within(self.path)), self.resume_position
        if self.path == WITHOUT_FILES:
            name, offset, gtids = "", 0, executed.known() if executed is not None else None
        return Position(name, offset, gtids, self._server, self._records, running)
