"""How commands speak: results on standard output, all else on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from ..errors import BinlogError

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130  # as a shell tells of SIGINT

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def messages() -> Console:
    """Progress, warnings, errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Errors of binlog_core as one line and exit code 1; Ctrl-C as exit code 130."""
    try:
        yield
    except BinlogError as error:
        text = " ".join(str(error).split())
        messages().print(f"error: {text}", style="red", markup=False)
        raise typer.Exit(EXIT_ERROR) from None
    except KeyboardInterrupt:
        messages().print("interrupted", style="red")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def size(count: int) -> str:
    """A number of bytes for people: ``3.2 MB``."""
    number, unit = float(count), 0
    while number >= 999.5 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count} {UNITS[0]}" if not unit else f"{number:.{1 if number < 99.95 else 0}f} {UNITS[unit]}"
