"""Every error that comes out of binlog_core, whatever the bytes were."""

from __future__ import annotations

from typing import Self


class BinlogError(Exception):
    """A binary log could not be read; the base of every error of this package.

    What it was told is in attributes, None where it is not known.

    Parameters
    ----------
    message : str
        What was found and what was expected; never the data itself.
    path : str or None
        The file (or name of the source).
    offset : int or None
        Byte offset of the event in its file, 64 bits wide.
    type_code : int or None
        The event's type code in today's numbering.
    table : str or None
        ``database.table``.
    column : str or None
        Name of the column.
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
        super().__init__(message)
        self.message = message
        self.path = path
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
        return f"{self.message} ({', '.join(where)})" if where else self.message

    def located(self, **where: object) -> Self:
        """The same error, told where it happened as far as it did not know itself."""
        for name, value in where.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
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
    """The source does not begin with a binary log's magic, or holds no log at all."""


class FormatError(BinlogError):
    """The format description cannot be, or names a version that nobody wrote."""


class DecodeError(BinlogError):
    """A length, count, type or value of an event cannot be."""


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
    """A text given as a GTID or a set of them is none."""


class MissingExtraError(BinlogError, ImportError):
    """An optional library is needed; the message has the pip command."""

    @classmethod
    def of(cls, library: str, extra: str, purpose: str, **where: object) -> MissingExtraError:
        """An error that names the library, what it is for, and how to get it."""
        return cls(
            f"{purpose} needs {library}: pip install 'binlog_core[{extra}]'",
            **where,  # type: ignore[arg-type]
        )


class StrictError(BinlogError):
    """Something that the log does not tell, met while strict=True."""
