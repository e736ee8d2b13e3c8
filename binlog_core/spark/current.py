"""Tables as they are at the end of the logs, made from an export of their changes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._base.change_columns import LAKE_COLUMNS
from .._sources.object_stores import load_json
from .._sources.places import local_path
from .._tables.full_names import full_name, split_name
from ..errors import ApplyStopped, BinlogError
from ..lake.apply.batch import apply_images
from ..lake.apply.changes import Changes
from ..lake.apply.jobs import Folder, Jobs
from ..lake.apply.sinks import DELETES, MergeSink, merge_schema
from ..lake.apply.staging import AppliedStatement
from ..lake.apply.statements import OnAlter
from ..lake.exports.manifests import MANIFEST
from ..lake.rows.fit import SPECIAL
from ..lake.rows.types import import_pyarrow
from ..lake.tables.destination import open_filesystem
from ..lake.tables.parquet import check_manifest
from ..schema.table_statements import spelling_of
from .jobs import OnSpark
from .merge_target import quoted, read_files
from .schemas import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..lake.apply.alterations import Check

_TYPE, _VERSION, _, _ORDINAL = LAKE_COLUMNS
_OF_SPARK = re.compile(r"\.?(part-.*|_SUCCESS(\.crc)?)")  # the files of a table that it wrote


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """The result of `write_current` for one table.

    Parameters
    ----------
    database, table : str
        The names of the database and the table.
    directory : str or None
        Where its rows are; None if it was not written.
    rows : int
        How many rows it has.
    reason : str or None
        Why it was not written; None if it was.
    """

    database: str
    table: str
    directory: str | None = None
    rows: int = 0
    reason: str | None = None


class _Unknown(Exception):
    """The logs do not show a table's rows."""


def write_current(
    spark: SparkSession,
    changes: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    on_alter: OnAlter = "apply",
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> list[CurrentTable]:
    """Write the rows that tables have after all changes of an export, each as a directory of Parquet files.

    Parameters
    ----------
    spark : SparkSession
        The session.
    changes : str or path
        Output of ``export_logs`` in Parquet, with both images of updates.
    output : str or path
        A directory or URL that does not exist yet; each table goes to ``OUTPUT/database.table``.
    on_alter : "apply", "ignore" or "stop"
        As for ``apply_changes``.
    overwrite : bool
        Replace tables that already exist. A local directory that has other files than Spark's own is not
        replaced: it may be an export, or a table of a lake.
    storage_options : dict or None
        Options for the store of `changes`, to read its manifest; Spark has its own.

    Returns
    -------
    list of CurrentTable
        One for each table. A table is not written if the log has no primary key for it, or if a statement
        changed it in a way that the log does not have: `reason` says why. Rows that existed before the first
        log and never changed are in no log, and so not in the result.

    Raises
    ------
    BinlogError
        `changes` is not an export, or the output already exists.
    """
    source, target = os.fspath(changes).rstrip("/"), os.fspath(output).rstrip("/")
    filesystem, path = open_filesystem(source, storage_options)
    try:
        manifest = load_json(filesystem, f"{path}/{MANIFEST}")
    except (OSError, ValueError, RecursionError) as error:
        raise BinlogError(f"there is no Parquet export: {error}", path=source) from error
    check_manifest(manifest, source)
    found = []
    spelling = spelling_of(*(full_name(one["database"], one["table"]) for one in manifest["tables"]))
    for table in manifest["tables"]:
        name = full_name(table["database"], table["table"])
        directory = f"{target}/{table['directory']}"
        statements = _concerning(manifest["statements"], name, spelling)
        try:
            own = [
                one
                for one in manifest.get("definitions", ())
                if (one["database"], one["table"]) == (table["database"], table["table"])
            ]
            frame, changing = _images(spark, source, table, statements, own)
            if table["partial_rows"] or changing:
                into = _NewTable(spark, Folder(source, storage_options), directory, overwrite)
                apply_images(
                    OnSpark(spark, frame),
                    into,
                    tuple(table["key"]),
                    on_alter=on_alter,
                    on_drop="empty",
                    statements=changing,
                    primary_key=table["key"],
                )
            else:
                _write(_last_images(frame, table), directory, overwrite)
        except (_Unknown, ApplyStopped, ValueError) as stopped:
            found.append(CurrentTable(table["database"], table["table"], reason=str(stopped)))
            continue
        count = spark.read.parquet(directory).count()
        found.append(CurrentTable(table["database"], table["table"], directory, count))
    return found


def _concerning(
    statements: Iterable[dict[str, Any]], table: str, spelling: Callable[[str], str]
) -> list[dict[str, Any]]:
    def is_about(one: dict[str, Any]) -> bool:
        if one["database"] is not None:
            return split_name(table)[0] == spelling(str(one["database"]))
        # What could not be read may be about any table.
        return not one["tables"] or table in map(spelling, one["tables"])

    return [one for one in statements if is_about(one)]


def _images(
    spark: SparkSession,
    source: str,
    table: dict[str, Any],
    statements: list[dict[str, Any]],
    definitions: list[dict[str, Any]],
) -> tuple[DataFrame, list[AppliedStatement]]:
    """The row images after the last emptying of the table, and the statements between them."""
    from pyspark.sql import functions as F

    if not table["key"]:
        raise _Unknown("the log does not have a primary key")
    _check_columns(definitions)
    if table["rows"]["update_postimage"] and not table["rows"]["update_preimage"]:
        raise _Unknown("the export has no preimages (images=both)")
    cleared = max(((one["version"], one["ordinal"]) for one in statements if one["clears"]), default=(-1, -1))
    changing = [
        AppliedStatement(one["version"], one["ordinal"], one["kind"], one["sql"])
        for one in statements
        if (one["version"], one["ordinal"]) > cleared and one["kind"] != "create"
    ]
    keys = {tuple(one["key"] or ()) for one in definitions if one["last_version"] >= cleared[0]}
    if len(keys) > 1:  # several rows of one definition may have the same key of another
        raise _Unknown("the primary key changed")
    frame: DataFrame | None = None
    for one in _versions(table, cleared[0]):
        glob = f"v{one['version']}-*"
        part = spark.read.option("pathGlobFilter", glob).parquet(f"{source}/{table['directory']}")
        frame = part if frame is None else frame.unionByName(part, allowMissingColumns=True)
    assert frame is not None
    version, ordinal = F.col(_VERSION), F.col(_ORDINAL)
    after = (version > cleared[0]) | ((version == cleared[0]) & (ordinal > cleared[1]))
    return frame.where(after), changing


def _check_columns(definitions: Iterable[dict[str, Any]]) -> None:
    for column in (column["name"] for one in definitions for column in one["columns"]):
        if column.lower() in SPECIAL:
            raise _Unknown(f"the column {column} has the name of a change column")


def _last_images(frame: DataFrame, table: dict[str, Any]) -> DataFrame:
    """The rows after changes with complete images."""
    from pyspark.sql import functions as F

    own = [name for name in frame.columns if name.lower() not in SPECIAL]
    key = [F.col(quoted(name)).alias(f"key {i} ") for i, name in enumerate(table["key"])]
    row = F.struct(*(F.col(quoted(name)) for name in own)).alias("row")
    last = F.max_by(F.struct(_TYPE, row), F.struct(_VERSION, _ORDINAL)).alias("last")
    rows = frame.groupBy(*key).agg(last)
    # If the last image of a key is a preimage, the update moved the row to another key.
    rows = rows.where(F.col(f"last.{_TYPE}").isin("insert", "update_postimage"))
    return rows.select("last.row.*")


def _versions(table: dict[str, Any], cleared: int) -> list[dict[str, Any]]:
    """The definitions of rows that may still exist, in order; each column has one type in them."""
    used = {file["version"] for file in table["files"] if file["last_version"] >= cleared}
    versions = [version for version in table["versions"] if version["version"] in used]
    types: dict[str, str] = {}
    for version in versions:
        for column in version["columns"]:
            known = types.setdefault(column["name"].lower(), column["type"])
            if known != column["type"]:
                raise _Unknown(f"column {column['name']} was {known}, and then {column['type']}")
    return versions or table["versions"][-1:]


class _NewTable:
    """The target of changes without an earlier table: a directory of Parquet files."""

    has_rows = False

    def __init__(self, spark: SparkSession, place: Folder, directory: str, overwrite: bool) -> None:
        self._spark, self.place = spark, place
        self._directory, self._overwrite = directory, overwrite
        self.columns: Any = import_pyarrow().schema([])

    def applied(self, app_id: str) -> int | None:
        return None

    def reached(self, app_id: str) -> int | None:
        return None

    def fits(self, check: Check, jobs: Jobs) -> bool:
        return True

    def merge(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        place = changes.stager.place
        files = changes.fold(MergeSink(changes.schema, schema, changes.keys, place))
        for one in files:
            if one.partial:
                raise ValueError("partial row images change rows that are not in the logs")
        kinds = spark_schema(merge_schema(schema, changes.keys))
        rows = read_files(self._spark, place, files, kinds)
        _write(
            rows.where(f"NOT {quoted(DELETES)}").select(*map(quoted, schema.names)),
            self._directory,
            self._overwrite,
        )
        return sum(one.puts for one in files), sum(one.deletes for one in files)


def _write(rows: DataFrame, directory: str, overwrite: bool) -> None:
    from pyspark.errors import AnalysisException

    here = local_path(directory)
    names = os.listdir(here) if overwrite and here is not None and os.path.isdir(here) else []
    if foreign := [name for name in names if not _OF_SPARK.fullmatch(name)]:
        raise BinlogError(f"contains {min(foreign)}, which no such table has: not replaced", path=here)
    try:
        rows.write.parquet(directory, mode="overwrite" if overwrite else "errorifexists")
    except AnalysisException as error:
        message = str(error).strip().splitlines()[0]
        raise BinlogError(f"cannot be written: {message}", path=directory) from error
