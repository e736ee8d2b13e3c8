"""Tables as the logs leave them, made of an export of their changes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import BinlogError, SchemaError
from ..sql_tokens import tokenize_statements
from .apply import ApplyStopped, OnAlter, fold
from .destination import MANIFEST, open_filesystem
from .fit import SPECIAL
from .schema import CHANGE_COLUMNS, import_pyarrow, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPE, _VERSION, _, _ORDINAL = CHANGE_COLUMNS
_CLEARING = ("truncate", "drop")
_MOST_FOLDED = 2_000_000  # row images of one table, which the driver folds


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
    on_alter: OnAlter = "safe",
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
    on_alter : "safe", "evolve" or "stop"
        As of ``apply_changes``.
    overwrite : bool
        Write over tables that are there.
    storage_options : dict or None
        Of the store of `changes`, for its manifest; Spark has its own.

    Returns
    -------
    list of CurrentTable
        One for each table. Those without a primary key in the log, or that a statement changed in a way that the
        log does not tell, are not written: `reason` says why. Rows that were there before the first log and
        never changed are in no log, and not in the table.

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
    found = []
    for table in manifest["tables"]:
        name = f"{table['database']}.{table['table']}"
        directory = f"{target}/{table['directory']}"
        try:
            rows = _current(spark, source, table, _concerning(manifest["statements"], name), on_alter)
            _write(rows, directory, overwrite)
        except (_Unknown, ApplyStopped) as stopped:
            found.append(CurrentTable(table["database"], table["table"], reason=str(stopped)))
            continue
        count = spark.read.parquet(directory).count()
        found.append(CurrentTable(table["database"], table["table"], directory, count))
    return found


def _concerning(statements: Iterable[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    def is_about(one: dict[str, Any]) -> bool:
        if one["kind"] == "unknown" and not one["tables"]:
            return True
        if one["database"] is not None:
            return bool(table.lower().startswith(one["database"].lower() + "."))
        return table.lower() in (name.lower() for name in one["tables"])

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
    cleared = max((one["version"] for one in statements if _clears(one)), default=-1)
    after = [one for one in statements if one["version"] > cleared]
    # What a statement does is judged where a batch of changes is applied, too.
    fold(({_TYPE: one["kind"], "_statement": one["sql"]} for one in after), table["key"], on_alter=on_alter)
    versions = _columns(table, cleared)
    if not versions:
        versions = [table["versions"][-1]]
    frame: DataFrame | None = None
    for version in versions:
        glob = f"v{version['version']}-*"
        part = spark.read.option("pathGlobFilter", glob).parquet(f"{source}/{table['directory']}")
        frame = part if frame is None else frame.unionByName(part, allowMissingColumns=True)
    assert frame is not None
    frame = frame.where(F.col(_VERSION) >= max(cleared, 0))
    columns = [c["name"] for c in versions[-1]["columns"] if c["name"].lower() not in SPECIAL]
    if table["partial_rows"]:
        return _folded(spark, frame, table, columns)
    own = [F.col(_quoted(name)) for name in columns]
    key = [F.col(_quoted(name)).alias(f"__key{i}") for i, name in enumerate(table["key"])]
    last = F.max_by(F.struct(_TYPE, F.struct(*own).alias("row")), F.struct(_VERSION, _ORDINAL))
    rows = frame.groupBy(*key).agg(last.alias("last"))
    # An image from before an update that is the last of its key: the update moved the row to another key.
    rows = rows.where(F.col(f"last.{_TYPE}").isin("insert", "update_postimage"))
    return rows.select("last.row.*")


def _clears(statement: dict[str, Any]) -> bool:
    """Whether the table has no rows behind it. That it could be created says that it was not there."""
    if statement["kind"] == "create":
        words = [token.text.upper() for token in next(iter(tokenize_statements(statement["sql"])), [])][:12]
        return "IF" not in words or "REPLACE" in words[:4]
    return statement["kind"] in _CLEARING


def _columns(table: dict[str, Any], cleared: int) -> list[dict[str, Any]]:
    """The definitions that rows have which are still there, in order; one type for each column."""
    used = {file["version"] for file in table["files"] if file["last_version"] >= cleared}
    versions = [version for version in table["versions"] if version["version"] in used]
    types: dict[str, str] = {}
    for version in versions:
        for column in version["columns"]:
            known = types.setdefault(column["name"].lower(), column["type"])
            if known != column["type"]:
                raise _Unknown(f"column {column['name']} was {known}, and then {column['type']}")
    return versions


def _folded(spark: SparkSession, frame: DataFrame, table: dict[str, Any], columns: list[str]) -> DataFrame:
    """Partial images are put together one after the other, by the driver."""
    pa = import_pyarrow()
    if sum(table["rows"].values()) > _MOST_FOLDED:
        raise _Unknown(f"more than {_MOST_FOLDED:,} row images, some of which are partial: use apply_changes")
    changes = frame.orderBy(_VERSION, _ORDINAL).toArrow()
    try:
        folded = fold(changes.to_pylist(), table["key"])
    except ValueError as error:
        raise _Unknown(str(error)) from error
    rows = [(key, row) for key, row in folded.rows.items() if row is not None]
    for key, row in rows:
        if any(name not in row for name in columns):
            raise _Unknown(f"no image tells all columns of the row with the key {key}: begin with its first log")
    schema = pa.schema([changes.schema.field(name) for name in columns])
    made = pa.Table.from_pylist([row for _, row in rows], schema=schema)
    return spark.createDataFrame(made, schema=spark_schema(schema))


def _write(rows: DataFrame, directory: str, overwrite: bool) -> None:
    from pyspark.errors import AnalysisException

    try:
        rows.write.parquet(directory, mode="overwrite" if overwrite else "errorifexists")
    except AnalysisException as error:
        message = str(error).strip().splitlines()[0]
        raise BinlogError(f"cannot be written: {message}", path=directory) from error
    with contextlib.suppress(SchemaError):
        pass


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
