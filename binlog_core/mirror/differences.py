"""Which keys have different rows on the server and in the lake: counted in parts, by a hash of the key."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..lake.apply.files import shaped, tables_of
from ..lake.apply.jobs import Folder
from ..lake.apply.keys import hashes
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner, go_on
from ..lake.tables.table import DataFile
from .columns import DELETED
from .digests import DIGEST, digest_schema, digested, row_digests
from .viewing import Viewed

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("missing", "extra", "changed")
_MOST_NAMED = 100
_PART_ROWS = 1 << 20  # that are compared at a time
_FEW_ROWS = 1 << 16  # that are compared in this process
_SIGN = "sign "  # as DIGEST, no name of a column
Keys = list[dict[str, Any]]


class Side(NamedTuple):
    """A file with rows of the server (sign 1) or the lake (sign -1)."""

    folder: Folder
    file: DataFile
    sign: int


def differing(
    runner: Runner,
    viewed: Viewed,
    theirs: tuple[Folder, list[str]],
    ours: tuple[Folder, list[DataFile]],
    rows: int,
    work: Folder,
) -> tuple[int, Keys, Keys, Keys]:
    """How many keys have rows that differ, and some of those that are missing, extra or changed.

    Parameters
    ----------
    runner : Runner
        Who does the work.
    viewed : Viewed
        The table.
    theirs : (Folder, list of str)
        The files with keys and numbers of the server's rows.
    ours : (Folder, list of DataFile)
        The files of the table in the lake.
    rows : int
        How many rows there are, on the side that has more.
    work : Folder
        Where workers put rows for each other.
    """
    sides = [Side(theirs[0], DataFile(name, -1, 0), 1) for name in theirs[1]]
    sides += [Side(ours[0], file, -1) for file in ours[1]]
    if not sides:
        return 0, [], [], []
    pa, parts = import_pyarrow(), rows // _PART_ROWS + 1
    dealer = Dealer(viewed.schema, viewed.key, work, parts)
    if rows <= _FEW_ROWS:
        tables = [table for side in sides for table in dealer.rows_of(side)]
        counted = [count(pa.concat_tables(tables), viewed)]
    else:
        dealt = runner.map(dealer, sides)
        tasks: list[list[tuple[str, int]]] = [[] for _ in range(parts)]
        for name, held in dealt:
            for part, numbers in held.items():
                tasks[part] += [(name, number) for number in numbers]
        counted = runner.map(Counter(viewed, work), [one for one in tasks if one])
    named = [_first([one.keys[i] for one in counted]) for i in range(len(KINDS))]
    return sum(one.differ for one in counted), named[0], named[1], named[2]


class Counted(NamedTuple):
    """How many keys of a part differ, and the first of each kind."""

    differ: int
    keys: list[pa.Table]


@dataclass(frozen=True)
class Dealer:
    """Deals the rows of a file to the parts: writes them in order of their parts.

    Parameters
    ----------
    schema : pyarrow.Schema
        The table's columns.
    key : tuple of str
        The names of the key's columns.
    into : Folder
        Where the files go.
    parts : int
        How many parts there are.
    """

    schema: pa.Schema = field(repr=False)
    key: tuple[str, ...]
    into: Folder
    parts: int

    def __call__(self, side: Side) -> tuple[str, dict[int, list[int]]]:
        """Write the rows of one file; the new file's name, and the numbers of each part's batches in it."""
        pa = import_pyarrow()
        name, held = f"dealt-{uuid.uuid4().hex}.arrow", dict[int, list[int]]()
        schema = _signed(digest_schema(self.schema, self.key))
        with (
            self.into.open().open_output_stream(name) as sink,
            pa.ipc.new_file(sink, schema) as file,
        ):
            at = 0
            for table in self.rows_of(side):
                for batch in table.combine_chunks().to_batches():
                    part = self._parts(batch)
                    order = np.argsort(part, kind="stable")
                    sorted_rows, part = batch.take(pa.array(order)), part[order]
                    used, starts = np.unique(part, return_index=True)
                    ends = [*starts[1:], len(part)]
                    for number, start, end in zip(used.tolist(), starts, ends, strict=True):
                        file.write_batch(sorted_rows.slice(start, end - start))
                        held.setdefault(number, []).append(at)
                        at += 1
        return name, held

    def rows_of(self, side: Side) -> Iterator[pa.Table]:
        """The keys of a file's rows, with their numbers and the sign of their side; without deleted ones."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        schema = _signed(digest_schema(self.schema, self.key))
        yield schema.empty_table()
        for rows in tables_of(side.folder, [side.file]):
            go_on()
            if side.sign < 0 and DELETED in {*rows.column_names} - {*self.schema.names}:
                rows = rows.filter(pc.invert(pc.coalesce(rows[DELETED], False)))
            for one in rows.to_batches() if side.sign > 0 else shaped(rows, self.schema).to_batches():
                found = one if side.sign > 0 else digested(one, self.schema, self.key)
                signs = pa.repeat(pa.scalar(side.sign, pa.int8()), found.num_rows)
                yield pa.Table.from_arrays([*found.columns, signs], schema.names).cast(schema)

    def _parts(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        """The part of each row, for the same key the same one on both sides."""
        columns = batch.select(list(self.key))
        pa = import_pyarrow()
        kinds = [one.type for one in columns.schema]
        whole = all(pa.types.is_integer(kind) or pa.types.is_date32(kind) for kind in kinds)
        found = hashes(columns.columns) if whole else row_digests(_with_one_zero(columns))
        return found % np.uint64(self.parts)


@dataclass(frozen=True)
class Counter:
    """Counts the differences of one part."""

    viewed: Viewed
    place: Folder

    def __call__(self, batches: Sequence[tuple[str, int]]) -> Counted:
        """Count those among some batches of files of `Dealer`."""
        pa, names = import_pyarrow(), dict[str, list[int]]()
        for name, number in batches:
            names.setdefault(name, []).append(number)
        found = []
        for name, numbers in names.items():
            with self.place.open().open_input_file(name) as source:
                file = pa.ipc.open_file(source)
                found += [file.get_batch(number) for number in numbers]
        return count(pa.Table.from_batches(found), self.viewed)


def count(rows: pa.Table, viewed: Viewed) -> Counted:
    """Count the differences among rows of both sides."""
    pa = import_pyarrow()
    rows = rows.combine_chunks()
    keys = rows.select(list(viewed.key))
    stand_ins = _stand_ins(keys)
    key = _numbers(stand_ins.columns)
    digest, sign = (rows[name].to_numpy() for name in (DIGEST, _SIGN))
    order = np.lexsort((digest, key))
    key, digest, sign = key[order], digest[order], sign[order].astype(np.int64)
    none = Counted(0, [keys.slice(0, 0)] * len(KINDS))
    if not len(key):
        return none
    begins = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (digest[1:] != digest[:-1])])
    sums = np.add.reduceat(sign, begins)
    differ = sums != 0
    key, row, sums = key[begins][differ], order[begins][differ], sums[differ]
    if not len(key):
        return none
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    more, less = np.maximum.reduceat(sums, first) > 0, np.minimum.reduceat(sums, first) < 0
    row = row[first]
    out = []
    for chosen in (more & ~less, less & ~more, more & less):
        places = pa.array(row[chosen])
        out.append(_least(keys.take(places), stand_ins.take(places)))
    return Counted(len(row), out)


def _first(tables: Iterable[pa.Table]) -> Keys:
    """The first keys of some tables, in their order."""
    rows = import_pyarrow().concat_tables(tables)
    found: Keys = _least(rows, _stand_ins(rows)).to_pylist()
    return found


def _least(rows: pa.Table, stand_ins: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    numbered = [f"{i}" for i in range(stand_ins.num_columns)]
    keys = [(name, "ascending") for name in numbered]
    by = pc.sort_indices(stand_ins.rename_columns(numbered), sort_keys=keys)
    return rows.take(by.slice(0, _MOST_NAMED))


def _stand_ins(rows: pa.Table) -> pa.Table:
    """Columns that can be compared and sorted: of nested values their texts."""
    pa = import_pyarrow()
    columns = []
    for column in rows.columns:
        if pa.types.is_nested(column.type):
            texts = [None if one is None else repr(one) for one in column.to_pylist()]
            column = pa.chunked_array([texts], pa.string())
        columns.append(column)
    return _with_one_zero(pa.Table.from_arrays(columns, rows.column_names))


def _with_one_zero(rows: Any) -> Any:
    """A table or batch whose numbers have no -0.0, which is 0.0 to a server."""
    import pyarrow.compute as pc

    pa = import_pyarrow()
    columns = [
        pc.add(one, pa.scalar(0, one.type)) if pa.types.is_floating(one.type) else one for one in rows.columns
    ]
    return type(rows).from_arrays(columns, names=rows.schema.names)


def _numbers(columns: Sequence[Any]) -> NDArray[np.int64]:
    """The same number for the same key, also with nulls."""
    codes: NDArray[np.int64] | None = None
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        here = encoded.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes = here
        else:
            codes = np.unique(codes * max(len(encoded.dictionary), 1) + here, return_inverse=True)[1]
    assert codes is not None
    return codes


def _signed(schema: pa.Schema) -> pa.Schema:
    pa = import_pyarrow()
    return schema.append(pa.field(_SIGN, pa.int8()))
