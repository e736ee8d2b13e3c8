"""Given table definitions, and how they follow the DDL in the log (``schema=``)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from .._tables.full_names import split_name
from .._tables.tables import Table
from ..errors import SchemaError
from ..limits import DEFAULT_LIMITS, Limits
from ..report import Report

if TYPE_CHECKING:
    from .._sources.sources import Source
    from ..events import QueryEvent
    from .ddl import DdlTracker
    from .given import Schema
    from .table_definitions import TableSchema


_MOST_UNDEFINED = 10_000  # tables whose names are kept
SchemaSource = Mapping[str, str] | str | os.PathLike[str]  # what `open` takes as schema= and schema_start=


def load(schema: SchemaSource | Schema) -> Schema | str:
    """Read the argument ``schema=`` once; "ddl" and "server" stay as they are.

    Raises
    ------
    SchemaError, MissingExtraError, TypeError
        As ``Schema.load``.
    """
    from .given import Schema

    return schema if isinstance(schema, str) and schema in ("ddl", "server") else Schema.load(schema)


class Definitions:
    """What `open` was given as ``schema=``.

    Parameters
    ----------
    schema : dict, str, path or None
        A dict of "db.table" to CREATE TABLE text; a .sql file; ``mysql://…``; or "ddl" for the statements in
        the log itself.
    start : same as schema
        For "ddl", the definitions at the beginning of the log.
    limits : Limits
        Limits on memory and time.
    charset : str or None
        The character set of text for which neither the log nor a definition gives one.
    """

    def __init__(
        self,
        schema: SchemaSource | Schema,
        *,
        start: SchemaSource | Schema | None = None,
        limits: Limits = DEFAULT_LIMITS,
        charset: str | None = None,
    ) -> None:
        from .ddl import DdlTracker
        from .given import Schema

        self._charset = charset
        self._tracker: DdlTracker | None = None
        self._schema: Schema | None = None
        self._met: set[str] = set()  # keys of a mapping
        self._undefined: set[str] = set()  # tables without a definition
        if isinstance(schema, str) and schema == "ddl":
            self._tracker = DdlTracker(
                Schema.load(start) if start is not None else None, limits=limits, keep_timeline=False
            )
        else:
            self._schema = Schema.load(schema)

    @classmethod
    def following(cls, tracker: DdlTracker) -> Definitions:
        """The definitions of a tracker, which follows the statements in the log."""
        made = cls({})
        made._tracker = tracker
        return made

    def copied(self) -> Definitions:
        """Those of a pass that begins where this one is; only of a log's own statements."""
        assert self._tracker is not None
        made = self.following(self._tracker.copied(lower_case=self._tracker.lower_case))
        made._charset = self._charset
        return made

    @property
    def follows(self) -> bool:
        """Whether statements in the log change the definitions."""
        return self._tracker is not None

    @property
    def notes_changes(self) -> bool:
        """Whether statements that were logged instead of rows are passed to `follow` too."""
        return False

    def begin(self, source: Source) -> None:
        """Rows are read from this source on; where a server's stream begins is known only now."""

    def complete(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        """The table with the definition's additions to the log's own metadata.

        A definition that does not fit is always reported: with "ddl" the table stays as the log has it,
        otherwise SchemaError is raised.
        """
        from .given import with_charset

        table = self._defined(table, report, path=path, offset=offset)
        return table if self._charset is None else with_charset(table, self._charset)

    def _defined(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        from .given import apply

        source = self._tracker if self._tracker is not None else self._schema
        assert source is not None
        given = source.definition(table.database, table.name)
        if given is None:
            if len(self._undefined) < _MOST_UNDEFINED:
                self._undefined.add(table.full_name)
            return table
        if self._schema is not None and self._schema.keys:
            self._met.add(self._schema.keys[table.database, table.name])
        try:
            return apply(table, given)
        except SchemaError as error:
            if self._tracker is None:
                raise error.located(path=path, offset=offset, type_code=19) from None
            report.add(
                "schema_misfits", path=path, offset=offset, table=table.full_name, detail=error.message
            )
            return table

    def tables(self, *, mariadb: bool) -> Iterator[Table]:
        """The defined tables as a server would log them, for those without rows."""
        from .without_rows import table_without_rows

        source = self._tracker if self._tracker is not None else self._schema
        for schema in source or ():
            table = table_without_rows(schema, mariadb=mariadb)
            if table is not None:
                yield table

    def unmet(self) -> Iterator[tuple[str, Collection[str]]]:
        """Keys of a mapping that matched no table, if tables have no definition: (key, those tables)."""
        if self._schema is not None and self._undefined:
            for key in dict.fromkeys(self._schema.keys.values()):
                if key not in self._met:
                    yield key, self._undefined

    def found_by(self, table: str, position: int) -> TableSchema | None:
        """The definition that the statement at a position finds, before it is followed.

        None if it is not known, or if definitions do not follow the statements.
        """
        return None if self._tracker is None else self._tracker.definition(*split_name(table))

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        """Apply a statement of the log; `transaction`: the position where its transaction begins."""
        assert self._tracker is not None
        self._tracker.apply_event(event, mariadb=mariadb)
        for unfollowed in self._tracker.unfollowed:
            report.add(
                "ddl_not_followed",
                path=path,
                offset=event.position,
                table=unfollowed.table,
                detail=unfollowed.reason,
            )
        self._tracker.unfollowed.clear()
