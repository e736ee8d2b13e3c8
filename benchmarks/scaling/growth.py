"""Growth of a cost from one size to another: what one unit of the larger costs, over one of the smaller."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

MOST = 1.2  # times the cost per unit of the small size
ROUNDS = 3, 30  # what else runs on the machine only adds to a time: more rounds until the least ones agree


def cost(work: Callable[[], Any]) -> float:
    """CPU seconds of this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def growth_of(costs: Sequence[Callable[[], float]], sizes: Sequence[int]) -> tuple[float, float]:
    """CPU seconds a unit of the larger of two works, and how many times those of the smaller that is.

    Each of `costs` does its work and gives the CPU seconds that it took.
    """
    rounds: list[list[float]] = []
    small, large = 0.0, 1.0
    while len(rounds) < ROUNDS[0] or (large > MOST * small and len(rounds) < ROUNDS[1]):
        rounds.append([work() for work in costs])
        small, large = (min(each) / size for each, size in zip(zip(*rounds, strict=True), sizes, strict=True))
    return large, large / small
