"""``binlog-core rows``: the row changes of logs, in several formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer
from rich.console import Console

from .._decode.group import Group
from .._decode.selection import names
from ..errors import BinlogError, SchemaError
from ..log.log import Log
from .checks import check_columns, check_tables, unknown_column
from .files import output
from .options import FollowOptions, LogOptions, RangeOptions, RowOptions, rewritten, spread
from .output import errors_as_lines, is_terminal, note, results
from .progress import progress
from .writers import (
    ArrowWriter,
    CsvWriter,
    DebeziumWriter,
    JsonWriter,
    ParquetWriter,
    SqlWriter,
    TextWriter,
    Writer,
    first_rows,
)

Format = Literal["text", "jsonl", "csv", "arrow", "parquet", "sql", "debezium"]


@spread
def rows(
    logs: LogOptions,
    selection: RowOptions,
    part: RangeOptions,
    following: FollowOptions,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Output format (default: text on a terminal, otherwise jsonl)."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Text with the values before and after.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", "-r", help="Output file (default: standard output).", dir_okay=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="Stop after this many rows.")
    ] = None,
    no_change_columns: Annotated[
        bool,
        typer.Option(
            "--no-change-columns",
            help="csv, arrow, parquet: leave out _change_type, _commit_timestamp, _position and _row.",
        ),
    ] = False,
    flashback: Annotated[
        bool, typer.Option("--flashback", help="sql: write the inverse statements, the last change first.")
    ] = False,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="With --flashback: accept a range that cannot be reversed completely."
        ),
    ] = False,
    rewrite_db: Annotated[
        list[str] | None,
        typer.Option(metavar="FROM=TO", help="sql: rename a database; can be repeated."),
    ] = None,
) -> None:
    """Print row changes as text, JSON lines, CSV, Arrow, Parquet or SQL, in log order, in bounded memory.

    debezium: one Debezium change event per line, JSON without schema.
    csv, arrow, parquet: the row images of one table; an update has two.
    sql: a script to replay the changes or, with --flashback, to reverse them. What did not commit ends in
    ROLLBACK; changes that are not logged as rows (DDL, statements) are listed.

    Examples:

      binlog-core rows mysql-bin.000042 --table shop.orders --op delete

      binlog-core rows /var/lib/mysql -t orders -f parquet -o orders.parquet

      binlog-core rows mysql-bin.000042 --start '2026-11-21 08:00' -f sql

      binlog-core rows /backup/db1 --include-gtids 0-1-5501 -f sql --flashback

      binlog-core rows mysql-bin.000042 -f debezium | kcat -P -b broker -t changes

      binlog-core rows mysql://repl@db1 --follow -t shop.orders | consumer
    """
    if verbose and form not in (None, "text"):
        raise typer.BadParameter("--verbose needs --format text")
    form = form or ("text" if verbose or (is_terminal() and to is None) else "jsonl")
    if flashback and form != "sql":
        raise typer.BadParameter("--flashback needs --format sql")
    if partial and not flashback:
        raise typer.BadParameter("--partial needs --flashback")
    if rewrite_db and form != "sql":
        raise typer.BadParameter("--rewrite-db needs --format sql")
    databases = rewritten(rewrite_db)
    following.check(logs, part)
    if following.follow and (flashback or form in ("arrow", "parquet") or to is not None):
        raise typer.BadParameter("--follow needs text, jsonl, debezium, csv or sql on standard output")
    if to is None and form in ("arrow", "parquet") and is_terminal():
        raise typer.BadParameter(f"--format {form} is not for a terminal: give a file with --output")
    with errors_as_lines():
        chosen = selection.selection() | part.places(logs)
        chosen |= logs.definitions(selection.schema, selection.schema_start)
        if selection.columns and "-" not in logs.files and not following.follow:
            with logs.open(**(chosen | {"columns": {"*": ()}})) as log:
                check_columns(log, selection.column_names())
        with (
            logs.open(follow=following.follow, **chosen) as log,
            output(to, overwrite=overwrite, private=logs.keys is not None) as file,
        ):
            skip = logs.on_error == "skip"
            writer: Writer
            if form == "sql":
                writer = SqlWriter(
                    file,
                    log.format,
                    note,
                    flashback=flashback,
                    partial=partial,
                    limits=log.limits,
                    databases=databases,
                    tables=names(chosen.get("tables")),
                    exclude_tables=names(chosen.get("exclude_tables")),
                )
            else:
                screen = results() if form == "text" and to is None and is_terminal() else None
                writer = _writer(form, file, log, screen, change_columns=not no_change_columns, skip=skip)
            with writer:
                for group in _groups(log, logs, selection, limit, asides=form == "sql"):
                    writer.write(group)
                    if following.follow:
                        file.flush()


def _writer(
    form: Format, file: BinaryIO, log: Log, screen: Console | None, *, change_columns: bool, skip: bool
) -> Writer:
    if form == "text":
        return TextWriter(file, log.report, skip_errors=skip, console=screen)
    if form == "debezium":
        return DebeziumWriter(file, log.report, skip_errors=skip, mariadb=log.format.is_mariadb)
    if form == "jsonl":
        return JsonWriter(file, log.report, skip_errors=skip)
    kinds: dict[str, type[CsvWriter] | type[ArrowWriter]] = {
        "csv": CsvWriter,
        "arrow": ArrowWriter,
        "parquet": ParquetWriter,
    }
    return kinds[form](file, change_columns=change_columns)


def _groups(
    log: Log, logs: LogOptions, selection: RowOptions, limit: int | None, *, asides: bool
) -> Iterator[Group]:
    """Groups of the log; at the end, errors that only the whole log can show."""
    seen: dict[str, set[str]] = {}
    taken = 0
    with progress(log) as bar:
        try:
            for group in log.groups(asides=asides):
                for batch in group.batches:
                    names = seen.setdefault(batch.table.full_name, set())
                    names.update(column.name for column in batch.table.columns)
                if limit is None:
                    yield group
                    bar(group.path, group.end_position)
                    continue
                first, count = first_rows(group, limit - taken)
                taken += count
                yield first
                if taken >= limit:
                    return
        except SchemaError as error:
            raise unknown_column(error, selection.column_names(), set().union(*seen.values())) from None
    if selection.table and "-" not in logs.files:
        check_tables(log, selection.patterns() or (), seen)
    elif selection.table and not seen:
        raise BinlogError(f"no rows of {', '.join(selection.table)} in standard input")
