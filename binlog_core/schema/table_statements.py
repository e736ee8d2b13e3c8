"""The effect of a statement on the tables that it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from .._tables.full_names import full_name, split_name
from ..errors import SchemaError
from .tokens import TokenReader, tokenize_statements

Kind = Literal["create", "alter", "drop", "rename", "truncate", "unknown"]

_PARTITION_VERBS = ("CONVERT", "DROP", "EXCHANGE", "TRUNCATE")
_NOT_COLUMNS = frozenset(  # the first words of what else is dropped and added
    ("check", "constraint", "foreign", "fulltext", "index", "key", "period", "primary", "spatial", "unique")
)


@dataclass(frozen=True, slots=True)
class TableStatement:
    """The effect of a statement on the tables that it names.

    Parameters
    ----------
    kind : str
        "create", "alter", "drop", "rename", "truncate"; "unknown" if it could not be read.
    tables : tuple of str
        The tables that it names, as ``database.table``; for a rename also the new names.
    database : str or None
        The database that is dropped as a whole, also by CREATE OR REPLACE DATABASE.
    replaces : bool
        Whether it is CREATE OR REPLACE TABLE.
    retypes : bool
        Whether it is an ALTER that may give a column another definition. What that does to values, also to
        those that are computed from the column, depends on the definition before.
    if_not_exists : bool
        Whether it is a CREATE that may have done nothing.
    """

    kind: Kind
    tables: tuple[str, ...] = ()
    database: str | None = None
    replaces: bool = False
    retypes: bool = False
    if_not_exists: bool = False

    def concerns(self, table: str) -> bool:
        """Whether the statement may affect a table."""
        spelling = spelling_of(table)
        if self.kind == "unknown":
            return True
        if self.database is not None:
            return split_name(table)[0] == spelling(self.database)
        return table in map(spelling, self.tables)


def spelling_of(*tables: str) -> Callable[[str], str]:
    """The function that makes names in statements comparable with those of tables in the same logs.

    A server with lower_case_table_names=1 logs lower-case names with rows, and statements as they were typed.
    So if rows have capitals in their tables' names, the server distinguishes names by case.
    """
    return str.lower if all(one == one.lower() for one in tables) else str


def read_statement(sql: str, database: str, sql_mode: int = 0) -> TableStatement | None:
    """Read a statement as far as needed.

    Parameters
    ----------
    sql : str
        The statement.
    database : str
        The default database.
    sql_mode : int
        The server's bit mask, for the rules of quoting.

    Returns
    -------
    TableStatement or None
        What it does; None if it is not about tables.
    """
    try:
        statement = next(tokenize_statements(sql, sql_mode), None)
        return _read(TokenReader(statement), database) if statement is not None else None
    except SchemaError:
        return TableStatement("unknown")


def words_of_change(sql: str, sql_mode: int = 0) -> frozenset[str] | None:
    """The words and names in a statement that was logged instead of its row changes.

    One that has a table's name in it may have changed that table. What triggers and foreign keys do to other
    tables is not looked for.

    Parameters
    ----------
    sql : str
        The statement.
    sql_mode : int
        The server's bit mask, for the rules of quoting.

    Returns
    -------
    frozenset of str, or None
        In lower case, without the values of INSERT and REPLACE. None if it may have changed any table: a call
        of a function, or a statement that cannot be read.
    """
    found: set[str] = set()
    try:
        reader = TokenReader(chain.from_iterable(tokenize_statements(sql, sql_mode)))
        reader.skip_settings()
        verb = reader.word()
        last = ("VALUES", "VALUE") if verb in ("INSERT", "REPLACE") else ()
        while not reader.done and reader.word() not in last:
            found.add(reader.take().text.lower())
        if reader.word() == "VALUE":  # no reserved word: it may be the table
            found.add("value")
    except SchemaError:
        return None
    # The LOAD of a server before 5.0 is an event of its own, without a text.
    if verb in ("SELECT", "CALL") or (verb == "LOAD" and "table" not in found):
        return None
    return frozenset(found)


def _read(reader: TokenReader, database: str) -> TableStatement | None:
    verb, replaces = reader.table_verb()
    if reader.word() == "TEMPORARY":
        return None
    what = reader.accept_any("TABLE", "TABLES", "DATABASE", "SCHEMA")
    if what in ("DATABASE", "SCHEMA"):
        if verb != "DROP" and not replaces:
            return None
        reader.accept("IF", "EXISTS")
        return TableStatement("drop", database=reader.name())
    if verb == "TRUNCATE":
        reader.accept("IF", "EXISTS")
        return TableStatement("truncate", (_name(reader, database),))
    if not what:
        return None  # indexes, views, routines, users change no rows
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    reader.accept("IF", "EXISTS")
    if verb == "RENAME":
        return TableStatement("rename", tuple(_renamed(reader, database)))
    names = [_name(reader, database)]
    if verb == "DROP":
        while reader.accept_symbol(","):
            names.append(_name(reader, database))
        return TableStatement("drop", tuple(names))
    if verb == "CREATE":
        return TableStatement("create", tuple(names), replaces=replaces, if_not_exists=if_not_exists)
    if verb == "ALTER":
        return _alter(reader, database, names[0])
    return None


def _renamed(reader: TokenReader, database: str) -> list[str]:
    names = []
    while True:
        names.append(_name(reader, database))
        if reader.accept("WAIT"):
            reader.number()
        reader.accept("NOWAIT")
        if not reader.accept("TO"):
            raise reader.unexpected("TO")
        names.append(_name(reader, database))
        if not reader.accept_symbol(","):
            return names


def _alter(reader: TokenReader, database: str, table: str) -> TableStatement:
    # Of its parts only those matter that touch rows without logging them.
    names: list[str] = [table]
    kind: Kind = "alter"
    retypes = False
    dropped: set[str] = set()
    depth = 0
    while not reader.done:
        if reader.symbol() == "(":
            depth += 1
        elif reader.symbol() == ")":
            depth -= 1
        elif depth == 0 and reader.word() in _PARTITION_VERBS and reader.word(1) in ("PARTITION", "TABLE"):
            kind = "unknown"  # it changes some of the rows, and the statement does not show which
            reader.take()
            if reader.word() == "PARTITION":
                while not reader.done and reader.word() != "TABLE" and reader.symbol() != ",":
                    reader.take()
            if reader.accept("TABLE"):  # EXCHANGE … WITH TABLE, CONVERT: its rows change, too
                names.append(_name(reader, database))
            continue
        elif depth == 0 and reader.word() in ("DISCARD", "IMPORT"):
            kind = "unknown"
        elif depth == 0 and reader.word() in ("MODIFY", "CHANGE", "CONVERT", "ALTER"):
            retypes |= reader.word(1) not in ("INDEX", "CHECK", "CONSTRAINT")
        elif depth == 0 and reader.word() == "DROP":
            reader.take()
            reader.accept("COLUMN")
            reader.accept("IF", "EXISTS")
            if not reader.done:
                dropped.add(reader.take().text.lower())
            continue
        elif depth == 0 and reader.word() == "ADD" and dropped:
            reader.take()
            reader.accept("COLUMN")
            reader.accept("IF", "NOT", "EXISTS")
            retypes |= reader.symbol() == "("  # several columns
            if (name := reader.peek()) is not None:
                retypes |= name.text.lower() in dropped - _NOT_COLUMNS
            continue
        elif depth == 0 and reader.word() == "RENAME" and reader.word(1) not in ("COLUMN", "INDEX", "KEY"):
            reader.take()
            reader.accept("TO") or reader.accept("AS") or reader.accept_symbol("=")
            names.append(_name(reader, database))
            kind = "rename"
            continue
        reader.take()
    return TableStatement(kind, tuple(names), retypes=retypes)


def _name(reader: TokenReader, database: str) -> str:
    return full_name(*reader.qualified_name(database))
