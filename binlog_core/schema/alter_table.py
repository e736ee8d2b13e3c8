"""What ALTER TABLE makes of a definition.

Source: MySQL manual, "ALTER TABLE Statement"; MariaDB knowledge base, "ALTER TABLE".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import SchemaError
from .create_table import (
    ColumnDefinition,
    Dialect,
    Keys,
    TableOptions,
    check_columns,
    new_table_options,
    read_column,
    settle_charset,
)
from .table_definitions import (
    ColumnSchema,
    TableSchema,
    UniqueKey,
    convert_charset,
    with_keys,
    without_assumed_charset,
)
from .tokens import TokenKind, TokenReader


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column goes: FIRST, or AFTER a column."""

    after: str | None  # None: first


@dataclass(slots=True)
class _Changed:
    """A column with a new definition, and possibly at another place."""

    definition: ColumnDefinition
    place: _Place | None


# First words of parts of ALTER TABLE that do not affect names, types or order.
_WITHOUT_EFFECT = frozenset(
    (
        *("ALGORITHM", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT", "COMPRESSION"),
        *("DATA", "DELAY_KEY_WRITE", "DISABLE", "ENABLE", "ENCRYPTED", "ENCRYPTION", "ENGINE", "FORCE"),
        *("ENGINE_ATTRIBUTE", "INDEX", "INSERT_METHOD", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS"),
        *("NOWAIT", "PACK_KEYS", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE"),
        *("SECONDARY_LOAD", "SECONDARY_UNLOAD", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STORAGE"),
        *("STATS_SAMPLE_PAGES", "TABLESPACE", "TRANSACTIONAL", "TYPE", "UNION", "UPGRADE", "WAIT", "WITH"),
        *("CONNECTION", "WITHOUT"),
    )
)
_PARTITION_WORDS = frozenset(
    (
        *("ANALYZE", "CHECK", "COALESCE", "DISCARD", "EXCHANGE", "IMPORT", "OPTIMIZE", "PARTITION"),
        *("REBUILD", "REMOVE", "REORGANIZE", "REPAIR", "TRUNCATE"),
    )
)
_PARTS = ("ADD", "ALTER", "CHANGE", "CONVERT", "DROP", "MODIFY", "RENAME")


class Alteration:
    """The parts of one ALTER TABLE, gathered first and then carried out as the server does.

    All parts refer to the table as it was, so that ``CHANGE a b …, CHANGE b a …`` swaps names.
    """

    def __init__(self, table: TableSchema, dialect: Dialect) -> None:
        self.table = table
        self.dialect = dialect
        self.options: TableOptions = new_table_options()
        self.converted = False
        self.renamed: tuple[str, str] | None = None
        self._positions = table.positions()
        self._dropped: set[int] = set()
        self._changed: dict[int, _Changed] = {}
        self._added: list[tuple[ColumnDefinition, _Place | None]] = []
        self._keys = Keys()  # those that are added
        self._primary_dropped = False
        self._redefined = False  # a column gets another definition or DEFAULT
        self._indexes_dropped: set[str] = set()
        self._indexes_renamed: dict[str, str] = {}

    # --- gathering

    def read(self, reader: TokenReader, default_database: str) -> None:
        """Take all parts of the statement."""
        while not reader.done:
            word = reader.word()
            if word in _PARTITION_WORDS or (word in ("ADD", "DROP") and reader.word(1) == "PARTITION"):
                return  # nothing but partitions can follow
            self._read_part(reader, default_database)
            if not reader.accept_symbol(",") and reader.symbol() == ")":
                raise reader.unexpected("a part of ALTER TABLE")

    def _read_part(self, reader: TokenReader, default_database: str) -> None:
        if reader.accept("ADD"):
            self._read_add(reader)
        elif reader.accept("DROP"):
            self._read_drop(reader)
        elif reader.accept("MODIFY"):
            reader.accept("COLUMN")
            self._read_change(reader, renames=False)
        elif reader.accept("CHANGE"):
            reader.accept("COLUMN")
            self._read_change(reader, renames=True)
        elif reader.accept("RENAME"):
            self._read_rename(reader, default_database)
        elif reader.accept("ALTER"):
            self._read_alter_column(reader)
        elif reader.accept("CONVERT", "TO"):
            self.converted = True
            self.options.read(reader)
            self.options.read(reader)  # COLLATE
        elif reader.accept("CONVERT"):
            raise SchemaError("a partition is converted to or from a table")
        elif reader.accept("ORDER", "BY"):
            self._skip_order(reader)
        else:
            self._read_options(reader)

    def _read_add(self, reader: TokenReader) -> None:
        if reader.accept("SYSTEM", "VERSIONING"):
            raise SchemaError("system versioning is added")
        if not reader.accept("COLUMN") and self._keys.read(reader):
            return
        exists_allowed = reader.accept("IF", "NOT", "EXISTS")
        if not reader.accept_symbol("("):
            self._add_column(reader, exists_allowed)
            return
        while True:
            if not self._keys.read(reader):
                self._add_column(reader, exists_allowed)
            if not reader.accept_symbol(","):
                break
        reader.expect_symbol(")")

    def _add_column(self, reader: TokenReader, exists_allowed: bool) -> None:
        definition = read_column(reader, self.dialect)
        place = self._read_place(reader)
        if exists_allowed and self._find(definition.column.name) is not None:
            return
        self._check_period(place)
        self._added.append((definition, place))
        check_columns(len(self._added))
        self._keys.read_column(definition)

    def _check_period(self, place: _Place | None) -> None:
        last = self.table.columns[-1]
        if place is None and last.invisible and last.name.lower() == "row_end":
            raise SchemaError("a column is added to a table with hidden period columns")

    def _read_drop(self, reader: TokenReader) -> None:
        if reader.accept("SYSTEM", "VERSIONING"):
            raise SchemaError("system versioning is dropped")
        if reader.accept("PRIMARY", "KEY"):
            self._primary_dropped = True
            return
        if reader.accept_any("INDEX", "KEY", "CONSTRAINT"):
            reader.accept("IF", "EXISTS")
            name = reader.name().casefold()
            self._indexes_dropped.add(name)
            self._primary_dropped = self._primary_dropped or name == "primary"
            return
        if reader.word() in ("FOREIGN", "CHECK") or (reader.word() == "PERIOD" and reader.word(1) == "FOR"):
            reader.skip_element()
            return
        reader.accept("COLUMN")
        index = self._take_column(reader)
        if index is not None:
            self._dropped.add(index)
        reader.skip_element()  # RESTRICT, CASCADE

    def _read_change(self, reader: TokenReader, *, renames: bool) -> None:
        missing_allowed = reader.accept("IF", "EXISTS")
        if renames:
            old = reader.name()
            definition = read_column(reader, self.dialect)
        else:
            definition = read_column(reader, self.dialect)
            old = definition.column.name
        place = self._read_place(reader)
        index = self._find(old)
        if index is None:
            if missing_allowed:
                return
            raise SchemaError("there is no such column", column=old)
        if not renames:
            definition = replace(
                definition, column=replace(definition.column, name=self.table.columns[index].name)
            )
        self._changed[index] = _Changed(definition, place)
        self._redefined = True
        self._keys.read_column(definition)

    def _read_rename(self, reader: TokenReader, default_database: str) -> None:
        if reader.accept("COLUMN"):
            index = self._take_column(reader)
            if not reader.accept("TO"):
                raise reader.unexpected("TO")
            name = reader.name()
            if index is not None:
                column = replace(self.table.columns[index], name=name)
                self._changed[index] = _Changed(ColumnDefinition(column, own_charset=True), None)
        elif reader.accept_any("INDEX", "KEY"):
            old = reader.name()
            if not reader.accept("TO"):
                raise reader.unexpected("TO")
            self._indexes_renamed[old.casefold()] = reader.name()
        else:
            if not reader.accept_any("TO", "AS"):
                reader.accept_symbol("=")
            self.renamed = reader.qualified_name(default_database)

    def _read_alter_column(self, reader: TokenReader) -> None:
        if reader.word() in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            reader.skip_element()
            return
        reader.accept("COLUMN")
        index = self._take_column(reader)
        shown = reader.accept_any("VISIBLE", "INVISIBLE") if reader.accept("SET") else ""
        if shown and index is not None:
            column = replace(self.table.columns[index], invisible=shown == "INVISIBLE")
            self._changed[index] = _Changed(ColumnDefinition(column, own_charset=True), None)
        self._redefined |= not shown
        reader.skip_element()

    @staticmethod
    def _skip_order(reader: TokenReader) -> None:
        while True:
            reader.name()
            reader.accept_any("ASC", "DESC")
            if reader.symbol() != "," or reader.word(1) in _PARTS:
                return
            reader.take()

    def _read_options(self, reader: TokenReader) -> None:
        first = True
        while not reader.done and reader.symbol() != "," and reader.word() not in ("PARTITION", "REMOVE"):
            if self.options.versioned:
                raise SchemaError("system versioning is added")
            if not self.options.read(reader):
                token = reader.take()
                known = token.text.upper() in _WITHOUT_EFFECT or reader.symbol() == "="
                if first and not known and token.kind is not TokenKind.SYMBOL:
                    raise SchemaError("a part of ALTER TABLE is not understood")
                if token.text == "(":
                    raise reader.unexpected("an option")
                reader.skip_parens()
            first = False

    @staticmethod
    def _read_place(reader: TokenReader) -> _Place | None:
        if reader.accept("FIRST"):
            return _Place(None)
        if reader.accept("AFTER"):
            return _Place(reader.name())
        return None

    def _find(self, name: str) -> int | None:
        return self._positions.get(name.casefold())

    def _take_column(self, reader: TokenReader) -> int | None:
        """Take ``[IF EXISTS] name``: its index; None if it is missing and may be."""
        missing_allowed = reader.accept("IF", "EXISTS")
        name = reader.name()
        index = self._find(name)
        if index is None and not missing_allowed:
            raise SchemaError("there is no such column", column=name)
        return index

    @property
    def keeps_computed(self) -> bool:
        """Whether columns that are computed from others certainly keep their values.

        They do if only other columns come and go. An expression refers to columns by their names, and may
        use their DEFAULT, character set and collation.
        """
        came = [(definition.column.name, -1) for definition, _ in self._added]
        came += [(one.definition.column.name, index) for index, one in self._changed.items()]
        kept = all(self._positions.get(name.casefold(), index) == index for name, index in came)
        return kept and not (self._redefined or self.converted)

    @property
    def keeps_types(self) -> bool:
        """Whether every column that stays has the type that it had, and no values are converted."""
        after = self.result()
        places = after.positions()
        stay = ((i, one) for i, one in enumerate(self.table.columns) if i not in self._dropped)
        return all(one.holds_same(after.columns[places[self._name_of(i).casefold()]]) for i, one in stay)

    def _name_of(self, index: int) -> str:
        """A column's name afterwards."""
        changed = self._changed.get(index)
        return self.table.columns[index].name if changed is None else changed.definition.column.name

    # --- carrying out

    def result(self) -> TableSchema:
        """The table afterwards."""
        table = self.table
        charset = self.options.charset.name
        if self.converted:
            table = convert_charset(table, charset)
        elif charset is not None:
            table = replace(without_assumed_charset(table), charset=charset)

        columns: list[ColumnSchema] = []
        moved: list[tuple[ColumnSchema, _Place | None]] = []
        new_names: dict[int, str] = {}
        for index, column in enumerate(table.columns):
            if index in self._dropped:
                continue
            if (change := self._changed.get(index)) is not None:
                column = settle_charset(change.definition, table.charset)
                if change.place is not None:
                    moved.append((column, change.place))
            new_names[index] = column.name
            if change is None or change.place is None:
                columns.append(column)
        moved += [(settle_charset(d, table.charset), place) for d, place in self._added]
        columns = _arranged(columns, moved)
        check_columns(len(columns))
        if not columns or len({c.name.casefold() for c in columns}) != len(columns):
            raise SchemaError("columns of the same name, or none at all, would be left")
        after = replace(table, columns=tuple(columns), primary_key=None, unique_keys=())
        return with_keys(after, *self._new_keys(new_names))

    def _new_keys(self, new_names: dict[int, str]) -> tuple[tuple[str, ...] | None, list[UniqueKey]]:
        """The primary key, newly given or the old one under new names; likewise the UNIQUE indexes."""

        def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new_names[i] for i in map(self._find, names) if i in new_names)

        unique = [
            UniqueKey(self._indexes_renamed.get(key.name.casefold(), key.name), columns, key.whole)
            for key in self.table.unique_keys
            if key.name.casefold() not in self._indexes_dropped and (columns := renamed(key.columns))
        ]
        primary = self._keys.primary
        if primary is None and self.table.primary_key is not None and not self._primary_dropped:
            primary = renamed(self.table.primary_key) or None
        return primary, [*unique, *self._keys.unique]


def _arranged(
    columns: list[ColumnSchema], moved: list[tuple[ColumnSchema, _Place | None]]
) -> list[ColumnSchema]:
    """The columns with others put in their places, one after another."""
    # A linked ring, whose entry 0 is before the first column: finding a place takes no search.
    entries: list[ColumnSchema | None] = [None, *columns]
    following = [*range(1, len(entries)), 0]
    last = len(columns)
    at = {c.name.casefold(): len(columns) - i for i, c in enumerate(reversed(columns))}
    for column, place in moved:
        if place is None:
            before = last
        elif place.after is None:
            before = 0
        elif (found := at.get(place.after.casefold())) is not None:
            before = found
        else:
            raise SchemaError("there is no column to go after", column=place.after)
        here = len(entries)
        entries.append(column)
        following.append(following[before])
        following[before] = here
        if not following[here]:
            last = here
        at.setdefault(column.name.casefold(), here)
    arranged = []
    here = following[0]
    while (column_here := entries[here]) is not None:
        arranged.append(column_here)
        here = following[here]
    return arranged
