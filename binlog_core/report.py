"""Missing and lost information in a log, as counts and first places, so that nothing is silent."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ._base.redaction import shown_url
from .errors import BinlogError, StrictError


class Place(NamedTuple):
    """Where something first occurred: the file, the event's byte offset, the table, column and details."""

    path: str | None
    offset: int | None
    table: str | None = None
    column: str | None = None
    detail: str | None = None


class BinlogWarning(UserWarning):
    """The log lacks information; the rest was decoded, and the gap is counted in ``log.report``."""


# The kinds that are counted, and their descriptions.
KINDS = {
    "skipped_events": "damaged events were skipped",
    "rows_without_table_map": "rows events whose table map was not seen",
    "undecodable_tables": "tables whose rows cannot be decoded",
    "statement_changes": "changes were logged as statements, not as rows",
    "unnamed_columns": "tables whose column names are not in the log",
    "unknown_signs": "integer columns whose sign is not in the log",
    "unknown_charsets": "text columns whose character set is not in the log",
    "metadata_misfits": "optional metadata that does not fit its table",
    "invalid_dates": "invalid dates, such as 0000-00-00",
    "invalid_text": "texts that are not valid in their character set",
    "skipped_changes": "changes were left out because of a damaged compressed value",
    "damaged_values": "values whose bytes cannot be read",
    "lost_documents": "JSON documents of which the log has only changes",
    "incidents": "incidents: the server says that events are missing",
    "format_notes": "descriptors that needed a decision",
    "rows_v0": "rows events of version 0, whose values cannot be known from the log",
    "schema_misfits": "table definitions that do not fit the rows",
    "ddl_not_followed": "schema changes that could not be followed",
    "hidden_definitions": "tables whose definitions the server does not show",
    "unproved_definitions": "tables were changed later, and their earlier definitions are unknown",
    "unmatched_names": "names were given that match nothing in the logs read",
    "file_gaps": "numbers missing between the files",
    "files_left_out": "files with the number of another log were left out",
    "unproved_seams": "new histories without proof that nothing is missing before them",
    "wrong_in_use_checksum": "wrong checksum in the last event of a log in use",
    "unusable_indexes": "damaged indexes beside the logs were not used",
    "reconnects": "connections to the server were lost and restored",
    "unknown_sources": "start GTIDs are of servers or domains that this server does not know",
    "missing_bytes": "positions in headers run ahead: the log lacks events or bytes",
}

_MOST_PLACES = 10_000  # of skipped events that are kept; all are counted

# Facts about the data or the folder rather than missing information: strict mode accepts them.
_FACTS = frozenset(
    (
        *("invalid_dates", "invalid_text", "format_notes", "wrong_in_use_checksum", "unmatched_names"),
        *("files_left_out", "reconnects", "unusable_indexes"),
    )
)
# Kinds that are not worth a warning at every open.
_QUIET = frozenset(("invalid_dates", "format_notes"))
# What a log without names often lacks too, and what helps against it is the same.
_WITH_NAMES = frozenset(("unknown_signs", "unknown_charsets"))
# Further text of warnings.
# Where names come from if the log does not have them, as is usual: servers do not log them by default.
NAMES_REMEDY = 'schema="ddl" takes them from CREATE TABLE in the logs, schema="mysql://…" from a server'
STATEMENTS_REMEDY = (
    "their rows are not in the log; SET GLOBAL binlog_format = ROW logs the rows of later changes"
)
_REMEDIES = {
    "statement_changes": STATEMENTS_REMEDY,
    "unnamed_columns": f"they are called c0, c1 …; {NAMES_REMEDY}",
    "hidden_definitions": "the user needs a privilege such as SELECT on them, or they have been dropped",
    "unknown_signs": "their values are read as signed; schema= gives the sign",
    "lost_documents": "their values are lists of changes, or null and named in _absent; with"
    " binlog_row_value_options='' or binlog_row_image=FULL the server logs whole documents",
    "unknown_charsets": "their values are bytes; schema= or charset= gives the character set",
}
_PACKAGE = os.path.dirname(__file__) + os.sep
_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def unwarned() -> Iterator[None]:
    """Within it what is noticed is counted and gives no warning.

    It concerns this thread only: the filters of `warnings` are those of all threads.
    """
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def _level_of_user() -> int:
    """Stack level, counted from the caller of this function, of the code that called into this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


@dataclass
class Report:
    """Counts by kind (the names in ``KINDS``), and the first place of each.

    Parameters
    ----------
    strict : bool
        Raise StrictError when information is missing from the log for the first time.
    warn : bool
        Give a `BinlogWarning` the first time that each kind occurs.

    Attributes
    ----------
    counts : dict
        How often each kind occurred.
    first : dict
        Where each kind occurred first.
    lost_ranges : list of (path, start, end)
        The byte ranges of damaged events and of anything unreadable between events, in log order; only the
        first 10,000 are kept.
    skipped : list of Place
        Where damaged events were skipped; only the first 10,000 are kept.
    """

    strict: bool = False
    warn: bool = field(default=True, kw_only=True)
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, Place] = field(default_factory=dict)
    skipped: list[Place] = field(default_factory=list)
    lost_ranges: list[tuple[str | None, int, int]] = field(default_factory=list)

    def __getattr__(self, name: str) -> int:
        """Each kind's count as an attribute, 0 if there was none."""
        if name in KINDS:
            return self.counts.get(name, 0)
        raise AttributeError(name)

    def add(
        self,
        kind: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        table: str | None = None,
        column: str | None = None,
        detail: str | None = None,
        count: int = 1,
    ) -> None:
        """Count something; in strict mode, raise an error if it is missing information.

        Parameters
        ----------
        kind : str
            One of the names in ``KINDS``.
        path, offset, table, column, detail
            As in `Place`.
        count : int
            How many to add; 0 does nothing.

        Raises
        ------
        StrictError
            In strict mode, unless the kind is a property of the data rather than missing information.
        """
        if not count:
            return
        path = shown_url(path) if path is not None else None
        place = Place(path, offset, table, column, detail)
        if self.strict and kind not in _FACTS:
            raise StrictError(
                f"{KINDS[kind]}{f': {detail}' if detail else ''}",
                path=path,
                offset=offset,
                table=table,
                column=column,
            )
        if kind == "skipped_events" and len(self.skipped) < _MOST_PLACES:
            self.skipped.append(place)
        if kind not in self.first:
            self.first[kind] = place
            is_known = kind in _WITH_NAMES and "unnamed_columns" in self.first
            if self.warn and kind not in _QUIET and not is_known and not _silent.get():
                more = f": {told}" if (told := detail or _REMEDIES.get(kind)) else ""
                error = BinlogError(
                    f"{KINDS[kind]}{more}", path=path, offset=offset, table=table, column=column
                )
                warnings.warn(str(error), BinlogWarning, stacklevel=_level_of_user())
        self.counts[kind] = self.counts.get(kind, 0) + count

    def add_each(self, of: Collection[Hashable], kind: str, **place: Any) -> None:
        """Count a kind once for each of several table definitions; `place` is as in `add`."""
        self.add(kind, count=len(of), **place)

    def lose(self, path: str | None, start: int, end: int) -> None:
        """Record that bytes ``[start, end)`` of a log could not be read; adjacent ranges become one."""
        if self.lost_ranges and self.lost_ranges[-1][0] == path and self.lost_ranges[-1][2] == start:
            start = self.lost_ranges.pop()[1]
        if len(self.lost_ranges) < _MOST_PLACES:
            self.lost_ranges.append((path, start, end))

    def as_dict(self) -> dict[str, int]:
        """The counts that are not zero."""
        return {kind: n for kind, n in self.counts.items() if n}

    def __str__(self) -> str:
        if not self.counts:
            return "nothing to report"
        return "\n".join(f"{line}, the first{place}" for line, place in self._lines())

    def __repr__(self) -> str:
        counts = ", ".join(f"{kind}={count}" for kind, count in self.as_dict().items())
        return f"<Report: {counts or 'nothing to report'}>"

    def _repr_html_(self) -> str:
        """The counts as a table, for notebooks."""
        if not self.counts:
            return "<p>nothing to report</p>"
        import html

        lines = ((html.escape(line), html.escape(place.strip(" ():"))) for line, place in self._lines())
        rows = "".join(f"<tr><td>{line}</td><td>{place}</td></tr>" for line, place in lines)
        return f"<table><thead><tr><th>noticed</th><th>first</th></tr></thead><tbody>{rows}</tbody></table>"

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Each kind's description with its count, and its first place."""
        for kind, count in self.counts.items():
            path, offset, table, column, detail = self.first[kind]
            text = f": {detail}" if detail else ""
            place = str(BinlogError(text, path=path, offset=offset, table=table, column=column))
            yield f"{KINDS[kind]}: {count:,}", place
