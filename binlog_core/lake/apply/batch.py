"""From changes to a table: a batch of changes folded by key and merged into a table, in one commit.

Row images stay with the workers. The driver gets statements, statistics of files, and two hashes for each
partial image whose key changed. The effect of an ALTER TABLE is applied to the images before it, so that a
batch is folded once and committed once, whatever statements are in it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import BinlogError, CopyNeeded
from ..rows.fit import SPECIAL, widened
from ..rows.types import import_pyarrow
from ..tables.table import App, LakeTable
from .alterations import Check, ServerColumns
from .changes import Changes
from .files import spelled_like
from .jobs import Folder, Here, InMemory, Jobs
from .keys import unfit
from .staging import BUCKETS, AppliedStatement, Stager
from .statements import OnAlter, OnDrop, Rules, follow

if TYPE_CHECKING:
    import pyarrow as pa

_IN_MEMORY = 32 << 20  # bytes of changes that are folded without files


class MergeTarget(LakeTable, Protocol):
    """A table of a lake that changes are merged into."""

    @property
    def has_rows(self) -> bool:
        """Whether the table has rows that would be lost."""
        ...

    @property
    def place(self) -> Folder:
        """The directory for temporary files of an apply."""
        ...

    def fits(self, check: Check, jobs: Jobs) -> bool:
        """Whether a new type does not change the values of a column in the table."""
        ...

    def merge(self, changes: Changes, schema: pa.Schema) -> tuple[int, int]:
        """Bring the table up to date in one commit; how many keys were written, and how many deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of a batch.

    Parameters
    ----------
    changes : int
        Row images and statements in the batch.
    puts, deletes : int
        Keys that were written, and keys that were deleted.
    truncated : bool
        Whether the table was emptied first.
    skipped : bool
        Whether the batch had been applied before, so that nothing was done.
    """

    changes: int = 0
    puts: int = 0
    deletes: int = 0
    truncated: bool = False
    skipped: bool = False


def apply_images(
    batch: pa.Table | Jobs,
    into: MergeTarget,
    keys: tuple[str, ...],
    *,
    app: App | None = None,
    on_alter: OnAlter = "apply",
    on_drop: OnDrop = "stop",
    defaults: Mapping[str, Any] | None = None,
    statements: Iterable[AppliedStatement] = (),
    present: ServerColumns | None = None,
    computed: Container[str] = (),
    primary_key: Sequence[str] = (),
    same_key: bool = False,
) -> Applied:
    """Apply changes, in one commit, whatever statements are among them; see `Rules`.

    Parameters
    ----------
    statements : iterable of AppliedStatement
        Those that are not among the changes.
    computed : container of str
        The names, in small letters, of columns that the server computes. An update that has them in neither
        of its images stops the apply.
    primary_key : sequence of str
        The primary key, if it is known: it shows which updates lack columns that they may have changed.
    same_key : bool
        Whether it is known that `keys` stay the table's key.
    """
    pa = import_pyarrow()
    here = into.columns
    jobs = _respelt(_jobs_of(batch), here.names)
    own, keys = own_schema(jobs), tuple(spelled_like(keys, here.names))
    # Columns that only the target has are not changed: changed rows keep their values there.
    extra = [field for field in here if field.name not in own.names]
    staged = pa.schema([*own, *extra])
    for kind in (staged.field(name).type for name in keys):
        if pa.types.is_nested(kind):  # a SET
            raise unfit(kind)
    place: AbstractContextManager[Any]
    buckets = BUCKETS
    if not isinstance(jobs, Here):
        place = into.place.workspace()
    elif jobs.changes.nbytes < _IN_MEMORY:
        place, buckets = contextlib.nullcontext(InMemory("")), 1
    else:
        place = tempfile.TemporaryDirectory(prefix="binlog-")
    with _writing(into), place as opened:
        within = opened if isinstance(opened, Folder) else Folder(opened)
        places = tuple(map(staged.get_field_index, keys))
        lower = [name.lower() for name in own.names]
        at_risk = tuple(i for i, name in enumerate(lower) if name in computed)
        logged_by = {name.lower() for name in (*keys, *primary_key)} if primary_key else set(lower)
        beside = tuple(i for i, name in enumerate(lower) if name not in logged_by)
        stager = Stager(within, staged, places, len(extra), buckets, at_risk, beside)
        changes = Changes(jobs, stager, keys, defaults or {}, app=app)
        every = sorted([*changes.stage(), *statements])
        # What a statement changes has the table's type; rows after it already have another.
        known = {field.name: field.type for field in (*own, *here)}
        rules = Rules(keys, on_alter, on_drop, known, lambda: into.has_rows, present, same_key)
        effects = changes.effects = follow(every, rules, changes.alive)
        # Columns that an ALTER added and no row of the batch has: their types are in the statement.
        added = tuple(pa.field(name, kind) for name, kind in effects.types.items() if name not in known)
        changes.added = added
        for check in effects.checks if effects.cleared is None else ():
            if check.column in here.names and not into.fits(check, jobs):
                raise CopyNeeded(f"alter of the table is not applied: {check.reason}", column=check.column)
        puts, deletes = into.merge(changes, _altered([*own, *added], effects.types))
    return Applied(changes.images, puts, deletes, effects.cleared is not None)


def _altered(fields: Iterable[pa.Field], types: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of changes in the types that statements gave them, also those that no change has."""
    kinds = {one.name: one.type for one in fields}
    kinds |= {name: kind for name, kind in types.items() if widened(kinds.get(name, kind), kind)}
    return import_pyarrow().schema(list(kinds.items()))


def _jobs_of(batch: pa.Table | Jobs) -> Jobs:
    """Where the changes are, and who works on them."""
    if isinstance(batch, import_pyarrow().Table):
        return Here(batch)
    jobs: Jobs = batch
    return jobs


def _respelt(jobs: Jobs, known: list[str]) -> Jobs:
    """Changes whose columns have the names that they have in the table."""
    own = own_schema(jobs).names
    renamed = {old: new for old, new in zip(own, spelled_like(own, known), strict=True) if old != new}
    return jobs.renamed(renamed) if renamed else jobs


@contextlib.contextmanager
def _writing(into: MergeTarget) -> Iterator[None]:
    """Raise an OSError as a BinlogError."""
    try:
        yield
    except OSError as error:
        raise BinlogError(f"the changes cannot be written: {error}", path=into.place.root) from error


def own_schema(jobs: Jobs) -> pa.Schema:
    """The table's own columns, among the columns of changes."""
    pa = import_pyarrow()
    return pa.schema([pa.field(f.name, f.type) for f in jobs.schema if f.name.lower() not in SPECIAL])
