"""How running time grows with the input: a ratio, measured in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

TIMES = 16


def assert_linear(run: Callable[[Any], object], make: Callable[[int], Any], size: int) -> None:
    """Check that the time of `run` grows in proportion to its input.

    Measured over an input of `size` and one 16 times as large: a scanner whose time grows with the square
    takes 256 times as long, a linear one 16 times; 64 lies between the two on any machine.

    Parameters
    ----------
    run : callable of an input
    make : callable of a size
        Makes an input of this size.
    size : int
        Size of the smaller input, which should take a millisecond or more.
    """
    small, large = make(size), make(size * TIMES)
    first = min(_seconds(run, small) for _ in range(3))
    second = _seconds(run, large)
    if second >= 64 * max(first, 0.0005):  # a collection of garbage, maybe, in a process that holds much
        second = min(_seconds(run, large) for _ in range(2))
    assert second < 64 * max(first, 0.0005), f"{second / first:.0f} times as long for {TIMES} times as much"


def _seconds(run: Callable[[Any], object], given: Any) -> float:
    begin = time.process_time()
    run(given)
    return time.process_time() - begin
