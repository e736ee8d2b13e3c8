"""Who does the work of a lake: threads of this process, or workers that the caller has."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from operator import itemgetter
from typing import Protocol, TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
Meet = Callable[[str], Sequence[str]]  # tells the others something, and gives what all have told
_given_up: ContextVar[Callable[[], bool]] = ContextVar("given_up", default=lambda: False)


class GivenUp(BaseException):
    """Nobody waits for the task: not an error that anybody notes."""


def is_given_up() -> bool:
    """Whether nobody waits any more for a runner's task that asks: it may end with what it has.

    A task in another process is never told: it is killed.
    """
    return _given_up.get()()


def go_on() -> None:
    """End the task if it is given up.

    Raises
    ------
    GivenUp
        It is.
    """
    if is_given_up():
        raise GivenUp


class Runner(Protocol):
    """Calls functions with tasks, somewhere. A function and its tasks can be pickled."""

    @property
    def slots(self) -> int:
        """How many tasks are certain to run at the same time."""
        ...

    @property
    def light(self) -> Runner:
        """The same for tasks that take so little time that a few of them are done by the caller."""
        ...

    def map(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call a function with each task; results in the order of the tasks.

        An error of a task is raised at once: tasks that have not begun are left out, and to those that have,
        `is_given_up` says it.
        """
        ...

    def each(
        self,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        stop: threading.Event | None = None,
    ) -> Iterator[_Result]:
        """Call a function with each task; results as they come, which shows how far the work is.

        Tasks that have not begun when `stop` is set, or when the caller takes no more results, are left out;
        to those that have, `is_given_up` says it.
        """
        ...

    def together(self, function: Callable[[int, Meet], _Result], count: int) -> list[_Result]:
        """Call a function with each of the numbers below `count`, at most `slots`, at the same time.

        It is also given what makes it wait until all others wait as well, and gives them a text each.
        """
        ...


def by_itself(told: str) -> Sequence[str]:
    """Meet nobody."""
    return [told]


@contextmanager
def ended_early(results: Iterator[_Result]) -> Iterator[Iterator[_Result]]:
    """The results of `Runner.each`: if the block fails, no task keeps working."""
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()


class LocalRunner:
    """Threads of this process; nothing is pickled.

    Decoding, Arrow and Parquet work without the interpreter's lock, and so do sockets and files.

    Parameters
    ----------
    threads : int or None
        How many tasks run at the same time; None: one for each processor.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1

    @property
    def slots(self) -> int:
        """How many tasks are certain to run at the same time."""
        return self._threads

    @property
    def light(self) -> Runner:
        """The same for tasks that take so little time that a few of them are done by the caller."""
        return self

    def map(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call a function with each task; results in the order of the tasks."""
        if min(len(tasks), self._threads) < 2:
            return [function(task) for task in tasks]
        found = self.each(lambda number: (number, function(tasks[number])), range(len(tasks)))
        return [result for _, result in sorted(found, key=itemgetter(0))]

    def each(
        self,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        stop: threading.Event | None = None,
    ) -> Iterator[_Result]:
        """Call a function with each task; results as they come, which shows how far the work is."""
        if not tasks:
            return
        left_out, left = object(), threading.Event()

        def is_over() -> bool:
            return left.is_set() or (stop is not None and stop.is_set())

        def unless_over(task: _Task) -> _Result | object:
            if is_over():
                return left_out
            _given_up.set(is_over)
            return function(task)

        with ThreadPoolExecutor(min(len(tasks), self._threads)) as pool:
            futures = [pool.submit(copy_context().run, unless_over, task) for task in tasks]
            try:
                for one in as_completed(futures):
                    result = one.result()
                    if result is not left_out:
                        yield result  # type: ignore[misc]
            finally:
                left.set()
                for one in futures:
                    one.cancel()

    def together(self, function: Callable[[int, Meet], _Result], count: int) -> list[_Result]:
        """Call a function with each of the numbers below `count`, at most `slots`, at the same time."""
        meeting, said = threading.Barrier(count), [""] * count

        def call(number: int) -> _Result:
            def meet(told: str) -> Sequence[str]:
                said[number] = told
                meeting.wait()
                found = [*said]
                meeting.wait()  # until all have read it
                return found

            try:
                return function(number, meet)
            except BaseException:
                meeting.abort()  # or the others would wait forever
                raise

        with ThreadPoolExecutor(count) as pool:
            try:
                futures = [pool.submit(copy_context().run, call, number) for number in range(count)]
            except BaseException:  # no more threads, for example: those that began wait for the others
                meeting.abort()
                raise
        errors = [error for one in futures if (error := one.exception()) is not None]
        for error in sorted(errors, key=lambda one: isinstance(one, threading.BrokenBarrierError)):
            raise error  # not that of one who only waited for it
        return [one.result() for one in futures]


HERE = LocalRunner(1)
