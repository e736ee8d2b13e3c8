"""The decoders of a pass, one for each log; a log is open only while it is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection
from .._format.event_header import FIRST_EVENT
from .._sources.log_files import LogFile, LogFiles
from .._sources.opened import OpenSources
from ..position import Position
from ..report import Report
from .passes import Reading

if TYPE_CHECKING:
    from .._sources.follow import Follower
    from .._sources.sources import Source
    from ..schema.definitions import Definitions
    from .settings import Settings


class Decoders:
    """Opens the logs of a `Log`, one after the other, for each of its passes.

    Parameters
    ----------
    files : LogFiles
    settings : Settings
    sources : OpenSources
    alone : bool
        Do not read the log that comes after the last one.
    """

    def __init__(self, files: LogFiles, settings: Settings, sources: OpenSources, *, alone: bool) -> None:
        self._files, self._settings, self._sources, self._alone = files, settings, sources, alone

    def of(
        self,
        reading: Reading,
        selection: Selection,
        definitions: Definitions | None = None,
        *,
        follow: bool = False,
    ) -> Iterator[LogDecoder]:
        """A decoder for each log of a pass, open until the next one is taken."""
        settings = self._settings

        def decoder_of(
            source: Source,
            i: int,
            follower: Follower | None,
            file: LogFile | None = None,
        ) -> LogDecoder:
            ranged = settings.ranged(selection, self._files, i, file)
            return settings.decoder(source, ranged, reading.report, definitions, follower, reading.executed)

        first, last = settings.file_range(self._files)
        for i in range(first, last + 1):
            file = self._files[i]
            if i > first:
                file.continue_history(reading.report)
            source, follower = self._sources.take(i), None
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
        following = self._files[last]
        while (path := decoder.next_path) is not None:
            following = following.after(decoder.source, path, decoder.checkpoint())
            reading.next_file = following
            if self._alone:
                break
            following.continue_history(reading.report)
            source = following.open()
            follower = following.follower(source, reading.stop, reading.report)
            decoder = decoder_of(source, last + 1, follower, following)
            yield from self._while_open(decoder, reading)
        reading.over = True

    def _while_open(self, decoder: LogDecoder, reading: Reading) -> Iterator[LogDecoder]:
        source = decoder.source
        try:
            with self._sources.kept(source), source:
                yield decoder
        finally:
            reading.tail = decoder.tail or reading.tail
        self._sources.check_still_open(source.path)

    def follow_up_to_start(self, definitions: Definitions, report: Report) -> None:
        """Apply the statements before the start position, since the rows have the resulting definitions."""
        start = self._settings.start
        if start is None or isinstance(start, dt.datetime):
            return  # the logs are read from their beginning
        if isinstance(start, Position):
            start = start.file, start.offset
        position = start[1] if isinstance(start, tuple) else start
        first, _ = self._settings.file_range(self._files)
        if position <= FIRST_EVENT and not first:
            return
        from .._decode.ddl_before import follow_statements

        for i, file in enumerate(self._files[: first + 1]):
            if self._sources.is_read_once(i) or file.chained:  # a stream, of a server maybe
                report.add(
                    "ddl_not_followed",
                    path=file.path,
                    detail="statements before the start: the log can be read only once",
                )
                continue
            follow_statements(file, position if i == first else None, definitions, report)
