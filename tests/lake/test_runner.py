"""Who does the work: threads of this process."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable

import pytest

from binlog_core import BinlogWarning
from binlog_core.lake.runner import HERE, LocalRunner, Meet, by_itself, is_given_up
from binlog_core.report import Report, unwarned


def fails_at(number: int, asked: list[int]) -> Callable[[int], int]:
    def work(task: int) -> int:
        asked.append(task)
        if task == number:
            raise ValueError(f"task {task}")
        return -task

    return work


@pytest.mark.parametrize("runner", [HERE, LocalRunner(2), LocalRunner(8)])
def test_results_are_in_order_and_an_error_is_that_of_its_task(runner: LocalRunner) -> None:
    assert runner.map(fails_at(-1, []), range(5)) == [0, -1, -2, -3, -4]
    assert runner.map(fails_at(-1, []), []) == list(runner.each(fails_at(-1, []), [])) == []
    assert sorted(runner.each(fails_at(-1, []), range(5))) == [-4, -3, -2, -1, 0]
    for call in (runner.map, lambda function, tasks: list(runner.each(function, tasks))):
        with pytest.raises(ValueError, match="task 3"):
            call(fails_at(3, []), range(5))


def test_tasks_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=60)  # nobody passes alone
    assert LocalRunner(3).map(lambda task: (meeting.wait(), task)[1], [5, 6, 7]) == [5, 6, 7]
    assert LocalRunner(3).slots == LocalRunner(3).light.slots == 3


def test_a_result_comes_before_the_others_are_there() -> None:
    taken = threading.Event()

    def work(task: int) -> int:
        if task == 0:
            assert taken.wait(60)
        return task

    found = LocalRunner(2).each(work, [0, 1])
    assert next(found) == 1
    taken.set()
    assert list(found) == [0]


def test_what_is_stopped_or_given_up_begins_no_more_tasks() -> None:
    asked: list[int] = []
    stop = threading.Event()

    def stopping(task: int) -> int:
        asked.append(task)
        stop.set()
        return task

    assert list(HERE.each(stopping, range(9), stop)) == [0]
    found = HERE.each(lambda task: (time.sleep(0.01), asked.append(task)), range(9, 999))
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert len(asked) < 900
    with pytest.raises(ValueError, match="task 0"):
        list(LocalRunner(2).each(fails_at(0, asked), range(999)))


def test_all_wait_for_all() -> None:
    seen: list[int] = []

    def work(number: int, meet: Meet) -> list[int]:
        seen.append(number)
        meet("")
        return sorted(seen)

    assert LocalRunner(3).together(work, 3) == [[0, 1, 2]] * 3


def test_all_are_told_what_all_tell() -> None:
    def work(number: int, meet: Meet) -> list[list[str]]:
        return [[*meet(f"{number} {at}")] for at in range(50)]

    told = [[f"{number} {at}" for number in range(3)] for at in range(50)]
    assert LocalRunner(3).together(work, 3) == [told] * 3
    assert by_itself("nobody") == ["nobody"]


def test_who_fails_before_a_meeting_lets_nobody_wait_and_is_named() -> None:
    def work(number: int, meet: Meet) -> None:
        if number == 2:
            raise ValueError("not today")
        meet("")

    with pytest.raises(ValueError, match="not today"):
        LocalRunner(3).together(work, 3)


def test_threads_that_do_not_warn_leave_the_warnings_of_others_alone() -> None:
    """As filters of Python's do not: two that overlap leave one's filter behind."""
    inside, outside = threading.Event(), threading.Event()

    def first(report: Report) -> None:
        with unwarned():
            inside.set()
            assert outside.wait(60)
            report.add("incidents")

    def second(report: Report) -> None:
        assert inside.wait(60)
        with unwarned():
            outside.set()
            report.add("incidents")

    reports = [Report(warn=True), Report(warn=True), Report(warn=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LocalRunner(2).map(lambda call: call[0](call[1]), [(first, reports[0]), (second, reports[1])])
    assert [one.counts for one in reports[:2]] == [{"incidents": 1}] * 2
    with pytest.warns(BinlogWarning, match="incidents"):
        reports[2].add("incidents")


def test_a_task_that_has_begun_is_told_that_nobody_waits_for_it_any_more() -> None:
    begun, stop = threading.Barrier(3, timeout=60), threading.Event()
    ended: list[int] = []

    def work(task: int) -> int:
        if task < 2:
            begun.wait()
        until = time.monotonic() + 60
        while not is_given_up() and time.monotonic() < until:
            time.sleep(0.01)
        if is_given_up():
            ended.append(task)
        return task

    def stopping() -> None:
        begun.wait()
        stop.set()

    threading.Thread(target=stopping).start()
    assert sorted(LocalRunner(2).each(work, range(9), stop)) == sorted(ended) == [0, 1]
    assert not is_given_up()

    both = threading.Barrier(2, timeout=60)
    found = LocalRunner(2).each(lambda task: (both.wait(), task and work(task + 2))[1], range(2))
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert sorted(ended) == [0, 1, 3]


def test_an_error_ends_tasks_that_came_before_it() -> None:
    both, told = threading.Barrier(2, timeout=60), list[tuple[int, bool]]()

    def work(task: int) -> None:
        if task < 2:
            both.wait()
        if task == 1:
            raise ValueError("task 1")
        until = time.monotonic() + 60
        while not is_given_up() and time.monotonic() < until:
            time.sleep(0.01)
        told.append((task, is_given_up()))

    with pytest.raises(ValueError, match="task 1"):
        LocalRunner(2).map(work, range(3))
    assert told == [(0, True)]


def test_tasks_are_as_silent_as_their_caller() -> None:
    reports = [Report(warn=True), Report(warn=True)]
    with warnings.catch_warnings(), unwarned():
        warnings.simplefilter("error")
        LocalRunner(2).map(lambda report: report.add("incidents"), reports)
        list(LocalRunner(2).each(lambda report: report.add("incidents"), reports))
    assert [one.counts for one in reports] == [{"incidents": 2}] * 2


def test_threads_that_cannot_begin_leave_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun = threading.Thread.start, list[threading.Thread]()

    def starting(thread: threading.Thread) -> None:
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    def work(number: int, meet: Meet) -> None:
        meet("")

    monkeypatch.setattr(threading.Thread, "start", starting)
    with pytest.raises(RuntimeError, match="new thread"):
        LocalRunner(2).together(work, 2)
