"""Spark's workers, played by this process: functions, tasks and results are pickled on the way."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle


def by_workers(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """See ``binlog_core.spark.workers.Run``."""
    called = cloudpickle.loads(cloudpickle.dumps(function))
    return [pickle.loads(pickle.dumps(called(pickle.loads(pickle.dumps(task))))) for task in tasks]
