"""What an archive needs from a server: its identity, and the bytes of its logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol

from .._sources.log_names import name_key
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
    files : bool
        Whether its log has files; if not (MariaDB with its log in InnoDB), it goes on by GTIDs alone.
    """

    address: str
    version: str
    uuid: str | None
    server_id: int
    files: bool = True

    @classmethod
    def of(cls, server: dict[str, Any]) -> Identity:
        """The server of a segment of an archive's timeline."""
        known = server["address"], server["version"], server["uuid"], server["server_id"]
        return cls(*known, server.get("files", True))

    def is_same(self, other: Identity) -> bool:
        """Whether both are the same server with the same kind of log, as far as is known."""
        if self.files != other.files:
            return False
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

    def reaches(self, end: tuple[str, int] | None) -> bool:
        """Whether it comes to a place; this cannot be known for a log of another name."""
        if end is None:
            return False
        (base, number, _), (last_base, last_number, _) = name_key(self.file), name_key(end[0])
        return base == last_base and (number, self.position + len(self.data)) >= (last_number, end[1])


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

    def go_on(self, gtids: AnyGtidSet, description: bytes | None) -> None:
        """For a server without files: begin the next dump after the last GTID of each domain.

        Parameters
        ----------
        gtids : MariadbGtidSet
        description : bytes or None
            The descriptor of the log that goes on; None: a log begins there.
        """

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
