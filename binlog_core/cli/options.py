"""Options that several commands share, and opening the logs that they name."""

from __future__ import annotations

import dataclasses
import functools
import getpass
import glob
import inspect
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, get_type_hints

import typer
from typer.models import OptionInfo

from .._base.options import OPTIONS, OnError
from .._decode.selection import LogPlace
from .._format.event_types import GTID_EVENTS
from .._sources.places import is_server
from .._tables import charsets
from .._tables.full_names import has_database, quoted_with_dot
from ..errors import BinlogError, GtidError
from ..gtids import AnyGtidSet, Gtid, MariadbGtid, parse_gtid, parse_gtid_set
from ..limits import DEFAULT_LIMITS
from ..log.log import Log
from ..log.opening import open as open_log
from ..position import Position
from ..report import BinlogWarning
from .output import DDL_FOLLOWED, ZONE
from .times import parse_time, zone_of

if TYPE_CHECKING:
    from ..server.address import Address

_FILE_AND_POSITION = re.compile(r"(?P<file>.+):(?P<position>\d+)")
_COPY_LEN = 1 << 20
_METADATA = "binlog_row_metadata"
_DIGITS_OF_A_TIME = 14  # 20261121080500; fewer digits are a position, which is never that long


def option(name: str, more: str = "", *, flag: str | None = None, **settings: Any) -> OptionInfo:
    """An option of reading logs, as all commands have it; `more` is what this one says besides."""
    one = OPTIONS[name]
    found: Any = typer.Option(
        *((flag,) if flag else one.flags), help=f"{one.text}{more}", metavar=one.metavar, **settings
    )
    assert isinstance(found, OptionInfo)
    return found


SchemaOption = Annotated[
    str | None,
    option(
        "schema",
        " For a server also server. Default: ddl or server, if the log does not have the column names.",
        show_default=False,
    ),
]
SchemaStartOption = Annotated[str | None, option("schema_start")]
DatabaseOption = Annotated[
    list[str] | None,
    typer.Option("--database", "-d", help="Only this database; can be repeated."),
]
ThreadOption = Annotated[
    str | None,
    typer.Option(
        "--thread-id",
        metavar="IDS",
        help="Only transactions of this connection, or of several: 67,68. MariaDB logs it since 11.8.",
    ),
]
ZoneOption = Annotated[
    str | None,
    typer.Option(
        "--tz",
        metavar="ZONE",
        help="Time zone of input and output: Europe/Berlin, +02:00, local. Default: UTC.",
    ),
]


@dataclasses.dataclass(slots=True, kw_only=True)
class LoginOptions:
    """How to log in to the servers that a command names; without any of these, with MYSQL_PWD."""

    password_file: Annotated[Path | None, option("password_file")] = None
    defaults_file: Annotated[Path | None, option("defaults_file")] = None
    ask_password: Annotated[
        bool, typer.Option("--ask-password", "-p", help="For a server: ask for the password on the terminal.")
    ] = False
    asked: str | None = dataclasses.field(default=None, init=False, repr=False)

    def login(self, options: str = "server") -> dict[str, Any]:
        """Arguments for a function that connects.

        Parameters
        ----------
        options : str
            The function's name for a server's options.
        """
        if self.ask_password and self.asked is None:
            if self.password_file is not None:
                raise typer.BadParameter("--password-file and --ask-password cannot be combined")
            self.asked = _ask_password()
        return {
            "password_file": self.password_file,
            "defaults_file": self.defaults_file,
            options: None if self.asked is None else {"password": self.asked},
        }

    def address(self, url: str, argument: str) -> Address:
        """A server's address; a wrong one counts as wrong usage."""
        from ..server.address import Address

        try:
            return Address.of(url, **self.login())
        except ValueError as error:
            raise typer.BadParameter(f"{argument}: {error}") from None


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "--ask-password needs a terminal: --password-file, --defaults-file, MYSQL_PWD"
        )
    return getpass.getpass("password: ", sys.stderr)


@dataclasses.dataclass(slots=True)
class LogOptions(LoginOptions):
    """Which logs, and how to open them."""

    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="Logs, directories of logs, index files, URLs or patterns; - is standard input;"
            " mysql://user@host is a server.",
            show_default=False,
        ),
    ]
    keys: Annotated[Path | None, option("keys")] = None
    on_error: Annotated[OnError, option("on_error")] = "raise"
    no_verify_checksum: Annotated[bool, option("verify_checksum")] = False
    no_index: Annotated[bool, option("index")] = False

    @contextmanager
    def open(self, *, passes: bool = False, **more: Any) -> Iterator[Log]:
        """Open the logs.

        Parameters
        ----------
        passes : bool
            Whether they are read more than once: standard input is then kept in a temporary file.
        **more
            Further arguments of `binlog_core.open`.
        """
        with (
            targets(self.files, keep_stdin=passes) as found,
            open_log(found, **(self.arguments(more.get("schema")) | more)) as log,
        ):
            yield log

    def definitions(self, schema: str | None, start: str | None) -> dict[str, Any]:
        """Where names come from, for `binlog_core.open`; without --schema from what is at hand.

        That is the server that is read, or CREATE TABLE in the logs: if these do not have the names, as is
        the default of both vendors.
        """
        if schema is None and start is not None:
            schema = "ddl"
        if schema is None and "-" not in self.files:
            live = any(map(is_server, self.files))
            if live and not self._server_logs_names():
                schema = "server"
            elif not live and not self._logs_have_names():
                schema = "ddl"
        if schema == "ddl":
            DDL_FOLLOWED.set()
        return {"schema": schema, "schema_start": start}

    def _server_logs_names(self) -> bool:
        from ..server.connection import Connection

        self._check_server()
        with Connection(self.address(self.files[0], "the server's address")) as connection:
            return connection.variables([_METADATA]).get(_METADATA) == "FULL"

    def _logs_have_names(self) -> bool:
        return logs_have_names(self.files, **self.arguments())

    def arguments(self, schema: str | None = None) -> dict[str, Any]:
        """Arguments for `binlog_core.open`."""
        live = any(map(is_server, self.files))
        if live:
            self._check_server()
        elif schema == "server":
            raise typer.BadParameter(
                "--schema server is for servers; for files mysql://…, a .sql file, or ddl"
            )
        return {
            "schema": schema,
            "keys": str(self.keys) if self.keys else None,
            "on_error": self.on_error,
            "verify_checksum": not self.no_verify_checksum,
            "index": not self.no_index,
            "threads": 0,
            **(self.login() if live else {}),
        }

    def _check_server(self) -> None:
        """Refuse options that do not apply to a server."""
        if len(self.files) > 1:
            raise typer.BadParameter("a server cannot be read together with other logs")
        if self.keys is not None:
            raise typer.BadParameter("--keys is for files: a server sends its logs decrypted")
        self.address(self.files[0], "the server's address")


def logs_have_names(logs: list[str], **access: Any) -> bool:
    """Whether the first changes in the logs have the column names; True also if there are none.

    Parameters
    ----------
    logs : list of str
    **access
        Arguments of `binlog_core.open`.
    """
    quick = {"columns": {"*": ()}, "threads": 1}  # no value is decoded
    with (
        warnings.catch_warnings(action="ignore", category=BinlogWarning),
        suppress(BinlogError),  # the command meets it too; and an export is not a log
        open_log(logs, **access | quick) as log,
    ):
        tables = (batch.table for group in log.groups() for batch in group.batches)
        for table in tables:
            return all(column.named for column in table.columns)
    return True


@dataclasses.dataclass(slots=True)
class RangeOptions:
    """Which part of the logs."""

    start: Annotated[str | None, option("start")] = None
    stop: Annotated[str | None, option("stop")] = None
    start_position: Annotated[
        int | None, typer.Option("--start-position", "-j", min=0, help="Start at this byte of the first log.")
    ] = None
    stop_position: Annotated[
        int | None, typer.Option("--stop-position", min=0, help="Stop before this byte of the last log.")
    ] = None
    start_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start with events of this time (UTC unless --tz is given)."),
    ] = None
    stop_datetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop at the first event of this time or later.")
    ] = None
    tz: ZoneOption = None

    def places(self, options: LogOptions) -> dict[str, Any]:
        """``start`` and ``stop`` for `binlog_core.open`; from here on times are shown in ``--tz``."""
        ZONE.set(zone_of(self.tz))
        start = self._place(options, "start", self.start, self.start_position, self.start_datetime)
        if any(map(is_server, options.files)):
            from ..server.target import check_start

            check_start(start)
        return {
            "start": start,
            "stop": self._place(options, "stop", self.stop, self.stop_position, self.stop_datetime),
        }

    def _place(
        self, options: LogOptions, end: str, place: str | None, position: int | None, time: str | None
    ) -> LogPlace | str | AnyGtidSet | None:
        given = [value for value in (place, position, time) if value is not None]
        if len(given) > 1:
            raise typer.BadParameter(f"--{end}, --{end}-position and --{end}-datetime cannot be combined")
        if position is not None:
            return position
        if time is not None:
            if (moment := parse_time(time, ZONE.get())) is None:
                raise typer.BadParameter(
                    f"--{end}-datetime {time!r} is not a time: expected '2026-11-21 08:00:00'"
                )
            return moment
        if place is None:
            return None
        if place.isdecimal() and (len(place) != _DIGITS_OF_A_TIME or parse_time(place) is None):
            return int(place)
        if place.startswith("{"):
            try:
                return Position.parse(place)
            except ValueError as error:
                raise typer.BadParameter(f"--{end}: {error}") from None
        if place == "now" and end == "start" and any(map(is_server, options.files)):
            return place
        try:
            gtid = parse_gtid(place)
        except GtidError:
            pass
        else:
            return _place_of_gtid(options, gtid, after=end == "stop")
        moment = parse_time(place, ZONE.get())
        if moment is not None:
            return moment
        if end == "start" and place:
            with suppress(GtidError):
                return parse_gtid_set(place)
        if found := _FILE_AND_POSITION.fullmatch(place):
            return found["file"], int(found["position"])
        raise typer.BadParameter(f"--{end} {place!r} is not a position, FILE:POSITION, time or GTID")


@dataclasses.dataclass(slots=True)
class FollowOptions:
    """Whether reading ends at the end of the logs."""

    follow: Annotated[bool, option("follow")] = False

    def check(self, logs: LogOptions, part: RangeOptions) -> None:
        """Refuse to follow logs that have an end."""
        if self.follow and "-" in logs.files:
            raise typer.BadParameter("--follow is for files: standard input is read to its end anyway")
        if self.follow and any(v is not None for v in (part.stop, part.stop_position, part.stop_datetime)):
            raise typer.BadParameter(
                "--follow cannot be combined with --stop, --stop-position or --stop-datetime"
            )


@dataclasses.dataclass(slots=True)
class ChangeOptions:
    """Which row changes, as whole rows."""

    table: Annotated[list[str] | None, option("tables")] = None
    exclude_table: Annotated[list[str] | None, option("exclude_tables")] = None
    database: DatabaseOption = None
    columns: str | None = dataclasses.field(default=None, init=False)
    where: Annotated[str | None, option("where")] = None
    op: Annotated[list[str] | None, option("ops")] = None
    include_gtids: Annotated[str | None, option("gtids")] = None
    exclude_gtids: Annotated[str | None, option("exclude_gtids")] = None
    server_id: Annotated[str | None, option("server_id")] = None
    thread_id: ThreadOption = None
    schema: SchemaOption = None
    schema_start: SchemaStartOption = None
    charset: Annotated[str | None, option("charset")] = None

    def selection(self) -> dict[str, Any]:
        """Arguments for `binlog_core.open`."""
        ops = [name.strip().lower() for item in self.op or () for name in item.split(",")]
        for name in ops:
            if name not in ("insert", "update", "delete"):
                raise typer.BadParameter(f"--op {name!r} is not insert, update or delete")
        if self.charset is not None and not charsets.is_text(self.charset):
            raise typer.BadParameter(f"--charset {self.charset!r} is not a character set of text")
        servers = ids(self.server_id, "--server-id")
        where = self.where
        if where is not None and not where.strip():  # of a script, whose variable is not set
            raise typer.BadParameter("--where is empty: expected a condition")
        if self.columns is not None and not self.column_names():
            raise typer.BadParameter("--columns is empty: expected names, separated by commas")
        threads = ids(self.thread_id, "--thread-id")
        for name, numbers in (("_server_id", servers[1:] and servers), ("_thread_id", threads)):
            if numbers:
                chosen = f"{name} in ({', '.join(map(str, numbers))})"
                where = chosen if where is None else f"({where}) and {chosen}"
        return {
            "tables": self.patterns(),
            "exclude_tables": self.exclude_table,
            "columns": {pattern: self.column_names() for pattern in self.patterns() or ("*",)}
            if self.columns
            else None,
            "where": where,
            "ops": ops or None,
            "gtids": self.include_gtids,
            "exclude_gtids": self.exclude_gtids,
            "server_id": servers[0] if len(servers) == 1 else None,
            "schema": self.schema,
            "schema_start": self.schema_start,
            "charset": self.charset,
        }

    def column_names(self) -> list[str]:
        """The names in ``--columns``."""
        return [name.strip() for name in (self.columns or "").split(",") if name.strip()]

    def patterns(self) -> list[str] | None:
        """Patterns of "database.table"; None: every table."""
        databases = [quoted_with_dot(glob.escape(name)) for name in self.database or ()]
        if not databases:
            return self.table or None
        if not self.table:
            return [f"{database}.*" for database in databases]
        return [t if has_database(t) else f"{d}.{t}" for t in self.table for d in databases]


@dataclasses.dataclass(slots=True)
class RowOptions(ChangeOptions):
    """Which row changes, and which columns of them."""

    columns: Annotated[str | None, option("columns")] = None


def ids(text: str | None, option: str) -> list[int]:
    """The numbers in ``--server-id`` or ``--thread-id``; none: all."""
    if text is None:
        return []
    found = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) < 1 << 32 for part in found):
        raise typer.BadParameter(f"{option} {text!r}: expected a number below 2**32, or several: 7,8")
    return list(map(int, found))


def rewritten(names: list[str] | None) -> dict[str, str]:
    """From ``--rewrite-db``: new names of databases by their old names."""
    found = dict(one.replace("->", "=", 1).partition("=")[::2] for one in names or ())
    if not all(found) or not all(found.values()):
        raise typer.BadParameter("--rewrite-db: expected FROM=TO")
    return found


@contextmanager
def targets(names: list[str], *, keep_stdin: bool) -> Iterator[list[str | BinaryIO]]:
    """The names on the command line as the target that `binlog_core.open` takes."""
    found: list[str | BinaryIO] = []
    with ExitStack() as kept:
        for name in names:
            if name == "-" and keep_stdin:
                folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="binlog-core-"))
                raw = io.FileIO(os.path.join(folder, "stdin"), "x+")
                raw.name = "<stdin>"  # as it is named where it is read only once
                file = kept.enter_context(io.BufferedRandom(raw))
                _keep_stdin(file)
                file.seek(0)
                found.append(file)
            else:
                found.append(name)
        yield found


def _keep_stdin(file: BinaryIO) -> None:
    most = DEFAULT_LIMITS.spool_bytes
    while chunk := sys.stdin.buffer.read(_COPY_LEN):
        file.write(chunk)
        if file.tell() > most:
            raise BinlogError(f"more than Limits.spool_bytes={most} on standard input: give a file")


def _place_of_gtid(options: LogOptions, gtid: Gtid | MariadbGtid, *, after: bool) -> LogPlace:
    """Where a transaction begins, or where the next one begins."""
    from ..events import GtidEvent, MariadbGtidEvent

    if "-" in options.files:
        raise typer.BadParameter("a GTID as --start or --stop needs files, not standard input")
    for one in _each_alone(options):
        passed = False
        for event in one.events(types=GTID_EVENTS):
            if passed:
                return one.files[0].path, event.position
            passed = isinstance(event, GtidEvent | MariadbGtidEvent) and event.gtid == gtid
            if passed and not after:
                return one.files[0].path, event.position
        if passed:
            return one.files[0].path, sys.maxsize
    raise BinlogError(f"no transaction {gtid} in these logs")


def _each_alone(options: LogOptions) -> Iterator[Log]:
    """Each log by itself: it does not matter here what is missing between them."""
    with options.open() as log:
        if log.files[0].chained:
            yield from log.each_file()
            return
        files: Any = log.files
    for file in files:
        with open_log(file, **options.arguments()) as one:
            yield one


def _options_of(kind: Any) -> list[dataclasses.Field[Any]]:
    """The fields of an options class that are options: its own first, then those of its bases."""
    return sorted(
        (field for field in dataclasses.fields(kind) if field.init), key=lambda one: bool(one.kw_only)
    )


def _in_panels(kind: type) -> dict[str, Any]:
    """The annotations of an options class; --help shows its options in a panel of their own."""
    fields = get_type_hints(kind, include_extras=True)
    for owner in kind.__mro__:
        if (panel := _PANELS.get(owner.__name__)) is None:
            continue
        for name in inspect.get_annotations(owner):
            for option in getattr(fields[name], "__metadata__", ()):
                if isinstance(option, OptionInfo):
                    option.rich_help_panel = panel
    return fields


_PANELS = {
    "LoginOptions": "The server's password",
    "LogOptions": "Reading",
    "RangeOptions": "Which part of the logs",
    "FollowOptions": "Which part of the logs",
    "ChangeOptions": "Which changes",
    "RowOptions": "Which changes",
}


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command in which each field of an options class becomes a parameter, as typer needs it."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if not dataclasses.is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        assert isinstance(kind, type)
        groups[name] = kind
        fields = _in_panels(kind)
        for field in _options_of(kind):
            default = field.default if field.default is not dataclasses.MISSING else inspect.Parameter.empty
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=fields[field.name]
                )
            )

    @functools.wraps(command)
    def spread_command(**given: Any) -> None:
        arguments: dict[str, Any] = {}
        for name, kind in groups.items():
            arguments[name] = kind(**{field.name: given.pop(field.name) for field in _options_of(kind)})
        command(**arguments, **given)

    del spread_command.__wrapped__  # typer would use its signature
    spread_command.__annotations__ = {}
    spread_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread_command
