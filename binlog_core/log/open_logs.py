"""The logs of a `Log` while they are read: which part of each a pass reads, and its decoder."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._base.times import epoch_seconds
from .._decode.log_decoder import LogDecoder
from .._decode.selection import LogPlace, Selection
from .._format.event_header import FIRST_EVENT
from .._sources.log_files import LogFile, LogFiles
from .._sources.log_names import name_within, unpacked
from .._sources.opened import OpenSources
from .._tables.given_names import NamesMet
from ..errors import BinlogError
from ..gtids import GtidSet, parse_gtid_set
from ..position import Position
from ..report import Report
from .passes import Reading

if TYPE_CHECKING:
    from .._sources.follow import Follower
    from .._sources.sources import Source
    from ..schema.definitions import Definitions
    from .settings import Settings


class OpenLogs(OpenSources):
    """The logs of a `Log`, which are opened one after the other for each of its passes.

    Parameters
    ----------
    files : LogFiles
    settings : Settings
    first : Source, optional
        The first file, if it is already open.
    alone : bool
        Do not read the log that comes after the last one.
    """

    def __init__(
        self, files: LogFiles, settings: Settings, first: Source | None = None, *, alone: bool
    ) -> None:
        super().__init__(files, first)
        self.settings = settings
        self._alone = alone

    # ------------------------------------------------------------ what is read

    @cached_property
    def file_range(self) -> tuple[int, int]:
        """Which files hold the start and the stop."""
        last = len(self.files) - 1
        return self._index(self.settings.start, 0), self._index(self.settings.stop, last)

    @cached_property
    def _begun_by_start(self) -> int:
        """How many files there are before a history begins in which `start=` does not name transactions."""
        first, count = self.file_range[0], len(self.files)
        return next((i for i in range(first + 1, count) if self.files[i].begins_history), count)

    def _index(self, place: LogPlace | None, default: int) -> int:
        """Which file holds a place."""
        files, position = self.files, place if isinstance(place, Position) else None
        if position is not None:
            place = position.file, position.offset
        if not isinstance(place, tuple):
            return default
        name = unpacked(place[0])
        found = [i for i, f in enumerate(files) if place[0] == f.path]
        found = found or [i for i, f in enumerate(files) if unpacked(name_within(f.path)) == name]
        named = [i for i, f in enumerate(files) if unpacked(os.path.basename(f.path)) == name]
        found = found or named
        if position is not None and len(named) > 1 and place[0] != files[found[0]].path:
            found = _of_history(files, named, position) or found
        if not place[0]:
            why = "the position has no file: only start= can be one"
            raise BinlogError(why, path=files[0].path)
        if not found:
            raise BinlogError(f"there is no file {place[0]!r} among those given", path=files[0].path)
        return found[0]

    def selection_in(self, i: int, selection: Selection, following: LogFile | None = None) -> Selection:
        """A pass's selection as it is for the i-th file, or for one that followed the last."""
        settings, (first, last) = self.settings, self.file_range
        changes: dict[str, Any] = {}
        for place, at, kind in ((settings.start, first, "start"), (settings.stop, last, "stop")):
            if isinstance(place, dt.datetime):
                changes[f"{kind}_timestamp"] = epoch_seconds(place)
            elif isinstance(place, Position) and i == at:
                changes[f"{kind}_position"] = place.offset
                if kind == "start":
                    changes |= {"done_records": place.records, "done_gtids": place.gtids}
            elif place is not None and i == at:
                changes[f"{kind}_position"] = place[1] if isinstance(place, tuple) else place
        if following is None and i < self._begun_by_start:
            selection = selection.without(settings.done)
        share = (following or self.files[i]).share
        if share is not None:
            selection = selection.without_repeated(share.before)
            if share.until is not None:
                changes["stop_position"] = min(share.until, changes.get("stop_position", share.until))
        return replace(selection, **changes)

    def selection_of_part(
        self, *, start: int | None, stop: int | None, anchors: int, in_parts: bool
    ) -> Selection:
        """The selection for a part of the only file.

        Parameters
        ----------
        start : int or None
            The position of the first event.
        stop : int or None
            Read up to the first anchor at or after it.
        anchors : int
            What an anchor is: see ``_walk.anchors.Head``.
        in_parts : bool
            Whether others read the rest of the log.
        """
        return replace(
            self.selection_in(0, replace(self.settings.selection, met=NamesMet())),
            start_position=start,
            stop_position=stop,
            stop_anchor=anchors,
            in_parts=in_parts,
        )

    # ------------------------------------------------------------ one pass

    def decoders(
        self,
        reading: Reading,
        selection: Selection,
        definitions: Definitions | None = None,
        *,
        follow: bool = False,
    ) -> Iterator[LogDecoder]:
        """A decoder for each log of a pass, open until the next one is taken."""

        def decoder_of(
            source: Source,
            i: int,
            follower: Follower | None,
            file: LogFile | None = None,
        ) -> LogDecoder:
            here = self.selection_in(i, selection, file)
            if file is not None:
                here = here.without(reading.executed.done)
            return self.settings.decoder(
                source, here, reading.report, definitions, follower, reading.executed
            )

        first, last = self.file_range
        for i in range(first, last + 1):
            file = self.files[i]
            if i > first:
                reading.continue_in(file)
            source, follower = self.take(i), None
            if (follow or file.chained) and i == last:
                follower = file.follower(source, reading.stop, reading.report)
            if definitions is not None and i == first:
                try:
                    definitions.begin(source)
                except BaseException:
                    source.close()
                    raise
            decoder = decoder_of(source, i, follower)
            yield from self._while_open(decoder, reading)
        following = self.files[last]
        while (path := decoder.next_path) is not None:
            following = following.after(decoder.source, path, decoder.checkpoint())
            reading.next_file = following
            if self._alone:
                break
            reading.continue_in(following)
            source = following.open()
            follower = following.follower(source, reading.stop, reading.report)
            decoder = decoder_of(source, last + 1, follower, following)
            yield from self._while_open(decoder, reading)
        reading.over = True

    def _while_open(self, decoder: LogDecoder, reading: Reading) -> Iterator[LogDecoder]:
        source = decoder.source
        try:
            with self.kept(source), source:
                yield decoder
        finally:
            reading.tail = decoder.tail or reading.tail
        self.check_still_open(source.path)

    def follow_up_to_start(self, definitions: Definitions, report: Report) -> None:
        """Apply the statements before the start position, since the rows have the resulting definitions."""
        start = self.settings.start
        if start is None or isinstance(start, dt.datetime):
            return  # the logs are read from their beginning
        if isinstance(start, Position):
            start = start.file, start.offset
        position = start[1] if isinstance(start, tuple) else start
        first, _ = self.file_range
        if position <= FIRST_EVENT and not first:
            return
        for i, file in enumerate(self.files[: first + 1]):
            if not self.follow(i, definitions, report, position if i == first else None):
                report.add(
                    "ddl_not_followed",
                    path=file.path,
                    detail="statements before the start: the log can be read only once",
                )

    def follow(
        self, i: int, definitions: Definitions, report: Report | None = None, before: int | None = None
    ) -> bool:
        """Apply a log's statements up to a position; False: it can be read only once.

        `report`: where those that cannot be followed are counted; None: reading the log itself does that.
        """
        from .._decode.ddl_before import follow_statements

        file = self.files[i]
        if self.is_read_once(i) or file.chained:  # a stream, of a server maybe
            return False
        follow_statements(file, before, definitions, Report(warn=False) if report is None else report)
        return True


def _of_history(files: LogFiles, named: list[int], position: Position) -> list[int]:
    """Of an archive's logs with the same name, the one whose history a position belongs to."""
    shares = [(i, share) for i in named if (share := files[i].share) is not None]
    if position.server is not None and (of := [i for i, share in shares if share.server == position.server]):
        return of[-1:]
    # The position is after a failover: all logs before it come first.
    ours = position.gtids or GtidSet()
    behind = [i for i, share in shares if share.before and not parse_gtid_set(share.before) - ours]
    return behind[-1:]
