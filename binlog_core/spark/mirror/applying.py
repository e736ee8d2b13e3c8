"""From raw changes to a table: what of a round concerns it, in batches of one definition each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..apply.batch import apply_changes
from ..apply.file_target import FileTarget
from ..apply.files import shaped, tables_of
from ..apply.jobs import Folder
from ..lake.results import FileStatistics, ToldStatement
from ..lake.table import FileTable
from ..rows.fit import STATEMENT
from ..rows.types import import_pyarrow, spark_schema
from .changes import Decoded
from .joining import ON_DRIVER
from .state import Lake, TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_APPLIED = ("alter", "truncate", "unknown")  # what else happens to a table makes a new copy, or its end
_VERSION, _ORDINAL = "_commit_version", "_change_ordinal"


class Batch(NamedTuple):
    """Part of a table's changes in which its columns have one type each.

    Parameters
    ----------
    below : int
        The place after it: changes of versions below it are in it, as far as none before has them.
    statements : list of ToldStatement
    files : list of FileStatistics
    """

    below: int
    statements: list[ToldStatement]
    files: list[FileStatistics]


def batches(files: Sequence[FileStatistics], statements: Sequence[ToldStatement], end: int) -> list[Batch]:
    """A table's changes of a round: one batch, or where its types change one up to each ALTER."""
    cuts = [end]
    if len({file.schema for file in files}) > 1:
        cuts = [*(one.version for one in statements if one.kind in ("alter", "unknown")), end]
    out = []
    since = 0
    for cut in dict.fromkeys(cuts):
        within = [one for one in statements if since <= one.version < cut]
        used = [file for file in files if file.first_version < cut and file.last_version >= since]
        if within or used:
            out.append(Batch(cut, within, used))
        since = cut
    return out


def apply_round(
    session: SparkSession,
    lake: Lake,
    state: TableState,
    keys: Sequence[str],
    decoded: Decoded,
    app_id: str,
    end: int,
    told: dict[str, str],
) -> None:
    """Bring a table up to the end of a round; `told`: what the commit that does so says besides.

    Raises
    ------
    ApplyStopped, ValueError, SchemaError
        Its changes cannot be applied.
    """
    statements = [one for one in decoded.about(state.full_name) if one.kind in _APPLIED]
    table, place = lake.opened(state), lake.folder(state)
    # What is not told of a commit that was made is in the table, however far this round goes.
    since = max(state.place or 0, table.applied(app_id) or 0)
    for batch in batches(decoded.files.get(state.full_name, []), statements, end):
        if batch.below <= since:
            continue
        changes = _changes(session, lake, decoded.folder, batch, since, _key_fields(table, keys))
        since = batch.below
        if changes is None:
            continue
        apply_changes(
            changes,
            FileTarget(table, place, told=told if batch.below == end else None),
            key_columns=keys,
            app_id=app_id,
            batch_id=batch.below,
        )


def _key_fields(table: FileTable, keys: Sequence[str]) -> list[Any]:
    """The key's columns as the table has them: a batch of statements alone has no rows to tell them."""
    pa, schema = import_pyarrow(), table.columns
    return [pa.field(name, schema.field(name).type) for name in keys]


def _changes(
    session: SparkSession, lake: Lake, folder: str, batch: Batch, since: int, keys: Sequence[Any]
) -> Any:
    """The rows and statements of a batch: on the driver where they are few, else a DataFrame."""
    pa = import_pyarrow()
    told = [one for one in batch.statements if one.version >= since]
    if sum(file.bytes for file in batch.files) > ON_DRIVER:
        return _frame(session, lake, folder, batch, since, told)
    parts: list[Any] = []
    for file in batch.files:
        path = f"{lake.path}/_mirror/changes/{file.name}"
        parts += _within(lake.filesystem, path, since, batch.below)
    types = {"_change_type": pa.string(), _VERSION: pa.int64(), _ORDINAL: pa.int64(), STATEMENT: pa.string()}
    parts.append(
        pa.Table.from_pylist(
            [dict(zip(types, (one.kind, one.version, one.ordinal, one.sql), strict=True)) for one in told],
            pa.schema([*(() if parts else keys), *types.items()]),
        )
    )
    found = pa.concat_tables(parts, promote_options="permissive")
    return found if found.num_rows else None


def _within(filesystem: Any, path: str, since: int, below: int) -> Iterator[pa.Table]:
    import pyarrow.dataset as ds

    place = ds.field(_VERSION)
    found = ds.dataset(path, filesystem=filesystem, format="parquet").to_table(
        filter=(place >= since) & (place < below)
    )
    if found.num_rows:
        yield found


def _frame(
    session: SparkSession, lake: Lake, folder: str, batch: Batch, since: int, told: Sequence[ToldStatement]
) -> Any:
    """Read by the workers as they wrote it: the JVM may know nothing of the store."""
    pa = import_pyarrow()
    schema = pa.unify_schemas([file.schema for file in batch.files], promote_options="permissive")
    schema = schema.append(pa.field(STATEMENT, pa.string()))
    names = [file.name for file in batch.files]
    place, below = Folder(folder, lake.storage_options), batch.below

    def read(numbers: Iterable[Any]) -> Iterator[Any]:
        import pyarrow.compute as pc

        version = pc.field(_VERSION)
        for rows in tables_of(place, (names[i] for one in numbers for i in one.column(0).to_pylist())):
            wanted = rows.filter((version >= since) & (version < below))
            yield from shaped(wanted, schema).to_batches()

    types = spark_schema(schema)
    rows = session.range(0, len(names), 1, len(names)).mapInArrow(read, types)
    if not told:
        return rows
    names_of = f"_change_type string, {_VERSION} long, {_ORDINAL} long, {STATEMENT} string"
    statements = session.createDataFrame(
        [(one.kind, one.version, one.ordinal, one.sql) for one in told], names_of
    )
    return rows.unionByName(statements, allowMissingColumns=True)
