"""The typer application: the commands by name, and shared parts."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from . import (
    archive,
    doctor,
    events,
    export,
    history,
    index,
    info,
    mirror,
    report,
    rows,
    sql,
    transactions,
    undo,
    verify,
    versions,
)
from .vendor_options import Command


class _Commands(TyperGroup):
    """The commands; a log in place of a command is passed to ``info``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # A name that is neither takes the usual path, which suggests similar ones.
        if args and self.get_command(ctx, args[0]) is None and (os.path.exists(args[0]) or "://" in args[0]):
            args = ["info", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="binlog-core",
    help="MySQL and MariaDB binary logs as columns.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"binlog-core {versions.own_version()}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done; 1 failed (a damaged log, an unknown table, output that exists, a full disk); "
    "2 wrong usage; 130 interrupted; 141 broken pipe."
)
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    """MySQL and MariaDB binary logs as columns."""


app.command("info", cls=Command)(info.info)
app.command("events", cls=Command)(events.events)
app.command("rows", cls=Command)(rows.rows)
app.command("sql", cls=Command)(sql.sql)
app.command("history", cls=Command)(history.history)
app.command("index", cls=Command)(index.index)
app.command("transactions", cls=Command)(transactions.transactions)
app.command("undo", cls=Command)(undo.undo)
app.command("report", cls=Command)(report.report)
app.command("verify", cls=Command)(verify.verify)
app.command("export", cls=Command)(export.export)
app.command("archive", cls=Command)(archive.archive)
app.add_typer(mirror.mirror, name="mirror")
app.command("doctor", cls=Command)(doctor.doctor)
app.command("versions", cls=Command)(versions.versions)
