"""Who does the work of a lake: this process, or workers that the caller has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Runner(Protocol):
    """Calls a function with each task, somewhere; results in their order."""

    def __call__(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call it."""
        ...


def run_here(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Call a function with each task in this process; see `Runner`."""
    return [function(task) for task in tasks]
