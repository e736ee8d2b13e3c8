"""The names that a server's logs lack, for readers of copies of these logs."""

from __future__ import annotations

from collections.abc import Callable

from ..schema.given import Schema
from ..server.address import Address
from ..server.connection import Connection
from ..server.definitions import definitions_of

_METADATA = "binlog_row_metadata"


def server_names(
    server: str, wanted: Callable[[str], bool], *, password_file: str | None, defaults_file: str | None
) -> Schema | None:
    """The definitions of a server's tables as they are now; None if its logs have the names of columns.

    Parameters
    ----------
    server : str
        ``mysql://user@host:port``.
    wanted : callable
        Takes a table's full name.
    password_file, defaults_file : str or None
        As for `binlog_core.open`.

    Raises
    ------
    BinlogError
        The server cannot be asked.
    """
    return names_at(Address.of(server, password_file=password_file, defaults_file=defaults_file), wanted)


def names_at(address: Address, wanted: Callable[[str], bool]) -> Schema | None:
    """The same for a server whose address is known."""
    with Connection(address) as connection:
        if connection.variables([_METADATA]).get(_METADATA) == "FULL":
            return None
        return Schema(definitions_of(connection, wanted))
