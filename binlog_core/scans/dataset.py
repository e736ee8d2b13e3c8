"""Row changes as a ``pyarrow.dataset.Dataset``: a scan names the columns that it needs, and only those are
decoded. DuckDB does so for every query, and so does ``polars.scan_pyarrow_dataset``.

>>> dataset = binlog_core.dataset.changes(log, "shop.orders")             # doctest: +SKIP
>>> duckdb.sql("select sum(total) from dataset where status = 'paid'")    # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from .._base.change_columns import CHANGE_COLUMNS
from ..batch.arrow_types import ValueOptions
from ..errors import MissingExtraError
from .scans import ChangesScan, find_table

if TYPE_CHECKING:
    from ..conditions.language import Condition
    from ..log.log import Log

try:
    import pyarrow
    import pyarrow.dataset
except ImportError:
    raise MissingExtraError.of("pyarrow", "arrow", "a dataset") from None

__all__ = ["CHANGE_COLUMNS", "ScannedDataset", "changes"]

_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_HEX = re.compile(r'"(?:[0-9A-F]{2})+"')


def changes(
    log: Log, table: str, where: str | Condition | None = None, **options: Unpack[ValueOptions]
) -> ScannedDataset:
    """A table's row changes, read again for each scan.

    Parameters
    ----------
    log : Log
        The log, which is read more than once, so a pipe cannot be used. Keep it open as long as the dataset
        is scanned.
    table : str
        The table: "shop.orders", or "orders" if only one database has such a table.
    where : str or Condition, optional
        Only changes that match: see `binlog_core.conditions`.
    **options
        `geometry`, `vectors`, `wide_decimals` and `text_errors` as in ``ChangeBatch.export``, except
        text_errors="binary".

    Returns
    -------
    pyarrow.dataset.Dataset
        The columns of all definitions of the table, null where a row image lacks one, then
        `CHANGE_COLUMNS`. An update is two rows.

    Raises
    ------
    SchemaError
        The log does not have the table; the message suggests similar names.
    BinlogError
        Reading the log failed.
    """
    name, columns = find_table(log, table)
    return ScannedDataset(ChangesScan(log, name, columns, where, **options).only)


class ScannedDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A dataset whose scans read only the columns that they need; `changes` makes it.

    Parameters
    ----------
    read : callable
        Takes the names of columns, or None for all, and the text of a filter; returns an object with
        ``__arrow_c_stream__``.
    """

    def __init__(self, read: Callable[..., Any]) -> None:
        # Dataset's own __init__ only raises an error: it must not be called.
        self._read = read
        self._schema = pyarrow.RecordBatchReader.from_stream(read(None)).schema

    @property
    def schema(self) -> pyarrow.Schema:
        """The schema of all columns."""
        return self._schema

    def scanner(
        self,
        columns: list[str] | dict[str, Any] | None = None,
        filter: Any = None,
        **options: Any,
    ) -> pyarrow.dataset.Scanner:
        """A scan that decodes only the columns that it names.

        Parameters
        ----------
        columns : list of str, dict of name to expression, or None
            The columns of the result; None gives all.
        filter : pyarrow.compute.Expression or None
            Only rows that match.
        **options
            Options of ``pyarrow.dataset.Scanner``; those for reading ahead have no effect.
        """
        expressions = [] if filter is None else [filter]
        if isinstance(columns, dict):
            expressions += columns.values()
        every = self._schema.names
        named = set(every if columns is None else columns if isinstance(columns, list | tuple) else ())
        needed = named | _names_in(" ".join(map(str, expressions)), every)
        text = None if filter is None else _text_of(filter)
        return pyarrow.dataset.Scanner.from_batches(
            pyarrow.RecordBatchReader.from_stream(self._read(needed, text)),
            columns=columns,
            filter=filter,
            batch_readahead=1,
            memory_pool=options.get("memory_pool"),
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a dataset cannot be pickled: make it where it is needed")


def _text_of(filter_: pyarrow.compute.Expression) -> str:
    """The filter as text, in which bytes cannot be taken for text: pyarrow prints b"x" as "78"."""
    text = str(filter_)
    if not _HEX.search(text) or not _may_have_bytes(filter_):
        return text
    return _LITERAL.sub(lambda found: "bytes" if _HEX.fullmatch(found[0]) else found[0], text)


def _may_have_bytes(filter_: pyarrow.compute.Expression) -> bool:
    """Whether one of a filter's literals may be of bytes; only its pickled form tells their types."""
    try:
        (pickled,) = filter_.__reduce__()[1]
        types = pyarrow.ipc.open_file(pickled).schema.types
    except (pyarrow.ArrowException, TypeError, ValueError):
        return True
    return any(re.search("binary|extension", str(one)) for one in types if not pyarrow.types.is_struct(one))


def _names_in(text: str, names: list[str]) -> set[str]:
    """The names that occur in expressions, which tell their columns by their text alone.

    It may be one too many (a function's name): then a column is decoded for nothing.
    """
    if not any('"' in name for name in names):
        text = _LITERAL.sub('""', text)
    return {name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)}
