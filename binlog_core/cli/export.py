"""``binlog-core export``: logs into Parquet, one directory per table, on Spark or in this process."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._base.change_columns import LAKE_METADATA
from .._base.options import OnError, TextErrors, Unnamed, Xa
from .._decode.selection import is_wanted_name
from .._sources.places import is_server
from .._tables.full_names import full_name
from ..archive import archive as keep_archive
from ..archive.files import Files, put
from ..batch.change_batch import OPS
from ..conditions.language import condition_of
from ..errors import BinlogError
from ..log.opening import open as open_log
from ..log.server_names import names_at
from ..report import KINDS
from .options import LoginOptions, logs_have_names, option, spread
from .output import DDL_FOLLOWED, errors_as_lines, messages, note, print_table, printable, size
from .progress import patience, splits_bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..lake.rows.read_options import ReadOptions
    from ..lake.tables.results import ExportResult, ExportState
    from ..schema.given import Schema
    from ..spark.current import CurrentTable

_LOG_LINES = 20  # of Spark's own, shown when it fails by itself
_CELL_LEN = 40
_PADDING_LEN = 3  # of a cell in a table

Catalog = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Property of the Iceberg catalog; can be repeated."),
]


@spread
def export(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT... OUTPUT",
            help="Logs, directories, index files, patterns or mysql://user@host, followed by the output.",
        ),
    ],
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local[*]")] = None,
    runner: Annotated[
        Literal["spark", "local"],
        typer.Option(help="Who does the work: Spark, or threads of this process, without Java."),
    ] = "spark",
    tables: Annotated[list[str] | None, option("tables")] = None,
    exclude_table: Annotated[list[str] | None, option("exclude_tables")] = None,
    where: Annotated[str | None, option("where")] = None,
    schema: Annotated[str | None, option("schema")] = None,
    keys: Annotated[Path | None, option("keys")] = None,
    images: Annotated[Literal["both", "after"], option("images")] = "both",
    unnamed: Annotated[Unnamed, option("unnamed")] = "refuse",
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            help="Further columns for each change: _gtid, _file, _position, _server_id, _xid;"
            " separated by commas, or repeated. With _gtid, undo can find transactions by GTID."
        ),
    ] = None,
    text_errors: Annotated[TextErrors, option("text_errors")] = "raise",
    on_error: Annotated[OnError, option("on_error")] = "raise",
    xa: Annotated[Xa, option("xa")] = "prepared",
    compression: Annotated[
        Literal["snappy", "zstd", "gzip", "none"] | None,
        typer.Option(help="Parquet codec. Default: zstd, and snappy for small files."),
    ] = None,
    split_size: Annotated[
        str, typer.Option(help="Maximum bytes of log per task, also with k, m or g; 0: a whole log.")
    ] = "128m",
    file_size: Annotated[str, option("file_size")] = "128m",
    format: Annotated[
        Literal["parquet", "delta", "iceberg"],
        typer.Option(help="Output: Parquet files with a manifest, or Delta or Iceberg tables to append to."),
    ] = "parquet",
    run_id: Annotated[
        str | None, typer.Option(help="Name of this run; a run that has been committed is not repeated.")
    ] = None,
    catalog: Catalog = None,
    current: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Also write the rows that each table has after all changes (Parquet only).",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Continue where the last export with this file ended; created if missing."
        ),
    ] = None,
    status: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --state: file for the lag, JSON or Prometheus text (*.prom); can be repeated."
        ),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Rows of each table to print at the end.")] = 0,
    archive: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="For a server: directory that keeps its logs between runs. Default: they are not kept.",
        ),
    ] = None,
    *,
    login: LoginOptions,
) -> None:
    """Write the row changes in binary logs as Parquet, with or without Spark, one directory per table.

    Examples:

      binlog-core export /archive/binlogs /lake/changes --table 'shop.*'

      binlog-core export 'mysql-bin.*' out --master 'local[8]' --show 3

      binlog-core export 'mysql-bin.*' out --runner local

      binlog-core export /archive/binlogs /lake/changes --state /lake/export.state

      binlog-core export mysql://repl@db1 /lake/changes --archive /backup/db1
    """
    *inputs, output = logs
    if not inputs:
        raise typer.BadParameter("give the logs, then the output")
    more = tuple(name.strip() for item in metadata or () for name in item.split(","))
    if unknown := [name for name in more if name not in LAKE_METADATA]:
        raise typer.BadParameter(f"--metadata {unknown[0]!r}: expected {', '.join(LAKE_METADATA)}")
    if current is not None and (format != "parquet" or images != "both"):
        raise typer.BadParameter("--current needs --format parquet and --images both")
    if runner == "local" and master is not None:
        raise typer.BadParameter("--master needs --runner spark")
    if runner == "local" and (current is not None or show):
        raise typer.BadParameter("--current and --show need --runner spark")
    if state is None and status:
        raise typer.BadParameter("--status needs --state")
    if state is not None and (current or overwrite or run_id or xa == "committed"):
        raise typer.BadParameter(
            "--state cannot be combined with --current, --overwrite, --run-id or --xa committed"
        )
    live = any(map(is_server, inputs))
    if live and len(inputs) > 1:
        raise typer.BadParameter("a server cannot be exported together with other logs")
    if archive is not None and not live:
        raise typer.BadParameter("--archive needs a server: mysql://user@host")
    if live and state is not None and archive is None:
        raise typer.BadParameter("--state of a server needs --archive: the next run continues there")
    with errors_as_lines(), contextlib.ExitStack() as kept:
        from ..lake.rows.option_texts import size_or_none
        from ..lake.rows.read_options import ReadOptions
        from ..spark import LocalRunner, export_logs
        from ..spark.current import write_current
        from ..splits import plan_splits

        sizes: dict[str, int | None] = {}
        for name, text in (("split_size", split_size), ("file_size", file_size)):
            try:
                sizes[name] = size_or_none(text)
            except ValueError as error:
                raise typer.BadParameter(f"--{name.replace('_', '-')}: {error}") from None
        options = ReadOptions(
            tables=tuple(tables) if tables else None,
            exclude_tables=tuple(exclude_table) if exclude_table else None,
            where=condition_of(where),
            schema=schema,
            keys=str(keys) if keys else None,
            images=images,
            metadata=more,
            unnamed=unnamed,
            text_errors=text_errors,
            on_error=on_error,
        )
        server = inputs[0] if live else None
        if server is not None:
            folder = archive or kept.enter_context(tempfile.TemporaryDirectory(prefix="binlog-core-"))
            _keep(server, folder, login)
            inputs = [folder]
        plan_splits(inputs)  # unreadable input is reported before Spark is started, which takes seconds
        for one in inputs:
            with open_log(one, keys=options.keys):
                pass
        if (
            schema is None
            and unnamed == "refuse"
            and not logs_have_names(inputs, keys=options.keys, on_error=options.on_error)
        ):
            options = dataclasses.replace(options, schema=_names(server, options, login))
        with _session(master or "local[*]", runner) as spark, splits_bar() as bar:
            result = export_logs(
                inputs,
                output,
                spark=spark,
                runner=LocalRunner() if spark is None else None,
                options=options,
                overwrite=overwrite,
                compression=compression,
                progress=bar,
                split_size=sizes["split_size"],
                file_size=sizes["file_size"],
                format=format,
                run_id=run_id,
                catalog=catalog_of(catalog),
                xa=xa,
                state=state,
            )
            for file in status or ():
                write_state(file, result)
            shown: list[tuple[str, tuple[list[str], list[tuple[Any, ...]]]]] = []
            now: list[CurrentTable] = []
            if spark is not None:
                shown += [
                    (full_name(table.database, table.table), _changes(spark, table.directory, show))
                    for table in (result.tables if show and format == "parquet" else ())
                ]
                now += [] if current is None else write_current(spark, output, current, overwrite=overwrite)
                shown += [
                    (
                        f"{full_name(table.database, table.table)}, as it is now",
                        _rows(spark.read.parquet(table.directory), show),
                    )
                    for table in now
                    if show and table.directory is not None
                ]
    console = Console(highlight=False, emoji=False)
    print_table(console, _summary(result))
    if result.state is not None:
        for table in _lag(result.state):
            print_table(console, table)
    _tell_skew(result)
    _tell_losses(result)
    for title, rows in shown:
        console.print(rows_table(title, *rows, width=console.width))
    if current is not None:
        print_table(console, _current_summary(current, now))


def _keep(server: str, folder: str, login: LoginOptions) -> None:
    """Fetch what a server has logged until now: splits need files, which many tasks read in parallel."""
    access = login.login("options")
    try:
        with patience("fetching the server's logs"):
            keep_archive(server, folder, until="now", **access)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _session(master: str, runner: str) -> contextlib.AbstractContextManager[SparkSession | None]:
    """The session that does the work; None: this process."""
    return contextlib.nullcontext() if runner == "local" else spark_session(master, "export")


def _names(server: str | None, options: ReadOptions, login: LoginOptions) -> Schema | Literal["ddl"]:
    """Where names come from that the logs lack: the server that is exported, or CREATE TABLE in the logs."""
    if server is not None:
        address = login.address(server, "INPUT")
        names = names_at(address, lambda one: is_wanted_name(one, options.tables, options.exclude_tables))
        if names:
            return names  # otherwise the user may see none of the tables
    DDL_FOLLOWED.set()
    return "ddl"


@contextlib.contextmanager
def spark_session(master: str, command: str) -> Iterator[SparkSession]:
    """A session for the duration of a command; if it does not start, Java's messages are shown."""
    from ..spark.session import quiet_java, start_session

    # On Ctrl-C py4j logs a traceback to the root logger, which would set itself up to print it.
    logging.getLogger().addHandler(logging.NullHandler())
    with quiet_java() as log:
        try:
            spark = start_session(master, app_name=f"binlog-core {command}")
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


def write_state(file: Path, result: ExportResult) -> None:
    """Write how far an export is to a file."""
    if result.state is not None:
        prometheus = file.suffix == ".prom"
        data = result.state.to_prometheus() if prometheus else result.state.to_json()
        put(Files(), str(file), data, durable=False)


def _lag(state: ExportState) -> Iterator[Table]:
    table = Table(title=Text(printable(f"{state.output}: {state.runs} runs")))
    for name in ("exported up to", "seconds behind", "bytes behind", "transactions behind"):
        table.add_column(name, overflow="fold", justify="left" if name == "exported up to" else "right")
    there = "nothing yet" if state.file is None else f"{state.file}:{state.position}"
    behind = state.transactions_behind
    table.add_row(
        Text(printable(there)),
        f"{state.seconds_behind:.0f}",
        f"{state.bytes_behind:,}",
        "" if behind is None else f"{behind:,}",
    )
    yield table
    rows = Table(title="row images in all runs")
    rows.add_column("table", overflow="fold")
    for name in OPS.values():
        rows.add_column(name, justify="right")
    for name, counts in sorted(state.rows.items()):
        rows.add_row(Text(printable(name)), *(f"{counts.get(kind, 0):,}" for kind in OPS.values()))
    yield rows


def catalog_of(properties: list[str] | None) -> dict[str, str] | None:
    """The properties of ``--catalog``; None: there are none."""
    return pairs_of("--catalog", properties)


def pairs_of(option: str, given: list[str] | None) -> dict[str, str] | None:
    """The values of an option that is repeated as ``NAME=VALUE``; None: there are none."""
    if not given:
        return None
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise typer.BadParameter(f"{option} {one}: expected NAME=VALUE")
        found[name] = value
    return found


def _summary(result: ExportResult) -> Table:
    table = Table(title=Text(printable(_title(result))))
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
        table.add_row(
            Text(printable(full_name(one.database, one.table))), *_cells(counts), f"{one.seconds:.2f}"
        )
    table.add_section()
    table.add_row("all", *_cells(total), f"{seconds:.2f}")
    return table


def _current_summary(output: str, tables: list[CurrentTable]) -> Table:
    summary = Table(title=Text(printable(f"{output}: tables after all changes")))
    summary.add_column("table", overflow="fold")
    summary.add_column("rows", justify="right")
    summary.add_column("", overflow="fold")
    for one in tables:
        rows = "" if one.directory is None else f"{one.rows:,}"
        summary.add_row(
            Text(printable(full_name(one.database, one.table))), rows, Text(printable(one.reason or ""))
        )
    return summary


def _title(result: ExportResult) -> str:
    if result.repeated:
        return f"{result.output}: run {result.run_id} was written before"
    logs = f"{result.logs} log{'s' if result.logs != 1 else ''}"
    splits = f"{len(result.splits)} split{'s' if len(result.splits) != 1 else ''}"
    return f"{result.output}: {logs}, {size(result.log_bytes)} in {splits}, in {result.seconds:.1f} s"


def _tell_skew(result: ExportResult) -> None:
    slowest = result.slowest
    if slowest is None or len(result.splits) < 2:
        return
    console = messages()
    where = f"{slowest.split.name} from byte {slowest.split.start:,}"
    console.print(
        f"slowest split: {slowest.seconds:.2f} s, {result.skew:.1f} times the mean ({printable(where)})",
        markup=False,
    )
    for one in result.long_transactions:
        note(
            f"a transaction reaches {size(one.overrun)} beyond its split, which one task read"
            f" ({one.split.name} from byte {one.split.start:,})"
        )
    if result.reread:
        note(f"{result.reread} splits began inside a value and were read again")


def _cells(counts: Any) -> list[str]:
    *numbers, count = counts
    return [*(f"{number:,}" for number in numbers), size(count)]


def _tell_losses(result: ExportResult) -> None:
    console = messages()
    if not result.tables and not result.repeated:
        console.print("no row changes of these tables in the logs", style="yellow")
    for name in result.missing:
        note(f"no row changes of {name} in the logs")
    for kind, count in sorted(result.counts.items()):
        first = next(split.first[kind] for split in result.splits if kind in split.first)
        place = ", ".join(f"{name} {value}" for name, value in first._asdict().items() if value is not None)
        note(f"{KINDS[kind]}: {count:,}; first: {place}")
    for split in result.splits:
        if split.tail:
            note(f"{split.split.name}: {split.tail}")


def _changes(spark: SparkSession, directory: str, count: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    # The first rows are those of the first definition; files of other definitions may have different types.
    frame = spark.read.option("pathGlobFilter", "v1-*").parquet(directory)
    return _rows(frame.orderBy("_commit_version", "_change_ordinal"), count)


def _rows(frame: DataFrame, count: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    frame = frame.limit(count)
    # As Python objects they would be in this machine's time zone.
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
        Width of the terminal, in characters.
    """
    table = Table(title=Text(printable(title)), title_justify="left")
    cells = [[_cell(value) for value in row] for row in rows]
    widths = (max(map(len, column)) + _PADDING_LEN for column in zip(names, *cells, strict=True))
    if sum(widths) < width:
        for name in names:
            table.add_column(Text(printable(name)))
        for row in cells:
            table.add_row(*map(Text, row))
        return table
    table.add_column("column")
    for i in range(len(rows)):
        table.add_column(f"row {i + 1}")
    for name, *values in zip(names, *cells, strict=True):
        table.add_row(Text(printable(name)), *map(Text, values))
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
