"""``binlog-core report``: logs as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..inspect.hot_keys import hot_keys
from ..inspect.report_page import report_page
from ..inspect.summarize import summarize
from .files import output
from .options import LogOptions, RangeOptions, RowOptions, spread
from .output import errors_as_lines
from .progress import progress

_TABLES = 5  # tables whose hot keys are searched


@spread
def report(
    logs: LogOptions,
    selection: RowOptions,
    part: RangeOptions,
    to: Annotated[
        Path, typer.Option("--output", "-o", help="Output file; - is standard output.", dir_okay=False)
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    title: Annotated[str | None, typer.Option(help="Heading (default: the names of the logs).")] = None,
) -> None:
    """Make an HTML page about logs: activity by table and operation, transactions, schema changes and gaps.

    The page is one file without scripts or network access. It follows the reader's light or dark theme.

    Examples:

      binlog-core report mysql-bin.000042 -o report.html

      binlog-core report /backup/db1 -d shop -o shop.html --title 'Black Friday'
    """
    with errors_as_lines():
        chosen = selection.selection() | part.places(logs)
        chosen |= logs.definitions(selection.schema, selection.schema_start)
        with (
            output(to, overwrite=overwrite, private=logs.keys is not None) as file,
            logs.open(passes=True, **chosen) as log,
            progress(log) as bar,
        ):
            found = summarize(log, bar)
            keys = hot_keys(log, list(found.tables())[:_TABLES])
            page = report_page(found, title=title, keys=keys)
            file.write(page.encode("utf-8", "backslashreplace"))
