"""Splits of any log, and their changes read as a driver reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import binlog_core
from binlog_core._decode.merge import ChangeReader
from binlog_core.errors import BinlogError
from binlog_core.report import Report
from binlog_core.splits import Split, SplitResult, check_seams, read_split_groups
from support.golden import Golden
from support.writer import Log


def cut(path: Path, size: int) -> list[Split]:
    """The splits that `plan_splits` would make of a log of any kind."""
    end = os.path.getsize(path)
    return [Split(str(path), at, min(at + size, end), index=i) for i, at in enumerate(range(0, end, size))]


def read(split: Split, **options: Any) -> tuple[list[Any], SplitResult]:
    changes: list[Any] = []
    with read_split_groups(split, **options) as reader:
        values = ChangeReader(Report(), skip_errors=False)
        for group in reader:
            changes += values.changes([group])
    return changes, reader.result


def read_all(splits: Iterable[Split], **options: Any) -> tuple[list[Any], list[SplitResult]]:
    """Read like a driver: splits that disagree are read again."""
    changes: dict[int, list[Any]] = {}
    results: dict[int, SplitResult] = {}
    todo = list(splits)
    rounds = 0
    while todo:
        for split in todo:
            try:
                changes[split.index], results[split.index] = read(split, **options)
            except BinlogError as error:
                with read_split_groups(split, **options) as reader:
                    results[split.index] = SplitResult(split, reader.first_anchor, None, error)
        todo = check_seams(results.values())
        rounds += 1
        assert rounds < 20
    return [c for index in sorted(changes) for c in changes[index]], [results[i] for i in sorted(results)]


def write(path: Path, log: Log) -> Path:
    path.write_bytes(log.getvalue())
    return path


def without_an_annotation(golden: Golden, path: Path, *, behind: int) -> Path:
    """A log as a server sends it to a replica that does not ask for annotations: one is missing."""
    data = Path(golden.path).read_bytes()
    with binlog_core.open(data) as log:
        headers = log.headers()
    annotations = headers[(headers["type_code"] == 160) & (np.arange(len(headers)) > behind)]
    at = int(annotations["position"][0])
    path.write_bytes(data[:at] + data[at + int(annotations["event_length"][0]) :])
    return path
