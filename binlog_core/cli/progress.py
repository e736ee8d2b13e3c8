"""A progress bar on a terminal, for work that takes longer than a second; rich's is loaded with the first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from .output import messages, printable, size

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..lake.tables.split_runs import Progress as SplitProgress
    from ..log.log import Log

_PATIENCE = 1.0  # seconds


class Bar:
    """Counts bytes of several files; shown only on a terminal, and only after the first second.

    Parameters
    ----------
    total : int or None
        Bytes of all files.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._console = messages()
        self._shown: Progress | None = None
        self._begun = time.monotonic()
        self._before = 0  # bytes of the files that are done
        self._path: str | None = None
        self._position = 0

    def __call__(self, path: str, position: int) -> None:
        """Note that the work has reached a position in a file."""
        if path != self._path:
            self._before, self._path, self._position = self._before + self._position, path, 0
        self._position = max(self._position, position)
        if self._shown is None:
            if not self._console.is_terminal or time.monotonic() - self._begun < _PATIENCE:
                return
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            self._shown = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._shown.start()
            self._task = self._shown.add_task("", total=self._total)
        from rich.markup import escape

        done = self._before + self._position
        self._shown.update(self._task, completed=done, description=escape(printable(path.rpartition("/")[2])))

    def close(self) -> None:
        """Hide the bar; more work shows it again."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


class LiveLine:
    """One line that changes while something works; only on a terminal."""

    def __init__(self) -> None:
        self._console = messages()
        self._shown = self._console.status("")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def show(self, text: str) -> None:
        """Show a text."""
        from rich.text import Text

        self._shown.update(Text(printable(text)))


@contextmanager
def progress(log: Log) -> Iterator[Bar]:
    """A bar for one pass over a log."""
    bar = Bar(log.total_size)
    try:
        yield bar
    finally:
        bar.close()


@contextmanager
def splits_bar() -> Iterator[Callable[[SplitProgress], None]]:
    """A bar for an export: finished splits, bytes of logs, rows; then tasks that write tables."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = messages()
    bar = Progress(
        TextColumn("{task.fields[stage]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None, stage="splits")

        def advance(now: SplitProgress) -> None:
            told = f"{size(now.log_bytes)}, {now.rows:,} rows"
            bar.update(task, completed=now.done, total=now.total, description=told, stage=now.stage)

        yield advance


@contextmanager
def patience(text: str) -> Iterator[None]:
    """The current activity, for work without known progress; shown like `Bar`."""
    console = messages()
    if not console.is_terminal:
        yield
        return
    status = console.status(text)
    timer = threading.Timer(_PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


@contextmanager
def counter(text: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Like `patience`, for work that counts.

    Parameters
    ----------
    text : str
        The current activity.
    unit : str
        What is counted.

    Yields
    ------
    callable
        Takes how many are done, and of how many.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = messages()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,}} of {{task.total:,}} {unit}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(text, total=0)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield advance
