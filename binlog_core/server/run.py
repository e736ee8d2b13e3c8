"""The items of a server's stream, and the order of their places."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .._sources.log_names import LogName


class ServerRun(NamedTuple):
    """Part of a stream.

    Parameters
    ----------
    kind : str
        "file": a log begins, or continues at `position`; `events` is empty.
        "descriptor": the log's FORMAT_DESCRIPTION_EVENT, as the server makes it for readers that start later;
        it is not at `position`.
        "events": whole events, just as they are in the log's file from `position` on.
        "heartbeat": the server is alive and has nothing new.
        "failover": another server of the address continues, in its own log and position. What was read of
        a transaction that had not ended comes again from its beginning.
    file : str
        Name of the log, without a folder.
    position : int
        Position in that file of the first byte of `events`.
    events : memoryview
        Valid until the next run is taken. For "descriptor" and "heartbeat", the event, which is in no log.
    acknowledge : bool
        Whether the (semi-synchronous) server waits for the acknowledgement of the end of these events.
    """

    kind: Literal["file", "descriptor", "events", "heartbeat", "failover"]
    file: str
    position: int
    events: memoryview
    acknowledge: bool

    @property
    def end(self) -> int:
        """Position in the file of the byte after the run's events."""
        return self.position + len(self.events) if self.kind == "events" else self.position


def is_before(place: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether a place comes before another; this cannot be known for logs of another name."""
    (base, number), (other_base, other_number) = numbered(place[0]), numbered(other[0])
    return base == other_base and (number, place[1]) < (other_number, other[1])


def numbered(file: str) -> tuple[str, int]:
    """Base and number of a log's name."""
    name = LogName.of(file)
    return (name.base, name.number) if name is not None else (file, 0)
