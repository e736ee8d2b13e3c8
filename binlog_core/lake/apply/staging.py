"""The first step of an apply, on the workers: row images into files, in buckets by a hash of their keys.

An update that keeps its key becomes one image here. One that changes it becomes two, GONE and CAME, which may
go to different buckets. A postimage takes the columns that it lacks from its preimage.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.change_columns import ABSENT, CHANGED, LAKE_COLUMNS
from ..rows.fit import STATEMENT
from ..rows.types import import_pyarrow
from .jobs import Folder
from .keys import hashes, numbered, one_array

if TYPE_CHECKING:
    import pyarrow as pa

INSERT, PUT, DELETE, GONE, CAME = 1, 2, 3, 4, 5  # PUT: after an update that leaves the key as it was
BUCKETS = 64
_IMAGES = ("insert", "update_preimage", "update_postimage", "delete")
_TYPE, _VERSION, _, _ORDINAL = LAKE_COLUMNS
_OP, _LACKS = "__op", "__lacks"
_CHUNK_ROWS, _CHUNK_BYTES = 1 << 18, 64 << 20


class AppliedStatement(NamedTuple):
    """A statement among the changes.

    Parameters
    ----------
    version, ordinal : int
        Its place among the changes.
    kind, sql : str
        What it does, see `TableStatement`, and its text.
    """

    version: int
    ordinal: int
    kind: str
    sql: str

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of the changes."""
        return self.version, self.ordinal


@dataclass(slots=True)
class Staged:
    """A worker's report about the changes that it has staged.

    Parameters
    ----------
    images : int
        The number of row images and statements that it was given.
    last : int or None
        The `_commit_version` of the last of them; None if there are none.
    files : list of (str, list of int, list of int)
        The name of each file, and for each of its record batches the bucket and the bytes.
    statements : list of AppliedStatement
        The statements among the changes.
    unreadable : bool
        Whether there was an event that cannot be read.
    torn : bool
        Whether one of an update's two images was missing.
    partial : bool
        Whether there are images that lack columns.
    unlogged : set of str
        Columns that an update may have changed although both its images lack them.
    changed : set of str
        Columns that an update has changed to a value that the log does not have.
    moved : list of ndarray, shape (n, 2), uint64
        Hashes of the old and the new key, for partial images whose key changed.
    """

    images: int = 0
    last: int | None = None
    files: list[tuple[str, list[int], list[int]]] = field(default_factory=list)
    statements: list[AppliedStatement] = field(default_factory=list)
    unreadable: bool = False
    torn: bool = False
    partial: bool = False
    unlogged: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    moved: list[NDArray[np.uint64]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class RowImages:
    """Row images of one table.

    Parameters
    ----------
    columns : list of pyarrow.Array
        The values, one array for each column.
    version, ordinal : ndarray, shape (n,), int64
        Their places among the changes.
    op : ndarray, shape (n,), uint8
        INSERT, PUT, DELETE, GONE or CAME.
    lacks : ndarray, shape (n, columns), bool, or None
        Columns that an image does not have; None: all images are complete.
    """

    columns: list[Any]
    version: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    op: NDArray[np.uint8]
    lacks: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.op)

    def take(self, rows: NDArray[np.int64]) -> RowImages:
        """Some of the images, by their indices."""
        places = import_pyarrow().array(rows)
        lacks = None if self.lacks is None else self.lacks[rows]
        columns = [column.take(places) for column in self.columns]
        return RowImages(columns, self.version[rows], self.ordinal[rows], self.op[rows], lacks)

    def order(self) -> NDArray[np.int64] | None:
        """The indices that sort them into the order of the changes; None if they are in order."""
        later = self.version[1:] > self.version[:-1]
        if (later | ((self.version[1:] == self.version[:-1]) & (self.ordinal[1:] > self.ordinal[:-1]))).all():
            return None
        return np.lexsort((self.ordinal, self.version))

    def sorted(self) -> RowImages:
        """The images in the order of the changes."""
        order = self.order()
        return self if order is None else self.take(order)


@dataclass(frozen=True)
class Stager:
    """Stages the changes of a partition; pickled to the workers.

    Parameters
    ----------
    place : Folder
        Where the files go.
    schema : pyarrow.Schema
        The table's columns: those of the changes, then `extra` more that none of them has.
    keys : tuple of int
        The indices of the key's columns in `schema`.
    extra : int
        How many columns of `schema` no change has.
    buckets : int
        How many buckets there are.
    computed : tuple of int
        The indices of columns that an update may have changed although both its images lack them.
    beside : tuple of int
        The indices of the columns outside the primary key, except those of `extra`; empty if that key is not
        known.
    labels : (ndarray, ndarray) or None
        Sorted hashes of keys, and the labels that determine their buckets instead.
    """

    place: Folder
    schema: pa.Schema
    keys: tuple[int, ...]
    extra: int = 0
    buckets: int = BUCKETS
    computed: tuple[int, ...] = ()
    beside: tuple[int, ...] = ()
    labels: tuple[NDArray[np.uint64], NDArray[np.uint64]] | None = field(default=None, repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Stage the changes of a partition, which are in order.

        Raises
        ------
        ValueError
            A key is null or absent.
        """
        with _Writer(self) as writer:
            for chunk in _chunks(batches):
                self._stage(chunk, writer)
        return writer.staged

    def again(self, staged: list[Staged]) -> Staged:
        """Stage the staged changes again, by `labels`."""
        with _Writer(self) as writer:
            for one in staged:
                for name, buckets, _ in one.files:
                    for images in self.read(name, range(len(buckets))):
                        writer.write(images)
        return writer.staged

    def read(self, name: str, batches: Iterable[int]) -> Iterator[RowImages]:
        """Some record batches of a staged file."""
        pa = import_pyarrow()
        with self.place.open().open_input_file(name) as source, pa.ipc.open_file(source) as reader:
            for i in batches:
                batch = reader.get_batch(i)
                count = len(self.schema)
                version, ordinal, op, *bits = (one.to_numpy() for one in batch.columns[count:])
                lacks = None
                if any(one.any() for one in bits):
                    packed = np.stack(bits, 1)
                    lacks = np.unpackbits(packed, axis=1, count=count, bitorder="little").astype(bool)
                yield RowImages(batch.columns[:count], version, ordinal, op, lacks)

    def _stage(self, chunk: pa.Table, writer: _Writer) -> None:
        staged = writer.staged
        staged.images += chunk.num_rows
        types, version, ordinal = self._places(chunk, staged)
        staged.last = max(staged.last or 0, int(version.max(initial=0)))
        before = np.flatnonzero(types == 1)
        after = np.minimum(before + 1, len(types) - 1)
        paired = (types[after] == 2) & (version[after] == version[before])
        paired &= ordinal[after] == ordinal[before] + 1
        if not paired.all() or len(before) != np.count_nonzero(types == 2):
            staged.torn = True
            return
        columns = self._columns(chunk)
        lacks = self._lacks(chunk, types, staged)
        if lacks is not None:
            staged.unlogged |= self._unlogged(columns, lacks, before)
            columns = _completed(columns, lacks, before)
        is_image = types >= 0
        for i in self.keys:
            column = columns[i]
            if column.null_count and column.is_null().to_numpy(zero_copy_only=False)[is_image].any():
                names = ", ".join(self.schema.names[j] for j in self.keys)
                raise ValueError(f"the key {names} is null or not in a row image: name other keys")
        moves = self._moves(columns, before)
        op = np.array([INSERT, 0, PUT, DELETE, 0], np.uint8)[types]  # the last is for what is not an image
        op[before[moves]], op[before[moves] + 1] = GONE, CAME
        images = RowImages(columns, version, ordinal, op, lacks)
        if lacks is not None and moves.any():
            old = before[moves][lacks[before[moves] + 1].any(axis=1)]
            if len(old):
                key_hashes = hashes([columns[i] for i in self.keys])
                staged.moved.append(np.stack((key_hashes[old], key_hashes[old + 1]), 1))
        kept = op > 0
        if lacks is None and not (op[kept] == INSERT).all():
            kept &= self._last_of_keys(images, types)
        if lacks is not None and not lacks[kept].any():
            images = replace(images, lacks=None)
        writer.write(images.take(np.flatnonzero(kept)) if not kept.all() else images)

    def _places(
        self, chunk: pa.Table, staged: Staged
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """For each row the number of its type (-1: not an image), version and ordinal; notes statements."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        kinds = one_array(chunk[_TYPE])
        version, ordinal = (one_array(chunk[name]).to_numpy() for name in (_VERSION, _ORDINAL))
        staged.unreadable |= kinds.null_count > 0
        codes = pc.index_in(kinds, value_set=pa.array(_IMAGES, kinds.type)).fill_null(-1)
        types = codes.to_numpy().astype(np.int64)
        others = np.flatnonzero(types < 0)
        if len(others) and not staged.unreadable:
            texts = [None] * len(others)
            if STATEMENT in chunk.column_names:
                texts = one_array(chunk[STATEMENT]).take(pa.array(others)).to_pylist()
            names = kinds.take(pa.array(others)).to_pylist()
            staged.statements += map(
                AppliedStatement,
                version[others].tolist(),
                ordinal[others].tolist(),
                names,
                (t or "" for t in texts),
            )
        return types, version, ordinal

    def _columns(self, chunk: pa.Table) -> list[pa.Array]:
        pa = import_pyarrow()
        own = len(self.schema) - self.extra
        columns = []
        for i, one in enumerate(self.schema):
            if i >= own:
                columns.append(pa.nulls(chunk.num_rows, one.type))
                continue
            column = one_array(chunk[one.name])
            columns.append(column if column.type == one.type else column.cast(one.type))
        return columns

    def _lacks(self, chunk: pa.Table, types: NDArray[np.int64], staged: Staged) -> NDArray[np.bool_] | None:
        """The columns that each image lacks; None if all are complete."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        names = one_array(chunk[ABSENT]) if ABSENT in chunk.column_names else None
        if not self.extra and (names is None or names.null_count == len(names)):
            return None
        lacks = np.zeros((chunk.num_rows, len(self.schema)), np.bool_)
        if names is not None:
            flat = names.flatten()
            changed = flat.filter(pc.ends_with(flat, CHANGED)).unique().to_pylist()
            lower = {one.removesuffix(CHANGED).lower() for one in changed}
            staged.changed |= {name for name in self.schema.names if name.lower() in lower}
            known = pa.array([name.lower() for name in self.schema.names], flat.type)
            place = pc.index_in(pc.utf8_lower(flat), value_set=known).fill_null(-1)
            columns, rows = place.to_numpy(), pc.list_parent_indices(names).to_numpy()
            lacks[rows[columns >= 0], columns[columns >= 0]] = True
        if self.extra:
            lacks[types > 0, -self.extra :] = True  # an insert has null there
        return lacks

    def _unlogged(
        self, columns: list[pa.Array], lacks: NDArray[np.bool_], before: NDArray[np.int64]
    ) -> set[str]:
        """The names of columns that updates may have changed although both images lack them.

        A MINIMAL preimage has only the key, and one of NOBLOB all columns but BLOBs, which are text, bytes or
        nested values here. So if a preimage has another column, it should have all columns of other types.
        """
        pa = import_pyarrow()
        both = lacks[before] & lacks[before + 1]
        found = {j for j in self.computed if both[:, j].any()}
        kinds = {j: self.schema.field(j).type for j in self.beside if both[:, j].any()}
        plain = [j for j, kind in kinds.items() if pa.types.is_primitive(kind) or pa.types.is_decimal(kind)]
        if plain:
            # Columns that only other definitions of the table have are not lacking, and null.
            valued = np.zeros(len(before), np.bool_)
            for j in self.beside:
                valued |= columns[j].take(pa.array(before)).is_valid().to_numpy(zero_copy_only=False)
            found |= {j for j in plain if both[valued, j].any()}
        return {self.schema.names[j] for j in found}

    def _moves(self, columns: list[pa.Array], before: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each update changes the key."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        moves = np.zeros(len(before), np.bool_)
        if len(before):
            old, new = pa.array(before), pa.array(before + 1)
            for i in self.keys:
                differs = pc.not_equal(columns[i].take(old), columns[i].take(new))
                moves |= differs.to_numpy(zero_copy_only=False)
        return moves

    def _last_of_keys(self, images: RowImages, types: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the last image of each key, which is enough if images are complete."""
        kept = np.ones(len(images), np.bool_)
        if (types < 0).any() or images.order() is not None:  # between statements each image may count
            return kept
        rows = np.flatnonzero(images.op > 0)
        places = import_pyarrow().array(rows)
        codes, count = numbered([images.columns[i].take(places) for i in self.keys])
        last, came, began = np.zeros(count, np.int64), np.full(count, -1), np.full(count, -1)
        last[codes] = rows
        op = images.op[rows]
        began[codes[op == INSERT]] = rows[op == INSERT]
        came[codes[op > PUT]] = rows[op > PUT]
        inserted = last[(images.op[last] == PUT) & (began > came)]
        images.op[inserted] = INSERT  # columns that an ALTER adds to it are not in the target
        kept[:] = False
        kept[last] = True
        return kept


def _completed(
    columns: list[pa.Array], lacks: NDArray[np.bool_], before: NDArray[np.int64]
) -> list[pa.Array]:
    """The columns, where postimages got what they lack from their preimages."""
    pa = import_pyarrow()
    found = []
    for j, column in enumerate(columns):
        rows = before[lacks[before + 1, j] & ~lacks[before, j]]
        if len(rows):
            source = np.arange(len(column))
            source[rows + 1] = rows
            lacks[rows + 1, j] = False
            column = column.take(pa.array(source))
        found.append(column)
    return found


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches merged into larger tables that do not end between the images of an update."""
    pa = import_pyarrow()
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows < _CHUNK_ROWS and size < _CHUNK_BYTES:
            continue
        held = batch[_TYPE][batch.num_rows - 1].as_py() == _IMAGES[1]
        if held:
            waiting[-1] = batch.slice(0, batch.num_rows - 1)
        yield pa.Table.from_batches(waiting)
        waiting = [batch.slice(batch.num_rows - 1)] if held else []
        rows, size = len(waiting), 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class _Writer:
    """Writes the file of one task, which the first images create."""

    def __init__(self, stager: Stager) -> None:
        self.staged = Staged()
        self._stager = stager
        self._sink: Any = None
        self._file: Any = None
        self._bits = (len(stager.schema) + 7) // 8

    def write(self, images: RowImages) -> None:
        """Write images, by bucket."""
        pa = import_pyarrow()
        if not len(images):
            return
        stager = self._stager
        bucket = np.zeros(len(images), np.uint8)
        if stager.buckets > 1:
            bucket = self._buckets(images)
            order = np.argsort(bucket, kind="stable")
            images, bucket = images.take(order), bucket[order]
        lacks = images.lacks if images.lacks is not None else np.zeros((len(images), 0), np.bool_)
        self.staged.partial |= bool(lacks.any())
        packed = np.packbits(lacks, axis=1, bitorder="little")
        bits = [
            packed[:, i] if packed.shape[1] else np.zeros(len(images), np.uint8) for i in range(self._bits)
        ]
        fields = [
            *stager.schema,
            *(pa.field(name, pa.int64()) for name in (_VERSION, _ORDINAL)),
            pa.field(_OP, pa.uint8()),
            *(pa.field(f"{_LACKS}{i}", pa.uint8()) for i in range(self._bits)),
        ]
        arrays = [
            *images.columns,
            *map(pa.array, (images.version, images.ordinal, images.op, *map(np.ascontiguousarray, bits))),
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        self._open(batch.schema)
        _, buckets, sizes = self.staged.files[-1]
        used, starts = np.unique(bucket, return_index=True)
        for number, start, end in zip(used.tolist(), starts, [*starts[1:], len(bucket)], strict=True):
            self._file.write_batch(batch.slice(start, end - start))
            buckets.append(number)
            sizes.append((end - start) * batch.nbytes // len(bucket))

    def _buckets(self, images: RowImages) -> NDArray[np.uint8]:
        stager = self._stager
        key_hashes = hashes([images.columns[i] for i in stager.keys])
        if stager.labels is not None:
            known, labels = stager.labels
            at = np.minimum(np.searchsorted(known, key_hashes), len(known) - 1)
            key_hashes = np.where(known[at] == key_hashes, labels[at], key_hashes)
        return (key_hashes % np.uint64(stager.buckets)).astype(np.uint8)

    def _open(self, schema: pa.Schema) -> None:
        if self._file is None:
            pa = import_pyarrow()
            name = f"staged-{uuid.uuid4().hex}.arrow"
            self._sink = self._stager.place.open().open_output_stream(name)
            self._file = pa.ipc.new_file(self._sink, schema)
            self.staged.files.append((name, [], []))

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._sink.close()
