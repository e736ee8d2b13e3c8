"""A Delta table as the target of changes, through deltalake: no JVM."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import BinlogError
from ..lake.delta import DeltaLakeTable
from ..lake.table import App, DataFile
from ..rows.fit import widened
from ..rows.types import import_pyarrow
from .alterations import Check
from .changes import Changes
from .jobs import Folder, Jobs
from .rewriting import Checker, Replaced, Rewriter
from .sinks import FileSink, Sunk
from .statements import ApplyStopped

if TYPE_CHECKING:
    import pyarrow as pa


class DeltaTarget:
    """A Delta table; made by the first commit where there is none.

    Workers write the new rows, and anew those files of the table that have rows of the keys that changed; the
    commit removes and adds files.

    Parameters
    ----------
    path : str
        Path or URL.
    storage_options : dict
        Of deltalake.
    told : dict or None
        What its commits say of themselves.

    Raises
    ------
    BinlogError
        The table is partitioned, or has a feature that only Spark writes.
    MissingExtraError
        deltalake is not installed.
    """

    def __init__(
        self, path: str, storage_options: dict[str, str], *, told: dict[str, str] | None = None
    ) -> None:
        self._path, self._options, self._told = path, storage_options, told
        self._table = DeltaLakeTable(path, storage_options)
        if found := self._table.special:
            raise BinlogError(
                f"the Delta table has {', '.join(found)}, which only Spark writes here: use a SparkTarget",
                path=path,
            )

    @property
    def place(self) -> Folder:
        """Its directory."""
        return Folder(self._path, self._options or None, delta=True)

    @property
    def columns(self) -> pa.Schema:
        """Of the table as it is."""
        return self._table.columns

    @property
    def has_rows(self) -> bool:
        """There is something to lose."""
        return any(file.rows for file in self._table.files())

    def applied(self, app_id: str) -> int | None:
        """The last batch that was applied."""
        return self._table.applied(app_id)

    def check(self, checks: Sequence[Check], jobs: Jobs) -> None:
        """Hold the table's own values against what a new type leaves alone.

        Raises
        ------
        ApplyStopped
            A value would change.
        """
        names = set(self.columns.names)
        for check in checks:
            if check.column in names and not all(jobs.run(Checker(self.place, check), self._table.files())):
                raise ApplyStopped(f"alter of the table is not applied: {check.reason}", column=check.column)

    def merge(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        """Write what the changes are folded to, in one commit.

        Parameters
        ----------
        changes : Changes
        schema : pyarrow.Schema
            What the table is to have.

        Returns
        -------
        tuple of int
            Keys that were written, and deleted.
        """
        here, effects, jobs = self.columns, changes.effects, changes.jobs
        wanted = import_pyarrow().schema([*_merged(here, schema)])
        known = [file for file in self._table.files() if effects.cleared is None]
        workspace = changes.stager.place
        place = replace(self.place, attempt=f"{uuid.uuid4().hex[:12]}-")
        try:
            place.make()
            sunk = changes.fold(FileSink(changes.schema, wanted, changes.keys, place, workspace))
            written = [one.data for one in sunk if one.data is not None]
            every = bool(effects.values) or _retyped(here, schema)
            rewriter = Rewriter(place, workspace, wanted, changes.keys, tuple(sunk), effects.values, every)
            replaced = jobs.run(rewriter, [file for file in known if rewriter.concerns(file)])
            written += [file for one in replaced for file in one.new]
            _check_completed(sunk, replaced, changes.keys)
            puts, deletes = sum(one.puts for one in sunk), sum(one.deletes for one in sunk)
            touched = {one.name: one for one in replaced if one.touched}
            anew = every or effects.cleared is not None
            if not self._table.exists or anew or written or touched or changes.app is not None:
                self._commit(wanted, written, [f for f in known if f.name in touched], anew, changes.app)
            elif len(wanted) > len(here):
                self._table.add_columns(wanted)
        except BaseException:
            self._delete_uncommitted(place)
            place.unmake()
            raise
        return puts, deletes

    def _commit(
        self,
        schema: pa.Schema,
        written: Sequence[DataFile],
        removed: Sequence[DataFile],
        anew: bool,
        app: App | None,
    ) -> None:
        from deltalake.exceptions import DeltaError

        try:
            if anew:
                self._table.replace(written, schema, app, self._told)
            else:
                self._table.exchange(written, removed, schema, app, self._told)
        except DeltaError as error:
            raise BinlogError(
                f"the commit failed, nothing of the batch is applied: {error}", path=self._path
            ) from error

    def _delete_uncommitted(self, place: Folder) -> None:
        """Delete an attempt's files that no commit names: one that failed or was interrupted may be made."""
        from pyarrow.fs import FileSelector

        # What nobody knows stays.
        with contextlib.suppress(Exception):  # of the store
            named = {file.name for file in DeltaLakeTable(self._path, self._options).files()}
            filesystem = place.open()
            for info in filesystem.get_file_info(FileSelector("")):
                if info.base_name.startswith(place.file_prefix) and info.base_name not in named:
                    filesystem.delete_file(info.base_name)


def _check_completed(sunk: Sequence[Sunk], replaced: Sequence[Replaced], keys: Sequence[str]) -> None:
    partial = sum(one.partial[1] for one in sunk if one.partial is not None)
    completed = sum(one.completed for one in replaced)
    if completed != partial:
        raise ValueError(
            f"partial images change {partial} rows, of which the target has {completed}, by"
            f" {', '.join(keys)}: begin with a copy of the table, or with its first log"
        )


def _retyped(here: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a column of the table is too narrow."""
    return any(
        field.name in wanted.names and _wider(field.type, wanted.field(field.name).type) != field.type
        for field in here
    )


def _merged(here: pa.Schema, wanted: pa.Schema) -> Iterator[pa.Field]:
    pa = import_pyarrow()
    for field in here:
        kind = field.type
        if field.name in wanted.names:
            kind = _wider(kind, wanted.field(field.name).type)
        yield pa.field(field.name, kind)
    yield from (pa.field(field.name, field.type) for field in wanted if field.name not in here.names)


def _wider(here: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    return wanted if here != wanted and widened(here, wanted) else here
