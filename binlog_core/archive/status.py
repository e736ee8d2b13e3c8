"""The state of an archive: for people, for programs (JSON) and for Prometheus."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from typing import Protocol

from .._base.prometheus import Metric, metrics_text
from .files import Files, as_archive_error, put

_METRICS = {
    "position_bytes": (
        "gauge",
        "Position in the server's log up to which the archive is on disk.",
        "position",
    ),
    "log_number": ("gauge", "Number of the growing log.", "log_number"),
    "received_bytes_total": ("counter", "Bytes of events archived since the archiver started.", "bytes"),
    "received_events_total": ("counter", "Events archived since the archiver started.", "events"),
    "seconds_behind": (
        "gauge",
        "Seconds between the last event's time and now; 0 when up to date.",
        "behind",
    ),
    "reconnects_total": ("counter", "Connections that were lost since the archiver started.", "reconnects"),
    "closed_logs_total": ("counter", "Logs finished since the archiver started.", "closed_logs"),
    "damaged_logs_total": ("counter", "Finished logs with events whose checksum is wrong.", "damaged"),
    "connected": ("gauge", "Whether the archiver has a connection.", "is_connected"),
    "updated_seconds": ("gauge", "When this was written, seconds since 1970 UTC.", "updated"),
}


@dataclass(slots=True)
class Status:
    """The state of an archive; everything that it counts is on disk.

    Parameters
    ----------
    archive : str
        The archive's destination.
    server : str
        The server's host and port.
    state : str
        "connecting", "comparing", "archiving", "waiting" (it has everything), "stopped" or "failed".
    file, position : str, int
        The growing log, and how many of its bytes are on disk.
    gtids : str or None
        Transactions that are in the archive or came before it.
    received_bytes, received_events : int
        What was archived since the archiver started.
    timestamp : int
        The time of the last event, in seconds since 1970 UTC.
    seconds_behind : float or None
        How far it lags behind the server; 0 if it has everything, None if not known yet.
    reconnects : int
        How often it connected again.
    closed_logs : int
        Logs finished since the archiver started.
    damaged_logs : list of str
        Finished logs with events whose checksum is wrong, as the server sent them.
    error : str or None
        Why it failed, or why the last connection ended.
    started, updated : float
        When the archiver started and when this was written, in seconds since 1970 UTC.
    pid : int
        The archiver's process id.
    """

    archive: str
    server: str
    state: str = "connecting"
    file: str | None = None
    position: int = 0
    gtids: str | None = None
    received_bytes: int = 0
    received_events: int = 0
    timestamp: int = 0
    seconds_behind: float | None = None
    reconnects: int = 0
    closed_logs: int = 0
    damaged_logs: list[str] = field(default_factory=list)
    error: str | None = None
    started: float = field(default_factory=time.time)
    updated: float = 0.0
    pid: int = field(default_factory=os.getpid)

    def to_json(self) -> bytes:
        """One JSON object, for programs."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def to_prometheus(self) -> bytes:
        """Metrics in Prometheus' text format."""
        number = (self.file or "").rpartition(".")[2]
        values = {
            "position": self.position,
            "log_number": int(number) if number.isdigit() else None,
            "bytes": self.received_bytes,
            "events": self.received_events,
            "behind": self.seconds_behind,
            "reconnects": self.reconnects,
            "closed_logs": self.closed_logs,
            "damaged": len(self.damaged_logs),
            "is_connected": int(self.state in ("comparing", "archiving", "waiting")),
            "updated": self.updated,
        }
        labels = {"archive": self.archive, "server": self.server}
        found = (
            Metric(name, kind, text, [] if (value := values[key]) is None else [(labels, value)])
            for name, (kind, text, key) in _METRICS.items()
        )
        return metrics_text("binlog_core_archive", found)


class Told(Protocol):
    """A status that can be written to a file."""

    def to_json(self) -> bytes:
        """For programs."""
        ...

    def to_prometheus(self) -> bytes:
        """Metrics in Prometheus' text format."""
        ...


def write_status(files: Files, path: str, status: Told) -> None:
    """Write the status to a file: Prometheus' text format if its name ends with .prom, JSON otherwise.

    Raises
    ------
    ArchiveError
    """
    with as_archive_error(path, "write the status"):
        put(
            files, path, status.to_prometheus() if path.endswith(".prom") else status.to_json(), durable=False
        )
