"""A copy's files before they are the table: divided by its partition, and beside its deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import SchemaError
from ..lake.apply.files import tables_of
from ..lake.apply.jobs import Folder
from ..lake.apply.rewriting import Rewriter
from ..lake.apply.sinks import Sunk, spilled
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.table import DataFile
from .columns import DELETED
from .copies import Copied, Planned, data_files
from .joining import Joiner, join
from .state import Lake


def finished(runner: Runner, lake: Lake, planned: Planned, files: Sequence[Copied]) -> list[Copied]:
    """The files that become the table in place of what is there.

    Parameters
    ----------
    runner : Runner
        Who does the work.
    lake, planned, files
        The lake, the copy, and the files that were read.

    Raises
    ------
    BinlogError
        A value cannot be that of a partition, or deleted rows cannot be kept.
    ValueError
        A value of a deleted row does not fit its column's type any more.
    """
    state, copy, _, selection = planned
    partition = copy.rules.divided_by
    if not partition and not copy.rules.soft:
        return [*files]
    place, found = lake.folder(state), data_files(files)
    into = replace(place, attempt=f"{copy.id}-", partition=partition)
    if partition:
        found = join(runner, Joiner(place, into, selection.lake_schema), found)
    if copy.rules.soft:
        found += _no_longer_there(runner, lake, planned, found, into)
    return [
        Copied(
            *(state.full_name, i, one.name, one.rows, one.bytes, None),
            *(one.least, one.most, one.nulls, one.partition),
        )
        for i, one in enumerate(found)
    ]


def _no_longer_there(
    runner: Runner, lake: Lake, planned: Planned, copied: Sequence[DataFile], into: Folder
) -> list[DataFile]:
    """New files of the rows that only the lake has: the server has deleted them."""
    state, copy, definition, selection = planned
    table, keys = lake.opened(state), definition.row_key or ()
    schema = table.kept(selection.lake_schema)
    old = table.files()
    if not old:
        return []
    there = {name.lower(): name for name in table.columns.names}
    for name in schema.names:
        known = there.get(name.lower())
        if known not in (None, name) or (known is None and name in keys):
            raise SchemaError(
                f"its deleted rows cannot be kept: the lake has {known or 'no column'} for {name}. Copy it"
                " without soft_deletes, which drops them, and then with it",
                table=state.full_name,
            )
    if any(import_pyarrow().types.is_nested(schema.field(name).type) for name in keys):
        raise SchemaError("deleted rows cannot be kept by a key with a SET", table=state.full_name)
    # Columns that are made of others: the old table may lack them.
    values = {DELETED: True} | {one.name: one for one in copy.rules.derived}
    with into.workspace() as workspace:
        sunk = tuple(runner.map(_Keys(into, workspace, keys), copied))
        rewriter = Rewriter(into, workspace, schema, keys, sunk, values, every=True)
        return [file for one in runner.map(rewriter, old) for file in one.new]


@dataclass(frozen=True)
class _Keys:
    """Tells `Rewriter` which keys a file has."""

    place: Folder
    workspace: Folder
    keys: tuple[str, ...]

    def __call__(self, file: DataFile) -> Sunk:
        rows = import_pyarrow().concat_tables(tables_of(self.place, [file], self.keys))
        name = spilled(rows, self.workspace, "keys")
        return Sunk(file.rows, 0, (), name, None, file.least, file.most)
