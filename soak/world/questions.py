"""The statements of who reads tables, and a server's answers from what they hold; no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .tables import Shape, State, Stored, is_xa_commit

if TYPE_CHECKING:
    from .server import Server

Rows = list[list[str | None]]
_NAME = r"`(\w+)`\.`(\w+)`"
_NO_TABLE = b"\xff\x7a\x04#42S02Table doesn't exist"
_NO_COLUMN = b"\xff\x1e\x04#42S22Unknown column"
_CHANGED = b"\xff\x84\x05#HY000Table definition has changed, please retry transaction"
_BUSY = b"\xff\xb5\x04#HY000Lock wait timeout exceeded; try restarting transaction"  # an XA transaction's
_UNKNOWN = b"\xff\xd0\x07#HY000the world does not know this statement"
_EMPTY = (
    "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA",
    "SELECT TABLE_NAME, VIEW_DEFINITION",
    "SELECT EVENT_OBJECT_TABLE",
    "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS",
    "SELECT t.TABLE_SCHEMA, t.TABLE_NAME",
)


class Asked:
    """What a session asks about tables: its view of them, and the locks that it holds."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._view: State | None = None
        self._viewed = 0

    def end(self) -> None:
        """The session has ended."""
        if self._server.tables is not None:
            self._server.tables.unlock(self)

    def answer(self, sql: str) -> Rows | bytes | None:
        """Rows, an error's packet, or None: it is done."""
        tables = self._server.tables
        assert tables is not None
        if sql.startswith("SET "):
            return None
        if sql.startswith(_EMPTY):
            return []
        for pattern, method in _KNOWN:
            if found := re.fullmatch(pattern, sql, re.DOTALL):
                return method(self, *found.groups())
        tables.unknown.append(sql)
        return _UNKNOWN

    # ------------------------------------------------------------ views and locks

    def _lock(self, tables: str = "") -> bytes | None:
        assert self._server.tables is not None
        waiting = [name for name, one in self._server.tables.now.items() if one.prepared]
        if any(f"`{name.replace('.', '`.`')}` READ" in tables for name in waiting):
            self._server.tables.refuse()
            return _BUSY
        self._server.tables.lock(self)
        return None

    def _unlock(self) -> None:
        self.end()

    def _snapshot(self) -> None:
        assert self._server.tables is not None
        self._view, self._viewed = self._server.tables.now, self._server.tables.seen

    def _kept(self) -> None:
        """The view stays as it is."""

    def _rollback(self) -> None:
        self._view = None

    def _snapshot_place(self) -> Rows:
        server = self._server
        if not server.kind.mariadb or self._view is None:
            return []
        # An XA COMMIT is before the place as soon as it is in the log, and seen later.
        viewed = self._viewed
        logged = {one.transaction.number: one.transaction for one in server.written}
        while (ending := logged.get(viewed + 1)) is not None and is_xa_commit(ending):
            viewed += 1
        last = next((one for one in reversed(server.written) if one.transaction.number <= viewed), None)
        here = last is not None and last.file == server.file
        position = last.end if last is not None and here else server.heads[server.file]
        return [["Binlog_snapshot_file", server.file], ["Binlog_snapshot_position", str(position)]]

    def _recover(self) -> Rows:
        assert self._server.tables is not None
        branches = {branch for stored in self._server.tables.now.values() for branch in stored.prepared}
        names = sorted(bytes.fromhex(one.split("'")[1]) for one in branches)
        return [["1", str(len(one)), "0", one.decode("ascii")] for one in names]

    def _xa_commits(self) -> Rows:
        assert self._server.tables is not None
        return [["Com_xa_commit", str(self._server.tables.xa_commits)]]

    # ------------------------------------------------------------ definitions

    @property
    def _state(self) -> State:
        assert self._server.tables is not None
        return self._server.tables.now if self._view is None else self._view

    def _list(self) -> Rows:
        assert self._server.tables is not None
        shapes = [one.shape for one in self._server.tables.now.values()]
        return [["mysql", "user"], *([one.database, one.name] for one in shapes)]

    def _databases(self) -> Rows:
        return [[name, "utf8mb4"] for name in ("mysql", "shop", "stock")]

    def _definition(self, database: str, name: str) -> Rows | bytes:
        stored = self._now(database, name)
        return _NO_TABLE if stored is None else [[name, stored.shape.sql]]

    def _now(self, database: str, name: str) -> Stored | None:
        assert self._server.tables is not None
        return self._server.tables.now.get(f"{database}.{name}")

    def _length(self, database: str, name: str) -> Rows:
        named = [bytes.fromhex(one).decode() for one in (database, name)]
        # So long that a chunk has a few rows.
        return [] if self._now(named[0], named[1]) is None else [[str(128 << 20), "BASE TABLE", str(1 << 30)]]

    # ------------------------------------------------------------ rows

    def _select(
        self,
        selected: str,
        database: str,
        name: str,
        condition: str | None,
        order: str | None,
        offset: str | None,
    ) -> Rows | bytes:
        stored = self._state.get(f"{database}.{name}")
        here = self._now(database, name)
        if stored is None or here is None:
            return _NO_TABLE
        if self._view is not None and stored.shape.columns != here.shape.columns:
            return _CHANGED
        shown = selected.split(", ")
        if any(one != "NULL" and _name(one) not in dict(stored.shape.columns) for one in shown):
            return _NO_COLUMN
        rows = [row for row in stored.rows.values() if condition is None or _holds(condition, row)]
        if order is not None and offset is not None:
            names = [_name(one) for one in order.split(", ")]
            rows.sort(key=lambda row: [row[one] for one in names])
            rows = rows[int(offset) : int(offset) + 1]
        return [[_shown(one, stored.shape, row) for one in shown] for row in rows]


def _name(expression: str) -> str:
    found = re.fullmatch(r"`(\w+)`( \* 1e0)?", expression)
    assert found is not None, expression
    return found[1]


def _shown(expression: str, shape: Shape, row: dict[str, Any]) -> str | None:
    value = None if expression == "NULL" else row[_name(expression)]
    return value if value is None or isinstance(value, str) else repr(value)


def _holds(condition: str, row: dict[str, Any]) -> bool:
    """Whether a condition on a key of numbers holds."""
    assert re.fullmatch(r"(`\w+`|[<>=]+|\d+|AND|OR|[ ()])*", condition), condition
    python = re.sub(r"(?<![<>])=", "==", condition).replace("AND", "and").replace("OR", "or")
    return bool(eval(re.sub(r"`(\w+)`", r"row['\1']", python), {"row": row}))


_HEX = r"_utf8mb4 X'(\w+)'"
_KNOWN: list[tuple[str, Callable[..., Rows | bytes | None]]] = [
    (r"FLUSH TABLES WITH READ LOCK", Asked._lock),
    (r"LOCK TABLES (.* READ)", Asked._lock),
    (r"UNLOCK TABLES", Asked._unlock),
    (r"START TRANSACTION WITH CONSISTENT SNAPSHOT", Asked._snapshot),
    (r"ROLLBACK", Asked._rollback),
    (r"SAVEPOINT chunk|ROLLBACK TO SAVEPOINT chunk", Asked._kept),
    (r"SHOW STATUS LIKE 'binlog_snapshot_%'", Asked._snapshot_place),
    (r"SHOW GLOBAL STATUS LIKE 'Com_xa_commit'", Asked._xa_commits),
    (r"XA RECOVER", Asked._recover),
    (
        r"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema\.TABLES WHERE TABLE_TYPE NOT IN .*",
        Asked._list,
    ),
    (r"SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema\.SCHEMATA", Asked._databases),
    (rf"SHOW CREATE TABLE {_NAME}", Asked._definition),
    (
        r"SELECT AVG_ROW_LENGTH, TABLE_TYPE, DATA_LENGTH FROM .*"
        rf" WHERE TABLE_SCHEMA = {_HEX} AND TABLE_NAME = {_HEX}",
        Asked._length,
    ),
    (
        rf"SELECT (.*) FROM {_NAME}(?: WHERE (.*?))?(?: ORDER BY (.*) LIMIT 1 OFFSET (\d+))?",
        Asked._select,
    ),
]
