"""A whole table in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from .._base.change_columns import CHANGE_COLUMNS, DEFAULT_CHANGE_COLUMNS
from .._tables.transcoding import TextErrors
from ..batch.arrow_types import Geometry, Vectors, WideDecimals
from ..errors import MissingExtraError, SchemaError
from ..log.opened import opened
from .scans import ChangesScan, find_table

if TYPE_CHECKING:
    import pyarrow

    from ..log.options import AnyTarget, TableOptions


def read_table(
    target: AnyTarget,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    change_columns: bool | str | Sequence[str] = True,
    text_errors: TextErrors = "raise",
    vectors: Vectors = "fixed",
    wide_decimals: WideDecimals = "decimal256",
    geometry: Geometry = "struct",
    **options: Unpack[TableOptions],
) -> pyarrow.Table:
    """The row changes of one table, from all logs of a target, as ``pyarrow.Table``.

    Parameters
    ----------
    target : Log, or what `binlog_core.open` takes
        The logs; they are read twice, so a pipe cannot be used.
    table : str
        The table: "shop.orders", or "orders" if only one database has such a table.
    columns : sequence of str, optional
        The table's columns to read; by default those of all its definitions, null where a row image lacks
        one. If a column's type was changed, the result has the wider type.
    change_columns, text_errors, vectors, wide_decimals, geometry
        As in ``ChangeBatch.export``.
    **options
        Options for `binlog_core.open`.

    Returns
    -------
    pyarrow.Table
        One row for each row image, so two for an update. Rows are in log order, definition by definition.

    Raises
    ------
    SchemaError
        The logs have no row changes of this table, or not the column; the message suggests similar names.
    MissingExtraError
        pyarrow is not installed.
    BinlogError
        Reading the logs failed.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError.of("pyarrow", "arrow", "read_table()") from None
    if isinstance(change_columns, str):
        change_columns = (change_columns,)
    changes = DEFAULT_CHANGE_COLUMNS if change_columns is True else tuple(change_columns or ())
    with opened(target, **options) as log:
        name, known = find_table(log, table)
        scan = ChangesScan(
            log,
            name,
            known,
            text_errors=text_errors,
            vectors=vectors,
            wide_decimals=wide_decimals,
            geometry=geometry,
        )
        own = tuple(column.name for column in known) if columns is None else tuple(columns)
        for column in (*own, *changes):
            if column not in scan.names:
                raise SchemaError(
                    f"no such column; the table has {', '.join(c.name for c in known)}"
                    f" and about the change {', '.join(CHANGE_COLUMNS)}",
                    table=name,
                    column=column,
                )
        return pyarrow.table(scan.only((*own, *changes))).select([*own, *changes])
