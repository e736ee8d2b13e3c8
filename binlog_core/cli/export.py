"""``binlog-core export``: logs into Parquet, one directory per table, on Spark."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..errors import BinlogError
from ..report import KINDS
from .output import errors_as_lines, messages, size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..spark.export import ExportResult

_LOG_LINES = 20  # of Spark's own, shown when it fails by itself
_CELL_LEN = 40
_PADDING_LEN = 3  # of a cell in a table


def export(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT... OUTPUT", help="Logs, directories, index files or patterns; then the output."
        ),
    ],
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", "--tables", "-t", help="Table or pattern, shop.*; can be repeated."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(help="SQL file, or mysql://… of a server, with the tables' definitions; or ddl."),
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="Key file of encrypted logs.")] = None,
    images: Annotated[Literal["both", "after"], typer.Option(help="Row images of updates.")] = "both",
    unnamed: Annotated[
        Literal["refuse", "positions"],
        typer.Option(help="Columns without names: refuse, or name them c0, c1 … by position."),
    ] = "refuse",
    text_errors: Annotated[
        Literal["raise", "replace"], typer.Option(help="Bytes that are no text in their character set.")
    ] = "raise",
    on_error: Annotated[
        Literal["raise", "skip"], typer.Option(help="Damaged events: end with an error, or pass over them.")
    ] = "raise",
    compression: Annotated[
        Literal["snappy", "zstd", "gzip", "none"], typer.Option(help="Of the Parquet files.")
    ] = "snappy",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    show: Annotated[int, typer.Option(min=0, help="Rows of each table to print at the end.")] = 0,
) -> None:
    """Write the row changes of binary logs as Parquet, one directory per table, on Spark."""
    *inputs, output = logs
    if not inputs:
        raise typer.BadParameter("give the logs, then the output")
    with errors_as_lines():
        from ..spark import ReadOptions, export_logs
        from ..spark.splits import plan_splits

        options = ReadOptions(
            tables=tuple(tables) if tables else None,
            schema=schema,
            keys=str(keys) if keys else None,
            images=images,
            unnamed=unnamed,
            text_errors=text_errors,
            on_error=on_error,
        )
        plan_splits(inputs)  # what cannot be read says so before Spark is started
        with _session(master) as spark, _progress() as bar:
            result = export_logs(
                inputs,
                output,
                spark=spark,
                options=options,
                overwrite=overwrite,
                compression=compression,
                progress=bar,
            )
            bar(len(result.splits), len(result.splits))
            shown = [(table, _rows(spark, table.directory, show)) for table in result.tables] if show else []
    console = Console(highlight=False, emoji=False)
    console.print(_summary(result))
    _tell_losses(result)
    for table, rows in shown:
        console.print(rows_table(f"{table.database}.{table.table}", *rows, width=console.width))


@contextlib.contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    from ..spark.session import quiet_java, start_session

    # On Ctrl-C py4j logs a traceback to the root logger, which would set itself up to print it.
    logging.getLogger().addHandler(logging.NullHandler())
    with quiet_java() as log:
        try:
            spark = start_session(master, app_name="binlog-core export")
        except BinlogError as error:
            said = Path(log).read_text(errors="replace").strip().splitlines()[-_LOG_LINES:]
            Path(log).unlink(missing_ok=True)
            if said:
                error.message += ": " + " / ".join(said)
            raise
    try:
        yield spark
    finally:
        spark.stop()
        Path(log).unlink(missing_ok=True)


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    console = messages()
    bar = Progress(
        TextColumn("logs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("logs", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield advance


def _summary(result: ExportResult) -> Table:
    table = Table(title=f"{result.output}: {len(result.splits)} logs in {result.seconds:.1f} s")
    table.add_column("table", overflow="fold")
    for name in ("inserts", "updates", "deletes", "files", "bytes", "seconds"):
        table.add_column(name, justify="right")
    total = [0] * 5
    seconds = 0.0
    for one in result.tables:
        rows = one.rows
        counts = (rows["insert"], rows["update_postimage"], rows["delete"], one.files, one.bytes)
        total = [a + b for a, b in zip(total, counts, strict=True)]
        seconds += one.seconds
        table.add_row(Text(f"{one.database}.{one.table}"), *_cells(counts), f"{one.seconds:.2f}")
    table.add_section()
    table.add_row("all", *_cells(total), f"{seconds:.2f}")
    return table


def _cells(counts: Any) -> list[str]:
    *numbers, count = counts
    return [*(f"{number:,}" for number in numbers), size(count)]


def _tell_losses(result: ExportResult) -> None:
    console = messages()
    if not result.tables:
        console.print("no row changes of these tables in the logs", style="yellow")
    for kind, count in sorted(result.counts.items()):
        first = next(split.first[kind] for split in result.splits if kind in split.first)
        place = ", ".join(f"{name} {value}" for name, value in first._asdict().items() if value is not None)
        console.print(f"note: {count:,} {KINDS[kind]}; first: {place}", style="yellow", markup=False)
    for split in result.splits:
        if split.tail:
            console.print(f"note: {split.split.path}: {split.tail}", style="yellow", markup=False)


def _rows(spark: SparkSession, directory: str, count: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    # The first rows are those of the first definition; files of others may not even have the same types.
    frame = spark.read.option("pathGlobFilter", "v1-*").parquet(directory)
    frame = frame.orderBy("_commit_version", "_change_ordinal").limit(count)
    # As Python objects they would be in the time zone of this machine.
    instants = {name: frame[name].cast("string") for name, kind in frame.dtypes if kind == "timestamp"}
    frame = frame.withColumns(instants)
    return frame.columns, [tuple(row) for row in frame.collect()]


def rows_table(title: str, names: list[str], rows: list[tuple[Any, ...]], *, width: int) -> Table:
    """Rows as a table for the terminal: a column for each row where the rows are too wide for it.

    Parameters
    ----------
    title : str
    names : list of str
    rows : list of tuple
    width : int
        Of the terminal, in characters.
    """
    table = Table(title=Text(title), title_justify="left")
    cells = [[_cell(value) for value in row] for row in rows]
    widths = (max(map(len, column)) + _PADDING_LEN for column in zip(names, *cells, strict=True))
    if sum(widths) < width:
        for name in names:
            table.add_column(Text(name))
        for row in cells:
            table.add_row(*map(Text, row))
        return table
    table.add_column("column")
    for i in range(len(rows)):
        table.add_column(f"row {i + 1}")
    for name, *values in zip(names, *cells, strict=True):
        table.add_row(Text(name), *map(Text, values))
    return table


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes | bytearray):
        text = "0x" + bytes(value[:16]).hex() + ("…" if len(value) > 16 else "")
    else:
        text = str(value)
    text = "".join(c if c.isprintable() else "·" for c in text)
    return text if len(text) <= _CELL_LEN else text[: _CELL_LEN - 1] + "…"
