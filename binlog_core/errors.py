"""Every error that binlog_core raises, whatever the bytes are."""

from __future__ import annotations

import re
from errno import ENOENT
from typing import Any, Self

from ._base.redaction import printable, shown_text, shown_url


class BinlogError(Exception):
    """A binary log could not be read; the base of every error of this package.

    The details are in attributes, which are None if they are not known.

    Parameters
    ----------
    message : str
        What was found and what was expected; it never contains data.
    path : str or None
        The file or the name of the source; URLs are without user, password and signature.
    offset : int or None
        The event's byte offset in its file, 64 bits wide.
    type_code : int or None
        The event's type code in today's numbering.
    table : str or None
        ``database.table``.
    column : str or None
        The column's name.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        type_code: int | None = None,
        table: str | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(shown_text(message))
        self.message = shown_text(message)
        self.path = shown_url(path) if path is not None else None
        self.offset = offset
        self.type_code = type_code
        self.table = table
        self.column = column

    def __str__(self) -> str:
        where = [
            f"{label} {value}"
            for label, value in (
                ("file", self.path),
                ("offset", self.offset),
                ("event type", self.type_code),
                ("table", self.table),
                ("column", self.column),
            )
            if value is not None
        ]
        # Names and texts of logs and servers may be meant for the terminal that shows them.
        return printable(f"{self.message} ({', '.join(where)})" if where else self.message)

    def located(self, **where: object) -> Self:
        """The same error, with the details given here that it did not have yet."""
        for name, value in where.items():
            if getattr(self, name) is None:
                setattr(self, name, shown_url(value) if name == "path" and isinstance(value, str) else value)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers): keep the attributes.
        return _rebuild, (type(self), self.message, self._where())

    def _where(self) -> dict[str, object]:
        return {
            "path": self.path,
            "offset": self.offset,
            "type_code": self.type_code,
            "table": self.table,
            "column": self.column,
        }


def _rebuild(kind: type[BinlogError], message: str, where: dict[str, object]) -> BinlogError:
    return kind(message, **where)  # type: ignore[arg-type]


class NotABinlogError(BinlogError):
    """The source does not begin with the magic bytes of a binary log, or contains no log."""


class MissingFileError(BinlogError, FileNotFoundError):
    """The file, directory or object does not exist."""

    def __init__(self, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.errno, self.filename = ENOENT, self.path


def cannot_read(error: Exception, message: str, path: str) -> BinlogError:
    """The error for something that cannot be opened or read; `MissingFileError` if it does not exist."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else BinlogError
    return kind(message, path=path)


class FormatError(BinlogError):
    """The format description is not valid, or names an unknown version."""


class DecodeError(BinlogError):
    """A length, count, type or value of an event is not valid."""


class ChecksumError(DecodeError):
    """An event's CRC32 does not match its bytes."""


class TruncatedError(DecodeError):
    """The file ends inside an event (raised in strict mode only)."""


class DecompressionError(DecodeError):
    """A compressed payload, event, column or file is broken or larger than allowed."""


class EncryptionError(BinlogError):
    """The log is encrypted and the key is missing or wrong; the message names the key."""


class SchemaError(BinlogError):
    """A given schema cannot be read, or does not fit the table in the log."""


class GtidError(BinlogError):
    """A text is not a GTID or a GTID set."""


class ConditionError(BinlogError, ValueError):
    """A condition (``where=``) cannot be read, or does not fit the tables that it applies to."""


class ArchiveError(BinlogError):
    """An archive cannot be kept: its disk or store refuses, or its logs do not match the server's."""


class OtherHistory(BinlogError):
    """The server's log is not the one that the archive has under that name."""


class MissingExtraError(BinlogError, ImportError):
    """An optional library is needed; the message has the pip command that installs it."""

    @classmethod
    def of(cls, library: str, extra: str, purpose: str, **where: object) -> MissingExtraError:
        """An error that names the library, what it is for, and how to get it."""
        return cls(
            f"{purpose} needs {library}: {_install_line(extra)}",
            **where,  # type: ignore[arg-type]
        )


def _install_line(extra: str) -> str:
    """The command for what an extra brings, by name: it works with any index, also without this package."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        listed = requires("binlog_core") or []
    except PackageNotFoundError:  # a source folder that is not installed
        listed = []
    of_extra = re.compile(rf"""(?P<needs>[^;]+?)\s*;\s*extra == ["']{re.escape(extra)}["']""")
    needs = [found["needs"] for one in listed if (found := of_extra.fullmatch(one))]
    if not needs:
        return f"pip install 'binlog_core[{extra}]'"
    return f"pip install {' '.join(map(repr, needs))} (the extra binlog_core[{extra}])"


class StrictError(BinlogError):
    """The log lacks information, and ``strict=True`` was given."""


class ServerError(BinlogError):
    """A server could not be reached, refused something, or sent what is not its protocol.

    Parameters
    ----------
    message : str
        What the server said, with control characters escaped, and how to solve it.
    code : int or None
        The server's error number; None if it gave none.
    sqlstate : str or None
        The SQLSTATE, five characters.
    path : str or None
        The server's address, or the log requested from it; it never contains a password.
    offset : int or None
        The position in that log.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        sqlstate: str | None = None,
        path: str | None = None,
        offset: int | None = None,
        **where: object,
    ) -> None:
        super().__init__(message, path=path, offset=offset, **where)  # type: ignore[arg-type]
        self.code = code
        self.sqlstate = sqlstate

    def _where(self) -> dict[str, object]:
        return super()._where() | {"code": self.code, "sqlstate": self.sqlstate}


class UnreachableError(ServerError):
    """The server cannot be reached, or a lost connection was not restored within ``reconnect`` seconds.

    Attributes
    ----------
    lost : bool
        Whether a connection to a server was lost just now: another may work. False: none could be made, or
        none came back in time.
    """

    lost = True


class ProtocolError(ServerError):
    """The other side is not a MySQL or MariaDB server, or does not follow the protocol."""


class AuthenticationError(ServerError):
    """The server rejects the login: user name, password, host or authentication method."""


class PrivilegeError(ServerError):
    """A privilege is missing; the message names it (REPLICATION SLAVE is needed to read the logs)."""


class PurgedError(ServerError):
    """The server no longer has the log that was requested; the message says what it still has."""


class PositionError(ServerError):
    """The server has no event at the requested position."""


class DivergedError(ServerError):
    """The server's history is not the one that the position belongs to: it was restored or reset."""


class IdentityError(ServerError):
    """Another replica has the same server id or UUID."""


class UnsafeServerError(ServerError):
    """A setting of the server would lose changes; the message names it and how to change it."""


class MirrorError(BinlogError):
    """A mirror cannot be made or brought up to date; its contents stay as they are."""


class CommitInDoubtError(BinlogError):
    """It is not known whether a commit was made, so its files have to stay."""


class ApplyStopped(BinlogError):
    """A logged statement changes the table in a way that cannot be applied, so the batch was not applied."""


class CopyNeeded(ApplyStopped):
    """The log does not show all values that rows have now: only a new copy of the table does."""


class PreparedBeforeError(BinlogError):
    """A transaction is committed that none of the given logs prepares."""
