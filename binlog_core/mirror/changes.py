"""A part of the logs, decoded once for all tables: the raw changes of each, in the mirror's own files."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from typing import Any

from .._decode.boundaries import last_checkpoint
from .._decode.gtid_selection import union
from .._sources.archives import timeline_among
from .._sources.log_names import name_within, unpacked
from .._sources.places import local_path
from .._sources.places import place_of as place_at
from .._sources.timeline import NAME
from .._tables.full_names import full_name, split_name
from ..archive.names import logs_among
from ..errors import BinlogError, MirrorError, PreparedBeforeError
from ..gtids import parse_gtid_set
from ..lake.plan.definitions import from_text, to_text
from ..lake.plan.parts import TaskPart, index_of
from ..lake.plan.ranges import LogPlace, LogRanges, Offset, offset_of, place_of
from ..lake.plan.xa import XaHistory
from ..lake.rows.fit import SPECIAL
from ..lake.rows.source_options import SourceOptions
from ..lake.runner import HERE, Runner
from ..lake.tables.results import FileStatistics, ReportedStatement, WrittenSplit
from ..lake.tables.split_writer import SplitWriter
from ..report import BinlogWarning, unwarned
from ..schema.ddl import DdlTracker
from ..schema.table_definitions import TableSchema
from ..schema.table_statements import read_statement
from ..schema.tokens import executed_by
from ..splits import FILE_NUMBER_SHIFT, Split
from ..splits.following import FoundStatement, statements_of
from .columns import ColumnRules
from .lake import CHANGES, Lake
from .raw import NO_RULES, RawWriter
from .state import GTIDS

_PART_BYTES = 64 << 20
_DEFINITIONS, _PREPARED = "definitions", "prepared"
_LOSSES = ("incidents", "rows_v0", "rows_without_table_map")  # of changes of any table


class LogPlan(LogRanges):
    """The archive as places and offsets; an offset has everything that a reader from its place on needs.

    Parameters
    ----------
    archive : str
        The archive's directory or URL.
    tables : sequence of str
        The names of the tables to read.
    storage_options : dict or None
        Options for the archive's store.
    run : Runner
        What reads through its logs.
    lower_case : bool
        Whether the server stores names in lower case, and its log has statements as they were written.
    counted : collection of str
        The names of tables whose changes are counted, without their values.
    metadata : tuple of str
        Further columns of changes: see `ReadOptions`.
    """

    def __init__(
        self,
        archive: str,
        tables: Sequence[str],
        storage_options: dict[str, Any] | None = None,
        run: Runner = HERE,
        *,
        lower_case: bool = False,
        counted: Collection[str] = (),
        metadata: tuple[str, ...] = (),
    ) -> None:
        options = SourceOptions(
            tables=tuple(escape(name) for name in tables),
            schema="ddl",
            xa="committed",
            split_size=_PART_BYTES,
            storage_options=storage_options,
        )
        # Those that an apply knows: it would take a table's own column for one of them.
        reading = replace(options.read_options(), absent=True, refused=SPECIAL, metadata=metadata)
        values = {escape(name): () for name in counted}
        self.reading = replace(reading, tables=(*(reading.tables or ()), *values), columns=values or None)
        self.access = options.access
        super().__init__(options, [archive], run)
        self.archive = archive
        self._listed: list[Split] = []
        self._listed_of: frozenset[tuple[str, int]] | None = None
        self.lower_case = lower_case
        self.counted = frozenset(counted)

    def logs(self) -> list[Split]:
        """The archive's logs."""
        return self._logs()

    def _logs(self) -> list[Split]:
        now = _files_of(self.archive)
        if now is None or now != self._listed_of:
            self._listed = super()._logs()
            # A log that is still empty is not listed, and is written without a further file.
            settled = now is not None and len(logs_among([name for name, _ in now])) == len(self._listed)
            self._listed_of = now if settled else None
        return self._listed

    def _log_of(self, offset: Offset) -> Split:
        """The log of an offset, as it was listed last: logs are listed again only if it was not there yet."""
        with suppress(BinlogError):
            if self._listed:
                return self._listed[index_of(self._listed, offset["file"])]
        logs = self._logs()
        return logs[index_of(logs, offset["file"])]

    def server(self) -> dict[str, Any]:
        """The server whose logs the archive ends with: its address, UUID and server id."""
        (archive,) = self._paths
        place = place_at(archive, self.access.storage_options)
        timeline = timeline_among(place, [f"{archive.rstrip('/')}/{NAME}"])
        assert timeline is not None
        assert timeline.last is not None
        return timeline.last.server

    def version(self, offset: Offset) -> int:
        """An offset's place as one number, which orders places as in the logs."""
        return self._log_of(offset).version_base + int(offset["position"])

    def lacking(self, offset: Offset) -> str | None:
        """The name of a log that a reader from an offset on needs and that no longer exists; or None."""
        here = {unpacked(name_within(log.path)) for log in self._logs()}
        needed = [offset["file"], *(one[0] for one in offset.get(_PREPARED, ()))]
        return next((name for name in needed if unpacked(name) not in here), None)

    def end(self) -> int:
        """The last transaction boundary that the archive has."""
        logs = self._logs()
        i, position = self._end(logs, (0, 0))
        return logs[i].version_base + position

    def limit(self) -> int | None:
        """A version at or after the end of all that the archive has by now; None: that is not known."""
        last = self._logs()[-1]
        with self.access.file(last.path).open() as source:
            return None if source.size is None else last.version_base + source.size

    def ends(self, start: Offset, table: str) -> bool:
        """Whether the logs from an offset on show that a table was dropped or renamed.

        Not if a log is no longer there: what it had is not known.
        """
        if self.lacking(start):
            return False
        logs = self._logs()
        i, position = place_of(logs, start)

        def ends(one: FoundStatement) -> bool:
            event, mode = one.event, one.event.status.sql_mode or 0
            read = read_statement(executed_by(one.mariadb, event.query, mode), event.database, mode)
            return read is not None and read.kind in ("drop", "rename") and read.concerns(table)

        scanned = statements_of(logs[i:], self.access, start=position, run=self._run)
        return any(ends(one) for _, found in scanned for one in found)

    def begin(
        self, place: LogPlace, definitions: Iterable[TableSchema], charsets: dict[str, str | None]
    ) -> Offset:
        """The offset of a place at which these are the definitions."""
        logs = self._logs()
        i, position = place
        xa = XaHistory(self.access, logs[i].version_base + position)
        xa.follow(logs[: i + 1], end=position, run=self._run)
        known = to_text(DdlTracker(definitions, database_charsets=charsets))
        kept = {_DEFINITIONS: known, _PREPARED: [list(one) for one in xa.open]}
        return self._with_gtids(offset_of(logs, place, kept), None)

    def behind(self, start: Offset, most: int | None, last: int | None) -> Offset:
        """The offset of a later boundary: after some bytes, but not after a place.

        Parameters
        ----------
        start : dict
            The offset to begin at.
        most : int or None
            The bytes; None: up to the end of the archive.
        last : int or None
            The version of the place; None: no place.
        """
        # A statement that cannot be followed is an error later, if it is about a table of the mirror.
        with unwarned():
            try:
                return self._with_gtids(self._behind(start, most, last), start)
            except PreparedBeforeError as error:
                raise MirrorError(
                    "XA COMMIT of a transaction that was prepared before the archive's first log: its rows"
                    " are not in it; copy all tables again (resync with '*')",
                    path=error.path,
                    offset=error.offset,
                ) from None

    def _with_gtids(self, offset: Offset, start: Offset | None) -> Offset:
        """An offset with the GTIDs up to it, if the logs have them; `start`: an earlier offset."""
        log, position = self._log_of(offset), int(offset["position"])
        known = None
        if start is not None and start["file"] == offset["file"]:
            known = start.get(GTIDS)
        begin = 0 if known is None or start is None else int(start["position"])
        with self.access.file(log.path).open() as source:
            before = None if known is None else parse_gtid_set(known)
            gtids = last_checkpoint(source, begin, before, position)[1]
        if (earlier := log.before) is not None:  # another server's: this log has some of them again
            gtids = union(parse_gtid_set(earlier), gtids)
        return {**offset, GTIDS: None if gtids is None else str(gtids)}

    def _behind(self, start: Offset, most: int | None, last: int | None) -> Offset:
        end = self._later(start, most)
        if last is None or self.version(end) <= last:
            return end
        logs = self._logs()
        number = next(i for i, log in enumerate(logs) if log.file_number == last >> FILE_NUMBER_SHIFT)
        place = number, last - logs[number].version_base
        return offset_of(logs, place, self._follow(logs, start, place).kept)

    def parts(self, start: Offset, end: Offset) -> list[TaskPart]:
        """The parts that the workers read."""
        with unwarned():
            return self._parts(start, end)


def _files_of(folder: str) -> frozenset[tuple[str, int]] | None:
    """The names and inodes in a local folder; None: it is not one, or has folders, as those of segments.

    Not the folder's time, which a file leaves as it is that comes in the same tick, or over some networks.
    """
    path = local_path(folder)
    if path is None:
        return None
    try:
        with os.scandir(path) as entries:
            found = [(one.name, one.inode(), one.is_dir()) for one in entries]
    except OSError:  # the listing says why
        return None
    if any(is_folder for _, _, is_folder in found):
        return None
    return frozenset((name, inode) for name, inode, _ in found)


def definitions_at(offset: Offset) -> DdlTracker:
    """The definitions at an offset."""
    return from_text(offset[_DEFINITIONS])


def merged(offset: Offset, other: Offset, tables: Iterable[tuple[str, str]]) -> Offset:
    """Two offsets of the same place as one; the definitions of these tables are taken from the second."""
    mine, theirs = from_text(offset[_DEFINITIONS]), from_text(other[_DEFINITIONS])
    names = set(tables)
    definitions = [one for one in mine if (one.database, one.name) not in names]
    definitions += [one for one in theirs if (one.database, one.name) in names]
    charsets = {**mine.database_charsets, **theirs.database_charsets}
    return {**offset, _DEFINITIONS: to_text(DdlTracker(definitions, database_charsets=charsets))}


@dataclass(frozen=True)
class _PartWriter:
    """What workers call: errors of the log or a table are results."""

    writer: SplitWriter = field(repr=False)

    def __call__(self, part: TaskPart) -> WrittenSplit | BinlogError:
        options = replace(self.writer.options, prepared={part.split.path: part.prepared})
        if part.definitions is not None:
            options = replace(options, schema=part.definitions)
        writer = replace(self.writer, options=options, exact=part.exact)
        try:
            return writer.write(part.split, uuid.uuid4().hex[:8])  # no attempt overwrites another's file
        except BinlogError as error:
            return error


@dataclass(frozen=True)
class Decoded:
    """The raw changes of a part of the logs.

    Parameters
    ----------
    folder : str
        The URI of the files' directory.
    files : dict of str to list of FileStatistics
        The files by ``database.table``.
    statements : tuple of ReportedStatement
        The statements, in order.
    by_case : bool
        Whether the server distinguishes names of tables by case.
    words : frozenset of str, or None
        The words, in small letters, of the changes that were logged as statements; None if any table may lack
        changes.
    storage_options : dict or None
        Options for the store of `folder`.
    """

    folder: str
    files: dict[str, list[FileStatistics]]
    statements: tuple[ReportedStatement, ...]
    by_case: bool = False
    words: frozenset[str] | None = frozenset()
    storage_options: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def needs_reach(self) -> bool:
        """Whether it has changes without rows, or statements that may have added foreign keys."""
        return self.words != frozenset() or any("references" in one.sql.lower() for one in self.statements)

    def about(self, table: str) -> list[ReportedStatement]:
        """Statements that concern a table."""
        spelt = str if self.by_case else str.lower
        database, table = spelt(split_name(table)[0]), spelt(table)
        return [
            one
            for one in self.statements
            if spelt(one.database or "") == database
            or table in map(spelt, one.tables)
            or (one.database is None and not one.tables)  # it could not be read
        ]


def decode(
    runner: Runner,
    lake: Lake,
    plan: LogPlan,
    start: Offset,
    end: Offset,
    *,
    by_case: bool = False,
    columns: Mapping[str, ColumnRules] = NO_RULES,
    mask_key: bytes | None = None,
) -> Decoded:
    """Decode the logs between two offsets; `by_case`: see `Decoded`; `columns`, `mask_key`: see `RawWriter`.

    Raises
    ------
    BinlogError
        The log is damaged, or a table, which the error names, cannot be decoded.
    """
    folder = lake.own(CHANGES)
    lake.make(CHANGES)
    parts = plan.parts(start, end)
    if not parts:
        return Decoded(folder, {}, (), by_case)
    parts = [replace(part, split=replace(part.split, index=i)) for i, part in enumerate(parts)]
    writer = SplitWriter(
        folder,
        replace(plan.reading, statements=True),
        parts=partial(RawWriter, columns=columns, mask_key=mask_key),
        storage_options=lake.storage_options,
    )
    files: dict[str, list[FileStatistics]] = {}
    statements: set[ReportedStatement] = set()
    words: frozenset[str] | None = frozenset()
    try:
        results = runner.map(_PartWriter(writer), parts)
    except Exception as error:
        raise MirrorError(f"the log cannot be decoded: {type(error).__name__}") from error
    for one in results:
        if isinstance(one, BinlogError):
            raise one
        if one.counts.get("statement_changes"):
            place = one.first["statement_changes"]
            warnings.warn(
                "changes were logged as statements, not as rows: the lake lacks them; verify names the rows"
                f" (file {place.path}, offset {place.offset})",
                BinlogWarning,
                stacklevel=2,
            )
        lost = one.words is None or any(one.counts.get(name) for name in _LOSSES)
        words = None if words is None or lost else words.union(one.words or ())
        for file in one.files:
            files.setdefault(full_name(file.database, file.table), []).append(file)
        statements.update(one.statements)
    order = sorted(statements, key=lambda one: (one.version, one.ordinal))
    return Decoded(folder, files, tuple(order), by_case, words, lake.storage_options)
