"""The indexes beside the logs of a pass: finds them, checks that they belong to the logs, keeps them open."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .._base.redaction import shown_url
from .._format.magic import MAGIC
from .._sources.places import is_server
from .._tables.given_names import NamesMet
from .._walk.track import Rules, Track
from ..errors import BinlogError
from ..report import Report
from .choosing import LogRanges
from .files import IndexDamage, IndexFile, identity_of, index_path, opened

if TYPE_CHECKING:
    from .._decode.group import Group
    from .._decode.log_decoder import LogDecoder
    from .._decode.selection import Selection
    from .._format.format_description import FormatDescription
    from .._sources.log_files import LogFile
    from .._tables.tables import Table
    from ..schema.definitions import Definitions
    from .choosing import Extent


class Indexes:
    """The indexes that were looked for, by their paths."""

    def __init__(self) -> None:
        self._opened: dict[str, IndexFile | None] = {}
        self._numbers: dict[str, dict[str, int]] = {}  # of the logs in them, by name
        self._mariadb: dict[str, bool] = {}  # who wrote a log, by its path
        self._ahead: dict[str, LogRanges | None] = {}  # of logs that were asked for before they are read

    def of(self, file: LogFile, report: Report) -> LogRanges | None:
        """The ranges of a log; None: there is no index of this log.

        Parameters
        ----------
        file : LogFile
        report : Report
            Counts damaged indexes.
        """
        if file.target is not None or file.chained or is_server(file.path):
            return None
        path = index_path(file.path)
        try:
            return self._of(file, path, lambda damage: self._report_damage(path, damage, report))
        except IndexDamage as damage:
            self._drop(path)
            self._report_damage(path, damage, report)
            return None

    @staticmethod
    def _report_damage(path: str, damage: IndexDamage, report: Report) -> None:
        report.add("unusable_indexes", path=path, detail=f"{damage}; create it again")

    def _of(self, file: LogFile, path: str, on_damage: Callable[[IndexDamage], None]) -> LogRanges | None:
        if path not in self._opened:
            self._opened[path] = None
            self._opened[path] = found = opened(path, file.storage_options)
            entries = found.entries if found is not None else ()
            self._numbers[path] = {entry.log: i for i, entry in enumerate(entries)}
        index = self._opened[path]
        number = self._numbers.get(path, {}).get(os.path.basename(shown_url(file.path)))
        if index is None or number is None:
            return None
        entry = index.entries[number]
        try:
            with file.open_stored() as source:
                if identity_of(source, entry.size) != entry.identity:
                    return None
                size = source.size
                if size != entry.size:  # nothing can be said about a compressed one then
                    source.seek(0)
                    if source.peek(4) != MAGIC:
                        return None
        except BinlogError:  # reading reports it
            return None
        complete = entry.whole and size == entry.size and entry.tail != ""
        return LogRanges(index, number, complete=complete, on_damage=on_damage)

    def groups(
        self,
        decoder: LogDecoder,
        file: LogFile | None,
        definitions: Definitions | None,
        by: Selection | None = None,
    ) -> Iterator[Group]:
        """The groups of a decoder, without reading ranges that contain nothing selected.

        Parameters
        ----------
        decoder : LogDecoder
        file : LogFile or None
            Its log, if it is known.
        definitions : Definitions or None
            The decoder's definitions.
        by : Selection or None
            The selection, if it is narrower than the decoder's.
        """
        extents = self._extents(decoder, file, definitions, by or decoder.selection)
        if extents is None:
            yield from decoder.groups()
            return
        for start, stop in extents:
            yield from decoder.part(start, stop, 0)
            if stop is None or decoder.stopped_at is None or decoder.stopped_at < stop:
                return  # the log ended, or the pass does

    def _extents(
        self,
        decoder: LogDecoder,
        file: LogFile | None,
        definitions: Definitions | None,
        selection: Selection,
    ) -> Iterable[Extent] | None:
        """The ranges of a log to read; None for all, since it has no index."""
        if file is None:
            return None
        known = file.path in self._ahead
        ranges = self._ahead.pop(file.path) if known else self.of(file, decoder.report)
        if ranges is None or not ranges.serve(selection):
            return None
        if not decoder.begin():
            return ()
        assert decoder.format is not None
        return ranges.extents(selection, definitions, mariadb=decoder.format.is_mariadb)

    def leave_most_out(
        self,
        logs: Iterable[tuple[LogFile, Selection]],
        definitions: Callable[[], Definitions | None],
        format_: FormatDescription | None,
    ) -> bool:
        """Whether less than half of a pass's logs must be read, so that one thread is enough.

        Parameters
        ----------
        logs : iterable of (LogFile, Selection)
            The logs of the pass, each with what is selected in it.
        definitions : callable
            Makes the definitions of a pass.
        format_ : FormatDescription or None
            The first log's.
        """
        kept = size = 0
        self._ahead.clear()
        for file, selection in logs:
            tables: list[Table] | None = None if selection.tables_from_index is None else []
            here = replace(selection, met=NamesMet(), tables_from_index=tables)
            ranges = self._ranges_of(file)
            if ranges is None or not ranges.serve(here) or format_ is None:
                return False
            for start, stop in ranges.extents(here, definitions(), mariadb=format_.is_mariadb):
                kept += (ranges.end if stop is None else stop) - (start or 0)
            size += ranges.end
        return 2 * kept < size

    def may_hold(self, file: LogFile, selection: Selection, definitions: Definitions | None) -> bool:
        """Whether a part of a log may contain anything selected.

        Parameters
        ----------
        file : LogFile
        selection : Selection
            With the positions of the part, for the transactions that begin in it.
        definitions : Definitions or None
            Definitions that no statement changes.
        """
        ranges = self._ranges_of(file)
        if ranges is None or not ranges.serve(selection):
            return True
        if file.path not in self._mariadb:
            with file.open() as source:
                format_ = Track(source, Rules(Report(warn=False))).wait_for_format()
            self._mariadb[file.path] = format_ is not None and format_.is_mariadb
        return ranges.may_hold(selection, definitions, mariadb=self._mariadb[file.path])

    def _ranges_of(self, file: LogFile) -> LogRanges | None:
        """The result of `of`, kept for later readers of the log."""
        if file.path not in self._ahead:
            self._ahead[file.path] = self.of(file, Report(warn=False))
        return self._ahead[file.path]

    def _drop(self, path: str) -> None:
        index = self._opened.get(path)
        if index is not None:
            index.close()
        self._opened[path] = None

    def close(self) -> None:
        """Close them."""
        for path in list(self._opened):
            self._drop(path)
        self._opened.clear()
