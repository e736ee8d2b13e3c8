"""``binlog-core sql``: a query over logs."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from ..errors import BinlogError
from .options import LogOptions, RangeOptions, spread
from .output import errors_as_lines, is_terminal, printable, results
from .progress import patience
from .text import csv_line, json_line, plain

_MOST_ROWS = 1000  # of a table for people
_BATCH = 1000


@spread
def sql(
    query: Annotated[
        str, typer.Argument(help="SELECT … FROM changes('shop.orders'), events or transactions.")
    ],
    logs: LogOptions,
    part: RangeOptions,
    form: Annotated[
        Literal["table", "csv", "jsonl"] | None,
        typer.Option("--format", "-f", help="What to write; a table on a terminal, else csv."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(help="SQL file, or mysql://… of a server, with definitions; or ddl: those in the log."),
    ] = None,
) -> None:
    """Ask DuckDB: changes('database.table') has row images, events and transactions the rest of the logs.

    Images have the table's columns and _change_type (insert, update_preimage, update_postimage, delete),
    _commit_timestamp, _timestamp, _gtid, _server_id, _file, _position, _row and _transaction.
    Only the columns that the query names are decoded.

    Examples:

      binlog-core sql "select * from changes('shop.orders') where _change_type = 'delete'" mysql-bin.000042

      binlog-core sql "select type, count(*) from events group by all order by 2 desc" mysql-bin.000042

      binlog-core sql "from transactions order by row_images desc limit 5" /var/lib/mysql
    """
    with errors_as_lines():
        from ..duckdb import connect
        from ..duckdb import query as run

        con = connect()
        import duckdb

        with logs.open(passes=True, schema=schema, **part.places(logs)) as log:
            try:
                with patience("reading the logs"):
                    cursor = run(log, query, con)
                names = [column[0] for column in cursor.description or ()]
                _write(cursor, names, form or ("table" if is_terminal() else "csv"))
            except duckdb.Error as error:
                raise BinlogError(f"the query failed: {error}") from None
            except RuntimeError as error:
                if "interrupted" in str(error):  # so DuckDB tells of Ctrl-C
                    raise KeyboardInterrupt from None
                raise


def _write(cursor: Any, names: list[str], form: str) -> None:
    if form == "table":
        table = Table(box=box.SIMPLE_HEAD)
        for name in names:
            table.add_column(Text(name), overflow="fold")
        rows = cursor.fetchmany(_MOST_ROWS + 1)
        for row in rows[:_MOST_ROWS]:
            table.add_row(*(Text(_cell(value)) for value in row))
        console = results()
        console.print(table)
        if len(rows) > _MOST_ROWS:
            console.print(f"… the first {_MOST_ROWS:,} rows; --format csv or jsonl has all")
        return
    out = sys.stdout.buffer
    if form == "csv":
        out.write(csv_line(names))
    while rows := cursor.fetchmany(_BATCH):
        for row in rows:
            out.write(csv_line(row) if form == "csv" else json_line(dict(zip(names, row, strict=True))))
    out.flush()


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    value = plain(value)
    if isinstance(value, dict) and set(value) == {"hex"}:
        return f"0x{value['hex']}"
    return printable(str(value))
