"""What an archive needs from a server: its identity, and the bytes of its logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

from ..errors import PurgedError, UnreachableError
from ..gtids import AnyGtidSet

Start = tuple[str, int] | AnyGtidSet | Literal["now"] | None


class Identity(NamedTuple):
    """The identity of a server.

    Parameters
    ----------
    address : str
        Host and port, without user and password.
    version : str
    uuid : str or None
        The server's UUID; None: MariaDB does not have one.
    server_id : int
    """

    address: str
    version: str
    uuid: str | None
    server_id: int

    def is_same(self, other: Identity) -> bool:
        """Whether both are the same server, as far as is known."""
        if self.uuid is not None or other.uuid is not None:
            return self.uuid == other.uuid
        return self.server_id == other.server_id


class FeedRun(NamedTuple):
    """Consecutive complete events of one log.

    Parameters
    ----------
    file : str
        The log, as the server names it.
    position : int
        Position of the first byte in the log.
    data : memoryview
        The bytes in the log; valid until the next run is requested. Empty: there are no more for now.
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
        """The identity of the server."""

    @property
    def end(self) -> tuple[str, int] | None:
        """The server's log and position at the time of the connection; None: the user may not ask."""

    def locate(self, start: Start) -> tuple[str, int]:
        """The log, and the place in it, where a dump begins; None: the oldest log."""

    def lacking(self, gtids: AnyGtidSet) -> str | None:
        """One of these transactions that the server does not have yet; None: it has all."""

    def dump(self, file: str, position: int, *, until_now: bool) -> Iterator[FeedRun]:
        """The events from a place on.

        Yields
        ------
        FeedRun
            With `until_now` it ends at the server's position at the start; otherwise it does not end.
        """

    def acknowledge(self, file: str, position: int) -> None:
        """Acknowledge that everything before the position is on disk: waiting commits continue."""

    def close(self) -> None:
        """End the connection; may be called again."""


class LineLost(UnreachableError):
    """The connection ended; a new one may work."""


class Behind(LineLost):
    """The server lacks transactions of the archive; it may catch up, or another host may have them."""


class LogMissing(PurgedError):
    """The server does not have the log, or has less of it."""
