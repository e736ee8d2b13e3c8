"""The work of an export's worker: it decodes splits, writes Parquet, and returns statistics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import BinlogError
from ...report import unwarned
from ...schema.table_statements import read_statement, words_of_change
from ...splits import Split, SplitBounds, trust_split
from ..plan.statements import is_change, kind_of
from ..rows.read_options import ReadOptions
from ..rows.reader import Chunk, SplitRows
from ..runner import go_on
from .destination import note_failure, open_filesystem
from .results import ReportedStatement, WrittenSplit
from .writer import PartWriter, WriteLimits

if TYPE_CHECKING:
    from ..rows.observers import LoggedStatement

_ANY = ""  # among words: a change of any table


@dataclass(frozen=True)
class SplitWriter:
    """The function for ``mapPartitions``: decodes splits, writes Parquet, gives statistics.

    Parameters
    ----------
    staging : str
        The path or URL of the directory to write into.
    options : ReadOptions
        How splits are read.
    compression : str or None
        Parquet's codec; None: see `parquet_writer`.
    limits : WriteLimits
        Limits on files and memory.
    file_size : int or None
        See `PartWriter`.
    prefix : str
        The beginning of the files' names.
    nested : bool
        Whether each table has a directory.
    storage_options : dict or None
        Options for the store of `staging`.
    logs : mapping of str to int
        The numbers of the logs by path.
    exact : bool
        Whether all splits begin and end at transaction boundaries.
    exact_splits : frozenset of int
        The indices of splits that do if not all do.
    parts : type of PartWriter, or a function
        Makes the writer.
    """

    staging: str
    options: ReadOptions
    compression: str | None = None
    limits: WriteLimits = field(default_factory=WriteLimits)
    file_size: int | None = None
    prefix: str = ""
    nested: bool = False
    storage_options: dict[str, Any] | None = field(default=None, repr=False)
    logs: Mapping[str, int] = field(default_factory=dict, repr=False)
    exact: bool = False
    exact_splits: frozenset[int] = frozenset()
    parts: Callable[..., PartWriter] = field(default=PartWriter, repr=False)

    def write(self, split: Split, attempt: str) -> WrittenSplit:
        """Write one split; if it fails, only a note of the error is left.

        Parameters
        ----------
        split : Split
            The split.
        attempt : str
            Part of the files' names, so that attempts cannot overwrite each other's files.

        Raises
        ------
        BinlogError
            Reading the log or writing the files failed.
        """
        filesystem, directory = open_filesystem(self.staging, self.storage_options)
        try:
            try:
                return self._write(filesystem, directory, split, attempt)
            except BinlogError as error:
                again = self._if_deceived(split, error)
                if again is None:
                    raise
                return self._write(filesystem, directory, again, f"{attempt}b")
        except Exception as error:
            known = error
            if not isinstance(known, BinlogError):
                known = BinlogError(f"{type(error).__name__}: {error}", path=split.path)
            name = f"{self.prefix}{split.index:05}-{attempt}"
            note_failure(filesystem, directory, name, known.located(path=split.path))
            raise

    def _if_deceived(self, split: Split, error: BinlogError) -> Split | None:
        """The split with its true anchor, if it began at another: the error then is not the log's."""
        if error.offset is None or split.trusted or split.start == 0:
            return None
        access = self.options.access
        try:
            trusted = trust_split(split, storage_options=access.storage_options)
            with access.file(split.path).open() as source:
                believed = SplitBounds(split, source).first_anchor
        except BinlogError:  # there is damage before it, which the split that contains it reports
            return None
        return trusted if trusted.anchor != believed else None

    def _write(self, filesystem: Any, directory: str, split: Split, attempt: str) -> WrittenSplit:
        began, cpu = time.perf_counter(), time.process_time()
        writer = self.parts(
            filesystem,
            directory,
            f"{self.prefix}{split.index:05}-{attempt}",
            split.index,
            log=self.logs.get(split.path, 0),
            nested=self.nested,
            compression=self.compression,
            limits=self.limits,
            file_size=self.file_size,
        )
        exact = self.exact or split.index in self.exact_splits
        reader = SplitRows(split, self.options, exact=exact)
        statements: list[ReportedStatement] = []
        changes, words = 0, set[str]()  # those that were logged as statements
        try:
            with unwarned():  # the driver reports it once
                for piece in reader.pieces():
                    go_on()
                    if isinstance(piece, Chunk):
                        with self._writing():
                            writer.write(piece)
                    elif is_change(piece):
                        changes += 1
                        named = words_of_change(piece.sql, piece.sql_mode)
                        words |= {_ANY} if named is None else named
                    else:
                        statements += _reported(piece, split)
            with self._writing():
                files = writer.finish()
        except BaseException:
            writer.abort()
            raise
        seconds = time.perf_counter() - began
        return WrittenSplit(
            split,
            reader.result,
            tuple(files),
            tuple(statements),
            reader.report.as_dict(),
            dict(reader.report.first),
            tuple(reader.report.take_damaged()),
            f"{reader.tail.reason}, offset {reader.tail.offset}" if reader.tail else None,
            reader.end_position,
            reader.bytes_read,
            seconds,
            time.process_time() - cpu,
            seconds - (writer.staged.seconds if writer.staged else sum(file.seconds for file in files)),
            reader.format.server_version if reader.format is not None else "",
            tuple(reader.not_committed.items()),
            frozenset(reader.met.fitting),
            reader.met.unfitting,
            # LOAD DATA of old servers has no text.
            None if _ANY in words or changes != reader.report.statement_changes else frozenset(words),
            writer.staged,
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Name the output in errors of writing, such as a full disk, instead of the log."""
        try:
            yield
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.staging) from error


def _reported(statement: LoggedStatement, split: Split) -> Iterator[ReportedStatement]:
    found = read_statement(statement.sql, statement.database, statement.sql_mode)
    if found is None:
        return
    kind = kind_of(statement, found.tables[0]) or found.kind if found.tables else found.kind
    yield ReportedStatement(
        split.version_base + statement.transaction,
        statement.ordinal,
        kind,
        found.tables,
        found.database,
        # If a table could be created, it did not exist.
        kind in ("drop", "truncate") or (kind == "create" and (found.replaces or not found.if_not_exists)),
        statement.sql,
        statement.database,
        statement.sql_mode,
    )
