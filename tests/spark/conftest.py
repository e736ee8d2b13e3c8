"""The Spark that the tests of exports share, a module at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pyspark import cloudpickle
    from support import failing

    from binlog_core.spark.session import quiet_java, start_session

    # local[2,4]: two cores, and four attempts at a task, as on a cluster; plain local[2] never tries again.
    with quiet_java() as said:
        session = start_session("local[2,4]", app_name="tests")
    cloudpickle.register_pickle_by_value(failing)  # workers cannot import tests
    yield session
    session.stop()
    os.unlink(said)
