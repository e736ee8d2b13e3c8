"""A whole table in one call, and logs that may be open already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from ._change_columns import CHANGE_COLUMNS, DEFAULT_CHANGE_COLUMNS
from ._opening import open as open_log
from ._scans import ChangesScan, find_table
from ._sources.log_files import LogFiles
from ._sources.places import is_server
from ._sources.resolve import resolve
from .arrow.text import TextErrors
from .arrow.types import Geometry, Vectors, WideDecimals
from .errors import MissingExtraError, SchemaError
from .limits import DEFAULT_LIMITS
from .log import Log

if TYPE_CHECKING:
    import pyarrow

    from ._options import AnyTarget, OpenOptions, StoredOptions, TableOptions


def log_of(target: AnyTarget, **options: Unpack[OpenOptions]) -> Log:
    """A target's log: the target itself if it is already open.

    Raises
    ------
    TypeError
        There are options for a log that is open already.
    """
    if not isinstance(target, Log):
        return open_log(target, **options)
    if options:
        raise TypeError(f"the log is already open: {', '.join(options)} cannot be set")
    return target


def in_all_threads(target: AnyTarget, options: OpenOptions) -> OpenOptions:
    """The options of a target that is not open yet; by default they use all processors."""
    return options if isinstance(target, Log) else {"threads": 0, **options}


@contextmanager
def opened(target: AnyTarget, **options: Unpack[OpenOptions]) -> Iterator[Log]:
    """`log_of` for as long as it is needed; a log that was already open stays open."""
    log = log_of(target, **options)
    if log is target:
        yield log
        return
    with log:
        yield log


def files_of(target: AnyTarget, **options: Unpack[StoredOptions]) -> LogFiles:
    """The logs of a target, one by one; for a `Log`, those in its range.

    Raises
    ------
    BinlogError
        As in ``resolve``, or a server refuses.
    TypeError
        There are options for a log that is open already.
    """
    given: Any = {name: value for name, value in options.items() if value is not None}
    if isinstance(target, Log):
        files = log_of(target, **given).files
        first, last = target.settings.file_range(files)
        return LogFiles(files[first : last + 1], files.gaps, files.left_out)
    if is_server(target):
        from .server.target import server_logs

        return server_logs(
            target,
            given.pop("server", None),
            start=None,
            stop=None,
            follow=False,
            limits=DEFAULT_LIMITS,
            **given,
        )[0]
    if others := given.keys() - {"keys", "storage_options"}:
        raise ValueError(f"{', '.join(sorted(others))}: only for servers, mysql://… or mariadb://…")
    return resolve(target, **given)


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
