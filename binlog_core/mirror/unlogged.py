"""Changes of rows that a log has only as statements, or not at all: which tables they may concern.

Statements are taken by the words in them. What they do through views, triggers and foreign keys is known from
those that the server has now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .._tables.full_names import full_name, own_name
from ..errors import SchemaError
from ..lake.apply.jobs import Folder
from ..lake.rows.types import import_pyarrow
from ..lake.tables.results import FileStatistics
from ..schema.tokens import tokenize_statements
from ..server.answers import maybe, text
from ..server.connection import LIST_BYTES, Connection, Facts
from ..server.foreign_keys import ACTS, acting, cascades_are_logged
from .changes import Decoded
from .raw import pieces

_TYPE, _DELETE, _PREIMAGE, _POSTIMAGE = "_change_type", "delete", "update_preimage", "update_postimage"
_BY_STATEMENT = "changes were logged as statements, not as rows, and may concern the table"
_BY_KEY = "rows that its foreign key to {} changed are not in the log"
_UNTIL = ": a copy (resync) has them, and verify lists the rows"

Words = frozenset[str] | None  # in small letters; None: any


class Cascade(NamedTuple):
    """A foreign key that changes rows of its table, the child.

    Parameters
    ----------
    parent, child : str
        The tables, as ``database.table``.
    deletes : bool
        Whether it acts when a row of the parent is deleted.
    referenced : tuple of str
        The parent's columns at whose update it acts; () if it does not.
    """

    parent: str
    child: str
    deletes: bool
    referenced: tuple[str, ...]


@dataclass(frozen=True)
class Reach:
    """What changes of a server's tables change besides.

    Parameters
    ----------
    cascades : tuple of Cascade
        The foreign keys that act.
    logged : bool
        Whether the rows that they change are logged if those of the parent are.
    further : mapping of str to Words
        By the name of a view or of a table with triggers, in small letters and without its database: the
        words of the definitions.
    """

    cascades: tuple[Cascade, ...] = ()
    logged: bool = True
    further: Mapping[str, Words] = field(default_factory=dict)

    def parents(self, tables: Iterable[str]) -> set[str]:
        """The tables at whose logged changes foreign keys may change some tables without logging it."""
        found: set[str] = set()
        children = set() if self.logged else set(tables)
        while children:
            children = {one.parent for one in self.cascades if one.child in children} - found
            found |= children
        return found

    def suspects(self, tables: Collection[str], decoded: Decoded) -> dict[str, str]:
        """Those of some tables that may lack changes in a part of the log, and the reasons."""
        words = self._with_further(decoded.words)
        if words is None:
            return dict.fromkeys(tables, _BY_STATEMENT + _UNTIL)
        known = {*tables, *(name for one in self.cascades for name in one[:2])} if words else ()
        found = {name: _BY_STATEMENT for name in known if own_name(name).lower() in words}
        found |= {
            one.child: _BY_KEY.format(one.parent)
            for one in self.cascades
            if not self.logged
            and one.child not in found
            and _acts(one, decoded.files.get(one.parent, ()), Folder(decoded.folder, decoded.storage_options))
        }
        reached = set(found)
        while reached:  # rows of these tables changed without being logged, and foreign keys to them act
            later = [one for one in self.cascades if one.parent in reached and one.child not in found]
            found |= {one.child: _BY_KEY.format(one.parent) for one in later}
            reached = {one.child for one in later}
        return {name: found[name] + _UNTIL for name in tables if name in found}

    def _with_further(self, words: Words) -> Words:
        """Words, and those of the views and triggers that they name."""
        found: set[str] = set()
        fresh = words
        while fresh:
            found |= fresh
            more: set[str] = set()
            for name in fresh & self.further.keys():
                definition = self.further[name]
                if definition is None:
                    return None
                more |= definition
            fresh = frozenset(more - found)
        return None if fresh is None else frozenset(found)


def _acts(cascade: Cascade, files: Sequence[FileStatistics], folder: Folder) -> bool:
    """Whether logged changes of its parent make a foreign key act."""
    import pyarrow.compute as pc

    if cascade.deletes and any(one.rows.get(_DELETE) for one in files):
        return True
    if not cascade.referenced:
        return False
    for rows in pieces(folder, (one.name for one in files if one.rows.get(_PREIMAGE))):
        names = {name.lower(): name for name in rows.column_names}
        if any(name.lower() not in names for name in cascade.referenced):
            return True  # a parent that is not mirrored, or a column that was renamed
        columns = rows.select([names[name.lower()] for name in cascade.referenced])
        kinds = rows[_TYPE].cast(import_pyarrow().string())
        before, after = (columns.filter(pc.equal(kinds, kind)) for kind in (_PREIMAGE, _POSTIMAGE))
        if not before.equals(after):
            return True
    return False


def reach_of(connection: Connection, facts: Facts) -> Reach:
    """What a server's foreign keys, views and triggers do, as far as its user may see them."""
    logged = cascades_are_logged(connection, facts)
    return Reach(tuple(_cascades(connection)), logged, _further(connection))


def _cascades(connection: Connection) -> Iterator[Cascade]:
    rows = acting(connection)
    referenced: dict[tuple[str | None, ...], list[str]] = {}
    if any(row[6] in ACTS for row in rows):
        for database, name, table, column, *_ in connection.query(
            "SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_NAME, REFERENCED_COLUMN_NAME"
            " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_COLUMN_NAME IS NOT NULL",
            *[text] * 4,
            most=LIST_BYTES,
            right="SELECT",
        ):
            referenced.setdefault((database, name, table), []).append(column)
    for database, name, table, other, parent, at_delete, at_update, *_ in rows:
        columns = referenced.get((database, name, table), ()) if at_update in ACTS else ()
        yield Cascade(
            full_name(other, parent),
            full_name(database, table),
            at_delete in ACTS,
            tuple(columns),
        )


def _further(connection: Connection) -> dict[str, Words]:
    """The words of the definitions of views and triggers; None for those that the user may not see."""
    found: dict[str, Words] = {}
    for sql in (
        "SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS"
        " WHERE TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')",
        "SELECT EVENT_OBJECT_TABLE, ACTION_STATEMENT FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA <> 'sys'",
    ):
        for name, definition, *_ in connection.query(sql, text, maybe, most=LIST_BYTES, right="SELECT"):
            words, name = _words(definition or ""), name.lower()
            known = found.get(name, frozenset())
            found[name] = None if words is None or known is None else words | known
    return found


def _words(definition: str) -> Words:
    try:
        found = {token.text.lower() for one in tokenize_statements(definition) for token in one}
    except SchemaError:
        return None
    return frozenset(found) if found and "call" not in found else None
