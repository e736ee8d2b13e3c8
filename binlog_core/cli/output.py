"""Output of commands: results on standard output, everything else on standard error.

Exit codes: 0 done, 1 the work failed (a damaged log, an unknown table, output that exists, a full disk),
2 wrong usage, 130 interrupted by Ctrl-C, 141 the program reading the pipe has exited.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import typer
from rich.console import Console

from .._base.options import OPTIONS
from .._base.redaction import printable as printable
from ..errors import BinlogError, SchemaError
from ..report import KINDS, NAMES_REMEDY, BinlogWarning
from .exits import INTERRUPTED

if TYPE_CHECKING:
    from rich.table import Table

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = INTERRUPTED
EXIT_BROKEN_PIPE = 141  # and of SIGPIPE

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_PADDING = re.compile(r" +$", re.MULTILINE)
_OPTIONS = {"partial": "--partial"} | {  # by arguments that take a value
    name: one.flags[0] for name, one in OPTIONS.items() if one.flags and not isinstance(one.default, bool)
}
_ARGUMENT = re.compile(rf"\b({'|'.join(_OPTIONS)})=(\S?)")
# In errors, which may quote a condition such as keys=3, only where no value follows.
_ARGUMENT_ALONE = re.compile(rf"\b({'|'.join(_OPTIONS)})=()(?=[\s,;:.)]|$)")
_NAMED = re.compile(r'\b(schema|unnamed)="([^"]+)"')
_MOST_NOTED = 1000
# What a server's settings make of all its logs alike: noted once, with the first place.
_OF_ALL_LOGS = tuple(
    KINDS[kind]
    for kind in (
        "statement_changes",
        "unnamed_columns",
        "unknown_signs",
        "unknown_charsets",
        "unmatched_names",
    )
)
_WITHOUT_CREATE = (
    "the logs do not have their CREATE TABLE either; --schema mysql://… takes them from a server,"
    " --schema FILE from a dump"
)
_PIPED_WIDTH = 200  # characters of a table that no terminal shows
_ANY_WIDTH = 10_000  # of a table that nothing makes narrower


class NoTableError(SchemaError):
    """A name that was given matches no table."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # it is being handled: rich itself would exit with 1


def messages() -> Console:
    """Progress, warnings, errors."""
    return _Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def results() -> Console:
    """The console for results that people read."""
    console = _Console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    file: Any = _Unpadded()
    return _Console(highlight=False, emoji=False, width=_PIPED_WIDTH, file=file)


def fits(console: Console, table: Table) -> bool:
    """Whether a table's columns have room beside each other, with nothing folded or cut."""
    from rich.measure import Measurement

    options = console.options.update_width(_ANY_WIDTH)
    return Measurement.get(console, options, table).maximum <= console.width


def print_table(console: Console, table: Table) -> None:
    """Print a table, or its rows one below the other where its columns do not fit beside each other."""
    from rich.padding import Padding
    from rich.text import Text

    if fits(console, table):
        console.print(table)
        return
    if table.title:
        console.print(Text(str(table.title), style="italic"))
    _, *names = (str(column.header) for column in table.columns)
    for row in zip(*(column.cells for column in table.columns), strict=True):
        first, *cells = map(str, row)
        console.print(Text(first, style="bold"))
        told = (f"{name} {cell}" for name, cell in zip(names, cells, strict=True) if cell)
        console.print(Padding.indent(Text(", ".join(told)), 2))


class _Unpadded:
    """Standard output without the spaces at the end of the lines of a table."""

    def write(self, text: str) -> int:
        return sys.stdout.write(_PADDING.sub("", text))

    def flush(self) -> None:
        sys.stdout.flush()


@contextmanager
def errors_as_lines(*, without: str = "") -> Iterator[None]:
    """Errors as one line and an exit code, warnings as notes; a pipe closed by its reader is not reported.

    without: a kind of `KINDS` that does not concern the command.
    """
    DDL_FOLLOWED.clear()
    try:
        with _warnings_as_notes(KINDS.get(without)):
            yield
            sys.stdout.flush()
    except BinlogError as error:
        _fail(error_text(error))
    except (TypeError, ValueError) as error:
        if _ARGUMENT.match(str(error)) is None:
            raise
        raise typer.BadParameter(_ARGUMENT.sub(_as_option, str(error))) from None
    except BrokenPipeError:
        # Python flushes at exit: send that nowhere, without a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_BROKEN_PIPE) from None
    except MemoryError as error:  # pyarrow's is one too
        _fail(f"out of memory{f': {error}' if str(error) else ''}")
    except OSError as error:
        _discard_stdout()
        _fail(f"{error.strerror or error}{f' (file {error.filename})' if error.filename else ''}")
    except KeyboardInterrupt:
        messages().print("interrupted", style="red")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def note(text: str) -> None:
    """Print a note for the user, apart from the results."""
    messages().print(f"note: {printable(text)}", style="yellow", markup=False)


def error_text(error: BinlogError) -> str:
    """The text of an error, with the names of options instead of those of Python's arguments."""
    return printable(_ARGUMENT_ALONE.sub(_as_option, _with_schema_option(str(error))))


def print_error(text: str) -> None:
    """Print an error on one line, apart from the results."""
    messages().print(f"error: {' '.join(text.split())}", style="red", markup=False)


def _fail(text: str) -> None:
    print_error(text)
    raise typer.Exit(EXIT_ERROR) from None


def _discard_stdout() -> None:
    """Do not try again at exit to write what standard output refused."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ValueError:
        pass


@contextmanager
def withheld_warnings() -> Iterator[None]:
    """Warnings are given at the end, and not at all after an error: there will be another try."""
    with warnings.catch_warnings(record=True) as withheld:
        yield
    for one in withheld:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


@contextmanager
def _warnings_as_notes(without: str | None) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", BinlogWarning)
        usual = warnings.showwarning
        noted: set[str] = set()  # commands that read logs twice are warned twice
        unmatched: list[str] = []  # told at the end, unless that is an error about such a name

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, BinlogWarning):
                text = _ARGUMENT.sub(_as_option, _with_schema_option(str(message)))
                same = next((kind for kind in _OF_ALL_LOGS if text.startswith(kind)), text)
                if same not in noted and same != without:
                    (unmatched.append if same == KINDS["unmatched_names"] else note)(text)
                if len(noted) < _MOST_NOTED:
                    noted.add(same)
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        try:
            yield
        except NoTableError:
            unmatched.clear()
            raise
        finally:
            for text in unmatched:
                note(text)


def _with_schema_option(text: str) -> str:
    if DDL_FOLLOWED.is_set():
        text = text.replace(NAMES_REMEDY, _WITHOUT_CREATE)
    return _NAMED.sub(r"--\1 \2", text)


def _as_option(argument: re.Match[str]) -> str:
    """An argument of `binlog_core.open` as the command line calls it: ``--schema`` for ``schema=``."""
    return f"{_OPTIONS[argument[1]]}{' ' * (argument[2] != '')}{argument[2]}"


def size(count: int) -> str:
    """A number of bytes for people: ``3.2 MB``."""
    number, unit = float(count), 0
    while number >= 999.5 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count} {UNITS[0]}" if not unit else f"{number:.{1 if number < 99.95 else 0}f} {UNITS[unit]}"


DDL_FOLLOWED = threading.Event()  # whether CREATE TABLE was looked for in the logs; threads warn too
ZONE: ContextVar[dt.tzinfo] = ContextVar(
    "zone", default=dt.UTC
)  # the zone in which times are given and shown


def moment(timestamp: float) -> str:
    """Seconds since 1970 as date and time, in UTC without --tz."""
    return dt.datetime.fromtimestamp(timestamp, ZONE.get()).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """A duration for people: ``3 h 12 min``."""
    whole = int(seconds)
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def is_terminal() -> bool:
    """Whether a person reads the results."""
    return sys.stdout.isatty()


class _Printable:
    """Standard output for people: lines without control sequences."""

    def write(self, data: bytes) -> int:
        text = printable(data.decode("utf-8", "backslashreplace"), keep="\n\t")
        sys.stdout.buffer.write(text.encode())
        return len(data)

    def flush(self) -> None:
        sys.stdout.buffer.flush()


def standard_output() -> BinaryIO:
    """The output for results that are not only for people: bytes unchanged, escaped on a terminal."""
    return cast(BinaryIO, _Printable()) if is_terminal() else sys.stdout.buffer
