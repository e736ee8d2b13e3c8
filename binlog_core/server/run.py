"""The items of a server's stream."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Run(NamedTuple):
    """Part of a stream.

    Parameters
    ----------
    kind : str
        "file": a log begins, or continues at `position`; `events` is empty.
        "descriptor": the log's FORMAT_DESCRIPTION_EVENT, as the server makes it for readers that start later;
        it is not at `position`, and its ``created`` and ``log_pos`` are 0.
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
