"""``binlog-core info``: the contents of logs at a glance."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..inspect.summarize import summarize
from ..inspect.summary import FileSummary, LogSummary
from ..inspect.transactions import Transaction
from .options import LogOptions, RangeOptions, RowOptions, spread
from .output import ZONE, duration, errors_as_lines, fits, moment, print_table, printable, results, size
from .progress import progress
from .transactions import lines_of

_TABLES = 20
_TRANSACTIONS = 5


@spread
def info(
    logs: LogOptions,
    rows: RowOptions,
    part: RangeOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="List all tables, not only the most changed ones.")
    ] = False,
) -> None:
    """Summarize logs: format, servers, time range, GTIDs, events, tables and the largest transactions.

    Row filters affect table and transaction figures only; a range and --server-id affect events too.

    Examples:

      binlog-core info mysql-bin.000042

      binlog-core info /var/lib/mysql --database shop

      binlog-core info mysql-bin.000042 --json | jq .tables
    """
    with errors_as_lines():
        with logs.open(passes=True, **rows.selection(), **part.places(logs)) as log, progress(log) as bar:
            found = summarize(log, bar)
        if as_json:
            json.dump(as_dict(found), sys.stdout, indent=2)
            sys.stdout.write("\n")
        else:
            show(found, results(), tables=None if everything else _TABLES)


def show(found: LogSummary, console: Console, *, tables: int | None) -> None:
    """Print a summary for people."""
    for file in found.files:
        console.print(_file(file))
    for gap in found.gaps:
        console.print(f"missing between the files: {printable(str(gap))}", style="yellow", markup=False)
    print_table(console, _events(found))
    if found.tables():
        print_table(console, _tables(found, tables))
    if found.transactions():
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.transactions().items())
        console.print(f"transactions with row changes: {counts}\n")
    if found.largest():
        _show_transactions("largest transactions", found.largest(), console)
    if found.longest():
        _show_transactions("longest transactions", found.longest(), console)


def _show_transactions(title: str, found: list[Transaction], console: Console) -> None:
    table = _transactions(title, found)
    if fits(console, table):
        console.print(table)
        return
    console.print(Text(title, style="italic"))  # in the table, a GTID would be folded to seven characters
    for one in found[:_TRANSACTIONS]:
        for line in lines_of(one, statement=False):
            console.print(line)
    console.print()


def as_dict(found: LogSummary) -> dict[str, Any]:
    """A summary as plain values for JSON."""
    return {
        "files": [_file_dict(file) for file in found.files],
        "gaps": [gap._asdict() for gap in found.gaps],
        "events": {name: {"count": count, "bytes": n} for name, (count, n) in found.events().items()},
        "tables": {name: dataclasses.asdict(table) for name, table in found.tables().items()},
        "transactions": dict(found.transactions()),
        "largest": [_transaction_dict(transaction) for transaction in found.largest()],
        "longest": [_transaction_dict(transaction) for transaction in found.longest()],
    }


def _file_dict(file: FileSummary) -> dict[str, Any]:
    return {
        "path": file.path,
        "bytes": file.size,
        "binlog_version": file.format.binlog_version,
        "server_version": file.format.server_version,
        "checksum": file.format.checksum,
        "in_use": file.format.in_use,
        "compressed_transactions": file.compressed,
        "servers": dict(file.servers),
        "events": file.event_count,
        "first_timestamp": file.first_timestamp,
        "last_timestamp": file.last_timestamp,
        "gtids": str(file.gtids) if file.gtids is not None else None,
        "gtids_before": str(file.gtids_before) if file.gtids_before is not None else None,
        "statements_that_change_rows": file.statement_count,
        "definitions": file.definition_count,
        "incidents": file.incidents,
        "tail": dataclasses.asdict(file.tail) if file.tail is not None else None,
    }


def _transaction_dict(transaction: Transaction) -> dict[str, Any]:
    more = {name: getattr(transaction, name) for name in ("changes", "bytes", "seconds")}
    return dataclasses.asdict(transaction) | more


def _file(file: FileSummary) -> Table:
    grid = Table(
        box=None, show_header=False, pad_edge=False, title=Text(printable(file.path)), title_justify="left"
    )
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")

    def line(label: str, text: object) -> None:
        grid.add_row(label, Text(printable(str(text))))

    line("server", f"{file.format.server_version}, binlog version {file.format.binlog_version}")
    line("checksum", file.format.checksum)
    line("size", f"{size(file.end_position)}, {file.event_count:,} events")
    if file.first_timestamp:
        length = duration(file.last_timestamp - file.first_timestamp)
        line(
            "time", f"{moment(file.first_timestamp)} to {moment(file.last_timestamp)} {ZONE.get()} ({length})"
        )
    line(
        "server ids",
        ", ".join(f"{server} ({count:,} events)" for server, count in file.servers.most_common()),
    )
    if file.gtids_before:
        line("GTIDs before", " ".join(str(file.gtids_before).split()))
    if file.gtids:
        line("GTIDs", " ".join(str(file.gtids).split()))
    told = [
        (file.definition_count, "schema changes"),
        (file.statement_count, "changes logged as statements"),
        (file.incidents, "incidents"),
    ]
    if any(count for count, _ in told):
        line("statements", ", ".join(f"{count:,} {what}" for count, what in told if count))
    notes = []
    if file.compressed:
        notes.append("compressed transactions")
    if file.format.in_use:
        notes.append("in use, or not closed")
    if file.tail is not None:
        notes.append(f"cut at {file.tail.offset:,}: {file.tail.reason}")
    if notes:
        line("notes", "; ".join(notes))
    grid.add_row("", "")
    return grid


def _table(title: str, *columns: str, text: int = 1) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for i, name in enumerate(columns):
        table.add_column(
            name, justify="left" if i < text else "right", overflow="fold" if i < text else "ellipsis"
        )
    return table


def _events(found: LogSummary) -> Table:
    table = _table("events", "type", "count", "bytes")
    for name, (count, total) in found.events().items():
        table.add_row(name, f"{count:,}", size(total))
    return table


def _tables(found: LogSummary, most: int | None) -> Table:
    every = found.tables()
    shown = list(every.items())[:most]
    title = (
        f"{len(every):,} table{'s' * (len(every) != 1)}"
        if len(shown) == len(every)
        else f"{len(shown)} of {len(every):,} tables"
    )
    table = _table(title, "table", "inserts", "updates", "deletes", "bytes")
    for name, one in shown:
        numbers = (f"{one.inserts:,}", f"{one.updates:,}", f"{one.deletes:,}", size(one.bytes))
        table.add_row(Text(printable(name)), *numbers)
    return table


def _transactions(title: str, found: list[Transaction]) -> Table:
    table = _table(
        title, "file", "GTID", "position", "thread", "bytes", "changed rows", "time", "took", text=2
    )
    for one in found[:_TRANSACTIONS]:
        table.add_row(
            Text(printable(one.path.rpartition("/")[2])),
            Text(printable(one.gtid or "")),
            f"{one.begin_position:,}",
            "" if one.thread_id is None else str(one.thread_id),
            size(one.bytes) if one.end_position else "not ended",
            f"{one.changes:,}",
            moment(one.last_timestamp),
            duration(one.seconds),
        )
    return table
