"""The arguments of `open` except the files: settings of a pass over a log, or over a part of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .._decode.group import ALL_ASIDES
from .._decode.log_decoder import LogDecoder
from .._decode.selection import Columns, LogPlace, Selection, columns_by_pattern, names
from .._walk.track import Rules
from ..limits import Limits
from ..position import Position
from ..report import Report
from ..schema.definitions import Definitions

if TYPE_CHECKING:
    from .._decode.executed import Executed
    from .._decode.log_plans import Known
    from .._sources.follow import Follower
    from .._sources.log_files import LogFile
    from .._sources.sources import Source
    from ..conditions.language import Condition
    from ..gtids import AnyGtidSet


class Settings(NamedTuple):
    """The options of `binlog_core.open`, checked; `schema` and `schema_start` are loaded."""

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
    indexed: bool
    done: AnyGtidSet | None = None  # of the transactions behind `start`, those that came before it by GTIDs

    def whole(self) -> Settings:
        """These settings without range, selection and following."""
        return self._replace(start=None, stop=None, follow=False, selection=Selection(), done=None)

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
        rules = Rules(report, self.limits, verify_checksum=self.verify_checksum, skip_errors=self.skip_errors)
        return LogDecoder(
            source, selection, rules, definitions, follower=follower, executed=executed, known=known
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
            selection.where = condition_in(where, self.limits)
        return selection

    def behind(self, file: LogFile) -> Settings:
        """For a log and those after it: in another history, a GTID is of another transaction."""
        return self._replace(done=None) if file.begins_history else self

    def in_file(self, *, first: bool, last: bool, follow: bool) -> Settings:
        """For one file, which is the first of the range, or the last, or between them."""
        return self._replace(start=_in_file(self.start, first), stop=_in_file(self.stop, last), follow=follow)


def condition_in(where: str | Condition | None, limits: Limits) -> Condition | None:
    """The condition that ``where=`` gives; without one, its language is not even imported."""
    if where is None:
        return None
    from ..conditions.language import condition_of

    return condition_of(where, limits)


def _in_file(place: LogPlace | None, at_edge: bool) -> int | dt.datetime | Position | None:
    """A place as the file at the edge of the range sees it; positions mean nothing in the other files."""
    if isinstance(place, dt.datetime) or place is None:
        return place
    if not at_edge:
        return None
    if isinstance(place, Position):
        return place
    return place[1] if isinstance(place, tuple) else place
