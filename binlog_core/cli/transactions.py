"""``binlog-core transactions``: the largest and longest transactions of logs first, or all in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from ..inspect.transactions import Transaction
from ..inspect.transactions import transactions as transactions_of
from .options import LogOptions, RangeOptions, RowOptions, spread
from .output import duration, errors_as_lines, moment, print_table, printable, results, size, standard_output
from .progress import patience
from .text import json_line

_MOST_TABLES = 3


@dataclasses.dataclass(slots=True)
class _Sum:
    """Sums of transactions that have something in common."""

    transactions: int = 0
    changed_rows: int = 0
    bytes: int = 0
    seconds: int = 0  # of the longest


@spread
def transactions(
    logs: LogOptions,
    selection: RowOptions,
    part: RangeOptions,
    by: Annotated[
        Literal["bytes", "rows", "seconds", "position"],
        typer.Option(
            help="Order: largest first by bytes, changed rows or duration, or log order (position)."
        ),
    ] = "bytes",
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help="Maximum number (default: 20; all with --by position)."),
    ] = None,
    per: Annotated[
        Literal["table", "thread", "user", "server"] | None,
        typer.Option(help="Print sums instead of single transactions."),
    ] = None,
    form: Annotated[
        Literal["text", "jsonl"], typer.Option("--format", "-f", help="Readable lines, or JSON objects.")
    ] = "text",
) -> None:
    """List transactions that change rows, with place, time, thread, bytes, tables and statement.

    Row filters choose which rows are counted. MySQL logs the thread of each transaction, MariaDB since 11.8;
    few logs have the user.

    Examples:

      binlog-core transactions mysql-bin.000042 --by seconds -n 5

      binlog-core transactions /var/lib/mysql --per table

      binlog-core transactions /backup/db1 --by position --thread-id 67 -f jsonl
    """
    chosen = selection.selection()
    without = "unnamed_columns" if selection.where is None else ""  # nothing names a column
    with errors_as_lines(without=without), ExitStack() as opened:
        if selection.where is not None:
            chosen |= logs.definitions(selection.schema, selection.schema_start)
        log = opened.enter_context(logs.open(passes=True, **chosen, **part.places(logs)))
        if per is not None:
            with patience("reading the logs"):
                sums = _sums(transactions_of(log, details=per == "user"), per)
            _show_sums(sums, per, by, limit, form)
            return
        most = limit if limit is not None or by == "position" else 20
        with patience("reading the logs"):
            found = transactions_of(log, by=by, most=most)
            found = found if by == "position" else iter(list(found))
        _show(found, form)


def _show(found: Iterator[Transaction], form: str) -> None:
    if form == "jsonl":
        out = standard_output()
        for one in found:
            out.write(json_line(as_dict(one)))
        out.flush()
        return
    console = results()
    for one in found:
        for line in lines_of(one):
            console.print(line)


def as_dict(one: Transaction) -> dict[str, Any]:
    """A transaction as plain values for JSON."""
    return dataclasses.asdict(one) | {"changes": one.changes, "bytes": one.bytes, "seconds": one.seconds}


def lines_of(one: Transaction, *, statement: bool = True) -> Iterator[Text]:
    """A transaction for people: its place, size, origin, tables and, if wanted, statement, a line each."""
    end = f"to {one.end_position}" if one.end_position else "not ended"
    place = f"{one.path.rpartition('/')[2]}:{one.begin_position}"  # as --start takes it
    yield Text(printable(f"{place}  {end}"), style="bold")
    amount = f"{size(one.bytes)}, " if one.end_position else ""
    rows = f"{one.changes:,} changed row{'s' * (one.changes != 1)}"
    yield Text(f"  {moment(one.last_timestamp)}  {amount}{rows}, took {duration(one.seconds)}")
    who = [f"GTID {one.gtid}"] * bool(one.gtid) + [f"server {one.server_id}"]
    who += [f"thread {one.thread_id}"] * (one.thread_id is not None) + [f"user {one.user}"] * bool(one.user)
    who += [one.outcome] * (one.outcome != "committed")
    yield Text(printable(f"  {', '.join(who)}"))
    tables = [f"{name} {count:,}" for name, count in sorted(one.tables.items(), key=lambda item: -item[1])]
    more = f" and {len(tables) - _MOST_TABLES} more tables" if len(tables) > _MOST_TABLES else ""
    yield Text(printable(f"  {', '.join(tables[:_MOST_TABLES])}{more}"))
    if statement and one.statement:
        yield Text(printable(f"  {one.statement}"), style="cyan")


def _sums(found: Iterator[Transaction], per: str) -> dict[str, _Sum]:
    sums: dict[str, _Sum] = {}
    for one in found:
        shares: dict[str, int] = one.tables
        if per != "table":
            name = {"thread": one.thread_id, "user": one.user, "server": one.server_id}[per]
            shares = {"not logged" if name is None else str(name): one.changes}
        for key, rows in shares.items():
            total = sums.setdefault(key, _Sum())
            total.transactions += 1
            total.changed_rows += rows
            total.bytes += one.bytes
            total.seconds = max(total.seconds, one.seconds)
    return sums


def _show_sums(sums: dict[str, _Sum], per: str, by: str, limit: int | None, form: str) -> None:
    name = {"rows": "changed_rows", "position": "transactions"}.get(by, by)
    ordered = sorted(sums.items(), key=lambda item: -getattr(item[1], name))[:limit]
    if form == "jsonl":
        out = standard_output()
        for key, one in ordered:
            out.write(json_line({per: key} | dataclasses.asdict(one)))
        out.flush()
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(per, overflow="fold")
    for title in ("transactions", "changed rows", "bytes", "longest"):
        table.add_column(title, justify="right")
    for key, one in ordered:
        numbers = (f"{one.transactions:,}", f"{one.changed_rows:,}", size(one.bytes), duration(one.seconds))
        table.add_row(Text(printable(key)), *numbers)
    print_table(results(), table)
