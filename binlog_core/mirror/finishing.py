"""A copy's files before they are the table: divided by its partition, and beside its deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import SchemaError
from ..lake.apply.files import tables_of
from ..lake.apply.jobs import Folder
from ..lake.apply.keys import one_array
from ..lake.apply.rewriting import Rewriter
from ..lake.apply.sinks import Sunk, spilled
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.table import DataFile
from .columns import DELETED, EVERY_COLUMN, ColumnRules, hashed
from .copies import COPY, Planned
from .joining import Joiner, join
from .lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa


def finished(
    runner: Runner, lake: Lake, planned: Planned, files: Sequence[DataFile], *, mask_key: bytes | None = None
) -> list[DataFile]:
    """The files that become the table in place of what is there.

    Parameters
    ----------
    runner : Runner
        Who does the work.
    lake, planned, files
        The lake, the copy, and the files that were read.
    mask_key : bytes or None
        The key of the hashes.

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
    if lake.opened(state, rules=copy.rules).last_commit().get(COPY) == copy.id:
        return [*files]  # by a run that was killed then
    place, found = lake.folder(state), [*files]
    into = replace(place, attempt=f"{copy.id}-", partition=partition)
    if partition:
        found = join(runner, Joiner(place, into, selection.lake_schema), found)
    if copy.rules.soft:
        found += _no_longer_there(runner, lake, planned, found, into, mask_key)
    return found


def _no_longer_there(
    runner: Runner,
    lake: Lake,
    planned: Planned,
    copied: Sequence[DataFile],
    into: Folder,
    mask_key: bytes | None,
) -> list[DataFile]:
    """New files of the rows that only the lake has: the server has deleted them."""
    state, copy, definition, selection = planned
    rules, before = copy.rules, state.lake_rules
    table, keys = lake.opened(state), definition.row_key or ()
    schema = table.kept(selection.lake_schema)
    old = table.files()
    if not old:
        return []
    there = {name.lower(): name for name in table.columns.names}
    for name in schema.names:
        known, reason = there.get(name.lower()), None
        if known not in (None, name) or (known is None and name in keys):
            reason = f"the lake has {known or 'no column'} for {name}"
        elif known and name.lower() in before.masks:
            if name.lower() not in rules.masks:
                reason = f"{name} was masked"
            elif rules.key != before.key:
                reason = f"{name} was masked with another key"
        if reason is not None:
            raise SchemaError(
                f"its deleted rows cannot be kept: {reason}. Copy it"
                " without soft_deletes, which drops them, and then with it",
                table=state.full_name,
            )
    if any(import_pyarrow().types.is_nested(schema.field(name).type) for name in keys):
        raise SchemaError("deleted rows cannot be kept by a key with a SET", table=state.full_name)
    with into.workspace() as workspace:
        sunk = tuple(runner.map(_Keys(into, workspace, keys), copied))
        kept = _Kept(
            *(into, workspace, schema, keys, sunk, {DELETED: True}, True),
            rules=rules,
            masks=frozenset(rules.masks) - frozenset(before.masks),
            mask_key=mask_key,
        )
        return [file for one in runner.map(kept, old) for file in one.new]


@dataclass(frozen=True)
class _Kept(Rewriter):
    """Writes the rows that stay as a copy would.

    Parameters
    ----------
    rules : ColumnRules
        What becomes of the columns.
    masks : frozenset of str
        The names, in small letters, of those that the lake has in clear.
    mask_key : bytes or None
        The key of their hashes.
    """

    rules: ColumnRules = EVERY_COLUMN
    masks: frozenset[str] = frozenset()
    mask_key: bytes | None = field(default=None, repr=False)

    def shaped(self, rows: pa.Table) -> pa.Table:
        """See `Rewriter`."""
        for i, name in enumerate(rows.column_names):
            if name.lower() in self.masks:
                rows = rows.set_column(i, name, hashed(one_array(rows[name]), self.mask_key or b""))
        rows = super().shaped(rows)
        for one in self.rules.derived:  # a partition that the rows had otherwise
            i = rows.column_names.index(one.name)
            rows = rows.set_column(i, self.schema.field(i), one.values(rows[one.column]))
        return rows


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
