"""``binlog-core index``: what each range of transactions holds, beside the logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..index import index as make_index
from .output import errors_as_lines, printable, results, size
from .progress import patience


def index(
    files: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Logs, directories of logs, archives or patterns; local ones."),
    ],
    schema: Annotated[
        str | None,
        typer.Option(help="SQL file, or mysql://… of a server, with definitions; or ddl: for primary keys."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="Key file of encrypted logs; the index is then for its owner alone.")
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Also of logs that have not changed since.")] = False,
) -> None:
    """Make an index beside the logs, which every command then uses by itself.

    It holds, for about each MiB of transactions: times, GTIDs, servers, threads, tables, row counts, and
    filters of the values of primary keys. What has not changed since the last call stays as it is.

    Examples:

      binlog-core index /backup/db1

      binlog-core index --schema ddl /backup/db1/mysql-bin.000042
    """
    with errors_as_lines():
        with patience("reading the logs"):
            found = make_index(files, schema=schema, keys=keys, anew=anew)
        console = results()
        for one in found:
            told = "indexed" if one.made else "unchanged"
            console.print(Text(printable(f"{one.path}: {told}, {size(one.bytes)}")))
