"""One row change as a statement, and the statement that undoes it.

Statements identify a row by its primary key if the log (or a schema) has it, and otherwise by all columns of
the image and LIMIT 1. Every value is written so that the server reads back exactly what it logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._base.change_columns import INSERT, POSTIMAGE, PREIMAGE
from .._core._values import RowChange, RowReader, ValuePlan, column_texts
from .._tables.column_types import Kind
from .._tables.tables import Column, Table, records_at_a_time
from ..errors import BinlogError, SchemaError
from ..report import NAMES_REMEDY
from .literals import (
    NULL,
    JsonLiteral,
    comparable,
    introducer,
    is_ascii_alike,
    is_plain,
    literal_maker,
    prepared,
    quote_name,
)

if TYPE_CHECKING:
    from .._format.format_description import FormatDescription
    from ..batch.change_batch import ChangeBatch

_SELF_UPDATING = frozenset((Kind.TIMESTAMP, Kind.DATETIME))
_COMPARED_AS_BYTES = frozenset((Kind.TEXT, Kind.JSON))
_LACKING = "binlog_row_image is not FULL, or the column is generated, which a server can tell"
_PLANS = 1024  # at most; then all are dropped and made again

Ident = tuple[str | None, ...]
Literals = Sequence[str | None]  # one for each decoded column; None: the image lacks it


class SetByServer(NamedTuple):
    """The columns of a table to which the server itself gives values.

    Parameters
    ----------
    generated : frozenset of str
        Generated columns. MariaDB leaves them out of some images, also with binlog_row_image=FULL.
    at_updates : frozenset of str or None
        Those that each UPDATE of a row sets (ON UPDATE CURRENT_TIMESTAMP). None: not known, so that each time
        may be one.
    """

    generated: frozenset[str] = frozenset()
    at_updates: frozenset[str] | None = None


class StatementMaker:
    """Makes statements from row changes, in printable ASCII without a backslash for all names and values.

    Parameters
    ----------
    description : FormatDescription
        The log's descriptor; MySQL and MariaDB write some values differently.
    databases : mapping of str to str, optional
        Other names for databases.
    ask : callable, optional
        Takes the names of a database and a table, and returns what its server does with the columns.
    """

    def __init__(
        self,
        description: FormatDescription,
        databases: Mapping[str, str] | None = None,
        ask: Callable[[str, str], SetByServer] | None = None,
    ) -> None:
        self._databases = databases or {}
        self._ask = ask
        # From 8.0 on MySQL reads WKB of geographic systems in their own order of axes; it stores x first.
        self._axis_order = not description.is_mariadb and description.server_version_tuple >= (8, 0, 0)
        # By the identity of table and columns, which the plan keeps alive.
        self._plans: dict[tuple[int, int], TableStatements] = {}

    def statement(self, table: Table, change: RowChange, *, inverse: bool = False) -> str:
        """One change as a statement.

        Parameters
        ----------
        table : Table
            The table's definition when the change was logged.
        change : RowChange
            The change.
        inverse : bool
            Make the statement that undoes the change.

        Returns
        -------
        str
            One line with its semicolon; three lines if a name is not printable ASCII.

        Raises
        ------
        SchemaError
            The log lacks something that the statement needs: names, signs, or the whole row. Or no server
            accepts a value or name.
        """
        try:
            plan = self._plan(table, table.columns)
            before, after = (
                None if row is None else plan.literals(row) for row in (change.before, change.after)
            )
            return plan.statement(before, after, inverse=inverse)
        except BinlogError as error:
            raise error.located(table=table.full_name, offset=change.position) from None

    def statements(self, batch: ChangeBatch, *, inverse: bool = False) -> BatchStatements:
        """The statements of a batch's changes, each made when it is taken.

        Raises
        ------
        SchemaError
            As for `statement`, for the first value in the batch.
        """
        try:
            return BatchStatements(batch, self.plan(batch), inverse=inverse)
        except BinlogError as error:
            raise error.located(table=batch.table.full_name, path=batch.path) from None

    def literal(self, column: Column, value: Any) -> str:
        """A value as a literal (or an expression) that the column accepts."""
        return literal_maker(column, axis_order=self._axis_order)(value)

    def plan(self, batch: ChangeBatch) -> TableStatements:
        """What all statements of a batch share.

        Raises
        ------
        SchemaError
            The log does not have enough about the table.
        """
        return self._plan(batch.table, batch.columns)

    def _plan(self, table: Table, columns: tuple[Column, ...]) -> TableStatements:
        key = id(table), id(columns)
        if (plan := self._plans.get(key)) is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = TableStatements(
                table,
                columns,
                axis_order=self._axis_order,
                database=self._databases.get(table.database, table.database),
            )
            if self._ask is not None:
                plan.set_by_server = self._ask(plan.database, table.name)
        return plan


class BatchStatements:
    """The changes of one batch as statements.

    Parameters
    ----------
    batch : ChangeBatch
        The batch.
    plan : TableStatements
        What its statements have in common.
    inverse : bool
        Whether the statements undo the changes.

    Attributes
    ----------
    records : ndarray of int
        Where changes begin: inserts, deletes, and the first images of updates.
    """

    def __init__(self, batch: ChangeBatch, plan: TableStatements, *, inverse: bool) -> None:
        image = batch.array["image"]
        self._plan, self._inverse = plan, inverse
        self._ops: list[int] = image["op"].tolist()
        self._positions = image["position"]
        self.records = np.flatnonzero(image["op"] != POSTIMAGE)
        self._batch = batch
        self._step = records_at_a_time(batch.columns)
        self._load(0)

    def images(self, record: int) -> tuple[Literals | None, Literals | None]:
        """The images before and after the change that begins at a record; None where there is no row."""
        op = self._ops[record]
        if not self._first <= record <= self._first + len(self._rows) - (2 if op == PREIMAGE else 1):
            self._load(record)
        row = self._rows[record - self._first]
        if op == PREIMAGE:
            return row, self._rows[record - self._first + 1]
        return (None, row) if op == INSERT else (row, None)

    def __getitem__(self, record: int) -> str:
        """The statement of the change that begins at a record."""
        plan = self._plan
        try:
            return plan.statement(*self.images(record), inverse=self._inverse)
        except BinlogError as error:
            offset = int(self._positions[record])
            raise error.located(table=plan.table.full_name, offset=offset, path=self._batch.path) from None

    def _load(self, record: int) -> None:
        """Make the literals of some records, beginning with one."""
        batch = self._batch if self._step >= len(self._batch) else self._batch[record : record + self._step]
        reader = RowReader(batch, self._plan.values)
        columns = [self._literals(batch, reader, i) for i in range(len(self._plan.columns))]
        self._first = record
        self._rows: list[tuple[str | None, ...]] = (
            list(zip(*columns, strict=True)) if columns else [()] * len(batch)
        )

    def _literals(self, batch: ChangeBatch, reader: RowReader, i: int) -> list[str | None]:
        """The literals of one column in every record; None if it is absent."""
        plan = self._plan
        column, make = plan.columns[i], plan.makers[i]
        refused: Any = None

        def literal(value: Any) -> str:
            nonlocal refused
            refused = value
            return make(value)

        try:
            made: list[str | None]
            if column.kind is Kind.INT and column.signed is None:
                made = list(map(literal, reader.column_values(column.name)))
            else:
                alike = plan.ascii_alike[i]
                made = list(column_texts(reader, column.name, "sql", literal, bytes_are_text=alike))
        except SchemaError as error:
            values = reader.column_values(column.name)
            offset = int(batch.array["image"]["position"][_index_of(refused, values)])
            raise error.located(column=column.name, offset=offset) from None
        absent = batch.is_absent(column.name)
        if absent.any():
            for record in np.flatnonzero(absent).tolist():
                made[record] = None
        return made


def _index_of(value: Any, values: list[Any]) -> int:
    return next((i for i, one in enumerate(values) if one == value or one is not one), 0)


def _as_logged(column: Column) -> Column:
    """A column whose values come as `literal_maker` wants them.

    Text is the bytes in the log, which a literal with its character set repeats exactly. An ENUM is its
    number.
    """
    match column.kind:
        case Kind.TEXT:
            return replace(column, charset=None)
        case Kind.ENUM:
            return replace(column, members=None)
    return column


class TableStatements:
    """Common parts of the statements about one table definition.

    Parameters
    ----------
    table : Table
        The table's definition.
    columns : tuple of Column
        The decoded columns.
    axis_order : bool
        As for `literal_maker`.
    database : str
        The database that the statements name.
    """

    def __init__(self, table: Table, columns: tuple[Column, ...], *, axis_order: bool, database: str) -> None:
        if table.undecodable is not None:
            raise SchemaError(f"the table's rows cannot be decoded: {table.undecodable}")
        if any(not column.named for column in table.columns):
            raise SchemaError(f"the log does not have the column names: {NAMES_REMEDY}")
        self.table = table
        self.database = database
        self.columns = columns
        self.values = ValuePlan(table, tuple(map(_as_logged, columns)))
        self.makers = tuple(literal_maker(column, axis_order=axis_order) for column in columns)
        self.ascii_alike = [
            c.kind is Kind.TEXT and c.charset is not None and is_ascii_alike(c.charset) for c in columns
        ]
        self.name = f"{quote_name(database)}.{quote_name(table.name)}"
        self.names = [quote_name(column.name) for column in columns]
        self._insert = f"INSERT INTO {self.name} ({', '.join(self.names)}) VALUES ("
        self._plain = is_plain(self._insert)
        own = {column.name: i for i, column in enumerate(columns)}
        key = table.primary_key
        self.key = [own[name] for name in key] if key and all(name in own for name in key) else None
        self.whole = len(columns) == len(table.columns)
        self.set_by_server = SetByServer()

    @property
    def generated(self) -> frozenset[str]:
        """The generated columns, as far as they are known."""
        return self.set_by_server.generated

    def literals(self, row: dict[str, Any]) -> list[str | None]:
        """The literals of one image."""
        return [
            make(row[column.name]) if column.name in row else None
            for column, make in zip(self.columns, self.makers, strict=True)
        ]

    def statement(self, before: Literals | None, after: Literals | None, *, inverse: bool) -> str:
        """The statement that turns one image into another; None means no row."""
        if inverse:
            before, after = after, before
        if before is None:
            assert after is not None
            if inverse:
                self.want_whole(after)
            made = self.insertion(after)
        elif after is None:
            made = f"DELETE FROM {self.name} WHERE {self._where(before)};"
        else:
            made = self._update(before, after, inverse=inverse)
        return made if self._plain else prepared(made)

    def insertion(self, row: Literals) -> str:
        """The statement that inserts an image."""
        if None not in row:
            return f"{self._insert}{', '.join(row)});"  # type: ignore[arg-type]
        names = ", ".join(name for name, value in zip(self.names, row, strict=True) if value is not None)
        values = ", ".join(value for value in row if value is not None)
        return f"INSERT INTO {self.name} ({names}) VALUES ({values});"

    def _update(self, before: Literals, after: Literals, *, inverse: bool) -> str:
        if inverse:
            self.want_old_values(after, before)
        pairs = [f"{self.names[i]} = {after[i]}" for i in self.assigned(before, after, inverse=inverse)]
        if not pairs:  # the change changed nothing, but it is in the log
            pairs = [f"{n} = {new}" for n, new in zip(self.names, after, strict=True) if new is not None][:1]
        if not pairs:
            raise SchemaError("the image has no column that could be set")
        return f"UPDATE {self.name} SET {', '.join(pairs)} WHERE {self._where(before)};"

    def assigned(self, before: Literals, after: Literals, *, inverse: bool) -> list[int]:
        """The columns that SET names to turn one image into another.

        Also times that do not change, if the server may set them: ON UPDATE CURRENT_TIMESTAMP.
        """
        return [
            i
            for i, (column, old, new) in enumerate(zip(self.columns, before, after, strict=True))
            if new is not None
            and (new != old or self._sets_itself(column))
            and not (inverse and old is None)
            and column.name not in self.generated
        ]

    def _sets_itself(self, column: Column) -> bool:
        known = self.set_by_server.at_updates
        return column.kind in _SELF_UPDATING if known is None else column.name in known

    def comparisons(self, row: Literals) -> list[tuple[str, str]]:
        """For each column of an image its name, and the condition that the server has exactly this value."""
        return [
            (column.name, self._equals(i, value, exact=True))
            for i, (column, value) in enumerate(zip(self.columns, row, strict=True))
            if value is not None
        ]

    def ident(self, row: Literals) -> Ident:
        """The identity of a row: its primary key, or else all of its values."""
        return tuple(row) if self.key is None else tuple(row[i] for i in self.key)

    def key_condition(self, row: Literals) -> str | None:
        """The condition on the primary key; None: there is no key, or the image lacks it."""
        if self.key is None or any(row[i] is None for i in self.key):
            return None
        return " AND ".join(self._equals(i, row[i], exact=False) for i in self.key)

    def _where(self, row: Literals) -> str:
        if (key := self.key_condition(row)) is not None:
            return key
        parts = [condition for _, condition in self.comparisons(row)]
        if not parts:
            raise SchemaError("the image has no column to find the row by")
        return f"{' AND '.join(parts)} LIMIT 1"

    def _equals(self, i: int, literal: str | None, *, exact: bool) -> str:
        name, column = self.names[i], self.columns[i]
        assert literal is not None
        if literal == NULL:
            return f"{name} IS NULL"
        if column.kind is Kind.ENUM and column.members is not None and literal == "''":
            # To the server index 0 equals '' too. As a number it does not.
            return f"{name} = {column.members.index('') + 1}"
        if column.kind is Kind.VECTOR:  # which MySQL does not compare with bytes
            return f"HEX({name}) = HEX({literal})"
        if (
            exact
            and column.kind in _COMPARED_AS_BYTES
            and (column.charset is not None or isinstance(literal, JsonLiteral))
        ):
            # In the collation other rows may be equal too: other case, trailing spaces. And a date in a JSON
            # document does not equal the text that it is printed as.
            charset = introducer(column.charset) if column.kind is Kind.TEXT and column.charset else "utf8mb4"
            return f"CAST(CONVERT({name} USING {charset}) AS BINARY) = {comparable(literal)}"
        if isinstance(literal, JsonLiteral) and literal.text is None:
            comparable(literal)
        return f"{name} = {literal}"

    def want_old_values(self, old: Literals, new: Literals) -> None:
        """Refuse an update if the log lacks an old value of a column that it set."""
        for column, before, after in zip(self.columns, old, new, strict=True):
            if before is None and after is not None and column.name not in self.generated:
                raise SchemaError(
                    f"the log has no old value of the column ({_LACKING}), so the update cannot be reversed",
                    column=column.name,
                )

    def want_whole(self, row: Literals) -> None:
        """Refuse a row if the log lacks one of its values."""
        read = {column: value is not None for column, value in zip(self.columns, row, strict=True)}
        lacking = (c for c in self.table.columns if not read.get(c) and c.name not in self.generated)
        if (missing := next(lacking, None)) is not None:
            raise SchemaError(
                f"the log has no value of the column ({_LACKING}, or not all columns were read), so the row"
                " cannot be restored",
                column=missing.name,
            )
