"""What an archive needs from a server: its identity, and the bytes of its logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

from ..errors import PurgedError, UnreachableError
from ..gtids import AnyGtidSet

Start = tuple[str, int] | AnyGtidSet | Literal["now"] | None


class Identity(NamedTuple):
    """Who a server is.

    Parameters
    ----------
    address : str
        Host and port, without user and password.
    version : str
    uuid : str or None
        None: MariaDB has none.
    server_id : int
    """

    address: str
    version: str
    uuid: str | None
    server_id: int

    def is_same(self, other: Identity) -> bool:
        """Whether both are one server, as far as they say."""
        if self.uuid is not None or other.uuid is not None:
            return self.uuid == other.uuid
        return self.server_id == other.server_id


class Run(NamedTuple):
    """Whole events that follow on each other in one log.

    Parameters
    ----------
    file : str
        The log, as the server names it.
    position : int
        Position of the first byte in the log.
    data : memoryview
        As they are in the log; valid until the next run is asked for. Empty: there is nothing more for now.
    description : memoryview or None
        The descriptor that the server sent for a place inside the log; it is not part of `data`.
    acknowledge : bool
        A commit on the server waits until these events are acknowledged (semi-synchronous replication).
    """

    file: str
    position: int
    data: memoryview
    description: memoryview | None = None
    acknowledge: bool = False


class Feed(Protocol):
    """A connection to one server."""

    @property
    def identity(self) -> Identity:
        """Who the server is."""

    @property
    def now(self) -> int:
        """The server's clock at the time of the connection; seconds since 1970 UTC."""

    def locate(self, start: Start) -> tuple[str, int]:
        """The log, and the place in it, that a dump from there begins with; None: the oldest one there is."""

    def lacking(self, gtids: AnyGtidSet) -> str | None:
        """One of these transactions that the server does not have, or has not come to; None: it has all."""

    def dump(self, file: str, position: int, *, until_now: bool) -> Iterator[Run]:
        """The events from a place on.

        Yields
        ------
        Run
            Ends where the server stood when it was asked, with `until_now`; otherwise it does not end.
        """

    def acknowledge(self, file: str, position: int) -> None:
        """Everything before the position is on disk: commits that wait for it continue."""

    def close(self) -> None:
        """End the connection; may be called again."""


class LineLost(UnreachableError):
    """The connection ended; a new one may do."""


class Behind(LineLost):
    """The server lacks what is in the archive; it may catch up, or another host may have it."""


class LogMissing(PurgedError):
    """The server does not have the log, or not as much of it."""
