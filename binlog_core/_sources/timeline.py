"""The timeline of an archive: which servers' logs it has, and how they continue each other."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import BinlogError, GtidError
from ..gtids import parse_gtid_set
from .log_names import SEGMENT

NAME = "timeline.json"  # in the archive's directory
_VERSION = 1

# How a segment continues after the one before it.
FAILOVER = "failover"  # another server; its GTIDs ensure that each transaction comes once
CONTINUED = "continued"  # the same stream, but the logs have other names
RESET = "reset"  # the same server started a new history; what it wrote just before may be missing
GAP = "gap"  # logs are missing
SEAMS = (FAILOVER, CONTINUED, RESET, GAP)


@dataclass(frozen=True, slots=True)
class Segment:
    """Logs of one server with consecutive numbers.

    Parameters
    ----------
    folder : str
        Below the archive's directory; "" for the directory itself.
    server : dict
        Its address, version, UUID and server id.
    begun : str
        When, ISO 8601, UTC.
    seam : str or None
        One of SEAMS; None: the first segment.
    before : str or None
        GTIDs of all transactions of earlier segments, which are left out of this one.
    settled : str or None
        The first log that begins after all of these: from here on nothing is left out.
    until : (str, int) or None
        The log and position at which the next segment takes over; None: the last segment.
    """

    folder: str
    server: dict[str, Any]
    begun: str
    seam: str | None = None
    before: str | None = None
    settled: str | None = None
    until: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a log that belongs to its archive's history.

    Parameters
    ----------
    epoch : int
        Number of its segment, from 0.
    before : str or None
        GTIDs of transactions in earlier logs, which are left out of this one.
    until : int or None
        Where the next segment takes over; None if none does.
    server : str or None
        UUID of the server that wrote it; None: MariaDB has none.
    missing : str or None
        Why the log does not follow on the one before it.
    unproved : bool
        A new history began: there is no proof that nothing is missing before it.
    """

    epoch: int = 0
    before: str | None = None
    until: int | None = None
    server: str | None = None
    missing: str | None = None
    unproved: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveTimeline:
    """Segments in order.

    Parameters
    ----------
    segments : tuple of Segment
    """

    segments: tuple[Segment, ...] = field(default=())

    @classmethod
    def parse(cls, text: bytes, path: str) -> ArchiveTimeline:
        """Read a timeline file.

        Raises
        ------
        BinlogError
            The file is not a timeline, or a later version wrote it.
        """
        try:
            found = json.loads(text)
            version = found["version"]
            if version != _VERSION:
                raise BinlogError(f"timeline of version {version}: expected {_VERSION}", path=path)
            segments = tuple(_segment(one) for one in found["segments"])
            folders = [one.folder for one in segments]
            if len(set(folders)) < len(folders):  # its logs would come twice
                raise ValueError("two segments have the same folder")
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, GtidError) as error:
            raise BinlogError(f"not an archive's timeline: {error}", path=path) from error
        return cls(segments)

    def to_bytes(self) -> bytes:
        """The contents of the file."""
        found = {"version": _VERSION, "segments": [asdict(one) for one in self.segments]}
        return json.dumps(found, indent=1).encode() + b"\n"

    @property
    def last(self) -> Segment | None:
        """The growing segment."""
        return self.segments[-1] if self.segments else None

    def begin(self, segment: Segment, until: tuple[str, int] | None = None) -> ArchiveTimeline:
        """The timeline with one more segment, which takes over at a place in the last one."""
        before = self.segments
        if before:
            before = (*before[:-1], replace(before[-1], until=until))
        return ArchiveTimeline((*before, segment))

    def settle(self, name: str) -> ArchiveTimeline:
        """The timeline with the log of the last segment from which on nothing is left out."""
        return ArchiveTimeline((*self.segments[:-1], replace(self.segments[-1], settled=name)))


def _segment(found: dict[str, Any]) -> Segment:
    folder, seam, until = found["folder"], found["seam"], found["until"]
    if not isinstance(folder, str) or not (folder == "" or SEGMENT.fullmatch(folder)):
        raise ValueError(f"{folder!r} is not the name of an archive's folder")
    if seam is not None and seam not in SEAMS:
        raise ValueError(f"seam {seam!r}: expected one of {', '.join(SEAMS)}")
    before, settled, begun = found["before"], found["settled"], found["begun"]
    place = None if until is None else (until[0], until[1])
    texts = [begun, *(text for text in (before, settled) if text is not None), *(place or ())[:1]]
    if not all(isinstance(text, str) for text in texts) or (
        place and (type(place[1]) is not int or not 0 <= place[1] < 1 << 63)
    ):
        raise ValueError("a text or a position has the wrong type")
    if before is not None:
        parse_gtid_set(before)
    server = dict(found["server"])
    uuid = server["uuid"]
    if not all(isinstance(one, str) for one in (server["address"], server["version"], uuid or "")) or (
        type(server["server_id"]) is not int
    ):
        raise ValueError("the server of a segment has no address, version, UUID or id")
    return Segment(folder, server, begun, seam, before, settled, place)
