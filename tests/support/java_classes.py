"""Keeps the classes of Spark that Java has loaded and checked: python tests/support/java_classes.py ARCHIVE

The tests start Java some dozen times. With this archive (class data sharing), each start takes some seconds
less of the processor.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from binlog_core.spark import export_logs, start_session

LOG = Path(__file__).resolve().parent.parent / "data" / "mysql97" / "dml_mixed.binlog"


def main() -> None:
    archive = Path(sys.argv[1]).absolute()
    unfinished = archive.with_suffix(".new")  # half an archive makes Java crash
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    )
    spark = start_session("local[2]", app_name="classes")
    with tempfile.TemporaryDirectory() as folder:
        exported = export_logs(LOG, f"{folder}/exported", spark=spark)
        assert exported.rows
        part = next(Path(folder, "exported").rglob("*.parquet"))
        spark.read.parquet(str(part)).createOrReplaceTempView("exported")
        spark.sql("SELECT _change_type, count(*) FROM exported GROUP BY 1 ORDER BY 1").toPandas()
        changes = spark.read.format("binlog").load(str(LOG))
        changes.selectExpr("_table", "_change_type", "parse_json(after) AS after").show(3)
    # Java writes the archive when it ends.
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    if gateway.proc.wait(timeout=300) == 0:
        unfinished.replace(archive)


if __name__ == "__main__":
    main()
