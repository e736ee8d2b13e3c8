"""``binlog-core mirror``: the tables of a server in a lake, kept up to date and compared with it."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from .._base.durations import seconds_of
from .._base.options import Deletes
from .archive import stopping
from .config_file import ConfigFile
from .export import Catalog, catalog_of, pairs_of, spark_session
from .options import LoginOptions, option, spread
from .output import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    duration,
    errors_as_lines,
    messages,
    moment,
    print_table,
    printable,
    results,
)
from .progress import LiveLine, patience

if TYPE_CHECKING:
    from ..mirror import TableStatus
    from ..mirror.comparing import Compared
    from ..spark.workers import SparkRunner

_RUN = "run"
_ASKING = "working"
_BETWEEN_LINES = 30.0  # seconds, during copies
_COPIES_SHOWN = 3


class _Group(TyperGroup):
    """``mirror SERVER LAKE`` is ``mirror run SERVER LAKE``, also in the help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        run = self.commands[_RUN]
        run.format_help(type(ctx)(run, info_name=ctx.info_name, parent=ctx.parent), formatter)
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


mirror = typer.Typer(
    cls=_Group,
    add_completion=False,
    no_args_is_help=True,
    help="Copy a server's tables into a lake and keep them up to date: mirror SERVER LAKE --tables 'shop.*'.",
)

Lake = Annotated[str, typer.Argument(metavar="LAKE", help="Directory or URL of the lake.")]
Tables = Annotated[
    list[str] | None, typer.Argument(metavar="TABLE", help="Names or patterns such as 'shop.*'.")
]
Master = Annotated[
    str | None, typer.Option(help="Spark master that does the work. Default: this process, without Java.")
]
NamedTables = Annotated[
    list[str], typer.Argument(metavar="TABLE", help="Names or patterns such as 'shop.*'.")
]
MaskKeyFile = Annotated[
    Path | None,
    typer.Option(help="File with the key of --mask-columns. Default: BINLOG_CORE_MASK_KEY."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per table.")]


@mirror.command(_RUN)
@spread
def run(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER", help="mysql://user@host:port,…; see --password-file for the password."
        ),
    ],
    lake: Lake,
    tables: Annotated[list[str] | None, option("tables")] = None,
    exclude_tables: Annotated[list[str] | None, option("exclude_tables", flag="--exclude-tables")] = None,
    exclude_columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns to leave out, such as 'shop.users.password'; can be repeated."),
    ] = None,
    mask_columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns to hash with a key, such as 'shop.*.email'; can be repeated."),
    ] = None,
    mask_key_file: MaskKeyFile = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Rows to keep, such as 'shop.orders=total > 10'; can be repeated."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="Divide a table's files: 'shop.orders=day(at), region'; can be repeated."),
    ] = None,
    soft_deletes: Annotated[
        list[str] | None,
        typer.Option(help="Tables whose deleted rows stay, with true in a column _deleted; can be repeated."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(help="Rename tables in the lake, such as 'shop_prod.*=shop.*'; can be repeated."),
    ] = None,
    unsigned_bigint: Annotated[
        Literal["decimal", "bigint"],
        typer.Option(help="Type of BIGINT UNSIGNED in the lake; with bigint, larger values park the table."),
    ] = "decimal",
    metadata: Annotated[
        list[str] | None,
        typer.Option(help="commit_timestamp or gtid, of the last change of each row; can be repeated."),
    ] = None,
    archive: Annotated[
        str | None, typer.Option(help="Directory for the server's logs. Default: a directory in the lake.")
    ] = None,
    until: Annotated[
        Literal["now"] | None,
        typer.Option(help="Stop at the server's current position; by default keep running."),
    ] = None,
    format: Annotated[
        Literal["delta", "iceberg"] | None,
        typer.Option(help="Table format. Default: that of the lake, or delta for a new lake."),
    ] = None,
    catalog: Catalog = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also keep all versions of rows, in LAKE/history/TABLE.")
    ] = False,
    deletes: Annotated[Deletes, option("deletes")] = "copy",
    compact: Annotated[str, typer.Option(help="How often a table's small files are merged.")] = "1h",
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Maximum MB per second that copies read from the server.")
    ] = None,
    heal: Annotated[
        float,
        typer.Option(
            min=0.0, help="Maximum GB a day for copying a table again when the log does not show a change."
        ),
    ] = 10.0,
    verify_rate: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Maximum MB per second read to compare tables with the server while the mirror runs, each at"
            " most once an hour. Default: off.",
        ),
    ] = None,
    status: Annotated[
        list[Path] | None,
        typer.Option(help="File for the status: JSON, or Prometheus text (*.prom); may be given twice."),
    ] = None,
    master: Master = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    *,
    login: LoginOptions,
) -> None:
    """Copy a server's tables into a lake and keep them up to date, continuing where the last run ended.

    Needs neither locks nor Kafka. If a table cannot continue, only that table is parked, with the reason.
    SIGTERM stops it cleanly. Exit code 1: an error, or a table is parked or suspect (it may lack changes).

    Examples:

      binlog-core mirror mysql://repl@db1 /lake/shop --tables 'shop.*' --until now

      binlog-core mirror --config shop.toml

      binlog-core mirror status /lake/shop

      binlog-core mirror verify /lake/shop shop.orders

      binlog-core mirror resync /lake/shop shop.orders

      binlog-core mirror pause /lake/shop shop.orders
    """
    from ..mirror import mirror as keep_mirror

    access = login.login("options")
    try:
        every = seconds_of(compact, "--compact")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with errors_as_lines(), _runner(master) as runner, stopping() as told, _Line(lasts=until is None) as line:
        try:
            found = keep_mirror(
                server,
                lake,
                tables=tables,
                exclude_tables=exclude_tables or (),
                exclude_columns=exclude_columns or (),
                mask_columns=mask_columns or (),
                mask_key_file=mask_key_file,
                where=pairs_of("--where", where),
                partition=pairs_of("--partition", partition),
                soft_deletes=soft_deletes or (),
                rename=pairs_of("--rename", rename),
                unsigned_bigint=unsigned_bigint,
                metadata=metadata or (),
                archive=archive,
                until=until,
                format=format,
                catalog=catalog_of(catalog),
                history=history,
                deletes=deletes,
                status=status or (),
                compact=every,
                rate=None if rate is None else rate * 1e6,
                heal=heal * 1e9,
                verify_rate=None if verify_rate is None else verify_rate * 1e6,
                runner=runner,
                **access,
                stop=told.event,
                progress=line,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    with errors_as_lines():
        _show(found, as_json=as_json)
    if told.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    _exit(found)


@mirror.command()
def status(
    lake: Lake,
    as_json: AsJson = False,
    catalog: Catalog = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Metrics in Prometheus' text format.")
    ] = False,
) -> None:
    """Show each table's lag, rows and last commit, from the lake and the archive.

    Exit code 1: a table is parked or suspect.
    """
    from ..mirror import status as look
    from ..mirror.reporting import MirrorStatus

    with errors_as_lines():
        found = look(lake, catalog=catalog_of(catalog))
        if prometheus:
            sys.stdout.write(MirrorStatus(lake, found).to_prometheus().decode())
        else:
            _show(found, as_json=as_json)
    _exit(found)


@mirror.command()
@spread
def resync(
    lake: Lake,
    tables: Tables = None,
    catalog: Catalog = None,
    master: Master = None,
    mask_key_file: MaskKeyFile = None,
    as_json: AsJson = False,
    *,
    login: LoginOptions,
) -> None:
    """Copy tables again, by default parked and suspect ones; all tables reach the server's position.

    A running mirror is asked to do it, and goes on; it answers before the copies are made.
    """
    from ..mirror import resync as copy_anew

    access = login.login("options") | {"mask_key_file": mask_key_file}
    with errors_as_lines(), _runner(master) as runner, patience(_ASKING):
        found = copy_anew(lake, *(tables or ()), catalog=catalog_of(catalog), runner=runner, **access)
    with errors_as_lines():
        _show(found, as_json=as_json)
    _exit(found)


@mirror.command()
@spread
def verify(
    lake: Lake,
    tables: Tables = None,
    catalog: Catalog = None,
    master: Master = None,
    mask_key_file: MaskKeyFile = None,
    as_json: AsJson = False,
    *,
    login: LoginOptions,
) -> None:
    """Compare tables with the server row by row, at one position in its log, and list the rows that differ.

    A running mirror is asked to do it, and goes on.

    Exit code 1: a row differs, or a table could not be compared.
    """
    from ..mirror import verify as compare

    access = login.login("options") | {"mask_key_file": mask_key_file}
    with errors_as_lines(), _runner(master) as runner:
        with patience(_ASKING):
            found = compare(lake, *(tables or ()), catalog=catalog_of(catalog), runner=runner, **access)
        for one in found:
            _tell(one, as_json=as_json)
    if not all(one.agrees for one in found):
        raise typer.Exit(EXIT_ERROR)


@mirror.command()
def pause(lake: Lake, tables: Tables = None, as_json: AsJson = False) -> None:
    """Stop following tables, by default all, until resume; the server's log is still archived."""
    from ..mirror import pause as change

    _change(change, lake, tables, as_json=as_json)


@mirror.command()
def resume(lake: Lake, tables: Tables = None, as_json: AsJson = False) -> None:
    """Continue paused tables, by default all, from where they stopped."""
    from ..mirror import resume as change

    _change(change, lake, tables, as_json=as_json)


@mirror.command()
def add(lake: Lake, tables: NamedTables, as_json: AsJson = False) -> None:
    """Mirror more tables, also in later runs, whatever their --tables and --exclude-tables say."""
    from ..mirror import add as change

    _change(change, lake, tables, as_json=as_json)


@mirror.command()
def drop(lake: Lake, tables: NamedTables, as_json: AsJson = False) -> None:
    """Stop mirroring tables, also in later runs, until add; their rows stay in the lake."""
    from ..mirror import drop as change

    _change(change, lake, tables, as_json=as_json)


def _change(
    change: Callable[..., list[TableStatus]], lake: str, tables: list[str] | None, *, as_json: bool
) -> None:
    """Have a running mirror do something, or note it for the next run."""
    with errors_as_lines():
        with patience(_ASKING):
            found = change(lake, *(tables or ()))
        _show(found, as_json=as_json)
        if any(one.stopped is not None for one in found):
            messages().print("no process runs this mirror: the next run finds it", markup=False)
    _exit(found)


@contextmanager
def _runner(master: str | None) -> Iterator[SparkRunner | None]:
    """Who does the work; None: this process."""
    if master is None:
        yield None
        return
    from ..spark.workers import SparkRunner

    with spark_session(master, "mirror") as spark:
        yield SparkRunner(spark)


class _Line(LiveLine):
    """What a mirror does: a live line on a terminal, and where there is none, a line for each change.

    Parameters
    ----------
    lasts : bool
        Whether it runs until it is stopped; otherwise it only says something on a terminal.
    """

    def __init__(self, *, lasts: bool) -> None:
        super().__init__()
        self._lasts = lasts
        self._before: tuple[Counter[str], float] = Counter(), 0.0

    def __call__(self, found: Sequence[TableStatus]) -> None:
        """Show the state of the tables."""
        if self._console.is_terminal:
            self.show(live_line(found))
        elif self._lasts:
            stages, now = Counter(one.stage for one in found), time.monotonic()
            due = "copying" in stages and now - self._before[1] >= _BETWEEN_LINES
            if stages != self._before[0] or due:
                self._before = stages, now
                self._console.print(
                    Text(f"{moment(time.time())}  {printable(live_line(found))}"), soft_wrap=True
                )


def live_line(found: Sequence[TableStatus]) -> str:
    """The state of a mirror in one line."""
    parts = []
    stages = Counter(one.stage for one in found)
    if count := stages.pop("copying", 0):
        parts.append(f"copying {count:,} of {len(found):,} tables")
        begun = sorted((one for one in found if one.copied), key=lambda one: -(one.copied or 0))
        parts += [f"{one.table} {one.copied:.0%}" for one in begun[:_COPIES_SHOWN]]
    if count := stages.pop("following", 0):
        parts.append(f"{count:,} {'table follows' if count == 1 else 'tables follow'} the server")
        lags = [one.lag_seconds for one in found if one.stage == "following" and one.lag_seconds is not None]
        parts += [f"{max(lags):,.1f} s behind"] if lags else []
    parts += [f"{count:,} {stage}" for stage, count in sorted(stages.items())]
    return ", ".join(parts) or "no tables"


def _exit(found: Iterable[TableStatus]) -> None:
    if any(one.stage in ("parked", "suspect") for one in found):
        raise typer.Exit(EXIT_ERROR)


def _show(found: Iterable[TableStatus], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            _json(dataclasses.asdict(one))
        return
    found = list(found)
    table, proofs = Table(box=box.SIMPLE_HEAD), any(one.proved is not None for one in found)
    for name in ("table", "state"):
        table.add_column(name, overflow="fold")
    figures = ["lag", "bytes behind", "transactions", "rows", "log position", "last commit"]
    for name in [*figures, "last proof"] if proofs else figures:
        table.add_column(name, justify="right")
    for one in found:
        proof = "" if one.proved is None else moment(one.proved)
        table.add_row(
            Text(printable(one.table)),
            _stage(one),
            "" if one.lag_seconds is None else duration(one.lag_seconds),
            _unless_unknown(one.lag_bytes, one),
            _unless_unknown(one.lag_transactions, one),
            "" if one.rows is None else f"{one.rows:,}",
            "" if one.log is None else f"{one.file or one.log}:{one.position}",
            "" if one.committed is None else moment(one.committed),
            *([proof] if proofs else ()),
        )
    print_table(results(), table)
    for one in found:
        if one.reason:
            messages().print(f"{printable(one.table)}: {printable(one.reason)}", style="yellow", markup=False)
        if one.unlogged:
            text = f"{one.table}: the server does not log {', '.join(one.unlogged)}: left out, and null"
            messages().print(printable(text), markup=False)


def _stage(one: TableStatus) -> str:
    if one.stage == "stopped" and one.stopped is not None:
        return f"stopped since {moment(one.stopped)}"
    return f"{one.stage} {one.copied:.0%}" if one.copied else one.stage


def _unless_unknown(lag: int | None, one: TableStatus) -> str:
    """A lag; nobody asks the server while the mirror is stopped."""
    return f"{lag:,}" if lag is not None else "unknown" if one.stage == "stopped" else ""


def _tell(one: Compared, *, as_json: bool) -> None:
    if as_json:
        _json({**dataclasses.asdict(one), "agrees": one.agrees})
        return
    if one.reason is not None:
        results().print(Text(printable(f"{one.table}: not compared: {one.reason}"), style="yellow"))
    elif one.agrees:
        agree = "row agrees" if one.rows == 1 else "rows agree"
        results().print(Text(printable(f"{one.table}: {one.rows:,} {agree}")))
    else:
        results().print(
            Text(printable(f"{one.table}: {one.differ:,} of {one.rows:,} rows differ"), style="red")
        )
        if one.columns:
            text = f"  columns with values that the server does not have: {', '.join(one.columns)}"
            results().print(Text(printable(text)), soft_wrap=True)
        for what in ("changed", "missing", "extra"):
            for key in getattr(one, what):
                named = ", ".join(f"{name}={value!r}" for name, value in key.items())
                results().print(Text(printable(f"  {what}: {named}")), soft_wrap=True)


def _json(value: dict[str, Any]) -> None:
    json.dump(value, sys.stdout, default=str)
    sys.stdout.write("\n")
