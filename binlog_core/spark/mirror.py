"""`binlog_core.mirror` with Spark's workers: on a cluster, or where a session is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import mirror as _mirror
from ..errors import MirrorError
from ..mirror import Compared as Compared
from ..mirror import TableStatus as TableStatus
from ..mirror import Uri
from ..mirror import status as status
from .session import start_session
from .workers import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mirror(
    server: str, lake: Uri, *, spark: SparkSession | None = None, master: str = "local[*]", **settings: Any
) -> list[TableStatus]:
    """Copy tables of a server into a lake and keep them up to date, with Spark's workers.

    Parameters
    ----------
    server, lake
        As for `binlog_core.mirror.mirror`.
    spark : SparkSession, optional
        A session of classic Spark. By default one is started, and stopped at the end.
    master : str
        The master for a session that is started.
    **settings
        All other arguments of `binlog_core.mirror.mirror`: ``tables`` and so on. The archive must be where
        the workers can read it.

    Returns
    -------
    list of TableStatus
        The state of each table.

    Raises
    ------
    MirrorError
        The session is one of Spark Connect.
    MissingExtraError
        pyspark is not installed. All other errors are those of `binlog_core.mirror.mirror`.
    """
    with _running(spark, master) as runner:
        return _mirror.mirror(server, lake, runner=runner, **settings)


def resync(
    lake: Uri, *tables: str, spark: SparkSession | None = None, master: str = "local[*]", **settings: Any
) -> list[TableStatus]:
    """Copy tables again, with Spark's workers.

    Parameters
    ----------
    lake, *tables
        As for `binlog_core.mirror.resync`.
    spark, master
        As for `mirror`.
    **settings
        All other arguments of `binlog_core.mirror.resync`.

    Returns
    -------
    list of TableStatus
        The state of each table.
    """
    with _running(spark, master) as runner:
        return _mirror.resync(lake, *tables, runner=runner, **settings)


def verify(
    lake: Uri, *tables: str, spark: SparkSession | None = None, master: str = "local[*]", **settings: Any
) -> list[Compared]:
    """Compare all values of all rows with the server's, with Spark's workers.

    Parameters
    ----------
    lake, *tables
        As for `binlog_core.mirror.verify`.
    spark, master
        As for `mirror`.
    **settings
        All other arguments of `binlog_core.mirror.verify`.

    Returns
    -------
    list of Compared
        One for each table, with the keys of rows that differ.
    """
    with _running(spark, master) as runner:
        return _mirror.verify(lake, *tables, runner=runner, **settings)


@contextmanager
def _running(spark: SparkSession | None, master: str) -> Iterator[SparkRunner]:
    if spark is not None and not hasattr(spark, "sparkContext"):
        raise MirrorError("a mirror needs a classic Spark session: Spark Connect has no mapPartitions")
    session = spark if spark is not None else start_session(master)
    try:
        yield SparkRunner(session)
    finally:
        if spark is None:
            session.stop()
