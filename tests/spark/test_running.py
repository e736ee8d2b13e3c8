"""The jobs of an export: which splits are read again, and the error of a failed job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.export import written

from binlog_core.lake.tables.results import WrittenSplit
from binlog_core.spark.running import Progress, _results, _rounds, spark_failure
from binlog_core.splits import Split, SplitResult


def test_a_split_that_was_deceived_is_read_again_from_its_true_anchor() -> None:
    first, second = Split("a", 0, 100, 1, 0), Split("a", 100, None, 1, 1)
    asked: list[list[Split]] = []

    def write(splits: list[Split]) -> list[WrittenSplit]:
        asked.append(splits)
        return [
            written(
                one, SplitResult(one, 4, 180) if one.index == 0 else SplitResult(one, one.anchor or 150, None)
            )
            for one in splits
        ]

    found, reread = _rounds(write, [first, second], [])
    assert asked == [[first, second], [replace(second, anchor=180, trusted=True)]]
    assert reread == 1
    assert found[1].seam.first_anchor == 180
    told: list[Progress] = []
    results = _results(dict(reversed(found.items())), told.append)
    assert [one.split.index for one in results] == [0, 1]
    assert told == [Progress(2, 2, 200, 6)]


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
