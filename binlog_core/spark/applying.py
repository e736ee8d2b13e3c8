"""A batch of changes, of a stream or by itself, applied to a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from .._base.change_columns import LAKE_COLUMNS
from ..errors import BinlogError
from ..lake.apply.batch import Applied, MergeTarget, apply_images
from ..lake.apply.file_target import FileTarget
from ..lake.apply.jobs import Folder
from ..lake.apply.statements import OnAlter, OnDrop
from ..lake.rows.fit import SPECIAL, STATEMENT
from ..lake.rows.types import import_pyarrow, named_key
from ..lake.tables.delta import DeltaLakeTable
from ..lake.tables.table import App
from .jobs import OnSpark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def apply_changes(
    batch: DataFrame | pa.Table,
    target: str | os.PathLike[str] | MergeTarget,
    *,
    key_columns: Sequence[str] | None = None,
    app_id: str | None = None,
    batch_id: int | None = None,
    on_alter: OnAlter = "apply",
    on_drop: OnDrop = "stop",
    defaults: Mapping[str, Any] | None = None,
    without_statements: bool = False,
    storage_options: dict[str, str] | None = None,
) -> Applied:
    """Bring a table up to date with a batch of changes; use it in ``foreachBatch`` or by itself.

    Parameters
    ----------
    batch : DataFrame or pyarrow.Table
        Rows of the data source with ``table``, ``images=both`` and ``ddl=rows``; also with ``schema=ddl``, or
        each ALTER that may give a column another definition stops the apply. A DataFrame is folded and
        written by the workers, a pyarrow.Table is folded in this process.
    target : str, path or MergeTarget
        The path or URL of a Delta table, which deltalake writes without a JVM and creates if necessary; an
        ``IcebergTarget``, which pyiceberg writes in the same way; or a ``SparkTarget``, a table that Spark
        itself merges into. Workers must be able to reach it.
    key_columns : sequence of str or None
        The columns that identify a row; None takes the primary key from the log, if it exists.
    app_id, batch_id : str and int, or None
        Stored in the commit, so that the same batch is not applied twice. Give both or neither. A batch with
        a lower number is skipped too, and one with changes that were not applied yet is an error: with a new
        checkpoint, whose batches begin at 0 again, give another `app_id`.
    on_alter : "apply", "ignore" or "stop"
        What to do at ALTER TABLE: change the existing rows as the server did, and stop if that is not known;
        continue and leave them as they are; or always stop.
    on_drop : "stop" or "empty"
        What to do at DROP TABLE: stop if there are rows to lose, or remove them.
    defaults : mapping of name to value, or None
        Values of columns that an insert did not name. With binlog_row_image=MINIMAL or NOBLOB its image may
        lack them, and the log does not have their values; without defaults, such an insert stops the apply.
    without_statements : bool
        Continue although the batch has no `_statement` column; a TRUNCATE is not noticed then.
    storage_options : dict or None
        Options for deltalake.

    Returns
    -------
    Applied

    Raises
    ------
    ApplyStopped
        A DROP, RENAME or other statement cannot be applied. Nothing of the batch is applied then.
    ValueError
        An argument has another value, or the batch lacks a column that is needed.
    BinlogError
        The table cannot be written, another writer changed it in the meantime, or the batch has the number of
        an earlier one and other changes.
    MissingExtraError
        deltalake is not installed.

    Notes
    -----
    A batch is one commit, except that Delta adds new columns in a commit before it. A column that is dropped
    stays and becomes null.
    """
    if (app_id is None) != (batch_id is None):
        raise ValueError("app_id and batch_id: give both or neither")
    for given, value, known in (("on_alter", on_alter, OnAlter), ("on_drop", on_drop, OnDrop)):
        if value not in get_args(known):
            raise ValueError(f"{given}={value!r}: expected {' or '.join(get_args(known))}")
    into: MergeTarget
    if isinstance(target, str | os.PathLike):
        path, options = os.fspath(target), storage_options or None
        into = FileTarget(DeltaLakeTable(path, options), Folder(path, options, delta=True))
    else:
        into = target
    app = None if app_id is None or batch_id is None else App(app_id, batch_id)
    pa = import_pyarrow()
    names = batch.column_names if isinstance(batch, pa.Table) else batch.columns
    key = tuple(key_columns) if key_columns is not None else _key_of(batch)
    if isinstance(key_columns, str) or not key or len({*key, *SPECIAL}) != len(key) + len(SPECIAL):
        raise ValueError(f"key_columns={key_columns!r}: expected the names of different columns of the table")
    for name in (*LAKE_COLUMNS[:2], LAKE_COLUMNS[3], *key):
        if name not in names:
            raise ValueError(f"the batch has no column {name}")
    if STATEMENT not in names and not without_statements:
        raise ValueError("the batch has no statements: read with ddl=rows, or a TRUNCATE would not be seen")
    if app is not None and _is_repeated(batch, into, app):
        return Applied(skipped=True)
    return apply_images(
        OnSpark(batch.sparkSession, batch) if hasattr(batch, "sparkSession") else batch,
        into,
        key,
        app=app,
        on_alter=on_alter,
        on_drop=on_drop,
        defaults=defaults or {},
        primary_key=named_key(batch.schema),
    )


def _is_repeated(batch: DataFrame | pa.Table, into: MergeTarget, app: App) -> bool:
    """Whether a table has a batch already.

    Raises
    ------
    BinlogError
        The number is that of a batch that it has, and the changes are others: those of another checkpoint.
    """
    done = into.applied(app.id)
    if done is None or done < app.batch:
        return False
    last, reached = _last_place(batch), into.reached(app.id)
    if last is None or reached is None or last == reached or (last < reached and app.batch < done):
        return True
    raise BinlogError(
        f"batch {app.batch} has other changes (up to _commit_version {last}) than those applied under app_id"
        f" {app.id!r} (up to batch {done} and {reached}), and they would be lost: give another app_id, as"
        " always with a new checkpoint",
        path=into.place.root,
    )


def _last_place(batch: DataFrame | pa.Table) -> int | None:
    """The `_commit_version` of a batch's last change; None if it has none."""
    if isinstance(batch, import_pyarrow().Table):
        import pyarrow.compute as pc

        found = pc.max(batch[LAKE_COLUMNS[1]]).as_py()
    else:
        found = batch.agg({LAKE_COLUMNS[1]: "max"}).collect()[0][0]
    return None if found is None else int(found)


def _key_of(batch: DataFrame | pa.Table) -> tuple[str, ...]:
    """The primary key, which the data source writes into the metadata of its columns."""
    key = named_key(batch.schema)
    if not key:
        raise ValueError(
            "the log does not have the primary key (binlog_row_metadata=FULL would): give key_columns="
        )
    return key
