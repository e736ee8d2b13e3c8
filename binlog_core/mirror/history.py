"""Every version of every row: the changes themselves, in a table beside the current one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from .._base.change_columns import INSERT, LAKE_COLUMNS, OPS
from ..errors import CopyNeeded
from ..lake.apply.attempts import attempt
from ..lake.apply.files import write_files
from ..lake.apply.jobs import Folder
from ..lake.rows.fit import STATEMENT, special_fields, widened
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.results import FileStatistics, ReportedStatement
from ..lake.tables.table import App, FileTable
from .joining import Joiner, Sized, join
from .lake import Lake
from .raw import pieces
from .state import TableState

if TYPE_CHECKING:
    import pyarrow as pa

_BEGAN = "binlog_core.inspect.history"  # in a commit
_COPY = "copy"  # a `_change_type`: rows before it no longer exist
_TYPE, _VERSION, _TIME, _ORDINAL = LAKE_COLUMNS


class History:
    """The histories of a mirror's tables.

    Each commit records up to which place in the log its table has everything, so that repeated changes are
    skipped.

    Parameters
    ----------
    runner : Runner
        Who reads and writes files.
    lake : Lake
        The lake.
    mirror : str
        The mirror's id.
    """

    def __init__(self, runner: Runner, lake: Lake, mirror: str) -> None:
        self._runner, self._lake, self._mirror = runner, lake, mirror

    def begin(self, state: TableState) -> None:
        """Begin a table's history with its present rows."""
        place = state.place
        assert place is not None
        current, special = self._lake.opened(state), special_fields()
        opened = cache(partial(self._lake.opened, state))
        done = opened(1).applied(self._mirror) or 0
        # A copy may have been made at the same place before, if nothing was logged since.
        since = time.time_ns() // 1000 if done >= place else 0
        types = {_TYPE: OPS[INSERT], _VERSION: place - 1, _TIME: None, _ORDINAL: since + 1}
        schema = import_pyarrow().schema([*current.columns, *((name, special[name]) for name in types)])
        (number,), schemas = _placed(opened, [schema])
        rows = Joiner(self._lake.folder(state), self._lake.folder(state, number), schemas[number], types)
        marker = [{_TYPE: _COPY, _VERSION: place - 1, _ORDINAL: since}]
        schemas.setdefault(1, opened(1).columns)
        properties = {_BEGAN: f"{place} {current.version if current.exists else ''}"}
        for one in sorted(schemas):
            if opened(one).last_commit().get(_BEGAN) != properties[_BEGAN]:
                files = current.files() if one == number else ()
                rows = replace(rows, into=self._lake.folder(state, one), schema=schemas[one])
                # A copy's mark may be before changes that are here already: they must not be added again.
                end = max(place, opened(one).applied(self._mirror) or 0)
                self._write(opened(one), rows, files, marker if one == 1 else (), end, properties)

    def append(
        self,
        state: TableState,
        files: Sequence[FileStatistics],
        statements: Sequence[ReportedStatement],
        folder: str,
        end: int,
    ) -> None:
        """Add the changes and statements from a table's place to another.

        Parameters
        ----------
        state : TableState
            The table, at its place.
        files : sequence of FileStatistics
            The files with its row images.
        statements : sequence of ReportedStatement
            The statements about it.
        folder : str
            The URI of the files' directory.
        end : int
            The other place.

        Raises
        ------
        CopyNeeded
            The history is gone, or lacks commits that it had; with a copy it begins again.
        """
        opened = cache(partial(self._lake.opened, state))
        if state.history is not None and not self._has(opened, state.committed or 0):
            raise CopyNeeded("the table's history was removed, or an earlier one was put back")
        numbers, schemas = _placed(opened, [file.schema for file in files])
        if statements:
            schemas.setdefault(1, opened(1).columns)
        for number, schema in schemas.items():
            done = opened(number).applied(self._mirror)
            since = max(state.place or 0, done or 0)
            if since >= end:
                continue
            rows_of_statements = [
                {_TYPE: one.kind, _VERSION: one.version, _ORDINAL: one.ordinal, STATEMENT: one.sql}
                for one in (statements if number == 1 else ())
                if since <= one.version < end
            ]
            rows = Joiner(
                Folder(folder, self._lake.storage_options),
                self._lake.folder(state, number),
                schema,
                since=since,
                read=_pieces,
            )
            own = [file for file, one in zip(files, numbers, strict=True) if one == number]
            self._write(opened(number), rows, own, rows_of_statements, end, None)

    def _has(self, opened: Callable[[int], FileTable], place: int) -> bool:
        """Whether a history has what its table got at a place, in any of its tables: it gets that before."""
        found = (opened(number) for number in count(1))
        return any(
            (applied := one.applied(self._mirror)) is None or applied >= place
            for one in takewhile(lambda one: one.exists, found)
        )

    def tables(self, state: TableState) -> Iterator[tuple[FileTable, Folder]]:
        """The tables of a table's history."""
        for number in count(1):
            found = self._lake.opened(state, number)
            if not found.exists:
                return
            yield found, self._lake.folder(state, number)

    def _write(
        self,
        table: FileTable,
        rows: Joiner,
        files: Sequence[Sized],
        more: Sequence[Mapping[str, Any]],
        end: int,
        properties: dict[str, str] | None,
    ) -> None:
        """Write the rows of files, and more rows, in one commit."""
        pa = import_pyarrow()
        special = special_fields()
        names = [
            name for name in (_TYPE, _VERSION, _TIME, _ORDINAL, STATEMENT) if name not in rows.schema.names
        ]
        columns = pa.schema([*rows.schema, *((name, special[name]) for name in names)])
        with attempt(table, rows.into) as place:
            rows = replace(rows, into=place, schema=table.kept(columns))
            written = join(self._runner, rows, files)
            if more:
                written += write_files(pa.Table.from_pylist(more, rows.schema), place, rows.schema)
            if not written:
                return
            app = App(self._mirror, end)
            if table.takes(rows.schema):
                table.exchange(written, (), rows.schema, app, properties)
            else:  # a type became wider
                again = Joiner(place, place, rows.schema)
                written += join(self._runner, again, table.files())
                table.replace(written, rows.schema, app, properties)


def _pieces(folder: Folder, files: Iterable[Sized]) -> Iterator[pa.Table]:
    return pieces(folder, [one.name for one in files])


def _placed(
    opened: Callable[[int], FileTable], schemas: Iterable[pa.Schema]
) -> tuple[list[int], dict[int, pa.Schema]]:
    """For each schema the number of the first table that can hold it, and the tables' columns then."""
    numbers: list[int] = []
    tables: dict[int, pa.Schema] = {}
    for schema in schemas:
        for number in count(1):
            have = tables[number] if number in tables else opened(number).columns
            both = _united(have, schema)
            if both is not None:
                tables[number] = both
                numbers.append(number)
                break
    return numbers, tables


def _united(have: pa.Schema, more: pa.Schema) -> pa.Schema | None:
    """The columns of both, compared without case, in types that hold both; None if there are none."""
    pa = import_pyarrow()
    found = {one.name.lower(): one for one in have}
    for one in more:
        known = found.setdefault(one.name.lower(), one)
        if not widened(one.type, known.type):
            if not widened(known.type, one.type):
                return None
            found[one.name.lower()] = pa.field(known.name, one.type)
    return pa.schema([pa.field(one.name, one.type) for one in found.values()])
