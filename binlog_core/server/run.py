"""What a server's stream gives at a time."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Run(NamedTuple):
    """Part of a stream.

    Parameters
    ----------
    kind : str
        "file": a log begins, or is taken up at `position`; `events` is empty.
        "descriptor": the log's FORMAT_DESCRIPTION_EVENT as the server makes it up for who begins after it;
        it is not at `position`, and its ``created`` and ``log_pos`` are 0.
        "events": whole events, just as they are in the log's file from `position` on.
        "heartbeat": the server is there and has nothing new.
        "failover": another server of the address continues, in its own log at its own position. What came of
        a transaction that had not ended comes again from its beginning.
    file : str
        Name of the log, without a folder.
    position : int
        In that file, of the first byte of `events`.
    events : memoryview
        Valid until the next run is asked for. Of "descriptor" and "heartbeat" the event that is in no log.
    acknowledge : bool
        The (semi-synchronous) server waits to be told that the end of these events is safe.
    """

    kind: Literal["file", "descriptor", "events", "heartbeat", "failover"]
    file: str
    position: int
    events: memoryview
    acknowledge: bool

    @property
    def end(self) -> int:
        """In the file, of the byte after the run's events."""
        return self.position + len(self.events) if self.kind == "events" else self.position
