"""From changes to a table: a batch of changes folded by key and merged into a table, in one commit.

Row images stay with the workers. The driver gets statements, statistics of files, and two hashes for each
partial image whose key changed. The effect of an ALTER TABLE is applied to the images before it, so that a
batch is folded once and committed once, whatever statements are in it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, get_args

from ..._change_columns import LAKE_COLUMNS
from ...errors import ApplyStopped, BinlogError, CopyNeeded
from ..lake.delta import DeltaLakeTable
from ..lake.table import App, LakeTable
from ..rows.fit import SPECIAL, STATEMENT, widened
from ..rows.types import import_pyarrow, named_key
from .alterations import Check, ServerColumns
from .changes import Changes
from .file_target import FileTarget
from .files import spelled_like
from .jobs import Folder, Here, InMemory, Jobs, OnSpark
from .keys import unfit
from .staging import BUCKETS, AppliedStatement, Stager
from .statements import OnAlter, OnDrop, Rules, follow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Applied", "ApplyStopped", "apply_changes"]

_IN_MEMORY = 32 << 20  # bytes of changes that are folded without files


class MergeTarget(LakeTable, Protocol):
    """A table of a lake that changes are merged into."""

    @property
    def has_rows(self) -> bool:
        """Whether the table has rows that would be lost."""
        ...

    @property
    def place(self) -> Folder:
        """The directory for temporary files of an apply."""
        ...

    def fits(self, check: Check, jobs: Jobs) -> bool:
        """Whether a new type does not change the values of a column in the table."""
        ...

    def merge(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        """Bring the table up to date in one commit; how many keys were written, and how many deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of a batch.

    Parameters
    ----------
    changes : int
        Row images and statements in the batch.
    puts, deletes : int
        Keys that were written, and keys that were deleted.
    truncated : bool
        Whether the table was emptied first.
    skipped : bool
        Whether the batch had been applied before, so that nothing was done.
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
        batch,
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


def apply_images(
    batch: DataFrame | pa.Table | Jobs,
    into: MergeTarget,
    keys: tuple[str, ...],
    *,
    app: App | None = None,
    on_alter: OnAlter = "apply",
    on_drop: OnDrop = "stop",
    defaults: Mapping[str, Any] | None = None,
    statements: Iterable[AppliedStatement] = (),
    present: ServerColumns | None = None,
    computed: Container[str] = (),
    primary_key: Sequence[str] = (),
    same_key: bool = False,
) -> Applied:
    """Apply changes. See `apply_changes`, `Rules`.

    Parameters
    ----------
    statements : iterable of AppliedStatement
        Those that are not among the changes.
    computed : container of str
        The names, in small letters, of columns that the server computes. An update that has them in neither
        of its images stops the apply.
    primary_key : sequence of str
        The primary key, if it is known: it shows which updates lack columns that they may have changed.
    same_key : bool
        Whether it is known that `keys` stay the table's key.
    """
    pa = import_pyarrow()
    here = into.columns
    jobs = _respelt(_jobs_of(batch), here.names)
    own, keys = own_schema(jobs), tuple(spelled_like(keys, here.names))
    # Columns that only the target has are not changed: changed rows keep their values there.
    extra = [field for field in here if field.name not in own.names]
    staged = pa.schema([*own, *extra])
    for kind in (staged.field(name).type for name in keys):
        if pa.types.is_nested(kind):  # a SET
            raise unfit(kind)
    place: AbstractContextManager[Any]
    buckets = BUCKETS
    if not isinstance(jobs, Here):
        place = into.place.workspace()
    elif jobs.changes.nbytes < _IN_MEMORY:
        place, buckets = contextlib.nullcontext(InMemory("")), 1
    else:
        place = tempfile.TemporaryDirectory(prefix="binlog-")
    with _writing(into), place as opened:
        within = opened if isinstance(opened, Folder) else Folder(opened)
        places = tuple(map(staged.get_field_index, keys))
        lower = [name.lower() for name in own.names]
        at_risk = tuple(i for i, name in enumerate(lower) if name in computed)
        logged_by = {name.lower() for name in (*keys, *primary_key)} if primary_key else set(lower)
        beside = tuple(i for i, name in enumerate(lower) if name not in logged_by)
        stager = Stager(within, staged, places, len(extra), buckets, at_risk, beside)
        changes = Changes(jobs, stager, keys, defaults or {}, app=app)
        every = sorted([*changes.stage(), *statements])
        # What a statement changes has the table's type; rows after it already have another.
        known = {field.name: field.type for field in (*own, *here)}
        rules = Rules(keys, on_alter, on_drop, known, lambda: into.has_rows, present, same_key)
        effects = changes.effects = follow(every, rules, changes.alive)
        # Columns that an ALTER added and no row of the batch has: their types are in the statement.
        added = tuple(pa.field(name, kind) for name, kind in effects.types.items() if name not in known)
        changes.added = added
        for check in effects.checks if effects.cleared is None else ():
            if check.column in here.names and not into.fits(check, jobs):
                raise CopyNeeded(f"alter of the table is not applied: {check.reason}", column=check.column)
        puts, deletes = into.merge(changes, _altered([*own, *added], effects.types))
    return Applied(changes.images, puts, deletes, effects.cleared is not None)


def _altered(fields: Iterable[pa.Field], types: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of changes in the types that statements gave them, also those that no change has."""
    kinds = {one.name: one.type for one in fields}
    kinds |= {name: kind for name, kind in types.items() if widened(kinds.get(name, kind), kind)}
    return import_pyarrow().schema(list(kinds.items()))


def _jobs_of(batch: Any) -> Jobs:
    """Where the changes are, and who works on them."""
    if isinstance(batch, import_pyarrow().Table):
        return Here(batch)
    if hasattr(batch, "sparkSession"):
        return OnSpark(batch.sparkSession, batch)
    jobs: Jobs = batch
    return jobs


def _respelt(jobs: Jobs, known: list[str]) -> Jobs:
    """Changes whose columns have the names that they have in the table."""
    own = own_schema(jobs).names
    renamed = {old: new for old, new in zip(own, spelled_like(own, known), strict=True) if old != new}
    return jobs.renamed(renamed) if renamed else jobs


@contextlib.contextmanager
def _writing(into: MergeTarget) -> Iterator[None]:
    """Raise an OSError as a BinlogError."""
    try:
        yield
    except OSError as error:
        raise BinlogError(f"the changes cannot be written: {error}", path=into.place.root) from error


def own_schema(jobs: Jobs) -> pa.Schema:
    """The table's own columns, among the columns of changes."""
    pa = import_pyarrow()
    return pa.schema([pa.field(f.name, f.type) for f in jobs.schema if f.name.lower() not in SPECIAL])


def _key_of(batch: DataFrame | pa.Table) -> tuple[str, ...]:
    """The primary key, which the data source writes into the metadata of its columns."""
    key = named_key(batch.schema)
    if not key:
        raise ValueError(
            "the log does not have the primary key (binlog_row_metadata=FULL would): give key_columns="
        )
    return key
