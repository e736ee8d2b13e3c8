"""A server of the world: its logs, who reads them, and what happens to it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from support.writer import numbering as n
from support.writer.log import Log

from .line import Clock, Line
from .model import Transaction
from .tables import Tables

_HEAD = slice(4, 21)  # of a log's descriptor, up to the flag that it is in use
EPOCH = 1_750_000_000  # the world's beginning, in seconds since 1970
_THREAD_SPECIFIC = 8  # flag of a statement that does not change the database
_STANDALONE, _TRANSACTIONAL, _PREPARED_XA, _COMPLETED_XA = 1, 12, 64, 128  # of MariaDB's GTID events
UUIDS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "a1b2c3d4-0000-11f0-8000-0242ac120002")


@dataclass(frozen=True)
class Kind:
    """A vendor's release, and its settings."""

    version: str
    gtids: bool = True
    checksum: bool = True

    @property
    def mariadb(self) -> bool:
        """Whether it is MariaDB."""
        return n.is_mariadb(self.version)

    @property
    def logs_xa(self) -> bool:
        """Whether prepared transactions are in the log."""
        return self.mariadb or n.version_of(self.version) >= (5, 7, 7)

    @property
    def without_positions(self) -> bool:
        """Whether events inside a transaction do not say where they end; such servers index their GTIDs."""
        return self.mariadb and n.version_of(self.version) >= (11, 4)

    @property
    def without_files(self) -> bool:
        """Whether its log is in InnoDB: what it sends has neither files nor positions."""
        return self.mariadb and n.version_of(self.version) >= (12, 3)


@dataclass
class Written:
    """A transaction in a log: where it begins and ends."""

    transaction: Transaction
    file: str
    start: int
    end: int
    second: int


class Listener(Protocol):
    """A connection that may be reading a log."""

    line: Line

    def reads(self, file: str) -> bool:
        """Whether a log is being sent."""

    def send_log(self) -> None:
        """Send what the logs have and the client does not."""


class Server:
    """A host of the world.

    Parameters
    ----------
    world : Clock
    name : str
        Of the host; its logs' names begin with it.
    kind : Kind
    server_id : int
        From 1.
    first_log : int
        The number of its first log.
    """

    def __init__(self, world: Clock, name: str, kind: Kind, *, server_id: int, first_log: int = 1) -> None:
        self.world = world
        self.name = name
        self.kind = kind
        self.server_id = server_id
        self.up = True
        self.skew = 0  # seconds by which its clock is wrong
        self.gone: list[tuple[str, Log]] = []  # logs before RESET
        self.had: list[tuple[str, bytes]] = []  # logs before a crash cut them
        self.written: list[Written] = []
        self.earlier: list[Written] = []  # before it was restored
        self.logs: dict[str, Log] = {}
        self.sessions: list[Listener] = []
        self.acknowledged: dict[str, int] = {}  # how far a log is stored elsewhere
        self._states: dict[str, int] = {}  # the last transaction before each log
        self.tables: Tables | None = None  # what SELECT shows, if anybody asks
        self.ends: set[tuple[str, int]] = set()  # of transactions: a log, and a position in it
        self.heads: dict[str, int] = {}  # where the first transaction of a log can begin
        self._first_log = self._next_log = first_log
        self.uuid = UUIDS[server_id - 1]  # on MySQL
        self.restored_to = 0  # the last transaction of the backup from which it was made
        self._new_log(begins=True)

    # ------------------------------------------------------------ logs

    @property
    def file(self) -> str:
        """The log that it writes."""
        return next(reversed(self.logs))

    @property
    def log(self) -> Log:
        """The log that it writes."""
        return self.logs[self.file]

    @property
    def last(self) -> int:
        """The number of its last transaction."""
        return self.written[-1].transaction.number if self.written else self.restored_to

    def _new_log(self, *, begins: bool = False) -> None:
        name = f"{self.name}-bin.{self._next_log:06d}"
        self._next_log += 1
        self._states[name] = self.last
        log = Log(
            self.kind.version,
            checksum=self.kind.checksum,
            server_id=self.server_id,
            timestamp=self._second(),
            created=None if begins else 0,
        )
        if self.kind.mariadb:
            log.gtid_list([(0, 1, self.last)] if self.last else [])
            log.checkpoint(next(reversed(self.logs), name))
            log.checkpoint(name)
        else:
            flags = 0x80 if n.version_of(self.kind.version) >= (5, 7) else 0
            log.event(n.PREVIOUS_GTIDS, mysql_set(self.last if self.kind.gtids else 0), flags=flags)
        self.heads[name] = log.position
        self.logs[name] = log

    def _second(self) -> int:
        return EPOCH + int(self.world.now()) + self.skew

    def state(self, file: str) -> int:
        """The number of the last transaction before a log."""
        return self._states[file]

    def after(self, file: str) -> str | None:
        """The log after one of its logs."""
        names = list(self.logs)
        at = names.index(file) + 1
        return names[at] if at < len(names) else None

    # ------------------------------------------------------------ what it does

    def commit(self, transaction: Transaction) -> None:
        """Execute and log a transaction; all origins are the first host."""
        log = self.log
        log.timestamp = self._second()
        start = log.position
        if self.kind.mariadb:
            self._maria_gtid(log, transaction)
        else:
            log.gtid(
                UUIDS[0],
                transaction.number,
                commit_time=int((EPOCH + self.world.now()) * 1e6),
                anonymous=not self.kind.gtids,
            )
        if transaction.changes or transaction.is_dml:
            self._log_changes(log, transaction)
        else:
            flags = _THREAD_SPECIFIC * bool(transaction.branch)
            log.query(transaction.statement, "" if transaction.branch else transaction.database, flags=flags)
        self.ends.add((self.file, log.position))
        self.written.append(Written(transaction, self.file, start, log.position, log.timestamp))
        if self.tables is not None:
            self.tables.commit(transaction)
        self._tell()

    def _log_changes(self, log: Log, transaction: Transaction) -> None:
        way, branch = transaction.way, transaction.branch
        if self.kind.mariadb and way == "one phase":  # it is logged like any other
            way, branch = "commit", ""
        if not self.kind.mariadb:
            log.query(f"XA START {branch}" if branch else "BEGIN", "shop", flags=_THREAD_SPECIFIC)
        log.next_positions = not self.kind.without_positions
        if transaction.is_dml:
            log.query(transaction.statement, "shop")
        at = 0
        for number, rows in enumerate(transaction.events):
            if number == 1 and way in ("savepoint", "undone"):
                log.query("SAVEPOINT `s`", "shop", flags=_THREAD_SPECIFIC)
            if self.kind.mariadb:
                log.annotate_rows(f"statement {at}")
            _rows_event(log, transaction, at, rows)
            at += rows
        if way == "undone" and len(transaction.events) > 1:
            log.query("ROLLBACK TO `s`", "shop", flags=_THREAD_SPECIFIC)
        if branch:
            log.query(f"XA END {branch}", "shop", flags=_THREAD_SPECIFIC)
        log.next_positions = True
        if branch:
            name = _branch_name(branch)
            log.event(
                n.XA_PREPARE, bytes((way == "one phase",)) + struct.pack("<III", 1, len(name), 0) + name
            )
        elif way == "rollback":
            log.query("ROLLBACK", "shop", flags=_THREAD_SPECIFIC)
        else:
            log.commit(transaction.number)

    def _maria_gtid(self, log: Log, transaction: Transaction) -> None:
        server_id, log.server_id = log.server_id, 1
        body = struct.pack("<QI", transaction.number, 0)
        if transaction.way == "prepare":
            body += bytes((_TRANSACTIONAL | _PREPARED_XA,)) + _xid(transaction.branch)
        elif transaction.branch and not transaction.changes:
            body += bytes((_TRANSACTIONAL | _STANDALONE | _COMPLETED_XA,)) + _xid(transaction.branch)
        else:
            alone = not (transaction.changes or transaction.is_dml)
            body += bytes((_TRANSACTIONAL | _STANDALONE * alone,))
        log.event(n.MARIADB_GTID, body.ljust(19, b"\0"), flags=_THREAD_SPECIFIC)
        log.server_id = server_id

    def rotate(self) -> None:
        """FLUSH BINARY LOGS."""
        self.log.timestamp = self._second()
        self.log.rotate(f"{self.name}-bin.{self._next_log:06d}")
        self._new_log()
        self._tell()

    def purge(self, keep: int) -> None:
        """Remove all logs but the last ones."""
        for name in list(self.logs)[:-keep]:
            if not any(session.reads(name) for session in self.sessions):
                del self.logs[name]

    def stop(self, *, clean: bool) -> None:
        """End the server: a shut-down writes STOP, a crash does not."""
        self.up = False
        if clean:
            self.log.stop()
            self._tell()
        for session in list(self.sessions):
            session.line.end(reset=not clean)
        if self.tables is not None:
            self.tables.stop()

    def begin(self) -> None:
        """Begin again, with another log."""
        self.up = True
        self._new_log(begins=True)

    def lose(self, count: int) -> list[Transaction]:
        """Lose the last transactions of the current log, as a crash does without sync_binlog."""
        here = [one for one in self.written if one.file == self.file][-count:]
        if here:
            self.had.append((self.file, self.log.getvalue()))
            self.log.cut(here[0].start)
            del self.written[-len(here) :]
            if self.tables is not None:
                self.tables.lose(len(here))
        return [one.transaction for one in here]

    def reset(self) -> None:
        """RESET: logs and numbers of transactions begin again; those who read are sent away."""
        for session in list(self.sessions):
            session.line.end(reset=False)
        self.gone += self.logs.items()
        for kept in (self.logs, self.written, self.acknowledged, self._states, self.heads, self.ends):
            kept.clear()
        self._next_log = self._first_log
        self._new_log()
        if self.tables is not None:
            self.tables.reset()

    def restore(self, count: int) -> list[Transaction]:
        """Begin again from a backup that lacks so many transactions, which it is to replicate again.

        It is another server then, with logs that begin again.
        """
        lacks = [one.transaction for one in self.written[len(self.written) - count :]]
        self.stop(clean=False)
        tables, last = self.tables, self.last - len(lacks)
        self.earlier = list(self.written)
        self.tables = None  # what RESET does to them
        self.reset()
        self.tables, self.restored_to = tables, last
        self.logs.clear()
        self._next_log = self._first_log
        self._new_log(begins=True)
        self.uuid = f"b{self.uuid[1:-2]}{int(self.uuid[-2:], 16) ^ 0x55:02x}"
        if tables is not None:
            tables.lose(len(lacks))
        return lacks

    def is_earlier(self, name: str, data: bytes) -> bool:
        """Whether a log in an archive is one of before the server was restored."""
        earlier = dict(self.gone).get(name)
        return earlier is not None and data[_HEAD] == earlier.getvalue()[_HEAD]

    def acknowledge(self, file: str, position: int) -> None:
        """Note that a semi-synchronous replica has stored a log up to a position."""
        self.acknowledged[file] = max(position, self.acknowledged.get(file, 0))

    def _tell(self) -> None:
        for session in list(self.sessions):
            session.send_log()

    # ------------------------------------------------------------ what it knows

    @property
    def executed(self) -> str:
        """gtid_executed, or gtid_binlog_pos."""
        if not self.last or not self.kind.gtids:
            return ""
        if self.kind.mariadb:
            return f"0-1-{self.last}"
        seen = self.last if self.tables is None else self.tables.seen  # gtid_executed has what others see
        return f"{UUIDS[0]}:1-{seen}" if seen else ""

    def has(self, file: str) -> bool:
        """Whether it has a log of this name."""
        return file in self.logs


def _rows_event(log: Log, transaction: Transaction, at: int, rows: int) -> None:
    changes = transaction.changes[at : at + rows]
    table, op = changes[0].definition, changes[0].op
    values = [change.after for change in changes]
    if op == "insert":
        log.insert(table, values)
    elif op == "delete":
        log.delete(table, values)
    else:
        log.update(table, [(change.before, change.after) for change in changes])


def _branch_name(branch: str) -> bytes:
    return bytes.fromhex(branch.split("'")[1])


def _xid(branch: str) -> bytes:
    name = _branch_name(branch)
    return struct.pack("<IBB", 1, len(name), 0) + name


def mysql_set(last: int) -> bytes:
    """GTIDs 1 to last of the first host, as the server encodes a set."""
    if not last:
        return bytes(8)
    return struct.pack("<Q", 1) + UUID(UUIDS[0]).bytes + struct.pack("<QQQ", 1, 1, last + 1)
