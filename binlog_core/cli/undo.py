"""``binlog-core undo``: reverse some transactions, and nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .._sources.places import is_server
from ..errors import SchemaError
from ..replay import ServerUndo, UndoPlan, UndoRow, plan_undo, set_by_server
from ..replay.row_batches import ROWS_AT_A_TIME
from ..replay.server_undo import Outcome
from ..replay.undo_rows import Action, State
from ..report import NAMES_REMEDY
from ..schema.given import Schema
from ..server.connection import Connection
from ..server.definitions import definitions_of
from .files import output
from .options import ChangeOptions, LogOptions, RangeOptions, rewritten, spread
from .output import errors_as_lines, messages, note, printable, results, withheld_warnings
from .progress import counter, patience

_QUOTED = re.compile(r"'.*?'")
_MOST_SHOWN = 20
_MOST_REASONS = 10
_MOST_OF_A_REASON = 3
_ACTIONS: dict[Action, str] = {"insert": "inserted again", "update": "set back", "delete": "removed"}
_REASONS: dict[State, str] = {"changed since": "changed since", "changed between": "changed between these"}


@spread
def undo(
    logs: LogOptions,
    selection: ChangeOptions,
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
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="ROWS",
            help=f"Rows in one statement. Default: {ROWS_AT_A_TIME}, but 1 for an UPDATE in a script, where"
            " no server says whether rows collide in a UNIQUE key.",
            show_default=False,
        ),
    ] = None,
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
    """Reverse the row changes of transactions: as a script, or with --check and --execute on the server.

    Choose the changes by range, GTIDs, table, operation or condition. Give all logs from then until now, or
    the archive: they show which rows have changed since. Such rows are listed and left alone, and the script
    does not change them either. DDL, TRUNCATE and changes logged as statements are only listed.
    Instead of logs, an export to Parquet or Delta (binlog-core export) also works.

    Examples:

      binlog-core undo /backup/db1 --include-gtids 0-1-5501 -o undo.sql

      binlog-core undo /backup --include-gtids 0-1-5501 --check mysql://root@db1

      binlog-core undo /backup -t shop.orders --check mysql://root@db1 --execute
    """
    chosen = selection.selection()
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
        options = logs.arguments(selection.schema) | chosen | part.places(logs)
        options |= logs.definitions(selection.schema, selection.schema_start)
        options |= {"partial": partial, "databases": databases}
        outcome: Outcome = "unchanged"
        if address is None:
            if any(map(is_server, logs.files)):
                with Connection(logs.address(logs.files[0], "the server's address")) as connection:
                    plan = _plan(logs, options, selection.schema, connection)
            else:
                with patience("reading the logs"), withheld_warnings():
                    plan = plan_undo(logs.files, **options)
            notes = plan.notes
        else:
            with Connection(address) as connection:
                options["ask"] = set_by_server(connection)
                plan = _plan(logs, options, selection.schema, connection)
                with counter("asking the server", "rows") as count:
                    on_server = ServerUndo(
                        plan, connection, by_column=by_column, batch=batch or ROWS_AT_A_TIME, progress=count
                    )
                    with _outcome_of(on_server):
                        on_server.execute() if execute else on_server.check()
            notes, outcome = plan.notes + on_server.notes, on_server.outcome
        if to is not None or not check:
            with output(to, overwrite=overwrite, private=logs.keys is not None) as file:
                plan.write(file, batch=batch)
        for text in notes:
            note(text)
        if as_json:
            typer.echo(json.dumps(as_dict(plan, notes, outcome), indent=2))
        elif check or to is not None:
            show(plan, checked=check is not None, outcome=outcome, by_column=by_column, script=to)
        else:
            for line in left_alone(plan, rest="in the script"):
                note(line)


def _plan(logs: LogOptions, options: dict[str, Any], given: str | None, connection: Connection) -> UndoPlan:
    """The plan for a server, which gives the definitions that the logs do not have.

    If they have changed since, CREATE TABLE and what follows it in the logs are tried.
    """
    with patience("reading the logs"):
        first = options["schema"]
        if given is not None or options["schema_start"] is not None:
            return plan_undo(logs.files, **options)
        why: SchemaError | None = None
        for schema in (first, "of the server") if first == "ddl" else (first, "of the server", "ddl"):
            is_now = schema == "of the server"  # as it is now
            try:
                tried = {"schema": Schema(definitions_of(connection)) if is_now else schema}
                with withheld_warnings():
                    plan = plan_undo(logs.files, **options | tried)
            except SchemaError as error:
                why = why or error
                continue
            if not is_now or not plan.altered:
                return plan
            name, text = next(iter(plan.altered.items()))
            why = SchemaError(f"the table was altered after these changes, by {text}", table=name)
        assert why is not None
        raise SchemaError(
            f"{why.message.removesuffix(f': {NAMES_REMEDY}')}: the server's definition does not fit, and"
            " the logs read do not have the table's CREATE TABLE: read earlier logs, or give it in a file as"
            " schema_start=",
            table=why.table,
        )


@contextmanager
def _outcome_of(on_server: ServerUndo) -> Iterator[None]:
    """Say what an error leaves behind."""
    try:
        yield
    except BaseException:
        if on_server.outcome == "unknown":
            text = "the connection was lost during COMMIT: --check shows whether it was committed"
        else:
            text = "nothing was changed"
        messages().print(text, style="bold", markup=False)
        raise


def as_dict(plan: UndoPlan, notes: list[str], outcome: Outcome) -> dict[str, Any]:
    """The report as plain values for JSON."""
    return {
        "outcome": outcome,
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


def show(plan: UndoPlan, *, checked: bool, outcome: Outcome, by_column: bool, script: Path | None) -> None:
    """Print the report for people; its last line is what was done."""
    console = results()

    def line(text: str) -> None:
        console.print(printable(text), markup=False)

    for text in plan.transactions[:_MOST_SHOWN]:
        line(f"undoes {text}")
    if (more := len(plan.transactions) - _MOST_SHOWN) > 0:
        line(f"and {more:,} more transactions")
    is_done = outcome == "committed"
    undone = [row for row in plan.rows if row.state in ("ready", "done")]
    counts = Counter((row.table, row.action) for row in undone)
    title = "undone" if is_done else "can be undone"
    line(f"{title}:" if counts else f"nothing {title}")
    for name in sorted({name for name, _ in counts}):
        found = [(counts[name, action], told) for action, told in _ACTIONS.items()]
        line(f"  {name}: {', '.join(f'{count:,} {what}' for count, what in found if count)}")
    parts = Counter((row.table, row.columns) for row in plan.rows if row.columns is not None)
    for (name, columns), count in sorted(parts.items()):
        line(f"  {name}: of {count:,} only {', '.join(columns or ())}, since others changed other columns")
    for text in left_alone(plan, rest="with --json" if script is None else "in the script"):
        line(text)
    alone = plan.left_alone()
    if checked and any(row.reason.startswith("other values in") for row in alone) and not by_column:
        line("--by-column restores rows in which others changed only other columns")
    left = f"{len(alone):,} left alone (see above)" if alone else "none left alone"
    if script is not None:
        line(f"written to {script}: {_rows(len(undone))}, {left}")
    if is_done and undone:
        line(f"committed: {_rows(len(undone))} restored, {left}")
    elif checked:
        line("nothing was changed" + (": add --execute to do it" if undone and not is_done else ""))


def left_alone(plan: UndoPlan, *, rest: str) -> Iterator[str]:
    """The rows that are left alone: how many for each reason, the most first, and some of them.

    Parameters
    ----------
    plan : UndoPlan
    rest : str
        Where all of them are.
    """
    alone = plan.left_alone()
    if not alone:
        return
    groups: dict[tuple[str, str], list[UndoRow]] = {}
    for row in alone:
        reason = row.reason or _REASONS.get(row.state, row.state)
        if row.state == "conflict":  # of the server, with the row's own values
            reason = _QUOTED.sub("'…'", reason, count=1)
        groups.setdefault((row.table, reason), []).append(row)
    yield f"left alone: {_rows(len(alone))}"
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    for (name, reason), rows in ordered[:_MOST_REASONS]:
        yield f"  {len(rows):,} of {name}: {reason}"
        for row in rows[:_MOST_OF_A_REASON]:
            yield f"    {row.key}" + (f", by {row.who}" if row.who else "")
        if (more := len(rows) - _MOST_OF_A_REASON) > 0:
            yield f"    and {more:,} more"
    if more := sum(len(rows) for _, rows in ordered[_MOST_REASONS:]):
        yield f"  {more:,} for other reasons"
    if more or any(len(rows) > _MOST_OF_A_REASON for _, rows in ordered):
        yield f"  each of them {rest}"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"
