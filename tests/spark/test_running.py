"""The jobs of an export: the error of a failed one."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core.spark.running import spark_failure


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Job aborted\nTraceback (most recent call last):\n  File x\n    y()\nValueError: bad\n\tat java",
            "ValueError: bad",
        ),
        ("\n  [NO_SPACE] the disk is full\nand more", "[NO_SPACE] the disk is full"),
        (
            "An error occurred while calling z:org.x.collect.\n: org.apache.SparkException: lost\n\tat java",
            "org.apache.SparkException: lost",
        ),
        ("An error occurred while calling o5.collect.", "An error occurred while calling o5.collect."),
        ("", "RuntimeError"),
    ],
)
def test_a_job_that_fails_is_reported_in_a_line(text: str, reason: str) -> None:
    error: Any = spark_failure(RuntimeError(text))
    assert str(error) == f"the Spark job failed: {reason}"
