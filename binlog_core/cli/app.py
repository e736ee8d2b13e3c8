"""The typer application: the commands by name, each imported only when it runs."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# The first line of each command's help, so that the list of commands imports none of them.
COMMANDS = {
    "info": (
        "Summarize logs: format, servers, time range, GTIDs, events, tables and the largest transactions."
    ),
    "events": "Print one line per event: position, time, server, bytes, type and content.",
    "rows": (
        "Print row changes as text, JSON lines, CSV, Arrow, Parquet or SQL, in log order, in bounded memory."
    ),
    "sql": "Query logs with DuckDB: tables by their names, and the tables events and transactions.",
    "history": "Show each change of a row, with its time, transaction, thread, statement and values.",
    "index": "Write an index beside the logs, which other commands then use automatically.",
    "transactions": (
        "List transactions that change rows, with place, time, thread, bytes, tables and statement."
    ),
    "undo": (
        "Reverse the row changes of transactions: as a script, or with --check and --execute on the server."
    ),
    "report": (
        "Make an HTML page about logs: activity by table and operation, transactions, schema changes"
        " and gaps."
    ),
    "verify": "Check every length, checksum, row and transaction of logs, and report damaged ranges.",
    "export": (
        "Write the row changes in binary logs as Parquet, with or without Spark, one directory per table."
    ),
    "archive": "Keep byte-for-byte copies of a server's logs, continuing where the last run ended.",
    "mirror": (
        "Copy a server's tables into a lake and keep them up to date: mirror SERVER LAKE --tables 'shop.*'."
    ),
    "doctor": "Check whether a server's logs can be read, and say how to fix what would fail.",
    "versions": (
        "Print the versions of binlog_core, Python and the libraries, and how checksums are computed here."
    ),
}


_VALUES = {
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<path>": "FILE",
    "<file>": "FILE",
    "<list[Path]>": "FILE",
    "<int range>": "NUMBER",
    "<float range>": "NUMBER",
    "<float>": "NUMBER",
}


def command(name: str) -> Any:
    """The click command of a name."""
    found = getattr(import_module(f".{name}", __package__), name)
    if not isinstance(found, typer.Typer):
        from .vendor_options import Command

        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name, cls=Command)(found)
        found = alone
    made: Any = typer.main.get_command(found)
    made.name = name
    narrow = shutil.get_terminal_size().columns < 80  # a table of options would cut names and addresses
    for one in (made, *getattr(made, "commands", {}).values()):
        if narrow:
            one.rich_markup_mode = None
        for option in one.params:
            _name_value(option)
    return made


def _name_value(option: Any) -> None:
    """Say what an option takes in words of the field: typer would show <bool> and <list[str]>."""
    if getattr(option, "is_flag", False):
        option.metavar = ""
    if (shown := getattr(option, "display_type_rich", None)) is not None:  # not in older ones
        argument = option.param_type_name == "argument"  # its name says it
        option.display_type_rich = lambda ctx: None if argument else _VALUES.get(shown(ctx), shown(ctx))


class _Commands(TyperGroup):
    """The commands; a log in place of a command is passed to ``info``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # A name that is neither takes the usual path, which suggests similar ones.
        if args and args[0] not in COMMANDS and (os.path.exists(args[0]) or "://" in args[0]):
            args = ["info", *args]
        name, _, rest = super().resolve_command(ctx, args)
        return name, command(name) if name is not None else None, rest


app = typer.Typer(
    name="binlog-core",
    help="Read, search, undo, archive and mirror MySQL and MariaDB binary logs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from .versions import own_version

        typer.echo(f"binlog-core {own_version()}")
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
    """Read, search, undo, archive and mirror MySQL and MariaDB binary logs."""
