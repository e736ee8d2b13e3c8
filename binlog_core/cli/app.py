"""The typer application: commands by name, and what they share."""

from __future__ import annotations

import typer

from . import export

app = typer.Typer(
    name="binlog-core",
    help="MySQL and MariaDB binary logs as columns.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """MySQL and MariaDB binary logs as columns."""  # also keeps a single command a command


app.command("export")(export.export)
