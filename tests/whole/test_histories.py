"""A sample of the simulated world's histories, and those that once failed. `make world` runs new ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pymysql")
sys.path.insert(0, str(Path(__file__).parents[2] / "soak"))

pytest.importorskip("pyspark")
from world.archives import keeper
from world.folders import exporter, stream
from world.history import Wrong
from world.readers import reader

KINDS: dict[str, Callable[[int], Any]] = {
    "reader": reader,
    "archive": keeper,
    "stream": stream,
    "export": exporter,
}
SAMPLE = {"reader": 100, "archive": 60, "stream": 20, "export": 20}
FAILED = [
    ("reader", seed) for seed in (10068, 10279, 10316, 10319, 20067, 20124, 20148, 3011, 3074, 3128, 3361)
]


@pytest.mark.parametrize(("kind", "seed"), FAILED)
def test_what_once_failed(kind: str, seed: int) -> None:
    KINDS[kind](seed).run()


@pytest.mark.parametrize(
    ("kind", "first"), [(kind, first) for kind, size in SAMPLE.items() for first in range(0, size, 20)]
)
def test_a_sample(kind: str, first: int) -> None:
    for seed in range(first, first + 20):
        KINDS[kind](seed).run()


def test_the_judge_sees_what_is_lost() -> None:
    """A reader that leaves out every second group is wrong."""
    import binlog_core

    history = next(one for one in map(reader, range(100)) if len(one.steps) > 10 and one.start == "none")
    history.run()
    groups = binlog_core.Log.groups

    def some(log: Any) -> Any:
        return (group for number, group in enumerate(groups(log)) if number % 2)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("binlog_core.Log.groups", some)
        with pytest.raises(Wrong):
            history.run()
