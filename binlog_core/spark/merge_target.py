"""A table of a Spark catalog as the target of changes, through Spark's own MERGE: Delta, Iceberg."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..lake.apply.alterations import Check, From
from ..lake.apply.changes import Changes
from ..lake.apply.folding import fits
from ..lake.apply.jobs import Folder, Here, Jobs
from ..lake.apply.sinks import DELETES, LACKS, MergeFile, MergeSink, bases_of, merge_schema
from ..lake.rows.fit import widened
from ..lake.rows.types import import_pyarrow
from ..lake.tables.table import App
from .jobs import OnSpark
from .schemas import arrow_schema, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOTE = '{"app_id"'  # the beginning of what is recorded in a commit
_SOURCE = "__binlog_changes_"
_THERE = "there "  # as in sinks, no name of a column
_NO_BASE = (
    "a partial image changes a row that the target does not have: start with a copy of the table, or with its"
    " first log"
)
_FOLDER = "_binlog"
_DELTA_CONF = "spark.databricks.delta"
_ICEBERG_CONF = "spark.sql.iceberg.snapshot-property.binlog-applied"


class SparkTarget:
    """A table that the session can merge into; it is created if it does not exist.

    Parameters
    ----------
    spark : SparkSession
        A session with the jars and the catalog of the format; in ``foreachBatch``, ``batch.sparkSession``.
    table : str
        The table's name in SQL.
    using : str
        The table's format: "delta" or "iceberg", which keep (`app_id`, `batch_id`) in their commits.
    workspace : str or None
        The path or URL of a directory for temporary files of an apply, which workers and Spark can reach;
        None uses the session's warehouse directory.

    Notes
    -----
    Several targets can be written to in several threads: each has its own session, made like the given one.
    """

    def __init__(
        self, spark: SparkSession, table: str, *, using: str = "delta", workspace: str | None = None
    ) -> None:
        # A commit's properties go through settings of the session: in a shared one they would mix.
        self._spark, self._table, self._using = _like(spark), table, using.lower()
        self._given = spark
        self._workspace = workspace

    @property
    def place(self) -> Folder:
        """The directory for temporary files of an apply."""
        root = self._workspace
        if root is None:
            root = f"{self._spark.conf.get('spark.sql.warehouse.dir')}/{_FOLDER}"
        return Folder(re.sub("^file:/+", "/", root))

    @property
    def _exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self._table))

    def _frame(self) -> DataFrame:
        return self._spark.table(self._table)

    @property
    def columns(self) -> pa.Schema:
        """The current columns of the table."""
        return arrow_schema(self._frame().schema) if self._exists else import_pyarrow().schema([])

    @property
    def has_rows(self) -> bool:
        """Whether the table has rows."""
        return self._exists and bool(self._frame().limit(1).count())

    def applied(self, app_id: str) -> int | None:
        """The last batch that was applied, if the table's history goes back that far."""
        return max((int(one["batch_id"]) for one in self._notes(app_id)), default=None)

    def reached(self, app_id: str) -> int | None:
        """The `_commit_version` of the last change that was applied, as far as for `applied`."""
        known = ((int(one["batch_id"]), one["last"]) for one in self._notes(app_id) if one.get("last"))
        return max(known, default=(0, None))[1]

    def _notes(self, app_id: str) -> list[dict[str, Any]]:
        """What an application has recorded in its commits."""
        if not self._exists:
            return []
        if self._using == "delta":
            texts = self._spark.sql(f"DESCRIBE HISTORY {self._table}").select("userMetadata").collect()
        elif self._using == "iceberg":
            kept = f"SELECT summary['binlog-applied'] FROM {self._table}.snapshots"
            texts = self._spark.sql(kept).collect()
        else:
            raise ValueError(f"app_id and batch_id: {self._using} cannot record them in a commit")
        notes = [json.loads(text) for (text,) in texts if text is not None and text.startswith(_NOTE)]
        return [one for one in notes if one["app_id"] == app_id]

    def fits(self, check: Check, jobs: Jobs) -> bool:
        """Whether a new type does not change the values of a column in the table; Spark reads them."""

        def look(batches: Iterable[pa.RecordBatch]) -> bool:
            return all(fits(check, batch.column(0)) for batch in batches)

        return all(OnSpark(self._spark, self._frame().select(quoted(check.column))).stage(look))

    def merge(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        """Write the folded changes in one MERGE, after the changes of the table's columns."""
        self._fit_columns(schema)
        if not isinstance(changes.jobs, Here):
            return self._merge(changes, self.columns, changes.stager.place)
        with self.place.workspace() as place:  # Spark reads the files, so they cannot be in memory
            return self._merge(changes, self.columns, place)

    def _merge(self, changes: Changes, own: pa.Schema, workspace: Folder) -> tuple[int, int]:
        effects, keys = changes.effects, changes.keys
        sunk = changes.fold(MergeSink(changes.schema, own, keys, workspace))
        puts, deletes = sum(one.puts for one in sunk), sum(one.deletes for one in sunk)
        if not sunk and effects.cleared is None and not effects.values and changes.app is None:
            return 0, 0
        view = _SOURCE + uuid.uuid4().hex
        source = self._source(sunk, workspace, changes, own)
        source.createOrReplaceTempView(view)
        columns = [quoted(name) for name in own.names]
        gone = f"s.{quoted(DELETES)}"
        statement = [
            f"MERGE INTO {self._table} AS t USING {view} AS s",
            "ON " + " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in keys),
            f"WHEN MATCHED AND {gone} THEN DELETE",
            "WHEN MATCHED THEN UPDATE SET " + ", ".join(f"t.{name} = s.{name}" for name in columns),
            f"WHEN NOT MATCHED AND NOT {gone} THEN INSERT ({', '.join(columns)})",
            f"VALUES ({', '.join(f's.{name}' for name in columns)})",
        ]
        if effects.cleared is not None:
            statement.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
        elif effects.values:
            changed = ", ".join(
                f"t.{quoted(name)} = {self._expression(value, own.field(name).type)}"
                for name, value in effects.values.items()
                if name in own.names
            )
            statement.append(f"WHEN NOT MATCHED BY SOURCE THEN UPDATE SET {changed}")
        try:
            with self._noted(changes.app):
                self._spark.sql("\n".join(statement))
        finally:
            self._spark.catalog.dropTempView(view)
            self._given.catalog.refreshTable(self._table)  # a catalog may cache what it has read
        return puts, deletes

    def _source(
        self, sunk: Sequence[MergeFile], workspace: Folder, changes: Changes, own: pa.Schema
    ) -> DataFrame:
        """The folded changes; columns that rows lack are taken from the table's rows."""
        from pyspark.sql import functions as F

        fields, bases = merge_schema(own, changes.keys), bases_of(changes.keys)
        source = read_files(self._spark, workspace, sunk, spark_schema(fields))
        if not any(one.partial for one in sunk):
            return source.drop(LACKS, *bases)
        there, base = F.lit(True).alias(_THERE), self._frame().alias("t")
        values = [
            self._altered(name, changes.effects.values, own).alias(f"own {i} ")
            for i, name in enumerate(own.names)
        ]
        known = [F.col(f"t.{quoted(name)}").alias(one) for one, name in zip(bases, changes.keys, strict=True)]
        joined = source.join(base.select(*known, *values, there), bases, "left")
        joined = joined.withColumn(
            LACKS,
            F.when(
                F.col(_THERE).isNull() & F.col(LACKS).isNotNull(),
                F.raise_error(F.lit(_NO_BASE)).cast(joined.schema[LACKS].dataType),
            ).otherwise(F.col(LACKS)),
        )
        return joined.select(
            *(
                F.when(F.array_contains(LACKS, name), F.col(f"own {i} "))
                .otherwise(F.col(quoted(name)))
                .alias(name)
                for i, name in enumerate(own.names)
            ),
            DELETES,
        )

    def _altered(self, name: str, values: Mapping[str, Any], own: pa.Schema) -> Column:
        from pyspark.sql import functions as F

        value = values.get(name, From(name))
        return F.expr(self._expression(value, own.field(name).type))

    def _fit_columns(self, schema: pa.Schema) -> None:
        """Create the table, or add columns and widen types."""
        types = {field.name: field.dataType.simpleString() for field in spark_schema(schema)}
        if not self._exists:
            columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
            self._spark.sql(f"CREATE TABLE {self._table} ({columns}) USING {self._using}")
            return
        here = self.columns
        new = ", ".join(f"{quoted(n)} {kind}" for n, kind in types.items() if n not in here.names)
        if new:
            self._spark.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({new})")
        for field in schema:
            known = here.field(field.name).type if field.name in here.names else field.type
            if known != field.type and widened(known, field.type):
                alter = f"ALTER COLUMN {quoted(field.name)} TYPE {types[field.name]}"
                self._spark.sql(f"ALTER TABLE {self._table} {alter}")

    @contextmanager
    def _noted(self, app: App | None) -> Iterator[None]:
        """Have the commit that is made inside record its application and batch."""
        conf = {}
        if app is not None:
            note = json.dumps({"app_id": app.id, "batch_id": app.batch, "last": app.last})
            conf = {
                f"{_DELTA_CONF}.commitInfo.userMetadata": note,
                f"{_DELTA_CONF}.write.txnAppId": app.id,
                f"{_DELTA_CONF}.write.txnVersion": str(app.batch),
                _ICEBERG_CONF: note,
            }
        for name, value in conf.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in conf:
                self._spark.conf.unset(name)

    @staticmethod
    def _expression(value: Any, kind: pa.DataType) -> str:
        pa = import_pyarrow()
        if isinstance(value, From):
            return f"t.{quoted(value.column)}"
        name = spark_schema(pa.schema([pa.field("c", kind)]))[0].dataType.simpleString()
        return f"CAST({literal(value)} AS {name})"


def read_files(
    spark: SparkSession, place: Folder, files: Sequence[MergeFile], schema: StructType
) -> DataFrame:
    """Files of `MergeSink` as a DataFrame."""
    if not files:
        return spark.createDataFrame([], schema)
    root = place.root if "://" in place.root else Path(place.root).absolute().as_uri()
    return spark.read.schema(schema).parquet(*(f"{root}/{one.name}" for one in files))


def _like(spark: SparkSession) -> SparkSession:
    """Another session with the same settings, catalog and database."""
    if hasattr(spark, "cloneSession"):  # of Spark Connect
        cloned: SparkSession = spark.cloneSession()
        return cloned
    session = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if session.conf.get(name, None) != value:
            session.conf.set(name, value)
    session.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
    session.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    return session


def literal(value: Any) -> str:
    """A value in Spark's SQL, as text that is cast."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, Decimal):
        value = format(value, "f")
    if isinstance(value, dt.date):
        value = value.isoformat()
    text = "".join(f"\\u{ord(c):04x}" if c in "'\\" or c < " " else c for c in str(value))
    return f"'{text}'"


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"
