"""Logs of a followed archive: the next is in the same segment of its timeline, or in the one after."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..report import Report
from .archives import archived_logs, timeline_among
from .follow import FileFollower, Follower, next_log_after
from .log_files import LogFile
from .log_names import order_logs, unpacked
from .places import LocalFiles, StorePlace, logs_among, place_of
from .sources import Source
from .timeline import NAME

if TYPE_CHECKING:
    from ..gtids import Gtid, MariadbGtid
    from ..position import Checkpoint


@dataclass(frozen=True, repr=False)
class ArchivedLog(LogFile):
    """A log of an archive.

    Parameters
    ----------
    archive : str
        The archive's directory.
    done_records : int
        Row images already read from a transaction that the lost server had not finished.
    done_gtid : Gtid, MariadbGtid or None
        Its GTID.
    """

    archive: str = ""
    done_records: int = 0
    done_gtid: Gtid | MariadbGtid | None = None

    def open(self) -> Source:
        """The log's name, as for any log."""
        source = super().open()
        source.done_records, source.done_gtid = self.done_records, self.done_gtid
        return source

    def follower(self, source: Source, stop: threading.Event, report: Report) -> Follower:
        """The object that waits at the end of this log, and knows the timeline."""
        return _ArchiveFollower(source, self.archive, stop=stop, report=report)

    def after(self, source: Source, path: str, done: Checkpoint) -> LogFile:
        """The log after this one, with its own share in the history."""
        found = self._at(path)
        took_over = os.path.dirname(found.path) != self._folder and not found.begins_history
        if done.awaited or (took_over and done.gtid is not None):
            return replace(found, done_records=done.records, done_gtid=done.gtid)
        return found

    def following(self) -> LogFile | None:
        """The log after this one, if it exists."""
        path = next_log_after(self.path) or next_segment(self.path, self.archive)
        return self._at(path) if path is not None else None

    @property
    def _folder(self) -> str:
        return os.path.dirname(self.path)

    def _at(self, path: str) -> ArchivedLog:
        place = place_of(self.archive, self.storage_options)
        for file in logs_of_archive(place, self.archive, place.files(self.archive) or [], self) or ():
            if _plain(file.path) == _plain(path):
                return file
        return replace(self, path=path, done_records=0, done_gtid=None)


def logs_of_archive(
    place: StorePlace, path: str, names: list[str], like: LogFile
) -> list[ArchivedLog] | None:
    """The logs of an archive in the order of their history; None: it is a directory of logs like any other.

    Parameters
    ----------
    place : StorePlace
    path : str
        Path of the archive.
    names : list of str
        The files in its directory.
    like : LogFile
        Opened as they are.

    Raises
    ------
    NotABinlogError
        The archive has no logs yet.
    """
    timeline = timeline_among(place, names)
    if timeline is None:
        return None

    def log(one: str) -> ArchivedLog:
        return ArchivedLog(one, None, like.keys, like.mmap, like.storage_options, archive=path)

    return archived_logs(place, path, names, timeline, log)


class _ArchiveFollower(FileFollower):
    """Waits at the end of one local log of an archive."""

    def __init__(self, source: Source, archive: str, *, stop: threading.Event, report: Report) -> None:
        super().__init__(source, stop=stop, report=report)
        self._archive = archive

    def _following(self) -> str | None:
        return super()._following() or next_segment(self._source.path, self._archive)


def next_segment(path: str, archive: str) -> str | None:
    """The first log of the segment that comes after that of a log; None: there is none."""
    place = LocalFiles()
    if not place.exists(os.path.join(archive, NAME)):
        return None  # of a store, or gone
    timeline = timeline_among(place, [os.path.join(archive, NAME)])
    assert timeline is not None
    folders = [os.path.join(archive, segment.folder).rstrip("/") for segment in timeline.segments]
    here = os.path.dirname(path).rstrip("/")
    if here not in folders[:-1]:
        return None
    folder = folders[folders.index(here) + 1]
    if not os.path.isdir(folder):
        return None
    names = place.files(folder) or []
    logs = order_logs(names, logs_among(place, names)).logs
    return logs[0] if logs else None


def _plain(path: str) -> str:
    return unpacked(os.path.normpath(path))
