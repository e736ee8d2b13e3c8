"""The arguments of `open` except the files: settings of a pass over a log, or over a part of it."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._base.times import epoch_seconds
from .._decode.group import ALL_ASIDES
from .._decode.gtid_selection import union
from .._decode.log_decoder import LogDecoder
from .._decode.selection import Columns, LogPlace, Selection, columns_by_pattern, names
from .._sources.log_names import name_within, unpacked
from .._tables.given_names import NamesMet
from ..errors import BinlogError
from ..gtids import GtidSet, parse_gtid_set
from ..limits import Limits
from ..position import Position
from ..report import Report
from ..schema.definitions import Definitions

if TYPE_CHECKING:
    from .._decode.executed import Executed
    from .._decode.log_plans import Known
    from .._sources.follow import Follower
    from .._sources.log_files import LogFile, LogFiles
    from .._sources.sources import Source
    from ..conditions.language import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """See `binlog_core.open`; `schema` and `schema_start` are loaded."""

    selection: Selection
    start: LogPlace | None
    stop: LogPlace | None
    schema: Any
    schema_start: Any
    charset: str | None
    verify_checksum: bool
    skip_errors: bool
    strict: bool
    limits: Limits
    follow: bool
    threads: int
    index: bool

    def whole(self) -> Settings:
        """These settings without range, selection and following."""
        return replace(self, start=None, stop=None, follow=False, selection=Selection())

    def report(self) -> Report:
        """The report of a new pass."""
        return Report(self.strict)

    @property
    def asks_server(self) -> bool:
        """Whether the definitions come from the server that is read."""
        return isinstance(self.schema, str) and self.schema == "server"

    def definitions(self) -> Definitions | None:
        """The given definitions with which a new pass begins; a server gives its definitions itself."""
        if self.schema is None and self.charset is None:
            return None
        schema = {} if self.schema is None else self.schema
        return Definitions(schema, start=self.schema_start, limits=self.limits, charset=self.charset)

    def decoder(
        self,
        source: Source,
        selection: Selection,
        report: Report,
        definitions: Definitions | None = None,
        follower: Follower | None = None,
        executed: Executed | None = None,
        known: Known | None = None,
    ) -> LogDecoder:
        """A decoder of one source; see there."""
        return LogDecoder(
            source,
            selection=selection,
            report=report,
            definitions=definitions,
            limits=self.limits,
            verify_checksum=self.verify_checksum,
            skip_errors=self.skip_errors,
            follower=follower,
            executed=executed,
            known=known,
        )

    def selected(
        self,
        tables: str | Iterable[str] | None,
        columns: Columns | None,
        where: str | Condition | None,
        *,
        asides: bool = False,
    ) -> Selection:
        """The selection of one pass."""
        selection = replace(self.selection, asides=ALL_ASIDES if asides else frozenset())
        if tables is not None:
            selection.tables = names(tables)
        if columns is not None:
            selection.columns = columns_by_pattern(columns)
        if where is not None:
            from ..conditions.language import condition_of

            selection.where = condition_of(where, self.limits)
        return selection

    def file_range(self, files: LogFiles) -> tuple[int, int]:
        """Which files hold `start` and `stop`."""

        def index(place: LogPlace | None, default: int) -> int:
            position = place if isinstance(place, Position) else None
            if position is not None:
                place = position.file, position.offset
            if not isinstance(place, tuple):
                return default
            name = unpacked(place[0])
            found = [i for i, f in enumerate(files) if place[0] == f.path]
            found = found or [i for i, f in enumerate(files) if unpacked(name_within(f.path)) == name]
            named = [i for i, f in enumerate(files) if unpacked(os.path.basename(f.path)) == name]
            found = found or named
            if position is not None and len(named) > 1:
                found = _of_history(files, named, position) or found
            if not place[0]:
                why = "the position has GTIDs and no file: a server can begin there, logs only at a file's"
                raise BinlogError(why, path=files[0].path)
            if not found:
                raise BinlogError(f"there is no file {place[0]!r} among those given", path=files[0].path)
            return found[0]

        return index(self.start, 0), index(self.stop, len(files) - 1)

    def ranged(
        self, selection: Selection, files: LogFiles, i: int, following: LogFile | None = None
    ) -> Selection:
        """The selection for the i-th file, or for one that followed the last."""
        first, last = self.file_range(files)
        changes: dict[str, Any] = {}
        for place, at, kind in ((self.start, first, "start"), (self.stop, last, "stop")):
            if isinstance(place, dt.datetime):
                changes[f"{kind}_timestamp"] = epoch_seconds(place)
            elif isinstance(place, Position) and i == at:
                changes[f"{kind}_position"] = place.offset
                if kind == "start":
                    changes |= {"done_records": place.records, "done_gtids": place.gtids}
            elif place is not None and i == at:
                changes[f"{kind}_position"] = place[1] if isinstance(place, tuple) else place
        share = (following or files[i]).share
        if share is not None:
            if share.before is not None:
                changes["repeated"] = before = parse_gtid_set(share.before)
                changes["exclude_gtids"] = union(before, selection.exclude_gtids)
            if share.until is not None:
                changes["stop_position"] = min(share.until, changes.get("stop_position", share.until))
        return replace(selection, **changes)

    def part(
        self, files: LogFiles, *, start: int | None, stop: int | None, anchors: int, in_parts: bool
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
            self.ranged(replace(self.selection, met=NamesMet()), files, 0),
            start_position=start,
            stop_position=stop,
            stop_anchor=anchors,
            in_parts=in_parts,
        )

    def in_file(self, *, first: bool, last: bool, follow: bool) -> Settings:
        """For one file, which is the first of the range, or the last, or between them."""
        return replace(self, start=_in_file(self.start, first), stop=_in_file(self.stop, last), follow=follow)


def _of_history(files: LogFiles, named: list[int], position: Position) -> list[int]:
    """Of an archive's logs with the same name, the one whose history a position belongs to."""
    shares = [(i, share) for i in named if (share := files[i].share) is not None]
    if position.server is not None and (of := [i for i, share in shares if share.server == position.server]):
        return of[-1:]
    # The position is after a failover: all logs before it come first.
    ours = position.gtids or GtidSet()
    behind = [i for i, share in shares if share.before and not parse_gtid_set(share.before) - ours]
    return behind[-1:]


def _in_file(place: LogPlace | None, at_edge: bool) -> int | dt.datetime | Position | None:
    """A place as the file at the edge of the range sees it; positions mean nothing in the other files."""
    if isinstance(place, dt.datetime) or place is None:
        return place
    if not at_edge:
        return None
    if isinstance(place, Position):
        return place
    return place[1] if isinstance(place, tuple) else place
