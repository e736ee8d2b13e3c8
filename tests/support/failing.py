"""Export writers that fail; workers get them by value, since they cannot import tests."""

from __future__ import annotations

import os
import signal
from typing import Any

from binlog_core.lake.tables.merging import TableWriter
from binlog_core.lake.tables.split_writer import SplitWriter
from binlog_core.splits import Split


def attempt_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


class FailingOnce(SplitWriter):
    """Fails the first time, after everything is written."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if attempt_number() == 0:
            raise RuntimeError("injected")
        return result


class KilledOnce(SplitWriter):
    """Has its process killed the first time, while files are open."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if attempt_number() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class FailingAlways(SplitWriter):
    def write(self, split: Split, attempt: str) -> Any:
        super().write(split, attempt)
        raise RuntimeError("injected")


class FailingSecond(SplitWriter):
    """For the second log, writes all of a split and fails, in every attempt."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if split.file_number == 2:
            raise RuntimeError("injected")
        return result


class MergingFailsOnce(TableWriter):
    """Fails the first time, after a task's tables are written; always if nothing can cancel its job alone."""

    def write(self, task: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        assert (context.getLocalProperty("spark.jobGroup.id") or "").startswith("binlog_core-")
        assert context.getLocalProperty("spark.job.interruptOnCancel") == "true"
        result = super().write(task)
        if attempt_number() == 0:
            raise OSError("injected")
        return result


class MergingKilledOnce(TableWriter):
    """Has its process killed the first time."""

    def write(self, task: Any) -> Any:
        result = super().write(task)
        if attempt_number() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
