"""Whole logs as scripts of SQL, transaction by transaction.

A transaction is committed if the log says that it was and has all of it; otherwise it is rolled back.
Whatever is in the range but not in the script is named, in the script and to the caller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .._decode.asides import STATEMENT_BYTES
from .._decode.group import Aside
from .._decode.savepoints import RowPlace, Savepoints
from .._decode.selection import is_wanted_name
from .._format.statements import changes_rows, first_word, may_change_definitions
from .._tables.full_names import has_database, split_name
from ..batch.change_batch import OUTCOMES
from ..limits import Limits
from ..schema.table_statements import read_statement, words_of_change
from .literals import quote_name
from .script_lines import comment, place_text, statement_text, transaction_text
from .statements import StatementMaker

if TYPE_CHECKING:
    from .._decode.group import Group
    from ..batch.change_batch import ChangeBatch


_UNKNOWN, _COMMITTED, _ROLLED_BACK, _PREPARED = range(4)
assert OUTCOMES[_COMMITTED] == "committed"
LINES = 1 << 20  # characters that are written at a time
_MOST_NOTES = 100

_CHANGE_DTYPE = np.dtype(
    [("position", "<u8"), ("row", "<u4"), ("what", "u1"), ("batch", "<u4"), ("record", "<u4")]
)
_ASIDE, _CHANGE = 0, 1


@dataclass(slots=True)
class Transaction:
    """A transaction that a script has begun.

    Parameters
    ----------
    path : str
        The log.
    begin : int
        Position of its first event.
    description : str
        Where and when it was, for people.
    xa : bool
        Whether it begins with XA START.
    first : int
        The number of its first line among those that are kept.
    savepoints : Savepoints
        Those of it.
    """

    path: str
    begin: int
    description: str
    xa: bool
    first: int
    savepoints: Savepoints
    last: int = 0
    xid: str | None = None
    holes: list[str] = field(default_factory=list)  # its parts that are not in the script
    lost: bool = False  # and not because it never was a row


class Script(ABC):
    """SQL of the changes of a log.

    Parameters
    ----------
    file : binary file
        Where the script is written.
    maker : StatementMaker
        Makes the statements.
    tell : callable
        Takes a sentence about something that is not in the script; called for the first hundred.
    mariadb : bool
        Whether a MariaDB server wrote the log; the script is then for MariaDB's client.
    inverse : bool
        Whether the statements undo the changes.
    limits : Limits
        Its `spool_bytes` limit the temporary file for statements that wait for the end of a transaction.
    tables, exclude_tables : tuple of str or None
        Names and patterns of the tables that the script is about, and of others. Statements that are surely
        about others do not matter, as their rows do not.
    """

    def __init__(
        self,
        file: BinaryIO,
        maker: StatementMaker,
        tell: Callable[[str], None],
        *,
        mariadb: bool,
        inverse: bool,
        limits: Limits,
        tables: tuple[str, ...] | None = None,
        exclude_tables: tuple[str, ...] | None = None,
    ) -> None:
        self._file = file
        self._tables, self._exclude_tables = tables, exclude_tables
        self._maker = maker
        self._tell_one = tell
        self._note_count = 0
        self._most_kept = limits.spool_bytes
        self._inverse = inverse
        self._mariadb = mariadb
        self._open: Transaction | None = None
        self._waiting: tuple[str, int] | None = None  # the transaction of `_asides`, without rows so far
        self._asides: list[Aside] = []
        self._lost_at: tuple[str, int] = ("", -1)
        self._prepared: dict[str, Transaction] = {}  # by XID
        self._no_rows: set[str] = set()  # XIDs of transactions that were prepared without rows that are read
        self._savepoints: dict[str, str] = {}

    # ------------------------------------------------------------ groups

    def add(self, group: Group) -> None:
        """Take a group, including its asides."""
        ends = {
            begin: (end, outcome)
            for begin, end, outcome in zip(
                group.transactions["begin_position"].tolist(),
                group.transactions["end_position"].tolist(),
                group.transactions["outcome"].tolist(),
                strict=True,
            )
        }
        if self._open is not None and self._open.path != group.path:
            self._finish({})
        made: list[Any] = []
        begins: list[list[int]] = []
        for batch in group.batches:
            made.append(self._changes_of(batch))
            transaction = batch.array["image"]["transaction"]
            begins.append(batch.transactions["begin_position"][transaction].tolist())
        for _, _, what, i, record in _in_log_order(group, made):
            if what == _ASIDE:
                self._add_aside(group.path, group.asides[record], ends)
                continue
            begin = begins[i][record]
            if self._open is None or self._open.begin != begin:
                self._finish(ends)
                batch = group.batches[i]
                index = int(batch.array["image"]["transaction"][record])
                self._begin(group.path, batch.transactions[index])
            self._write(made[i][record])
        if self._open is not None and ends.get(self._open.begin, (0, 0))[0]:
            self._finish(ends)  # COMMIT is written now, not when the next transaction begins
        self._flush()

    def close(self, *, broken: bool = False) -> None:
        """Write the end of the script.

        Parameters
        ----------
        broken : bool
            Whether an error ended reading, so that the log continues.
        """
        self._finish({})
        for one in self._prepared.values():
            self._tell(
                f"prepared, and neither committed nor rolled back so far: XA transaction of {one.description}"
            )
        if self._note_count > _MOST_NOTES:
            self._tell_one(f"and {self._note_count - _MOST_NOTES:,} more notes, which are in the script")
        self._end(broken=broken)

    def _begin(self, path: str, record: np.void) -> None:
        begin = int(record["begin_position"])
        waiting = self._asides if self._waiting == (path, begin) else []
        self._asides, self._waiting = [], None
        self._open = Transaction(
            path,
            begin,
            transaction_text(path, record),
            any(one.kind == "xa start" for one in waiting),
            self._place(),
            Savepoints(begin),
        )
        if self._lost_at[0] == path and self._lost_at[1] >= begin:
            self._open.lost = True
            self._open.holes.append("some of its rows are lost")
        self._write_begin(self._open)
        for one in waiting:
            self._add_inside(self._open, one)

    def _changes_of(self, batch: ChangeBatch) -> Any:
        """The changes of a batch by the record in which each begins, as `_write` takes them."""
        return self._maker.statements(batch, inverse=self._inverse)

    def _add_aside(self, path: str, aside: Aside, ends: dict[int, tuple[int, int]]) -> None:
        if aside.kind == "lost":
            end = ends.get(self._open.begin, (0, 0))[0] if self._open is not None else 0
            if self._open is not None and end and end <= aside.position:
                self._finish(ends)
            self._lost_at = path, aside.position
            if self._open is not None:
                self._open.lost = True
                self._open.holes.append("some of its rows are lost")
            self._miss(path, aside, aside.text, changed=True)
            return
        if self._open is not None and self._open.begin != aside.transaction:
            self._finish(ends)
        if aside.kind == "statement":
            if not _may_concern(aside, self._tables, self._exclude_tables):
                return
            changed = changes_rows(aside.text.encode()) or _takes_rows(aside)
            self._miss(path, aside, statement_text(aside), changed=changed)
        if aside.kind in ("xa commit", "xa rollback"):
            self._end_xa(path, aside)
        elif self._open is not None:
            self._add_inside(self._open, aside)
        else:
            place = path, aside.transaction
            if self._waiting != place:
                self._asides, self._waiting = [], place
            self._asides.append(aside)
            if aside.kind == "xa prepare":
                self._no_rows.add(aside.xid)

    def _add_inside(self, transaction: Transaction, aside: Aside) -> None:
        match aside.kind:
            case "statement":
                transaction.holes.append("it has a change that is not a row")
            case "xa prepare":
                transaction.xid = aside.xid
            case "savepoint" if found := transaction.savepoints.note(
                aside.text, RowPlace(aside.position, aside.row)
            ):
                verb, original = found
                if original is None:
                    return  # not in the script: it is rolled back as a whole
                # Under a name of our own: the original may be any text.
                name = self._savepoints.setdefault(original, f"s{len(self._savepoints)}")
                self._write_savepoint(f"{verb} {quote_name(name)};")

    def _end_xa(self, path: str, aside: Aside) -> None:
        xid = aside.xid
        one = self._prepared.pop(xid, None)
        if one is None:
            if xid not in self._no_rows and aside.kind == "xa commit":
                self._miss(path, aside, "XA COMMIT of a transaction prepared earlier", changed=True)
            self._no_rows.discard(xid)
        elif aside.kind == "xa commit":
            self._commit(one)
        else:
            self._tell(f"rolled back by XA ROLLBACK: XA transaction of {one.description}")

    def _finish(self, ends: dict[int, tuple[int, int]]) -> None:
        """End the current transaction."""
        one = self._open
        if one is None:
            return
        self._open = None
        outcome = ends.get(one.begin, (0, _UNKNOWN))[1]
        if one.xa and outcome == _PREPARED and one.xid is not None:
            one.last = self._place()
            self._prepared[one.xid] = one
        elif outcome == _COMMITTED:
            one.last = self._place()
            self._commit(one)
        else:
            one.last = self._place()
            why = {
                _UNKNOWN: "its beginning or its end was not read",
                _ROLLED_BACK: "it is rolled back in the log",
                _PREPARED: "it is only prepared in the log",
            }
            self._roll_back(one, why[outcome])

    def _miss(self, path: str, aside: Aside, text: str, *, changed: bool) -> None:
        self._tell(f"not in the script: {place_text(path, aside.position)}: {text}")

    def _tell(self, text: str) -> None:
        self._note_count += 1
        if self._note_count <= _MOST_NOTES:
            self._tell_one(text)
        self._write_note(comment(text))

    # ------------------------------------------------------------ differences between scripts

    @abstractmethod
    def _place(self) -> int:
        """The number that the next kept line will have."""

    @abstractmethod
    def _write(self, change: Any) -> None:
        """Write a change of the current transaction."""

    @abstractmethod
    def _write_begin(self, transaction: Transaction) -> None: ...

    @abstractmethod
    def _write_savepoint(self, statement: str) -> None: ...

    @abstractmethod
    def _write_note(self, text: str) -> None: ...

    @abstractmethod
    def _commit(self, transaction: Transaction) -> None: ...

    @abstractmethod
    def _roll_back(self, transaction: Transaction, why: str) -> None: ...

    @abstractmethod
    def _flush(self) -> None: ...

    @abstractmethod
    def _end(self, *, broken: bool) -> None: ...


def _takes_rows(aside: Aside) -> bool:
    """Whether it is TRUNCATE, or drops or replaces tables or partitions: their rows are not logged."""
    found = read_statement(aside.text, aside.database, aside.sql_mode)
    if found is None:
        return False
    if found.kind == "unknown" and not found.tables:  # cut, or of a later server
        return first_word(aside.text.encode()) in (b"TRUNCATE", b"DROP")
    return found.kind in ("truncate", "drop", "unknown") or found.replaces


def _may_concern(
    aside: Aside, tables: tuple[str, ...] | None, exclude_tables: tuple[str, ...] | None
) -> bool:
    """Whether a statement may be about selected tables; False only if it is surely about others."""
    is_cut = len(aside.text.encode()) > STATEMENT_BYTES - 4  # maybe within a character
    if is_cut or (tables is None and exclude_tables is None):
        return True
    found = read_statement(aside.text, aside.database, aside.sql_mode)
    if found is not None and found.database is not None:
        return tables is None or any(
            not has_database(one) or fnmatchcase(found.database.lower(), database.lower())
            for one in tables
            for database, _ in _divided(one)
        )
    if found is not None and found.kind != "unknown":
        lower = None if tables is None else [one.lower() for one in tables]
        return any(
            is_wanted_name(name, tables, exclude_tables)
            or is_wanted_name(name.lower(), lower, exclude_tables)
            for name in found.tables
        )
    # Names tell nothing of other statements: views, triggers, functions and foreign keys change other tables.
    if tables is None or not may_change_definitions(aside.text.encode()):
        return True
    words = words_of_change(aside.text, aside.sql_mode)
    if words is None:
        return True
    own = {name.lower() for one in tables for _, name in _divided(one)}
    return any(fnmatchcase(word, pattern) for word in words for pattern in own)


def _divided(pattern: str) -> Iterator[tuple[str, str]]:
    """What may be database and table of a name or pattern: without quotes, each dot may divide it."""
    yield split_name(pattern if has_database(pattern) else f".{pattern}")
    for at, one in enumerate(pattern):
        if one == ".":
            yield pattern[:at], pattern[at + 1 :]


def _in_log_order(group: Group, made: list[Any]) -> Iterator[tuple[int, int, int, int, int]]:
    """Changes and asides of a group: position, row, which of them, batch, record or number of the aside."""
    order = []
    for i, (batch, statements) in enumerate(zip(group.batches, made, strict=True)):
        image = batch.array["image"][statements.records]
        entry = np.empty(len(image), _CHANGE_DTYPE)
        entry["position"], entry["row"], entry["what"] = image["position"], image["row"], _CHANGE
        entry["batch"], entry["record"] = i, statements.records
        order.append(entry)
    entry = np.empty(len(group.asides), _CHANGE_DTYPE)
    for k, aside in enumerate(group.asides):
        entry[k] = aside.position, aside.row, _ASIDE, 0, k
    order.append(entry)
    together = np.concatenate(order)
    together = together[np.lexsort((together["what"], together["row"], together["position"]))]
    yield from together.tolist()
