"""``binlog-core verify``: are the logs complete?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from .._sources.places import is_server
from ..errors import BinlogError
from ..inspect.verify import MOST_PLACES, Verdict
from ..inspect.verify import verify as verify_target
from ..report import KINDS
from .options import LoginOptions, spread, targets
from .output import (
    EXIT_ERROR,
    EXIT_USAGE,
    error_text,
    errors_as_lines,
    print_error,
    printable,
    results,
    size,
)
from .progress import Bar

_STYLES = {"whole": "green", "cut": "yellow", "damaged": "red"}
_MOST_LINES = 20


@spread
def verify(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="Logs, directories, index files, URLs or patterns; - is standard input;"
            " mysql://user@host is a server.",
        ),
    ],
    keys: Annotated[
        Path | None, typer.Option(help="Key file of encrypted logs: MySQL's keyring or MariaDB's key file.")
    ] = None,
    allow_cut: Annotated[
        bool,
        typer.Option("--allow-cut", help="Accept a log that ends inside an event or transaction."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per file.")] = False,
    *,
    login: LoginOptions,
) -> None:
    """Check every length, checksum, row and transaction of logs, and report damaged ranges.

    Exit code 0: all logs are complete; 1: a log is damaged or cut off; 2: wrong usage, or a file that cannot
    be opened (missing, not a log, no key).

    Examples:

      binlog-core verify mysql-bin.000042

      binlog-core verify mysql://repl@db1

      binlog-core verify /backup/db1 --json | jq 'select(.state != "whole")'
    """
    states = set()
    failed = False
    with errors_as_lines(), targets(files, keep_stdin=True) as found:
        bar = Bar(None)
        for name in found:
            try:
                verdicts = verify_target(name, bar, keys=keys, **(login.login() if is_server(name) else {}))
            except BinlogError as error:
                failed = True
                print_error(error_text(error))
                continue
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None
            for verdict in verdicts:
                bar.close()
                if isinstance(verdict, BinlogError):
                    failed = True
                    print_error(error_text(verdict))
                    continue
                states.add(verdict.state)
                if as_json:
                    json.dump(as_dict(verdict), sys.stdout)
                    sys.stdout.write("\n")
                else:
                    show(verdict, results())
    bad = {"damaged"} if allow_cut else {"damaged", "cut"}
    if failed:
        raise typer.Exit(EXIT_USAGE)
    if states & bad:
        raise typer.Exit(EXIT_ERROR)


def show(verdict: Verdict, console: Console) -> None:
    """Print the findings for people."""
    head = Text(printable(f"{verdict.path}: "))
    head.append(verdict.state, style=_STYLES[verdict.state])
    console.print(head)

    def line(text: str) -> None:
        console.print(Text(printable("  " + text)))

    if verdict.format is not None:
        checked = "page checksums compared" if verdict.paged else "the log has no checksums"
        if verdict.checksums:
            checked = f"{verdict.checksums:,} checksums right"
        line(f"{size(verdict.size)}, {verdict.events:,} events, {checked}, {verdict.rows:,} changed rows")
    if verdict.format is not None and verdict.format.in_use:
        line("note: in use, or not closed by its server")
    if verdict.transactions:
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in verdict.transactions.items())
        line(f"transactions with row changes: {told}")
    for begin in verdict.incomplete[:_MOST_LINES]:
        line(f"incomplete: the transaction at {begin:,} has no end")
    if verdict.tail is not None:
        line(f"cut: at {verdict.tail.begin:,}: {verdict.tail.reason}")
    for damage in verdict.damages[:_MOST_LINES]:
        line(
            f"damaged: {damage.begin:,} to {damage.end:,}"
            f" ({size(damage.end - damage.begin)}): {damage.reason}"
        )
    for one in verdict.unreadable[:_MOST_LINES]:
        line(f"unreadable: {one.begin:,} to {one.end:,}, although its checksum is right: {one.reason}")
    for what, count in (
        ("incomplete", verdict.incomplete_count),
        ("damaged", verdict.damages.total),
        ("unreadable", verdict.unreadable.total),
    ):
        if count > _MOST_LINES:
            line(f"{what}: {count - _MOST_LINES:,} more; the first {MOST_PLACES:,} with --json")
    for kind, count in sorted(verdict.notes.items()):
        if kind != "skipped_events":
            line(f"note: {KINDS[kind]}: {count:,}")


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain values for JSON."""
    return {
        "path": verdict.path,
        "state": verdict.state,
        "bytes": verdict.size,
        "server_version": verdict.format.server_version if verdict.format else None,
        "events": verdict.events,
        "checksums": verdict.checksums,
        "paged": verdict.paged,
        "rows": verdict.rows,
        "transactions": dict(verdict.transactions),
        "incomplete": verdict.incomplete,
        "incomplete_count": verdict.incomplete_count,
        "tail": verdict.tail._asdict() if verdict.tail else None,
        "damages": [damage._asdict() for damage in verdict.damages],
        "damages_count": verdict.damages.total,
        "unreadable": [one._asdict() for one in verdict.unreadable],
        "unreadable_count": verdict.unreadable.total,
        "notes": dict(verdict.notes),
    }
