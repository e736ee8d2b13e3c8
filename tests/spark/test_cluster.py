"""Each way to get the package onto a cluster, tried on a standalone one: docs/cluster.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.cluster import JAVA_OPTIONS, Cluster, environment, packed
from support.source import orders

pytestmark = pytest.mark.spark

# What runs on the driver. It reads cases, each a Python for the executors, and what to do with it.
DRIVER = """
import json, os, shutil, sys
from binlog_core.spark import ReadOptions, changes_df, export_logs, register, start_session

master, log, out, archive, cases = sys.argv[1:]
config = {"spark.executor.memory": "512m", "spark.task.maxFailures": "1"}
config["spark.archives"] = archive + "#environment"
config["spark.executor.extraJavaOptions"] = os.environ["JAVA_OPTIONS"]
spark = start_session(master, config=config)

options = ReadOptions(tables=("shop.orders",))

def export():
    shutil.rmtree(out, ignore_errors=True)
    return export_logs(log, out, spark=spark, options=options, split_size=800).rows

def changes():
    return changes_df(spark, log, table="shop.orders", split_size="800").count()

def source():
    register(spark)
    return spark.read.format("binlog").option("table", "shop.orders").load(log).count()

for name, python, py_file, what in json.loads(cases):
    spark.sparkContext.pythonExec = python  # as PYSPARK_PYTHON sets it, which is read once
    if py_file:
        spark.sparkContext.addPyFile(py_file)
    for do in what:
        try:
            found = globals()[do]()
        except Exception as error:
            found = str(error)
        print("FOUND", json.dumps([name, do, found]), flush=True)
spark.stop()
"""

CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from binlog_core.spark import ReadOptions, changes_df, export_logs

url, log, out, archive = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
spark.addArtifacts(archive + "#environment", archive=True)
spark.conf.set("spark.sql.execution.pyspark.python", "environment/bin/python")
frame = changes_df(spark, log, table="shop.orders", split_size="800")
print("FOUND", json.dumps(["connect", "changes", frame.count()]))
done = export_logs(log, out, spark=spark, options=ReadOptions(tables=("shop.orders",)), split_size=800)
print("FOUND", json.dumps(["connect", "export", done.rows]))
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environments") / "environment"
    environment(folder)
    return folder


@pytest.fixture(scope="module")
def archive(whole: Path) -> str:
    return str(packed(whole))


def driven(code: str, given: list[str], folder: Path) -> dict[tuple[str, str], Any]:
    """What a driver found, by the names of its cases and of what it did."""
    done = subprocess.run(
        [sys.executable, "-c", code, *given],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_OPTIONS": JAVA_OPTIONS},
        timeout=600,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-3000:]
    found = [json.loads(line.removeprefix("FOUND ")) for line in lines]
    return {(name, did): result for name, did, result in found}


def test_a_classic_session(here: Cluster, whole: Path, archive: str, tmp_path: Path) -> None:
    log = str(orders(tmp_path))  # 80 rows
    bare = environment(tmp_path / "bare", package=False)
    other = environment(tmp_path / "other", version="0.0.9")
    (tmp_path / "environment").symlink_to(whole)  # the data source is planned where the driver is
    site = next(whole.glob("lib/python*/site-packages"))
    py_file = shutil.make_archive(str(tmp_path / "package"), "zip", site, "binlog_core")
    each = ["export", "changes", "source"]
    cases = [
        ["the same path on each machine", str(whole / "bin" / "python"), None, each],
        ["an archive", "./environment/bin/python", None, each],
        ["without it", str(bare), None, ["export", "changes"]],
        ["another version", str(other), None, ["export", "changes"]],
        ["a file for Python", str(bare), py_file, ["export", "changes"]],
    ]
    given = [here.master, log, str(tmp_path / "out"), archive, json.dumps(cases)]
    found = driven(DRIVER, given, tmp_path)
    for case in cases[:2]:
        assert [found[case[0], did] for did in each] == [80, 80, 80]
    reasons = {
        "without it": "No module named 'binlog_core'",
        "another version": "has binlog_core 0.0.9, the driver ",
        "a file for Python": "is an archive, and Python cannot load compiled modules",
    }
    for name, reason in reasons.items():
        for did in ("export", "changes"):
            last = found[name, did].strip().splitlines()[-1]
            assert reason in last, (name, did, found[name, did])
            assert "the Python of a Spark worker" in last
            assert "Getting it onto a cluster" in last


def test_spark_connect(here: Cluster, archive: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    log = str(orders(tmp_path))
    given = [here.connect(), log, str(tmp_path / "out"), archive]
    found = driven(CONNECT, given, tmp_path)
    assert found == {("connect", "changes"): 80, ("connect", "export"): 80}
