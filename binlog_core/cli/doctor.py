"""``binlog-core doctor``: what will fail when a server's logs are read, and how to fix it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from .._sources.places import is_server
from ..server.doctor import Finding, examine
from .options import LoginOptions, spread
from .output import EXIT_ERROR, EXIT_USAGE, errors_as_lines, messages, printable, results

_STYLES = {"ok": "green", "note": "yellow", "fails": "red"}


@spread
def doctor(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="mysql://user@host:port or mariadb://…")],
    archive: Annotated[
        Path | None, typer.Option(help="Also check this archive of the server: missing logs and disk space.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding.")] = False,
    *,
    login: LoginOptions,
) -> None:
    """Check whether a server's logs can be read, and say how to fix what would fail.

    Exit code 0: reading works; 1: it fails, or the server cannot be reached.

    Example:

      binlog-core doctor mysql://repl@db1 --password-file ~/.repl
    """
    with errors_as_lines():
        if not is_server(server):
            messages().print(
                f"binlog-core: {printable(server)} is not a server's address: expected mysql://user@host:port"
            )
            raise typer.Exit(EXIT_USAGE)
        findings = examine(login.address(server, "SERVER"), archive)
        for finding in findings:
            _tell(finding, as_json=as_json)
    if any(finding.state == "fails" for finding in findings):
        raise typer.Exit(EXIT_ERROR)


def _tell(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        json.dump(dataclasses.asdict(finding), sys.stdout)
        sys.stdout.write("\n")
        return
    console = results()
    said = Text(f"{finding.subject}: {printable(finding.found)}")
    if finding.cure:
        said.append(f"\n→ {printable(finding.cure)}", style="cyan")
    if console.is_terminal:
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_column(width=5)
        line.add_column(overflow="fold")
        line.add_row(Text(finding.state, style=_STYLES[finding.state]), said)
        console.print(line)
    else:
        console.print(
            f"{finding.state:<6}{said.plain}".replace("\n", "\n      "), soft_wrap=True, markup=False
        )
