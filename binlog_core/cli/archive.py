"""``binlog-core archive``: byte-for-byte copies of a server's logs, kept up to date."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from ..archive import Status
from ..archive import archive as keep_archive
from .options import LoginOptions, spread
from .output import EXIT_ERROR, EXIT_INTERRUPTED, errors_as_lines, messages, moment, printable, size
from .progress import LiveLine


@spread
def archive(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER", help="mysql://user@host:port,…; see --password-file for the password."
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            help="Directory of the archive, created if missing, or URL of an object store.",
        ),
    ],
    until: Annotated[
        Literal["now"] | None,
        typer.Option(help="Stop at the server's current position; by default keep running."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Where a new archive starts: a log's name, now, or the GTIDs to leave out. Default: the"
            " server's oldest log. An archive whose next log was purged continues here, with a gap."
        ),
    ] = None,
    compress: Annotated[Literal["zstd"] | None, typer.Option(help="Compress finished logs.")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Remove finished logs after this time, such as 30d or 12h.")
    ] = None,
    index: Annotated[
        bool, typer.Option("--index", help="Keep an index beside the finished logs; only in a directory.")
    ] = False,
    semi_sync: Annotated[
        bool,
        typer.Option(
            "--semi-sync", help="Acknowledge commits that are on disk (semi-synchronous replication)."
        ),
    ] = False,
    status: Annotated[
        list[Path] | None,
        typer.Option(help="File for the status: JSON, or Prometheus text (*.prom); may be given twice."),
    ] = None,
    tail_interval: Annotated[
        float, typer.Option(help="Object store: seconds between two uploads of the growing log.")
    ] = 30.0,
    spool: Annotated[
        Path | None, typer.Option(help="Object store: local directory for logs that are not uploaded yet.")
    ] = None,
    *,
    login: LoginOptions,
) -> None:
    """Keep byte-for-byte copies of a server's logs, continuing where the last run ended.

    Events are on disk before they are reported or acknowledged. Every command reads an archive like a
    directory of logs. SIGTERM stops it cleanly. Exit code 0: done or stopped; 1: an error, or a damaged log
    on the server.

    Examples:

      binlog-core archive mysql://repl@db1 /backup/db1 --until now

      binlog-core archive mysql://repl@db1,db2 /backup --compress zstd --keep 30d
    """
    access = login.login("options")
    with errors_as_lines(), stopping() as told_to_stop, _Line() as line:
        try:
            found = keep_archive(
                server,
                destination,
                until=until,
                start=start,
                compress=compress,
                keep=keep,
                index=index,
                semi_sync=semi_sync,
                status=status or (),
                tail_interval=tail_interval,
                spool=spool,
                **access,
                stop=told_to_stop.event,
                progress=line,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    messages().print(Text(printable(f"{status_line(found)}, {size(found.received_bytes)} received")))
    if told_to_stop.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if found.damaged_logs:
        raise typer.Exit(EXIT_ERROR)


def status_line(status: Status) -> str:
    """An archive's progress in one line."""
    if status.file is None:
        return f"{status.server}: {status.state}"
    parts = [f"{status.server}: {status.file}:{status.position}", status.state]
    if status.state == "stopped" and status.timestamp:
        parts.append(f"last event at {moment(status.timestamp)}")
    elif status.seconds_behind is not None:
        parts.append(f"{status.seconds_behind:,.0f} s behind")
    if status.reconnects:
        parts.append(f"{status.reconnects:,} reconnects")
    return ", ".join(parts)


class Stopping:
    """Set by SIGTERM or Ctrl-C."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.interrupted = False

    def __call__(self, number: int, _: object) -> None:
        if number == signal.SIGINT:
            self.interrupted = True
        self.event.set()


@contextmanager
def stopping() -> Iterator[Stopping]:
    """While a command runs, let SIGTERM and Ctrl-C end it cleanly."""
    told = Stopping()
    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Line(LiveLine):
    """How far an archive is."""

    def __init__(self) -> None:
        super().__init__()
        self._before = time.monotonic(), 0

    def __call__(self, status: Status) -> None:
        """Show a status."""
        now = time.monotonic()
        seconds = max(now - self._before[0], 1e-9)
        rate = (status.received_bytes - self._before[1]) / seconds
        self._before = now, status.received_bytes
        self.show(f"{status_line(status)}, {size(status.received_bytes)}, {size(int(rate))}/s")
