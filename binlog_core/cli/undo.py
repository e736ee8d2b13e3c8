"""``binlog-core undo``: reverse some transactions, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from .._sources.places import is_server
from ..replay import ServerUndo, UndoPlan, plan_undo
from ..replay.undo_rows import Action
from ..server.connection import Connection
from .files import output
from .options import LogOptions, RangeOptions, RowOptions, rewritten, spread
from .output import errors_as_lines, note, printable, results
from .progress import patience

_MOST_SHOWN = 20
_ACTIONS: dict[Action, str] = {"insert": "inserted again", "update": "set back", "delete": "removed"}


@spread
def undo(
    logs: LogOptions,
    selection: RowOptions,
    part: RangeOptions,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="SERVER",
            help="mysql://user@host:port: compare each row with the state after the change; changes nothing.",
        ),
    ] = None,
    execute: Annotated[
        bool,
        typer.Option(
            "--execute",
            help="With --check: reverse the rows that are still in that state, in one transaction.",
        ),
    ] = False,
    by_column: Annotated[
        bool,
        typer.Option(
            "--by-column",
            help="With --check: restore single columns if others have changed other columns of the row.",
        ),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the script (default: standard output).", dir_okay=False
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept a range that cannot be reversed completely.")
    ] = False,
    rewrite_db: Annotated[
        list[str] | None,
        typer.Option(metavar="FROM=TO", help="Rename a database; can be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON; needs --check or -o.")
    ] = False,
) -> None:
    """Reverse what some transactions did to some rows: as a script, or with --check on the server itself.

    Choose the changes by range, GTIDs, table, operation or condition. Give all logs from then until now, or
    the archive: they show which rows have changed since. Such rows are listed and left alone, and the script
    does not change them either. DDL, TRUNCATE and changes logged as statements are only listed.
    Instead of logs, an export to Parquet or Delta (binlog-core export) also works.

    Examples:

      binlog-core undo /backup/db1 --include-gtids 0-1-5501 -o undo.sql

      binlog-core undo /backup/db1 --include-gtids 0-1-5501 --check mysql://root@db1

      binlog-core undo /backup/db1 --include-gtids 0-1-5501 --check mysql://root@db1 --execute
    """
    chosen = selection.selection()
    if selection.columns:
        raise typer.BadParameter("--columns: not possible, whole rows are reversed")
    if "-" in logs.files:
        raise typer.BadParameter("the logs are read twice: give files, not standard input")
    ranged = [part.start, part.stop, part.start_position, part.stop_position]
    ranged += [part.start_datetime, part.stop_datetime]
    narrow = ("tables", "exclude_tables", "ops", "gtids", "server_id", "where")
    if all(one is None for one in ranged) and not any(chosen.get(name) for name in narrow):
        raise typer.BadParameter("say what to reverse: --include-gtids, --start and --stop, --table …")
    databases = rewritten(rewrite_db)
    if execute and check is None:
        raise typer.BadParameter("--execute needs --check SERVER")
    if by_column and check is None:
        raise typer.BadParameter("--by-column needs --check SERVER")
    if as_json and check is None and to is None:
        raise typer.BadParameter("--json needs --check or --output")
    if check is not None and not is_server(check):
        raise typer.BadParameter("--check takes a server's address: mysql://user@host:port")
    with errors_as_lines():
        address = logs.address(check, "--check") if check is not None else None
        with patience("reading the logs"):
            options = logs.arguments(selection.schema) | chosen | part.places(logs)
            plan = plan_undo(logs.files, partial=partial, databases=databases, **options)
        notes = plan.notes
        if address:
            with Connection(address) as connection, patience("asking the server"):
                on_server = ServerUndo(plan, connection, by_column=by_column)
                if execute:
                    on_server.execute()
                else:
                    on_server.check()
                notes = notes + on_server.notes
        if to is not None or not check:
            with output(to, overwrite=overwrite, private=logs.keys is not None) as file:
                plan.write(file)
        for text in notes:
            note(text)
        if as_json:
            typer.echo(json.dumps(as_dict(plan, notes), indent=2))
        elif check or to is not None:
            show(plan, checked=check is not None, executed=execute, by_column=by_column)
        else:
            for row in plan.left_alone()[:_MOST_SHOWN]:
                note(f"left alone: {row.table}, {row.key}: {row.why}")
            if (more := len(plan.left_alone()) - _MOST_SHOWN) > 0:
                note(f"and {more:,} more rows, which are named in the script")


def as_dict(plan: UndoPlan, notes: list[str]) -> dict[str, Any]:
    """The report as plain values for JSON."""
    return {
        "transactions": plan.transactions,
        "notes": notes,
        "rows": [
            {
                "table": row.table,
                "key": row.key,
                "action": row.action,
                "state": row.state,
                "why": row.why,
                "columns": row.columns,
            }
            for row in plan.rows
        ],
    }


def show(plan: UndoPlan, *, checked: bool, executed: bool, by_column: bool) -> None:
    """Print the report for people."""
    console = results()
    for text in plan.transactions[:_MOST_SHOWN]:
        console.print(printable(f"undoes {text}"), markup=False)
    if (more := len(plan.transactions) - _MOST_SHOWN) > 0:
        console.print(f"and {more:,} more transactions")
    counts = Counter((row.table, row.action) for row in plan.rows if row.state in ("ready", "done"))
    title = "taken back" if executed else "can be reversed"
    console.print(f"{title}:" if counts else f"nothing {title}")
    for name in sorted({name for name, _ in counts}):
        found = [(counts[name, action], told) for action, told in _ACTIONS.items()]
        told = ", ".join(f"{count:,} {what}" for count, what in found if count)
        console.print(printable(f"  {name}: {told}"), markup=False)
    parts = Counter((row.table, row.columns) for row in plan.rows if row.columns is not None)
    for (name, columns), count in sorted(parts.items()):
        told = f"of {count:,} only {', '.join(columns or ())}, since others changed other columns"
        console.print(printable(f"  {name}: {told}"), markup=False)
    alone = plan.left_alone()
    if alone:
        console.print(f"left alone: {len(alone):,} row{'s' * (len(alone) != 1)}")
    for row in alone[:_MOST_SHOWN]:
        console.print(printable(f"  {row.table}, {row.key}: {row.why}"), markup=False)
    if (more := len(alone) - _MOST_SHOWN) > 0:
        console.print(f"  and {more:,} more; all with --json")
    if checked and any(row.why.startswith("other values in") for row in alone) and not by_column:
        console.print("--by-column restores rows in which others changed only other columns")
    if checked and not executed and plan.ready():
        console.print("nothing was changed: add --execute to do it")
