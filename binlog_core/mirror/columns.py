"""What the lake has of a server's tables: which columns, and as what, and which rows."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape
from itertools import chain
from typing import TYPE_CHECKING, Any

from .._base.change_columns import LAKE_COLUMNS, LAKE_METADATA
from .._decode.selection import is_wanted_name
from .._tables.full_names import split_name
from ..errors import DecodeError, MirrorError, SchemaError
from ..lake.rows.fit import SPECIAL, special_fields, to_json
from ..lake.rows.types import import_pyarrow
from ..lake.tables.partitions import IDENTITY, Partition, PartitionField, parse_partition
from ..lake.tables.results import ReportedStatement
from ..schema.table_definitions import TableSchema
from ..schema.tokens import tokenize_statements
from .filters import (
    check_filter,
    check_filters,
    columns_of,
    kept_changes,
    kept_rows,
    kept_when_deleted,
    refuse_absent,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from .._tables.tables import Table

MASK_KEY = "BINLOG_CORE_MASK_KEY"
_LEAST_KEY = 16  # bytes
_HASH = "sha256"
METADATA = {"__commit_timestamp": LAKE_COLUMNS[2], "__gtid": LAKE_METADATA[0]}  # from columns of changes
DELETED = "_deleted"  # the column of rows that are kept although the server has deleted them
_WILD = frozenset("*?[")
_ROW_HASH = re.compile("db_row_hash_[0-9]+", re.IGNORECASE)  # a column that MariaDB adds: it tells of others
_LONGEST_KEY = 64 << 10  # bytes of its file
Patterns = tuple[tuple[str, ...], tuple[str, ...]]  # of columns that are left out, and that are masked


@dataclass(frozen=True)
class ColumnRules:
    """What becomes of the rows and columns of one table on their way into the lake.

    Parameters
    ----------
    lacks, masks : tuple of str
        The names, in small letters, of the columns that the lake lacks, and of those that it has as hashes.
    patterns : (tuple of str, tuple of str)
        The patterns, in small letters, of both in this table, also of columns that may come.
    key : str
        The mark of the key of the hashes; empty if there are none.
    longs : tuple of str
        The names, in small letters, of the columns of BIGINT UNSIGNED that the lake has as BIGINT.
    bigints : bool
        Whether it has all that there are as BIGINT, also those that may come.
    metadata : tuple of str
        The names of columns about the last change of a row: see `METADATA`.
    where : str
        The condition of the rows that it has; empty: all.
    partition : tuple of PartitionField
        By what its files are divided: see `PartitionField`.
    derives : bool
        Whether the day, month or year by which they are is a column of the table, as Delta needs it.
    soft : bool
        Whether rows that are deleted stay, with true in the column `DELETED`.
    unlogged : tuple of str
        The names, in small letters, of columns that are null, since images lack them.
    """

    lacks: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    patterns: Patterns = ((), ())
    key: str = ""
    longs: tuple[str, ...] = ()
    bigints: bool = False
    metadata: tuple[str, ...] = ()
    where: str = ""
    partition: Partition = ()
    derives: bool = False
    soft: bool = False
    unlogged: tuple[str, ...] = ()

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> ColumnRules:
        """The rules from their fields; none: all columns are as they are."""
        if not found:
            return EVERY_COLUMN
        lacking, masking = map(tuple, found["patterns"])
        return cls(
            tuple(found["lacks"]),
            tuple(found["masks"]),
            (lacking, masking),
            found["key"],
            tuple(found["longs"]),
            found["bigints"],
            tuple(found["metadata"]),
            found.get("where", ""),
            tuple(PartitionField(*one) for one in found.get("partition", ())),
            found.get("derives", False),
            found.get("soft", False),
            tuple(found.get("unlogged", ())),
        )

    @property
    def derived(self) -> Partition:
        """What columns of the table are made of others."""
        return tuple(one for one in self.partition if self.derives and one.transform != IDENTITY)

    @property
    def divided_by(self) -> Partition:
        """The partition of the table."""
        if self.derives:
            return tuple(PartitionField(one.name) for one in self.partition)
        return self.partition

    def check_partition(self, schema: pa.Schema) -> None:
        """Check that columns of these types can be partitioned by.

        Raises
        ------
        SchemaError
            They cannot.
        """
        for one in self.partition:
            one.type_of(schema.field(_place(schema, one)).type)

    @property
    def added(self) -> tuple[str, ...]:
        """The names of columns that only the lake has."""
        deleted = (DELETED,) if self.soft else ()
        return (*self.metadata, *(one.name for one in self.derived), *deleted)

    def keeps(self, name: str) -> bool:
        """Whether the lake has a column."""
        return name.lower() not in self.lacks

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns that the lake has, of these of the server: hashes are texts."""
        pa = import_pyarrow()
        other = {**dict.fromkeys(self.longs, pa.int64()), **dict.fromkeys(self.masks, pa.string())}
        kept = [one for one in schema if self.keeps(one.name) and not (self.soft and one.name == DELETED)]
        kept = [one.with_type(other.get(one.name.lower(), one.type)) for one in kept]
        types = special_fields()
        added = [(name, types[METADATA[name]]) for name in self.metadata]
        added += [(one.name, one.type_of(schema.field(_place(schema, one)).type)) for one in self.derived]
        added += [(DELETED, pa.bool_())] if self.soft else []
        return pa.schema([*kept, *(pa.field(name, kind) for name, kind in added)])

    def of_server(self, rows: pa.RecordBatch, table: Table, key: bytes | None) -> pa.RecordBatch:
        """Those of the server's rows that the lake has, as it has them, with nulls as metadata.

        Raises
        ------
        SchemaError
            The condition does not fit the table.
        DecodeError
            A value does not fit BIGINT.
        """
        return self._applied(kept_rows(self.where, rows, table), key)

    def _applied(self, rows: pa.RecordBatch, key: bytes | None) -> pa.RecordBatch:
        if not self.lacks and not self.masks and not self.longs and not self.added:
            return rows
        if self.masks and key is None:
            raise ValueError("the key of masked columns is missing")
        schema = self.schema(rows.schema)
        pa, there = import_pyarrow(), set(rows.schema.names)
        sources = [METADATA.get(name, name) for name in schema.names]
        arrays = [
            rows.column(source) if source in there else pa.nulls(rows.num_rows, one.type)
            for source, one in zip(sources, schema, strict=True)
        ]
        for i, name in enumerate(schema.names):
            if name.lower() in self.masks:
                arrays[i] = hashed(arrays[i], key or b"")
            elif name.lower() in self.longs:
                try:
                    arrays[i] = arrays[i].cast(schema.field(name).type)
                except ValueError:  # as pyarrow's errors are
                    told = (
                        "a value of BIGINT UNSIGNED is beyond BIGINT: mirror it with unsigned_bigint=decimal"
                    )
                    raise DecodeError(told, column=name) from None
        if self.soft and DELETED not in there:
            arrays[schema.get_field_index(DELETED)] = pa.repeat(pa.scalar(False), rows.num_rows)
        for one in self.derived:
            arrays[schema.get_field_index(one.name)] = one.values(rows.column(_place(rows.schema, one)))
        return pa.record_batch(arrays, schema=schema)

    def of_log(self, rows: pa.RecordBatch, table: Table, key: bytes | None) -> pa.RecordBatch:
        """Those of the log's row images that concern the lake, as it has them.

        Raises
        ------
        SchemaError
            They are of another definition: a column may have got another name. A copy has the new one.
        DecodeError
            A value does not fit BIGINT.
        """
        touched, own = {*self.lacks, *self.masks}, {name.lower() for name in self.added}
        for name in rows.schema.names if own else ():
            if name.lower() in own:
                raise SchemaError("a column was added with the name of one of the lake's own", column=name)
        if any(self.patterns):
            names = {name.lower() for name in rows.schema.names if name.lower() not in SPECIAL}
            more = (name for name in names - touched if any(fnmatchcase(name, one) for one in self._named))
            strange = next(chain(sorted(touched - names), more), None)
            if strange is not None:
                raise SchemaError("a column was added or removed since the copy", column=strange)
        if touched:
            rows = rows.select([name for name in rows.schema.names if not _ROW_HASH.fullmatch(name)])
        refuse_absent(rows, [one.column.lower() for one in self.derived])
        rows = kept_changes(self.where, rows, table, self.unlogged)
        return self._applied(kept_when_deleted(rows, DELETED, self.unlogged) if self.soft else rows, key)

    @property
    def _divides(self) -> list[str]:
        """The names, in small letters, of the columns of the partition."""
        return [one.column.lower() for one in self.partition]

    @property
    def _named(self) -> tuple[str, ...]:
        return (*self.patterns[0], *self.patterns[1])

    def concerned(self, statements: Iterable[ReportedStatement]) -> bool:
        """Whether statements name such a column: what it is called, or what it has, may change."""
        used = (*self.longs, *columns_of(self.where), *self._divides, *(one.lower() for one in self.added))
        patterns = (*self._named, *map(escape, used))
        patterns += ("unsigned", "serial") if self.bigints else ()  # it may add another
        for one in statements if patterns else ():
            if one.kind in ("alter", "unknown"):
                try:
                    tokens = chain.from_iterable(tokenize_statements(one.sql, one.sql_mode))
                    words = {token.text.lower() for token in tokens}
                except SchemaError:  # it may name any
                    return True
                if any(fnmatchcase(word, pattern) for word in words for pattern in patterns):
                    return True
        return False


EVERY_COLUMN = ColumnRules()


@dataclass(frozen=True)
class ColumnSettings:
    """What the lake has of all tables: which columns are left out or hashed, and which rows there are.

    Parameters
    ----------
    exclude, mask : tuple of str
        Names and patterns of columns, as ``database.table.column``.
    key : bytes or None
        The key of the hashes.
    bigints : bool
        Whether the lake has BIGINT UNSIGNED as BIGINT.
    metadata : tuple of str
        Which columns about the last change of a row it has: names of `METADATA` without their underscores.
    where : mapping of str to str
        Conditions of rows by names or patterns of tables; the first that matches counts.
    partition : mapping of str to str
        Partitions of files, in the same way.
    derives : bool
        See `ColumnRules`.
    soft : tuple of str
        Names and patterns of tables whose deleted rows stay.

    Raises
    ------
    ValueError
        A pattern does not name a column, the key is missing or short, or a condition cannot be read.
    """

    exclude: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    key: bytes | None = field(default=None, repr=False)
    bigints: bool = False
    metadata: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    partition: Mapping[str, str] = field(default_factory=dict)
    derives: bool = False
    soft: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_filters(self.where)
        for pattern, text in self.partition.items():
            if not all(split_name(pattern)):
                raise ValueError(f"partition={pattern!r}: expected database.table=COLUMNS")
            parse_partition(text)
        known = [name.lstrip("_") for name in METADATA]
        for one in self.metadata:
            if one not in known:
                raise ValueError(f"metadata={one!r}: expected {' or '.join(known)}")
        for option, patterns in (("exclude_columns", self.exclude), ("mask_columns", self.mask)):
            for one in patterns:
                if one.count(".") < 2 or not all(one.split(".")):
                    raise ValueError(f"{option}={one!r}: expected database.table.column")
        if self.mask and self.key is None:
            raise ValueError(f"mask_columns= needs a key: {MASK_KEY} in the environment, or mask_key_file=")
        if self.mask and len(self.key or b"") < _LEAST_KEY:
            raise ValueError(f"the key of mask_columns is too short: expected {_LEAST_KEY} bytes or more")

    def about(self, table: str) -> Patterns:
        """The patterns of a table's columns, in small letters."""
        return about_table(table, self.exclude, self.mask)

    def rules(self, definition: TableSchema, before: ColumnRules = EVERY_COLUMN) -> ColumnRules:
        """What becomes of a table's columns; `before`: in the copy that the lake has.

        Raises
        ------
        SchemaError
            A column of the key is among them, or the table lacks one that is named, or that these same
            patterns meant in the copy; or its rows cannot be chosen by their condition.
        """
        table, names = definition.full_name, [one.name.lower() for one in definition.columns]
        metadata = tuple(name for name in METADATA if name.lstrip("_") in self.metadata)
        for name in metadata:
            if name in names:
                raise SchemaError(
                    "a column of the table has the name of a column of metadata", table=table, column=name
                )
        plain = [one for one in (*self.exclude, *self.mask) if not _WILD & set(one)]
        for name in patterns_of(table, plain):
            if name not in names:  # it may have another name now
                raise SchemaError(
                    "a column to leave out or mask is not there: use its present name,"
                    " or leave it out of the options",
                    table=table,
                    column=name,
                )
        for name in (*before.lacks, *before.masks) if before.patterns == self.about(table) else ():
            if name not in names:
                raise SchemaError(
                    "a column that was left out or masked is not there any more, perhaps renamed:"
                    " use its present name, or copy the table again by its name (resync)",
                    table=table,
                    column=name,
                )
        found = []
        for patterns in self.about(table):
            found.append([name for name in names if any(fnmatchcase(name, one) for one in patterns)])
        lacks, masks = tuple(found[0]), tuple(name for name in found[1] if name not in found[0])
        for name in definition.row_key or ():
            if name.lower() in (*lacks, *masks):
                raise SchemaError(
                    "a column of the table's key can be neither left out nor masked", table=table, column=name
                )
        longs = [one.name.lower() for one in definition.columns if one.type_name == "bigint" and one.unsigned]
        kept = tuple(name for name in longs if self.bigints and name not in (*lacks, *masks))
        mark, where = self.mark if masks else "", given_for(table, self.where)
        check_filter(where, definition, lacks)
        divided = self._partition(definition, (*lacks, *masks))
        soft = is_soft(table, self.soft)
        if soft and DELETED in names:
            raise SchemaError(
                "a column of the table has the name of the column of deleted rows",
                table=table,
                column=DELETED,
            )
        return ColumnRules(
            *(lacks, masks, self.about(table), mark, kept, self.bigints, metadata),
            *(where, divided, self.derives, soft),
        )

    def _partition(self, definition: TableSchema, other: Sequence[str]) -> Partition:
        """A table's partition, with its columns' own names; `other`: those that the lake has otherwise."""
        text = given_for(definition.full_name, self.partition)
        spelt = {one.name.lower(): one for one in definition.columns}
        found = []
        for one in parse_partition(text) if text else ():
            own, reason = spelt.get(one.column.lower()), None
            if own is None:
                reason = "is not there: use its present name"
            elif own.generated:
                reason = "is generated: not every server logs its values"
            elif one.column.lower() in other:
                reason = "is left out or masked"
            elif one.transform != IDENTITY and one.name.lower() in spelt:
                reason = f"needs the name {one.name}, which another column has"
            if own is None or reason is not None:
                told = f"a column of the table's partition {reason}"
                raise SchemaError(told, table=definition.full_name, column=one.column)
            found.append(one._replace(column=own.name))
        return tuple(found)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of changes that are read besides those that all changes have."""
        found = (METADATA[f"__{name}"] for name in self.metadata)
        return tuple(name for name in found if name in LAKE_METADATA)

    @property
    def mark(self) -> str:
        """What shows that it is the same key, and not which."""
        return hmac.digest(self.key or b"", b"binlog_core mask key", _HASH).hex()[:16]


EVERYTHING = ColumnSettings()


def about_table(table: str, exclude: Iterable[str], mask: Iterable[str]) -> Patterns:
    """The patterns of a table's columns, in small letters."""
    return patterns_of(table, exclude), patterns_of(table, mask)


def is_soft(table: str, patterns: Sequence[str]) -> bool:
    """Whether the deleted rows of a table stay."""
    return bool(patterns) and is_wanted_name(table, tuple(patterns), None)


def given_for(table: str, texts: Mapping[str, str]) -> str:
    """The first of the texts for names and patterns of tables that is for a table; empty: none is."""
    return next((one for of, one in texts.items() if is_wanted_name(table, (of,), None)), "")


def patterns_of(table: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Those of patterns of columns that are of a table, without it and in small letters."""
    divided = (one.rpartition(".") for one in patterns)
    return tuple(column.lower() for of, _, column in divided if is_wanted_name(table, (of,), None))


def _place(schema: pa.Schema, field: PartitionField) -> int:
    """The number of the column of a partition, whose name may be spelled otherwise now.

    Raises
    ------
    SchemaError
        It is not there any more.
    """
    names = [name.lower() for name in schema.names]
    if field.column.lower() not in names:
        raise SchemaError("the column of the partition is not there", column=field.column)
    return names.index(field.column.lower())


def read_key(path: str | os.PathLike[str] | None) -> bytes | None:
    """The key of the hashes: the content of a file without the end of its line, or from the environment.

    Raises
    ------
    MirrorError
        The file cannot be read.
    """
    if path is None:
        return os.fsencode(os.environ[MASK_KEY]) if os.environ.get(MASK_KEY) else None
    try:
        with open(path, "rb") as file:
            found = file.read(_LONGEST_KEY + 1)
    except OSError as error:
        told = f"the key of mask_columns cannot be read: {error.strerror}"
        raise MirrorError(told, path=os.fspath(path)) from None
    if len(found) > _LONGEST_KEY:
        told = f"the file of the key of mask_columns has more than {_LONGEST_KEY:,} bytes"
        raise MirrorError(told, path=os.fspath(path))
    return found.rstrip(b"\r\n")


def hashed(values: pa.Array, key: bytes) -> pa.Array:
    """Values as hexadecimal HMAC-SHA256 of their texts in UTF-8, or of their bytes; nulls stay.

    Parameters
    ----------
    values : pyarrow.Array
        The values.
    key : bytes
        The key.
    """
    pa = import_pyarrow()
    types = pa.types
    if types.is_nested(values.type):
        values = pa.array([None if one is None else to_json(one) for one in values.to_pylist()], pa.string())
    elif not types.is_binary(values.type):
        values = values.cast(pa.string())
    once = values.cast(pa.binary()).dictionary_encode()
    found: list[Any] = [hmac.digest(key, one, _HASH).hex() for one in once.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(once.indices)
