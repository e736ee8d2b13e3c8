"""``binlog-core history``: the life of a row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from .._base.options import OnError
from ..errors import BinlogError, MissingExtraError
from ..inspect.history import Version, changed_values, last_changes, row_as_of
from .files import output
from .options import (
    LoginOptions,
    LogOptions,
    RangeOptions,
    SchemaOption,
    SchemaStartOption,
    ZoneOption,
    option,
    spread,
)
from .output import errors_as_lines, is_terminal, note, printable, results
from .progress import patience
from .readable import change_lines, value_text
from .text import json_line


@spread
def history(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table, such as shop.orders.")],
    rest: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY... LOG...", help="id=42 for each column of the key, followed by the logs."
        ),
    ],
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Show the row as it was at this time, GTID, position or FILE:POSITION."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show only this many changes, the last ones.")
    ] = None,
    start: Annotated[str | None, option("start")] = None,
    stop: Annotated[str | None, option("stop")] = None,
    tz: ZoneOption = None,
    form: Annotated[
        Literal["text", "jsonl", "arrow"], typer.Option("--format", "-f", help="Output format.")
    ] = "text",
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file (default: standard output).", dir_okay=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    schema: SchemaOption = None,
    schema_start: SchemaStartOption = None,
    keys: Annotated[Path | None, option("keys")] = None,
    on_error: Annotated[OnError, option("on_error")] = "raise",
    *,
    login: LoginOptions,
) -> None:
    """Show each change of a row, with its time, transaction, thread, statement and values.

    The row is followed when its key changes and when its key columns are renamed. --as-of shows the row as it
    was at some time.
    Instead of logs, an export to Parquet or Delta (binlog-core export) also works.

    Examples:

      binlog-core history shop.orders id=42 /backup/db1

      binlog-core history shop.orders id=42 /backup/db1 --as-of '2026-11-21 08:00'

      binlog-core history shop.orders id=42 /backup/db1 --limit 5

      binlog-core history shop.lines order_id=42 line=1 mysql-bin.0000* -f jsonl
    """
    count = next((i for i, one in enumerate(rest) if _is_log(one)), len(rest))
    key = dict(one.partition("=")[::2] for one in rest[:count])
    files = rest[count:]
    if not key or not files:
        raise typer.BadParameter(f"expected a KEY such as id=42 after {table}, then logs")
    if "." not in table:
        raise typer.BadParameter(f"{table!r}: expected DATABASE.TABLE")
    if "-" in files:
        raise typer.BadParameter("the logs are read several times: give files, not standard input")
    if as_of is not None and (start is not None or stop is not None):
        raise typer.BadParameter("--as-of and --start or --stop cannot be combined")
    if as_of is not None and limit is not None:
        raise typer.BadParameter("--as-of and --limit cannot be combined")
    if to is None and form == "arrow" and is_terminal():
        raise typer.BadParameter("--format arrow is not for a terminal: give a file with --output")
    logs = LogOptions(
        files,
        keys=keys,
        on_error=on_error,
        password_file=login.password_file,
        defaults_file=login.defaults_file,
        ask_password=login.ask_password,
    )
    with errors_as_lines():
        options: dict[str, Any] = logs.arguments(schema) | logs.definitions(schema, schema_start)
        if as_of is not None:
            place = RangeOptions(stop=as_of, tz=tz).places(logs)["stop"]
            with patience("reading the logs"):
                row = row_as_of(files, table, key, place, **options)
            versions = [] if row is None else [row]
        else:
            with patience("reading the logs"):
                places = RangeOptions(start=start, stop=stop, tz=tz).places(logs)
                found, earlier = last_changes(files, table, key, limit, **options, **places)
            if not found:
                raise BinlogError(f"the logs have no change of {', '.join(rest[:count])}", table=table)
            if earlier:
                note(f"earlier changes that are not shown (--limit): {earlier:,}")
            versions = [as_dict(one) for one in found]
        if form == "text" and to is None:
            _show(row, key) if as_of is not None else _show_all(found)
            return
        with output(to, overwrite=overwrite, private=keys is not None) as file:
            if form == "arrow":
                file.write(_arrow(versions))
            elif form == "jsonl":
                for one in versions:
                    file.write(json_line(one))
            else:
                lines = _lines(found) if as_of is None else _row_lines(row, key)
                file.writelines(f"{line.plain}\n".encode("utf-8", "backslashreplace") for line in lines)


def _is_log(text: str) -> bool:
    """Whether an argument is not a column and its value; an address may have = in its query."""
    name, equals, _ = text.partition("=")
    return not equals or "://" in name or os.path.exists(text)


def as_dict(one: Version) -> dict[str, Any]:
    """A version as plain values for JSON."""
    change, transaction = one.change, one.transaction
    return {
        "op": change.op,
        "database": change.database,
        "table": change.table,
        "before": change.before,
        "after": change.after,
        "changed": {name: list(pair) for name, pair in changed_values(change).items()},
        "timestamp": change.timestamp,
        "commit_time": change.commit_time,
        "gtid": change.gtid,
        "server_id": transaction.server_id,
        "thread_id": transaction.thread_id,
        "user": transaction.user,
        "statement": transaction.statement,
        "outcome": transaction.outcome,
        "file": change.path,
        "position": change.position,
    }


def _lines(found: list[Version]) -> list[Text]:
    lines = []
    for one in found:
        transaction = one.transaction
        more = [f"server {transaction.server_id}"] * (transaction.server_id > 0)  # 0: an export without it
        more += [f"thread {transaction.thread_id}"] * (transaction.thread_id is not None)
        more += [f"user {transaction.user}"] * bool(transaction.user)
        more += [transaction.outcome] * (transaction.outcome != "committed")
        head, *values = change_lines(one.change, *more)
        lines.append(head)
        if transaction.statement:
            lines.append(Text(printable(f"  {transaction.statement}"), style="italic"))
        lines += values
    return lines


def _row_lines(row: dict[str, Any] | None, key: dict[str, str]) -> list[Text]:
    if row is None:
        return [Text(printable(f"no row {', '.join(f'{k}={v}' for k, v in key.items())} at that time"))]
    return [Text.assemble((printable(name), "cyan"), ": ", value_text(value)) for name, value in row.items()]


def _show_all(found: list[Version]) -> None:
    console = results()
    for line in _lines(found):
        console.print(line, soft_wrap=not is_terminal())


def _show(row: dict[str, Any] | None, key: dict[str, str]) -> None:
    console = results()
    for line in _row_lines(row, key):
        console.print(line, soft_wrap=not is_terminal())


def _arrow(rows: list[dict[str, Any]]) -> bytes:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError.of("pyarrow", "arrow", "--format arrow") from None
    for row in rows:
        row.pop("changed", None)  # the images have it, and its pairs are of two types
    sink = pyarrow.BufferOutputStream()
    try:
        made = pyarrow.Table.from_pylist(rows)
    except pyarrow.ArrowException as error:
        raise BinlogError(f"arrow cannot hold it: {' '.join(str(error).split())}") from None
    with pyarrow.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    return bytes(sink.getvalue().to_pybytes())
