"""Writers of exports that fail; workers get them by value, since they cannot import tests."""

from __future__ import annotations

import os
import signal
from typing import Any

from binlog_core.spark.doors.split_writer import SplitWriter
from binlog_core.splits import Split


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


class FailingOnce(SplitWriter):
    """Fails after all is written, the first time."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if _attempt() == 0:
            raise RuntimeError("injected")
        return result


class KilledOnce(SplitWriter):
    """Its process is killed while files are open, the first time."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if _attempt() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class FailingAlways(SplitWriter):
    def write(self, split: Split, attempt: str) -> Any:
        super().write(split, attempt)
        raise RuntimeError("injected")


class FailingSecond(SplitWriter):
    """Writes all of a split and fails, for the second log, in every attempt."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if split.file_number == 2:
            raise RuntimeError("injected")
        return result
