"""A table of a Spark catalog as the target of changes, through Spark's own MERGE: Delta, Iceberg."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..rows.fit import widened
from ..rows.types import arrow_schema, import_pyarrow, spark_schema
from .alterations import Check, From
from .delta import quoted
from .folding import ApplyStopped, Folded, Key, Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_DELETES = "__deletes"
_NOTE = '{"app_id"'  # how what we say in a commit begins
_SOURCE = "__binlog_changes_"
_DELTA_CONF = "spark.databricks.delta"
_ICEBERG_CONF = "spark.sql.iceberg.snapshot-property.binlog-applied"


class SparkTarget:
    """A table that the session can merge into; made where there is none.

    Parameters
    ----------
    spark : SparkSession
        With the jars and the catalog of the format. In ``foreachBatch``: ``batch.sparkSession``.
    table : str
        Its name, as SQL has it.
    using : str
        Its format: "delta" or "iceberg" keep (`app_id`, `batch_id`) in their commits.

    Notes
    -----
    Targets can be written to in several threads: each has a session of its own, made like the given one.
    """

    def __init__(self, spark: SparkSession, table: str, *, using: str = "delta") -> None:
        # What a commit is told goes through settings of the session: shared, they would meet.
        self._spark, self._table, self._using = _like(spark), table, using.lower()
        self._given = spark

    @property
    def _exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self._table))

    def _frame(self) -> DataFrame:
        return self._spark.table(self._table)

    @property
    def schema(self) -> pa.Schema:
        """Of the table as it is."""
        return arrow_schema(self._frame().schema) if self._exists else import_pyarrow().schema([])

    @property
    def has_rows(self) -> bool:
        """There is something to lose."""
        return self._exists and bool(self._frame().limit(1).count())

    def applied(self, app_id: str) -> int | None:
        """The last batch that was applied, as far back as the table keeps its history."""
        if not self._exists:
            return None
        if self._using == "delta":
            told = self._spark.sql(f"DESCRIBE HISTORY {self._table}").select("userMetadata").collect()
        elif self._using == "iceberg":
            kept = f"SELECT summary['binlog-applied'] FROM {self._table}.snapshots"
            told = self._spark.sql(kept).collect()
        else:
            raise ValueError(f"app_id and batch_id: {self._using} has no place for them in a commit")
        notes = [json.loads(text) for (text,) in told if text is not None and text.startswith(_NOTE)]
        return max((int(one["batch_id"]) for one in notes if one["app_id"] == app_id), default=None)

    def rows(self, keys: Sequence[str], wanted: Sequence[Key]) -> dict[Key, Row]:
        """Rows of the table by key."""
        if not self._exists or not wanted:
            return {}
        pa = import_pyarrow()
        kinds = pa.schema([self.schema.field(name) for name in keys])
        named = pa.Table.from_pylist([dict(zip(keys, key, strict=True)) for key in wanted], schema=kinds)
        these = self._spark.createDataFrame(named, spark_schema(kinds))
        found = self._frame().join(these, list(keys), "left_semi").toArrow()
        return {tuple(row[name] for name in keys): row for row in found.to_pylist()}

    def check(self, checks: Sequence[Check]) -> None:
        """Hold the table's own values against what a new type leaves alone.

        Raises
        ------
        ApplyStopped
            A value would change.
        """
        names = set(self.schema.names)
        for check in checks:
            if check.column in names:
                values = self._frame().select(quoted(check.column)).distinct().toArrow().column(0)
                if not all(value is None or check.fits(value) for value in values.to_pylist()):
                    raise ApplyStopped(
                        f"alter of the table is not applied: {check.reason}", column=check.column
                    )

    def write(
        self, folded: Folded, keys: Sequence[str], schema: pa.Schema, app: tuple[str, int] | None
    ) -> None:
        """Write what changes were folded to: one MERGE, behind what changes the table's columns."""
        self._fit_columns(schema)
        pa = import_pyarrow()
        own = self.schema
        rows = [
            {**(dict(zip(keys, key, strict=True)) if row is None else row), _DELETES: row is None}
            for key, row in folded.rows.items()
        ]
        if not rows and not folded.truncated and not folded.values and app is None:
            return
        source = pa.Table.from_pylist(rows, schema=pa.schema([*own, pa.field(_DELETES, pa.bool_())]))
        view = _SOURCE + uuid.uuid4().hex
        self._spark.createDataFrame(source, spark_schema(source.schema)).createOrReplaceTempView(view)
        columns = [quoted(name) for name in own.names]
        statement = [
            f"MERGE INTO {self._table} AS t USING {view} AS s",
            "ON " + " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in keys),
            f"WHEN MATCHED AND s.{_DELETES} THEN DELETE",
            "WHEN MATCHED THEN UPDATE SET " + ", ".join(f"t.{name} = s.{name}" for name in columns),
            f"WHEN NOT MATCHED AND NOT s.{_DELETES} THEN INSERT ({', '.join(columns)})",
            f"VALUES ({', '.join(f's.{name}' for name in columns)})",
        ]
        if folded.truncated:
            statement.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
        elif folded.values:
            changed = ", ".join(
                f"t.{quoted(name)} = {self._expression(value, own.field(name).type)}"
                for name, value in folded.values.items()
                if name in own.names
            )
            statement.append(f"WHEN NOT MATCHED BY SOURCE THEN UPDATE SET {changed}")
        try:
            with self._noted(app):
                self._spark.sql("\n".join(statement))
        finally:
            self._spark.catalog.dropTempView(view)
            self._given.catalog.refreshTable(self._table)  # a catalog may keep what it has read

    def _fit_columns(self, schema: pa.Schema) -> None:
        """Make the table, add its columns, widen its types."""
        types = {field.name: field.dataType.simpleString() for field in spark_schema(schema)}
        if not self._exists:
            columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
            self._spark.sql(f"CREATE TABLE {self._table} ({columns}) USING {self._using}")
            return
        here = self.schema
        new = ", ".join(f"{quoted(n)} {kind}" for n, kind in types.items() if n not in here.names)
        if new:
            self._spark.sql(f"ALTER TABLE {self._table} ADD COLUMNS ({new})")
        for field in schema:
            known = here.field(field.name).type if field.name in here.names else field.type
            if known != field.type and widened(known, field.type):
                alter = f"ALTER COLUMN {quoted(field.name)} TYPE {types[field.name]}"
                self._spark.sql(f"ALTER TABLE {self._table} {alter}")

    @contextmanager
    def _noted(self, app: tuple[str, int] | None) -> Iterator[None]:
        """The commit made inside says which batch it is."""
        conf = {}
        if app is not None:
            told = json.dumps({"app_id": app[0], "batch_id": app[1]})
            conf = {
                f"{_DELTA_CONF}.commitInfo.userMetadata": told,
                f"{_DELTA_CONF}.write.txnAppId": app[0],
                f"{_DELTA_CONF}.write.txnVersion": str(app[1]),
                _ICEBERG_CONF: told,
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
