"""A mirror that keeps running in a thread of this process, until its test is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from binlog_core.mirror import mirror
from binlog_core.mirror.lake import Lake

from .lake_forms import Form


@contextmanager
def running(
    url: str, lake: Path | str, form: Form | None = None, **settings: Any
) -> Iterator[threading.Event]:
    """A mirror at work in this process; its lake is asked as by any other."""
    stop, failed = threading.Event(), list[BaseException]()
    given = {"tables": "refused.*", "compact": None, **(form.settings if form else {}), **settings}
    options = settings.get("storage_options")

    def work() -> None:
        try:
            mirror(url, lake, stop=stop, **given)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: bool(failed) or answers(Lake(str(lake), options)))
        yield stop
    finally:
        stop.set()
        thread.join()
        assert not failed, failed


def answers(lake: Lake) -> bool:
    holder, at_work = lake.worker()
    return holder is not None and at_work and holder.answers


def until(fact: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)
