"""``binlog-core sql``: a query over logs."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from .._base.json_text import plain
from ..errors import BinlogError
from .options import LogOptions, RangeOptions, SchemaOption, SchemaStartOption, spread
from .output import errors_as_lines, is_terminal, printable, results, standard_output
from .progress import patience
from .text import csv_line, json_line

_MARKER = re.compile(r"\n+LINE \d+:.*", re.DOTALL)  # the place in the query: nothing to see on one line
_MOST_ROWS = 1000  # of a table for people
_BATCH = 1000
_BORDER, _GAP = 2, 3  # characters around a table, and between two of its columns
_WIDEST = 40  # of a column whose neighbours are to fit: longer values are folded
_LEAST_COLUMNS = 2


@spread
def sql(
    query: Annotated[
        str, typer.Argument(help="SELECT … FROM shop.orders, changes(), events or transactions.")
    ],
    logs: LogOptions,
    part: RangeOptions,
    form: Annotated[
        Literal["table", "vertical", "csv", "jsonl"] | None,
        typer.Option(
            "--format",
            "-f",
            help="Output format (default: table on a terminal, otherwise csv); vertical: one value per line.",
        ),
    ] = None,
    schema: SchemaOption = None,
    schema_start: SchemaStartOption = None,
) -> None:
    """Query logs with DuckDB: tables by their names, and the tables events and transactions.

    Images have the table's columns and _change_type (insert, update_preimage, update_postimage, delete),
    _commit_timestamp, _timestamp, _gtid, _server_id, _file, _position, _row, _transaction and _xid.
    changes('database.table') is the same table, also for names that differ only in case. changes() has the
    images of all tables as JSON. changed_rows('database.table') has before_… and after_… in one row.
    Only the columns that the query names are decoded.

    Examples:

      binlog-core sql "from shop.orders where _change_type = 'delete'" /backup/db1

      binlog-core sql "from changed_rows('shop.orders')" mysql-bin.000042

      binlog-core sql "select type, count(*) from events group by all" /backup/db1

      binlog-core sql "from transactions order by row_images desc limit 5" /backup
    """
    if os.path.exists(query):
        raise typer.BadParameter(f"{query!r} is a file: expected the query before the logs")
    with errors_as_lines():
        from ..scans.duckdb import connect
        from ..scans.duckdb import query as run

        con = connect()
        import duckdb

        with logs.open(passes=True, **logs.definitions(schema, schema_start), **part.places(logs)) as log:
            try:
                with patience("reading the logs"):
                    cursor = run(log, query, con)
                names = [column[0] for column in cursor.description or ()]
                _write(cursor, names, form or ("table" if is_terminal() else "csv"))
            except duckdb.Error as error:
                told = " ".join(_MARKER.sub("", str(error)).split())
                if told.endswith("KeyboardInterrupt:"):  # Ctrl-C in Python's code that DuckDB waited for
                    raise KeyboardInterrupt from None
                raise BinlogError(f"the query failed: {told}") from None
            except RuntimeError as error:
                if "interrupted" in str(error):  # DuckDB's error for Ctrl-C
                    raise KeyboardInterrupt from None
                raise


def _write(cursor: Any, names: list[str], form: str) -> None:
    if form == "table":
        _write_table(cursor, names)
        return
    if form == "vertical":
        _write_vertical(cursor, names)
        return
    out = standard_output()
    if form == "csv":
        out.write(csv_line(names))
    while rows := cursor.fetchmany(_BATCH):
        for row in rows:
            out.write(csv_line(row) if form == "csv" else json_line(dict(zip(names, row, strict=True))))
    out.flush()


def _write_table(cursor: Any, names: list[str]) -> None:
    console = results()
    rows = cursor.fetchmany(_MOST_ROWS + 1)
    names = [printable(name) for name in names]
    cells = [[_cell(value) for value in row] for row in rows[:_MOST_ROWS]]
    kept = _fitting(names, cells, console.width)
    table = Table(box=box.SIMPLE_HEAD)
    for index in kept:
        table.add_column(Text(names[index]), overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[index]) for index in kept))
    console.print(table)
    if len(rows) > _MOST_ROWS:
        console.print(f"… the first {_MOST_ROWS:,} rows; all with --format csv or jsonl")
    if left_out := len(names) - len(kept):
        console.print(f"… {left_out} of {len(names)} columns are left out; all with --format vertical")


def _fitting(names: list[str], cells: list[list[str]], width: int) -> list[int]:
    """The columns that fit beside each other unfolded: what was done first, then from left to right."""
    by_rank = sorted(range(len(names)), key=lambda index: (names[index] != "_change_type", index))
    room = width - _BORDER
    kept: list[int] = []
    for index in by_rank:
        widest = max([len(names[index]), *(cell_len(row[index]) for row in cells)])
        room -= min(widest, _WIDEST) + _GAP
        if room < 0 and len(kept) >= _LEAST_COLUMNS:
            break
        kept.append(index)
    return sorted(kept)


def _write_vertical(cursor: Any, names: list[str]) -> None:
    width = max(map(len, names), default=0)
    number = 0
    while rows := cursor.fetchmany(_BATCH):
        for row in rows:
            number += 1
            sys.stdout.write(f"-- row {number}\n")
            for name, value in zip(names, row, strict=True):
                sys.stdout.write(f"{printable(name):>{width}}: {_cell(value)}\n")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    value = plain(value)
    if isinstance(value, dict) and set(value) == {"hex"}:
        return f"0x{value['hex']}"
    return printable(str(value))
