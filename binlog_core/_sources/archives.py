"""An archive as logs: one history across failovers and resets."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from .._format.event_header import FIRST_EVENT
from ..errors import BinlogError, MissingFileError, NotABinlogError
from .log_files import LogFile
from .log_names import order_logs
from .places import LocalFiles, StorePlace, logs_among
from .tails import without_parts
from .timeline import FAILOVER, GAP, NAME, RESET, ArchiveTimeline, Segment, Share

_Log = TypeVar("_Log", bound=LogFile)

LONGEST_TIMELINE = 16 << 20
_TRIES = 4
EPOCH_SHIFT = 16  # of a log's number in its archive: segment above, the log's own number below


def timeline_among(place: StorePlace, names: list[str]) -> ArchiveTimeline | None:
    """The timeline of an archive's directory; None: it is a directory of logs like any other.

    Raises
    ------
    BinlogError
        It cannot be read.
    """
    path = next((name for name in names if name.rpartition("/")[2] == NAME), None)
    if path is None:
        return None
    for tries_left in reversed(range(1 if isinstance(place, LocalFiles) else _TRIES)):
        try:
            return _read_timeline(place, path)
        except BinlogError:  # in a store it may be replaced between its length and its bytes
            if not tries_left:
                raise
    raise AssertionError


def _read_timeline(place: StorePlace, path: str) -> ArchiveTimeline:
    with place.open(path, False) as source:
        text = b""
        while len(text) < LONGEST_TIMELINE and (part := source.read(1 << 20)):
            text += part
    return ArchiveTimeline.parse(text, path)


def archived_logs(
    place: StorePlace, path: str, names: list[str], timeline: ArchiveTimeline, log: Callable[[str], _Log]
) -> list[_Log]:
    """The logs of an archive in the order of their history, each with its share in it.

    Parameters
    ----------
    place : StorePlace
    path : str
        Path of the archive.
    names : list of str
        The files in its directory.
    timeline : ArchiveTimeline
    log : callable
        Makes a LogFile of a path.

    Raises
    ------
    NotABinlogError
        The archive has no logs yet.
    """
    listed = {"": names}
    if len(timeline.segments) > 1:
        # The last first: a log that comes after others is there after them.
        listed = {
            one.folder: _files_in(place, f"{path.rstrip('/')}/{one.folder}")
            for one in reversed(timeline.segments)
        }
    files: list[_Log] = []
    missing: str | None = None  # what is missing before the next log
    for epoch, segment in enumerate(timeline.segments):
        within, growing = without_parts(listed[segment.folder])
        found = order_logs([*within, *growing], logs_among(place, within) | growing)
        missing = missing or _seam_of(segment)
        before = segment.before if segment.seam == FAILOVER else None
        for number, one in enumerate(found.logs):
            if number:
                gap = next((gap for gap in found.gaps if _lies_before(gap.last, one)), None)
                missing = f"logs are missing in the archive: {gap}" if gap is not None else None
            name = _name_of(one)
            if name == segment.settled:
                before = None
            until = segment.until[1] if segment.until is not None and segment.until[0] == name else None
            share = Share(epoch, before, until, segment.server.get("uuid"))
            if files or segment.seam != GAP:
                share = replace(share, missing=missing, unproved=segment.seam == RESET and number == 0)
            files.append(replace(log(one), share=share))
            missing = None
        if files:  # otherwise its logs may have been old enough to be removed
            missing = missing or _lost_end_of(segment, found.logs)
    if not files:
        raise NotABinlogError("the archive has no log yet", path=path)
    return files


def _files_in(place: StorePlace, folder: str) -> list[str]:
    try:
        return place.files(folder) or []
    except MissingFileError:  # a store has no empty folders
        return []


def _lost_end_of(segment: Segment, logs: list[str]) -> str | None:
    """What is missing after the logs of a segment where another one took over."""
    if segment.until is None or segment.until[1] <= FIRST_EVENT:
        return None
    name = segment.until[0]
    if name in map(_name_of, logs):
        return None
    return f"logs are missing in the archive: {posixpath.join(segment.folder, name)}"


def _name_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".zst")


def _seam_of(segment: Segment) -> str | None:
    if segment.seam != GAP:
        return None
    return (
        f"the archive has a gap before the logs of {segment.begun}: the server purged them before archiving"
    )


def _lies_before(last: int, path: str) -> bool:
    digits = path.removesuffix(".zst").rpartition(".")[2]
    return digits.isdecimal() and int(digits) == last + 1
