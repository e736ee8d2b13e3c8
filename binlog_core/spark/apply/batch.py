"""From changes to a table: a batch of changes folded by key and merged into a table, in one commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..rows.fit import SPECIAL, STATEMENT
from ..rows.types import CHANGE_COLUMNS, import_pyarrow, told_key
from .alterations import Check, From
from .delta import DeltaTarget
from .folding import ApplyStopped, Folded, Key, OnAlter, OnDrop, Row, Rules, fold

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Applied", "ApplyStopped", "apply_changes"]


class MergeTarget(Protocol):
    """A table that changes are applied to."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def has_rows(self) -> bool: ...
    def applied(self, app_id: str) -> int | None: ...
    def rows(self, keys: Sequence[str], wanted: Sequence[Key]) -> dict[Key, Row]: ...
    def check(self, checks: Sequence[Check]) -> None: ...
    def write(
        self, folded: Folded, keys: Sequence[str], schema: pa.Schema, app: tuple[str, int] | None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did.

    Parameters
    ----------
    changes : int
        Row images and statements in it.
    puts, deletes : int
        Keys that were written or deleted.
    truncated : bool
        The table was emptied first.
    skipped : bool
        The batch had been applied before.
    """

    changes: int = 0
    puts: int = 0
    deletes: int = 0
    truncated: bool = False
    skipped: bool = False


def apply_changes(
    batch: DataFrame | pa.Table,
    target: str | os.PathLike[str] | MergeTarget,
    *,
    keys: Sequence[str] | None = None,
    app_id: str | None = None,
    batch_id: int | None = None,
    on_alter: OnAlter = "apply",
    on_drop: OnDrop = "stop",
    defaults: Mapping[str, Any] | None = None,
    without_statements: bool = False,
    storage_options: dict[str, str] | None = None,
) -> Applied:
    """Bring a table up to date with a batch of changes; for ``foreachBatch``, or by itself.

    Parameters
    ----------
    batch : DataFrame or pyarrow.Table
        Of the data source with ``table``, ``images=both`` and ``ddl=rows``. It is gathered on the driver:
        bound it with ``maxBytesPerTrigger``.
    target : str, path or MergeTarget
        Path or URL of a Delta table, written by deltalake without a JVM and made where there is none; or a
        ``SparkTarget``, a table that Spark itself merges into.
    keys : sequence of str or None
        Columns that tell rows apart; None: the primary key, where the log tells it.
    app_id, batch_id : str and int, or None
        Kept in the commit: a batch that was applied before is not applied again. Both or none.
    on_alter : "apply", "ignore" or "stop"
        ALTER TABLE: do to the rows that are there what the server did, and stop where that cannot be told;
        go on and leave them as they are; or always stop.
    on_drop : "stop" or "empty"
        DROP TABLE: stop where there are rows to lose, or lose them.
    defaults : mapping of name to value, or None
        Of columns that an insert did not name: with binlog_row_image=MINIMAL or NOBLOB its image may lack
        them, and the log does not tell what they are. Without them such an insert stops the apply.
    without_statements : bool
        Go on although the batch has no `_statement`: then a TRUNCATE is not seen.
    storage_options : dict or None
        Of deltalake.

    Returns
    -------
    Applied

    Raises
    ------
    ApplyStopped
        DROP, RENAME or another statement that cannot be applied. Nothing of the batch is.
    ValueError
        The batch lacks what is needed.
    MissingExtraError
        deltalake is not installed.

    Notes
    -----
    All of a batch is one commit, but for columns that are only added: they come before it. A column that is
    dropped stays and is null.
    """
    pa = import_pyarrow()
    if (app_id is None) != (batch_id is None):
        raise ValueError("app_id and batch_id: both or none")
    into: MergeTarget
    if isinstance(target, str | os.PathLike):
        into = DeltaTarget(os.fspath(target), storage_options or {})
    else:
        into = target
    app = None if app_id is None or batch_id is None else (app_id, batch_id)
    if app is not None:
        done = into.applied(app[0])
        if done is not None and done >= app[1]:
            return Applied(skipped=True)
    names = batch.column_names if isinstance(batch, pa.Table) else batch.columns
    key = tuple(keys) if keys is not None else _told_key(batch)
    for name in (*CHANGE_COLUMNS[:2], CHANGE_COLUMNS[3], *key):
        if name not in names:
            raise ValueError(f"the batch has no column {name}")
    if STATEMENT not in names and not without_statements:
        raise ValueError("the batch has no statements: read with ddl=rows, or a TRUNCATE would not be seen")
    table: Any = batch if isinstance(batch, pa.Table) else batch.toArrow()
    table = table.sort_by([("_commit_version", "ascending"), ("_change_ordinal", "ascending")])
    own = [field for field in table.schema if field.name.lower() not in SPECIAL]
    here = into.schema
    known = {field.name: field.type for field in (*here, *own)}
    folded = fold(_rows(table), Rules(key, on_alter, on_drop, known, into.has_rows, defaults or {}))
    # A column that an ALTER added has rows soon: its type then is the DataFrame's.
    added = [pa.field(name, kind) for name, kind in folded.types.items() if name not in known]
    schema = pa.schema([*(pa.field(field.name, field.type) for field in own), *added])
    if not folded.truncated:
        into.check(folded.checks)
    _complete(folded, into, key, [*here.names, *schema.names])
    puts = sum(row is not None for row in folded.rows.values())
    if folded.rows or folded.truncated or folded.values or app is not None or not len(here):
        into.write(folded, key, schema, app)
    return Applied(table.num_rows, puts, len(folded.rows) - puts, folded.truncated)


def _told_key(batch: DataFrame | pa.Table) -> tuple[str, ...]:
    """The primary key, which the data source writes into the metadata of its columns."""
    key = told_key(batch.schema)
    if not key:
        raise ValueError("the log does not tell the primary key (binlog_row_metadata=FULL would): give keys=")
    return key


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches():
        yield from batch.to_pylist()


def _complete(folded: Folded, target: MergeTarget, keys: Sequence[str], names: Sequence[str]) -> None:
    """Columns that no image had come from the row as the target has it."""
    wanted: dict[Key, Key] = {}
    for key, row in folded.rows.items():
        base = folded.bases[key]
        if row is not None and base is not None and any(name not in row for name in names):
            wanted[key] = base
    if not wanted:
        return
    rows = target.rows(keys, list(set(wanted.values())))
    for key, base in wanted.items():
        if base not in rows:
            raise ValueError(
                f"a partial image changes a row that the target does not have ({', '.join(keys)} = {base}):"
                " begin with a copy of the table, or with its first log"
            )
        found = rows[base]
        altered = {
            name: found.get(value.column) if isinstance(value, From) else value
            for name, value in folded.values.items()
        }
        folded.rows[key] = {**found, **altered, **(folded.rows[key] or {})}
