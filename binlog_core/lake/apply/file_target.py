"""A table of files as the target of changes, through deltalake or pyiceberg: no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import BinlogError
from ..rows.fit import widened
from ..rows.types import import_pyarrow
from ..tables.iceberg import IcebergLakeTable, load_iceberg_catalog
from ..tables.table import App, DataFile, FileTable
from .alterations import Check
from .attempts import attempt
from .changes import Changes
from .conversions import one_holds_the_other
from .jobs import Folder, Jobs
from .key_index import KeyIndex
from .rewriting import Checker, Replaced, Rewriter
from .sinks import FileSink, Sunk

if TYPE_CHECKING:
    import pyarrow as pa


class FileTarget:
    """A table of a lake; the first commit creates it if it does not exist.

    Workers write the new rows, and rewrite the files of the table that have rows of the changed keys; the
    commit removes and adds files.

    Parameters
    ----------
    table : FileTable
        The table.
    place : Folder
        Its directory.
    properties : dict or None
        Further properties of its commits.
    vectors : bool
        Whether files whose rows change stay, and get deletion vectors; otherwise they are rewritten.
    index : KeyIndex or None
        Where the rows of keys are found, for deletion vectors; None: by reading the files.

    Raises
    ------
    BinlogError
        The table is partitioned, or has a feature that only Spark writes, or can have no deletion vectors.
    """

    def __init__(
        self,
        table: FileTable,
        place: Folder,
        *,
        properties: dict[str, str] | None = None,
        vectors: bool = False,
        index: KeyIndex | None = None,
    ) -> None:
        self._table, self.place, self._properties = table, place, properties
        self._vectors, self._index = vectors, index
        if vectors and (found := table.no_vectors):
            raise BinlogError(
                f"the table can have no deletion vectors here: {', '.join(found)}", path=table.uri
            )
        if found := table.special:
            raise BinlogError(
                f"the table has {', '.join(found)}, which only Spark writes here: use a SparkTarget",
                path=table.uri,
            )

    @property
    def columns(self) -> pa.Schema:
        """The current columns of the table."""
        return self._table.columns

    @property
    def has_rows(self) -> bool:
        """Whether the table has rows."""
        return any(file.live for file in self._table.files())

    def applied(self, app_id: str) -> int | None:
        """The last batch that an application has applied; None if the table does not know of any."""
        return self._table.applied(app_id)

    def reached(self, app_id: str) -> int | None:
        """The `_commit_version` of the last change that an application has applied; None: it is not known."""
        return self._table.reached(app_id)

    def fits(self, check: Check, jobs: Jobs) -> bool:
        """Whether a new type does not change the values of a column in the table."""
        return all(jobs.run(Checker(self.place, check), self._table.files()))

    def merge(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        """Write the folded changes in one commit.

        Parameters
        ----------
        changes : Changes
            The changes.
        schema : pyarrow.Schema
            The columns that the table needs.

        Returns
        -------
        tuple of int
            How many keys were written, and how many deleted.
        """
        here, effects, jobs = self.columns, changes.effects, changes.jobs
        merged = _merged(here, schema, cleared=effects.cleared is not None)
        wanted = self._table.kept(import_pyarrow().schema(list(merged)))
        files = self._table.files()
        known = [] if effects.cleared is not None else files
        workspace = changes.stager.place
        with attempt(self._table, self.place) as place:
            sunk = changes.fold(FileSink(changes.schema, wanted, changes.keys, place, workspace))
            written = [file for one in sunk for file in one.data]
            every = bool(effects.values) or not self._table.takes(wanted)
            rewriter = Rewriter(
                place, workspace, wanted, changes.keys, tuple(sunk), effects.values, every, self._vectors
            )
            concerned = [file for file in known if rewriter.concerns(file)]
            marked = self._by_index(rewriter, known, concerned, jobs)
            replaced = jobs.run(rewriter, [one for one in concerned if one.name not in marked])
            replaced += marked.values()
            written += [file for one in replaced for file in one.new]
            _check_completed(sunk, replaced, changes.keys)
            puts, deletes = sum(one.puts for one in sunk), sum(one.deletes for one in sunk)
            stay = {one.name for one in known} - {one.name for one in replaced if one.touched}
            removed = [one for one in files if one.name not in stay]
            if not self._table.exists or every or written or removed or changes.app is not None:
                self._commit(wanted, written, removed, every, changes.app)
            elif len(wanted) > len(here):
                self._table.add_columns(wanted)
        return puts, deletes

    def _by_index(
        self, rewriter: Rewriter, files: Sequence[DataFile], concerned: Sequence[DataFile], jobs: Jobs
    ) -> dict[str, Replaced]:
        """What becomes of the files that need not be read, by their names."""
        sunk = rewriter.sunk
        if self._index is None or not self._vectors or rewriter.every or any(one.partial for one in sunk):
            return {}
        count = sum(one.puts + one.deletes for one in sunk)
        key = import_pyarrow().schema([rewriter.schema.field(name) for name in rewriter.keys])
        found = self._index.found(files, concerned, key, rewriter.sought(), count, self.place, jobs)
        return {one.name: rewriter.marked(one, found[one.name]) for one in concerned if one.name in found}

    def _commit(
        self,
        schema: pa.Schema,
        written: Sequence[DataFile],
        removed: Sequence[DataFile],
        anew: bool,
        app: App | None,
    ) -> None:
        try:
            if anew:
                self._table.replace(written, schema, app, self._properties)
            else:
                self._table.exchange(written, removed, schema, app, self._properties)
        except (BinlogError, OSError):
            raise
        except Exception as error:  # of deltalake, pyiceberg and the stores below them
            raise BinlogError(
                f"the commit failed, nothing of the batch is applied: {type(error).__name__}: {error}",
                path=self._table.uri,
            ) from error


class IcebergTarget(FileTarget):
    """A table of an Iceberg catalog that changes are merged into by pyiceberg, without a JVM.

    Parameters
    ----------
    table : str
        The table, as ``namespace.name``.
    catalog : mapping, str or None
        Properties for ``pyiceberg.catalog.load_catalog``, or the catalog's name in pyiceberg's configuration.
    location : str or None
        The path or URL of the directory for a table that does not exist yet. A REST catalog may choose
        another; with one, it can be left out. It makes a table that does not exist at once, without columns.
    storage_options : dict or None
        Credentials and endpoint of its store, as for `binlog_core.open`.

    Raises
    ------
    ValueError
        The table does not exist, and `location` is missing.
    BinlogError
        The catalog cannot be opened or does not make the table, or the table is partitioned or has a feature
        that only Spark writes.
    MissingExtraError
        pyiceberg is not installed.
    """

    def __init__(
        self,
        table: str,
        catalog: Mapping[str, str] | str | None = None,
        *,
        location: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        loaded = load_iceberg_catalog(catalog, storage_options)
        found = IcebergLakeTable(loaded, tuple(table.split(".")), location)
        if not (place := found.place()):
            raise ValueError(f"the catalog has no table {table}: give location= to create it")
        super().__init__(found, Folder(place, storage_options))


def _check_completed(sunk: Sequence[Sunk], replaced: Sequence[Replaced], keys: Sequence[str]) -> None:
    partial = sum(one.partial[1] for one in sunk if one.partial is not None)
    completed = sum(one.completed for one in replaced)
    if completed != partial:
        raise ValueError(
            f"partial images change {partial} rows, of which the target has {completed}, by"
            f" {', '.join(keys)}: start with a copy of the table, or with its first log"
        )


def _merged(here: pa.Schema, wanted: pa.Schema, *, cleared: bool) -> Iterator[pa.Field]:
    """The table's columns after a batch; `cleared`: none of its rows stays."""
    for field in here:
        if field.name in wanted.names:
            kind = wanted.field(field.name).type
            # One that was dropped and made anew may have any types.
            anew = cleared and not one_holds_the_other(field.type, kind)
            if anew or widened(field.type, kind):
                field = field.with_type(kind)
        yield field
    yield from (field for field in wanted if field.name not in here.names)
