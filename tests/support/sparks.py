"""One Spark session for all tests of a process: another starts its context and Python workers anew."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNNING: list[tuple[SparkSession, str]] = []  # at most one, and the file of what Java says


def shared() -> SparkSession:
    """The session that runs, or a new one."""
    from pyspark import cloudpickle

    from binlog_core.spark.session import quiet_java, start_session

    from . import failing

    if _RUNNING and _RUNNING[0][0].sparkContext._jsc is None:  # a test has stopped it
        stop()
    if not _RUNNING:
        cloudpickle.register_pickle_by_value(failing)  # workers cannot import tests
        # Two cores, and four attempts at a task, as on a cluster; plain local[2] never tries again.
        with quiet_java() as said:
            _RUNNING.append((start_session("local[2,4]", app_name="tests"), said))
    return _RUNNING[0][0]


def stop() -> None:
    """Stop it, as those must who start a session with settings of their own."""
    while _RUNNING:
        session, said = _RUNNING.pop()
        session.stop()
        os.unlink(said)
