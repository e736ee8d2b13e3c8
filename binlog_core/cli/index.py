"""``binlog-core index``: writes beside the logs what each range of transactions contains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..index.making import index as make_index
from .options import option
from .output import errors_as_lines, printable, results, size
from .progress import patience


def index(
    files: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Local logs, directories of logs, archives or patterns."),
    ],
    schema: Annotated[str | None, option("schema", " They have the primary keys.")] = None,
    keys: Annotated[Path | None, option("keys", " Only the owner can then read the index.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Also index logs that have not changed.")] = False,
) -> None:
    """Write an index beside the logs, which other commands then use automatically.

    For each range of about 1 MiB it holds times, GTIDs, servers, threads, tables, row counts, and Bloom
    filters of primary keys. Logs that have not changed since the last run are not read again.

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
