"""Whole logs as scripts of SQL, transaction by transaction.

A transaction is committed where the log says that it was, and whole; else it is rolled back. Whatever is in
the range and not in the script is named, in the script and to who asked for it.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .._decode.group import Aside
from .._format.statements import changes_rows, first_word
from .._gtid_fields import gtid_text
from .._redaction import shown_statement
from ..batch import OUTCOMES
from ..errors import BinlogError
from ..limits import DEFAULT_LIMITS, Limits
from .literals import quote_name
from .statements import StatementMaker

if TYPE_CHECKING:
    from .._decode.group import Group
    from ..batch import ChangeBatch

SANDBOX = r"/*M!999999\- enable the sandbox mode */ "  # to MariaDB's client: no commands from here on
_CHARSETS_WITH_BACKSLASHES = "'big5', 'cp932', 'gb18030', 'gbk', 'sjis'"  # in the second byte of a character
# A client that reads its input in such a character set is stopped before anything is changed. Nothing here is
# read otherwise by it, but a script that was edited, or joined to another, may be.
_PROBE = (
    f"SET @binlog_core_probe = IF(@@character_set_client IN ({_CHARSETS_WITH_BACKSLASHES}),"
    " 'run the client with --default-character-set=utf8mb4', 'DO 0');",
    "PREPARE binlog_core_probe FROM @binlog_core_probe;",
    "EXECUTE binlog_core_probe;",
    "DEALLOCATE PREPARE binlog_core_probe;",
)
# The session in which the statements mean what they say: TIMESTAMP in UTC, zero in AUTO_INCREMENT columns and
# dates that no calendar has as they are, and rows in any order of their foreign keys.
SESSION = (
    "SET NAMES utf8mb4;",
    "SET @OLD_TIME_ZONE = @@SESSION.time_zone, @OLD_SQL_MODE = @@SESSION.sql_mode;",
    "SET @OLD_FOREIGN_KEY_CHECKS = @@SESSION.foreign_key_checks;",
    "SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES',"
    " foreign_key_checks = 0;",
)
POSTAMBLE = (
    "SET SESSION time_zone = @OLD_TIME_ZONE, sql_mode = @OLD_SQL_MODE;",
    "SET SESSION foreign_key_checks = @OLD_FOREIGN_KEY_CHECKS;",
)

_UNKNOWN, _COMMITTED, _ROLLED_BACK, _PREPARED = range(4)
assert OUTCOMES[_COMMITTED] == "committed"
_LINES = 1 << 20  # characters that are written at a time
_MOST_TOLD = 100
_MOST_OF_A_STATEMENT = 200  # characters that are told
_SAVEPOINT = re.compile(
    r"(?P<verb>SAVEPOINT|ROLLBACK\s+TO(?:\s+SAVEPOINT)?|RELEASE\s+SAVEPOINT)\s+(?P<name>.+)",
    re.IGNORECASE | re.DOTALL,
)
_XID = re.compile(r"X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'\s*,\s*(\d+)", re.IGNORECASE)
_TAKES_ROWS = frozenset((b"TRUNCATE", b"DROP"))

_CHANGE_DTYPE = np.dtype(
    [("position", "<u8"), ("row", "<u4"), ("what", "u1"), ("batch", "<u4"), ("record", "<u4")]
)
_ASIDE, _CHANGE = 0, 1


@dataclass(slots=True)
class Transaction:
    """One that a script has begun.

    Parameters
    ----------
    path : str
    begin : int
        Position of its first event.
    told : str
        Where and when it was.
    xa : bool
        It begins with XA START.
    first : int
        Where its lines begin, of those that are kept.
    """

    path: str
    begin: int
    told: str
    xa: bool
    first: int
    last: int = 0
    xid: str | None = None
    holes: list[str] = field(default_factory=list)  # what of it is not in the script
    lost: bool = False  # and not because it never was a row
    goes_back: bool = False  # to a savepoint


class Script(ABC):
    """SQL of the changes of a log.

    Parameters
    ----------
    file : binary file
    maker : StatementMaker
    tell : callable
        Takes a sentence about what is not in the script; of many the first hundred.
    mariadb : bool
        The log is of a MariaDB server, and the script for the client of one.
    inverse : bool
    limits : Limits
        Its `spool_bytes` bound the temporary file of statements that wait for the end of something.
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
    ) -> None:
        self._file = file
        self._maker = maker
        self._tell_one = tell
        self._told = 0
        self._most_kept = limits.spool_bytes
        self._inverse = inverse
        self._mariadb = mariadb
        self._open: Transaction | None = None
        self._waiting: tuple[str, int] | None = None  # the transaction of these, which has no row so far
        self._asides: list[Aside] = []
        self._lost_at: tuple[str, int] = ("", -1)
        self._prepared: dict[str, Transaction] = {}  # by XID
        self._no_rows: set[str] = set()  # XIDs of what was prepared without rows that were read
        self._savepoints: dict[str, str] = {}

    # ------------------------------------------------------------ what comes

    def add(self, group: Group) -> None:
        """Take what a group holds, asides included."""
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
            self._finish(ends)  # nobody waits for a COMMIT until the next transaction comes
        self._flush()

    def close(self, *, broken: bool = False) -> None:
        """Write what comes at the end.

        Parameters
        ----------
        broken : bool
            Because of an error: the log goes on.
        """
        self._finish({})
        for one in self._prepared.values():
            self._tell(
                f"prepared, and neither committed nor rolled back so far: XA transaction of {one.told}"
            )
        if self._told > _MOST_TOLD:
            self._tell_one(f"and {self._told - _MOST_TOLD:,} more such notes, which are in the script")
        self._end(broken=broken)

    def _begin(self, path: str, record: np.void) -> None:
        begin = int(record["begin_position"])
        waiting = self._asides if self._waiting == (path, begin) else []
        self._asides, self._waiting = [], None
        self._open = Transaction(
            path,
            begin,
            told_place(path, record),
            any(one.kind == "xa start" for one in waiting),
            self._place(),
        )
        if self._lost_at[0] == path and self._lost_at[1] >= begin:
            self._open.lost = True
            self._open.holes.append("rows of it are lost")
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
                self._open.holes.append("rows of it are lost")
            self._miss(path, aside, aside.text, changed=True)
            return
        if self._open is not None and self._open.begin != aside.transaction:
            self._finish(ends)
        if aside.kind == "statement":
            statement = aside.text.encode()
            changed = changes_rows(statement) or first_word(statement) in _TAKES_ROWS
            self._miss(path, aside, _told_statement(aside), changed=changed)
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
                self._no_rows.add(_xid(aside.text))

    def _add_inside(self, transaction: Transaction, aside: Aside) -> None:
        match aside.kind:
            case "statement":
                transaction.holes.append("a statement of it is not among the rows")
            case "xa prepare":
                transaction.xid = _xid(aside.text)
            case "savepoint" if found := _SAVEPOINT.fullmatch(aside.text.strip()):
                verb = " ".join(found["verb"].upper().split())
                transaction.goes_back |= verb.startswith("ROLLBACK")
                # By a name of ours: theirs may be any.
                name = self._savepoints.setdefault(found["name"].lower(), f"s{len(self._savepoints)}")
                self._write_savepoint(f"{verb} {quote_name(name)};")

    def _end_xa(self, path: str, aside: Aside) -> None:
        xid = _xid(aside.text)
        one = self._prepared.pop(xid, None)
        if one is None:
            if xid not in self._no_rows and aside.kind == "xa commit":
                self._miss(path, aside, "XA COMMIT of what was prepared before", changed=True)
            self._no_rows.discard(xid)
        elif aside.kind == "xa commit":
            self._commit(one)
        else:
            self._tell(f"rolled back by XA ROLLBACK: XA transaction of {one.told}")

    def _finish(self, ends: dict[int, tuple[int, int]]) -> None:
        """The transaction at hand is over."""
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
                _UNKNOWN: "its beginning or its end is not in what was read",
                _ROLLED_BACK: "the log rolls it back",
                _PREPARED: "the log only prepares it",
            }
            self._roll_back(one, why[outcome])

    def _miss(self, path: str, aside: Aside, text: str, *, changed: bool) -> None:
        self._tell(f"not in the script: {path}, position {aside.position}: {text}")

    def _tell(self, text: str) -> None:
        self._told += 1
        if self._told <= _MOST_TOLD:
            self._tell_one(text)
        self._write_note(comment(text))

    # ------------------------------------------------------------ what the scripts differ in

    @abstractmethod
    def _place(self) -> int:
        """Where the next line will be, of those that are kept."""

    @abstractmethod
    def _write(self, change: Any) -> None:
        """A change of the transaction at hand."""

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


class ReplayScript(Script):
    """What the log did, as it comes; a prepared XA transaction where it is committed.

    Parameters
    ----------
    file, maker, tell, mariadb, limits
        As for `Script`.
    """

    def __init__(
        self,
        file: BinaryIO,
        maker: StatementMaker,
        tell: Callable[[str], None],
        *,
        mariadb: bool,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(file, maker, tell, mariadb=mariadb, inverse=False, limits=limits)
        self._lines: list[str] = []
        self._waits = 0  # characters of lines
        self._kept: _Kept | None = None
        self._line_(*preamble(mariadb=self._mariadb))

    def _place(self) -> int:
        return len(self._kept) if self._kept is not None else 0

    def _write(self, change: str) -> None:
        if self._open is not None and self._open.xa:
            if self._kept is None:
                self._kept = _Kept(self._most_kept)
            self._kept.add(change)
        else:
            self._line_(change)

    def _write_begin(self, transaction: Transaction) -> None:
        if not transaction.xa:
            self._line_(comment(transaction.told), "BEGIN;")

    def _write_savepoint(self, statement: str) -> None:
        self._write(statement)

    def _write_note(self, text: str) -> None:
        self._line_(text)

    def _commit(self, transaction: Transaction) -> None:
        if transaction.lost:
            self._roll_back(transaction, transaction.holes[0])
            return
        self._write_kept(transaction)
        self._line_("COMMIT;")

    def _roll_back(self, transaction: Transaction, why: str) -> None:
        self._write_kept(transaction)
        self._tell(f"not committed, since {why}: transaction of {transaction.told}")
        self._line_("ROLLBACK;")

    def _write_kept(self, transaction: Transaction) -> None:
        if not transaction.xa:
            return
        self._line_(comment(transaction.told), "BEGIN;")
        if self._kept is not None:
            for i in range(transaction.first, transaction.last):
                self._line_(self._kept[i])

    def _line_(self, *lines: str) -> None:
        for line in lines:
            self._lines.append(line)
            self._waits += len(line)
        if self._waits > _LINES:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._file.write("\n".join(self._lines).encode("ascii"))
            self._lines, self._waits = [], 0

    def _end(self, *, broken: bool) -> None:
        self._line_(*POSTAMBLE)
        self._flush()
        if self._kept is not None:
            self._kept.close()


class FlashbackScript(Script):
    """What takes the changes back, the last transaction first.

    Statements are kept in a temporary file until the end is known; in memory there are 8 bytes for each.

    Parameters
    ----------
    file, maker, tell, mariadb, limits
        As for `Script`.
    partial : bool
        Take back what can be, also of transactions that cannot be taken back whole.
    """

    def __init__(
        self,
        file: BinaryIO,
        maker: StatementMaker,
        tell: Callable[[str], None],
        *,
        mariadb: bool,
        partial: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(file, maker, tell, mariadb=mariadb, inverse=True, limits=limits)
        self._partial = partial
        self._kept = _Kept(self._most_kept)
        self._order = array("Q")  # pairs: the lines of what is written, of a note or a transaction
        self._incomplete = 0

    def _place(self) -> int:
        return len(self._kept)

    def _write(self, change: str) -> None:
        self._kept.add(change)

    def _write_begin(self, transaction: Transaction) -> None:
        self._kept.add(comment(f"takes back {transaction.told}"))

    def _write_savepoint(self, statement: str) -> None:
        pass

    def _write_note(self, text: str) -> None:
        self._order.extend((len(self._kept), 0))
        self._kept.add(text)

    def _commit(self, transaction: Transaction) -> None:
        if transaction.goes_back:
            self._roll_back(transaction, "it goes back to a savepoint")
            return
        if transaction.holes:
            self._incomplete += 1
            self._tell(
                f"not taken back whole, since {transaction.holes[0]}: transaction of {transaction.told}"
            )
        self._order.extend((transaction.first, transaction.last))

    def _roll_back(self, transaction: Transaction, why: str) -> None:
        self._incomplete += 1
        self._tell(f"not taken back, since {why}: transaction of {transaction.told}")

    def _miss(self, path: str, aside: Aside, text: str, *, changed: bool) -> None:
        self._incomplete += changed
        super()._miss(path, aside, text, changed=changed)

    def _flush(self) -> None:
        pass

    def _end(self, *, broken: bool) -> None:
        try:
            if broken:
                return
            if self._incomplete and not self._partial:
                raise BinlogError(
                    f"what cannot be taken back whole: {self._incomplete:,} transactions or statements in the"
                    " range; choose another range, or take back the rest (--partial)"
                )
            self._write_all()
        finally:
            self._kept.close()

    def _write_all(self) -> None:
        self._out(preamble(mariadb=self._mariadb))
        for i in range(len(self._order) - 2, -1, -2):
            first, last = self._order[i], self._order[i + 1]
            self._out((self._kept[first],))
            if last:
                self._out(("BEGIN;",))
                for k in range(last - 1, first, -1):
                    self._out((self._kept[k],))
                self._out(("COMMIT;",))
        self._out(POSTAMBLE)

    def _out(self, lines: Iterator[str] | tuple[str, ...]) -> None:
        for line in lines:
            self._file.write(line.encode("ascii") + b"\n")


def preamble(*, mariadb: bool) -> Iterator[str]:
    """What stands in front of a script's statements."""
    if mariadb:
        yield SANDBOX
    yield "# For a client with --default-character-set=utf8mb4"
    yield from _PROBE
    yield from SESSION


class _Kept:
    """Statements in a temporary file, by number.

    Parameters
    ----------
    most : int
        Bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._file = tempfile.TemporaryFile(prefix="binlog-core-")  # noqa: SIM115  (closed in close)
        self._ends = array("Q", [0])
        self._written = 0

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, statement: str) -> None:
        self._file.write(statement.encode("ascii"))
        end = self._ends[-1] + len(statement)
        if end > self._most:
            raise BinlogError(
                f"the statements that wait take more than Limits.spool_bytes={self._most}:"
                " choose a smaller range"
            )
        self._ends.append(end)

    def __getitem__(self, i: int) -> str:
        if self._written < self._ends[-1]:
            self._file.flush()
            self._written = self._ends[-1]
        begin, end = self._ends[i], self._ends[i + 1]
        parts = []
        while begin < end:
            part = os.pread(self._file.fileno(), end - begin, begin)
            if not part:
                raise OSError("the temporary file is shorter than what was written to it")
            parts.append(part)
            begin += len(part)
        return b"".join(parts).decode("ascii")

    def close(self) -> None:
        self._file.close()


def comment(text: str) -> str:
    """One line of ASCII that is not executed, whatever a path, a GTID's tag or a statement holds."""
    return "# " + "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in text)


def told_place(path: str, record: np.void) -> str:
    """A transaction for people: where and when it was, and its GTID."""
    moment = dt.datetime.fromtimestamp(int(record["timestamp"]), dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    gtid = gtid_text(record)
    place = f"{path}, position {int(record['begin_position'])}, {moment} UTC"
    return f"{place}, GTID {gtid}" if gtid else place


def _told_statement(aside: Aside) -> str:
    text = " ".join(shown_statement(aside.text).split())
    if len(text) > _MOST_OF_A_STATEMENT:
        text = text[: _MOST_OF_A_STATEMENT - 1] + "…"
    return f"use {aside.database}; {text}" if aside.database else text


def _xid(text: str) -> str:
    found = _XID.search(text)
    return ",".join(found.groups()).lower() if found else text


def _in_log_order(group: Group, made: list[Any]) -> Iterator[tuple[int, int, int, int, int]]:
    """Changes and asides of a group: position, row, what it is, batch, and record or number of the aside."""
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
