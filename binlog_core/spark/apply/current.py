"""Tables as the logs leave them, made of an export of their changes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import BinlogError
from ..lake.destination import MANIFEST, check_manifest, open_filesystem
from ..rows.fit import SPECIAL, STATEMENT
from ..rows.types import CHANGE_COLUMNS, import_pyarrow, spark_schema
from .batch import ApplyStopped, apply_changes
from .folding import Folded, Key, OnAlter, Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from .alterations import Check

_TYPE, _VERSION, _, _ORDINAL = CHANGE_COLUMNS
_MOST_FOLDED = 2_000_000  # row images of one table that the driver folds


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """What became of one table.

    Parameters
    ----------
    database, table : str
    directory : str or None
        Where its rows are; None: `reason`.
    rows : int
    reason : str or None
        Why the logs do not tell what it has.
    """

    database: str
    table: str
    directory: str | None = None
    rows: int = 0
    reason: str | None = None


class _Unknown(Exception):
    """The logs do not tell what a table has."""


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
    changes : str or path
        Output of ``export_logs``, of Parquet and with both images of updates.
    output : str or path
        Directory or URL that is not there yet; ``OUTPUT/database.table``.
    on_alter : "apply", "ignore" or "stop"
        As of ``apply_changes``.
    overwrite : bool
        Write over tables that are there.
    storage_options : dict or None
        Of the store of `changes`, for its manifest; Spark has its own.

    Returns
    -------
    list of CurrentTable
        One for each table. Those without a primary key in the log, or that a statement changed in a way that
        the log does not tell, are not written: `reason` says why. Rows that were there before the first log
        and never changed are in no log, and not in the table.

    Raises
    ------
    BinlogError
        `changes` is no export; something is in the way.
    """
    source, target = os.fspath(changes).rstrip("/"), os.fspath(output).rstrip("/")
    filesystem, path = open_filesystem(source, storage_options)
    try:
        with filesystem.open_input_stream(f"{path}/{MANIFEST}") as stream:
            manifest = json.loads(stream.read())
    except (OSError, ValueError) as error:
        raise BinlogError(f"no export of Parquet is there: {error}", path=source) from error
    check_manifest(manifest, source)
    found = []
    for table in manifest["tables"]:
        name = f"{table['database']}.{table['table']}"
        directory = f"{target}/{table['directory']}"
        statements = _concerning(manifest["statements"], name)
        try:
            _write(_current(spark, source, table, statements, on_alter), directory, overwrite)
        except (_Unknown, ApplyStopped) as stopped:
            found.append(CurrentTable(table["database"], table["table"], reason=str(stopped)))
            continue
        count = spark.read.parquet(directory).count()
        found.append(CurrentTable(table["database"], table["table"], directory, count))
    return found


def _concerning(statements: Iterable[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    def is_about(one: dict[str, Any]) -> bool:
        if one["database"] is not None:
            return table.lower().startswith(one["database"].lower() + ".")
        # What could not be read may be about any table.
        return not one["tables"] or table.lower() in (name.lower() for name in one["tables"])

    return [one for one in statements if is_about(one)]


def _current(
    spark: SparkSession,
    source: str,
    table: dict[str, Any],
    statements: list[dict[str, Any]],
    on_alter: OnAlter,
) -> DataFrame:
    from pyspark.sql import functions as F

    if not table["key"]:
        raise _Unknown("the log does not tell a primary key")
    if table["rows"]["update_postimage"] and not table["rows"]["update_preimage"]:
        raise _Unknown("the export has no preimages (images=both)")
    cleared = max(((one["version"], one["ordinal"]) for one in statements if one["clears"]), default=(-1, -1))
    changing = [
        one for one in statements if (one["version"], one["ordinal"]) > cleared and one["kind"] != "create"
    ]
    frame: DataFrame | None = None
    versions = _versions(table, cleared[0])
    for one in versions:
        glob = f"v{one['version']}-*"
        part = spark.read.option("pathGlobFilter", glob).parquet(f"{source}/{table['directory']}")
        frame = part if frame is None else frame.unionByName(part, allowMissingColumns=True)
    assert frame is not None
    place = F.struct(_VERSION, _ORDINAL)
    version, ordinal = F.col(_VERSION), F.col(_ORDINAL)
    frame = frame.where((version > cleared[0]) | ((version == cleared[0]) & (ordinal > cleared[1])))
    if table["partial_rows"] or changing:
        return _applied(spark, frame, table, changing, on_alter)
    own = [c["name"] for c in versions[-1]["columns"] if c["name"].lower() not in SPECIAL]
    key = [F.col(_quoted(name)).alias(f"__key{i}") for i, name in enumerate(table["key"])]
    row = F.struct(*(F.col(_quoted(name)) for name in own)).alias("row")
    rows = frame.groupBy(*key).agg(F.max_by(F.struct(_TYPE, row), place).alias("last"))
    # An image from before an update that is the last of its key: the update moved the row to another key.
    rows = rows.where(F.col(f"last.{_TYPE}").isin("insert", "update_postimage"))
    return rows.select("last.row.*")


def _versions(table: dict[str, Any], cleared: int) -> list[dict[str, Any]]:
    """The definitions of rows that may still be there, in order; one type for each column."""
    used = {file["version"] for file in table["files"] if file["last_version"] >= cleared}
    versions = [version for version in table["versions"] if version["version"] in used]
    types: dict[str, str] = {}
    for version in versions:
        for column in version["columns"]:
            known = types.setdefault(column["name"].lower(), column["type"])
            if known != column["type"]:
                raise _Unknown(f"column {column['name']} was {known}, and then {column['type']}")
    return versions or table["versions"][-1:]


def _applied(
    spark: SparkSession,
    frame: DataFrame,
    table: dict[str, Any],
    statements: list[dict[str, Any]],
    on_alter: OnAlter,
) -> DataFrame:
    """Partial images and altered rows are put together one after the other, by the driver."""
    pa = import_pyarrow()
    if sum(table["rows"].values()) > _MOST_FOLDED:
        raise _Unknown(
            f"more than {_MOST_FOLDED:,} row images, some of them partial or before an ALTER TABLE: use"
            " apply_changes, batch by batch"
        )
    changes = frame.toArrow()
    told = pa.Table.from_pylist(
        [
            {_TYPE: one["kind"], _VERSION: one["version"], _ORDINAL: one["ordinal"], STATEMENT: one["sql"]}
            for one in statements
        ],
        pa.schema(
            [*(changes.schema.field(n) for n in (_TYPE, _VERSION, _ORDINAL)), (STATEMENT, pa.string())]
        ),
    )
    target = _NewTable()
    try:
        apply_changes(
            pa.concat_tables([changes, told], promote_options="default"),
            target,
            keys=table["key"],
            on_alter=on_alter,
            on_drop="empty",
        )
    except ValueError as error:
        raise _Unknown(str(error)) from error
    return spark.createDataFrame(target.table, schema=spark_schema(target.table.schema))


class _NewTable:
    """What `apply_changes` makes of changes alone."""

    def __init__(self) -> None:
        pa = import_pyarrow()
        self.schema: Any = pa.schema([])
        self.has_rows = False
        self.table: Any = None

    def applied(self, app_id: str) -> int | None:
        return None

    def rows(self, keys: Sequence[str], wanted: Sequence[Key]) -> dict[Key, Row]:
        return {}

    def check(self, checks: Sequence[Check]) -> None:
        pass

    def write(
        self, folded: Folded, keys: Sequence[str], schema: pa.Schema, app: tuple[str, int] | None
    ) -> None:
        pa = import_pyarrow()
        rows = [row for row in folded.rows.values() if row is not None]
        self.table = pa.Table.from_pylist(rows, schema=schema)


def _write(rows: DataFrame, directory: str, overwrite: bool) -> None:
    from pyspark.errors import AnalysisException

    try:
        rows.write.parquet(directory, mode="overwrite" if overwrite else "errorifexists")
    except AnalysisException as error:
        message = str(error).strip().splitlines()[0]
        raise BinlogError(f"cannot be written: {message}", path=directory) from error


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
