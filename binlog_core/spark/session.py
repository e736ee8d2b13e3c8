"""A Spark session for the command line: finds Java, runs workers with this Python, hides Spark's output."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import BinlogError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_session(
    master: str = "local[*]", *, app_name: str = "binlog_core", config: dict[str, Any] | None = None
) -> SparkSession:
    """Start a Spark session, or take the one that is running.

    Parameters
    ----------
    master : str
        The master: ``local[*]``, ``spark://host:port``, ``yarn``, ``k8s://…``.
    app_name : str
        The application's name.
    config : dict or None
        More Spark settings.

    Returns
    -------
    SparkSession
        Its workers run this Python, its time zone is UTC, its log level is ERROR, and it shows no progress
        bar on the console.

    Raises
    ------
    MissingExtraError
        pyspark, or a Java version that it supports, is not installed.
    BinlogError
        Spark does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError.of("pyspark", "spark", "a Spark session") from None
    from .java import ensure_java

    ensure_java()
    # Without it executors take the first python3 of PATH, in local mode too.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        **(config or {}),
    }
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except Exception as error:  # py4j and Java each have their own errors
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise BinlogError(f"Spark does not start with master {master!r}: {reason}") from error
    return session


def use_this_python(spark: SparkSession) -> None:
    """Let the workers of a local session run this Python, as only an activated environment does by itself.

    Parameters
    ----------
    spark : SparkSession
        A session of a cluster or of Spark Connect keeps its own Python, and so does one that was given any.
    """
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    if context is None or "PYSPARK_PYTHON" in os.environ:
        return
    if context.master.startswith("local") and context.pythonExec == "python3":  # pyspark's default
        context.pythonExec = sys.executable


@contextlib.contextmanager
def quiet_java() -> Iterator[str]:
    """While Spark is started, send what Java and the workers say to a file instead of the terminal.

    Yields
    ------
    str
        The file's path. Java continues writing to it for as long as it lives; the caller deletes it.
    """
    handle, path = tempfile.mkstemp(prefix="binlog-core-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    os.close(handle)
    try:
        yield path
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
