"""`read_split`: a plain function from a split to record batches, on which every Spark interface is built."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..._base.change_columns import ABSENT, LAKE_COLUMNS
from ..._base.options import Images, OnError, TextErrors, Unnamed
from ..._decode.group import Group
from ..._decode.log_decoder import LogDecoder
from ..._decode.selection import Selection, matches
from ..._format.event_header import FIRST_EVENT
from ..._format.format_description import FormatDescription
from ..._tables.given_names import NamesMet
from ..._tables.tables import Column, Table
from ..._walk.track import Tail
from ...batch.arrow_batch import change_column
from ...batch.arrow_types import ChangeColumn
from ...batch.change_batch import OPS, OUTCOMES, ChangeBatch
from ...conditions.language import Condition, condition_of
from ...errors import BinlogError, SchemaError
from ...index.finding import Indexes
from ...report import NAMES_REMEDY
from ...schema.timeline import definitions_of
from ...splits import Split, SplitBounds, SplitResult
from .images import absent_names, metadata_column, select_images
from .observers import DamageReport, LoggedStatement, StatementRecorder
from .ordinals import Ordinals, OrdinalsOfAll
from .prepared import Prepared, XaRows
from .read_options import ReadOptions
from .types import import_pyarrow, lake_schema, to_lake
from .undone import UndoneRows

if TYPE_CHECKING:
    import pyarrow as pa

    from ...schema.definitions import Definitions

_LABELS = ("", *OPS.values())
_COMMITTED, _PREPARED = OUTCOMES.index("committed"), OUTCOMES.index("XA prepared")


class _Selection(Selection):
    """A selection whose column names are compared without case, as Spark compares them."""

    def wanted_columns(self, table: Table) -> Collection[str] | None:
        wanted: set[str] | None = None
        for pattern, names in self.columns.items():
            if matches(table, pattern):
                small = {name.lower() for name in names}
                wanted = (wanted or set()) | {c.name for c in table.columns if c.name.lower() in small}
        return wanted


def selection_of(options: ReadOptions, split: Split) -> Selection:
    """The rows of a split: of the transactions that begin in it."""
    return _Selection(
        tables=options.tables,
        exclude_tables=options.exclude_tables,
        columns=dict(options.columns or {}),
        where=options.where or options.pushed,
        start_position=split.start or None,
        stop_position=split.end,
        start_timestamp=options.start_time,
        stop_timestamp=options.end_time,
        asides=frozenset(("savepoint",)),  # only these: to read every statement would take long
    ).without_repeated(split.before)


def _within(selection: Selection, bounds: SplitBounds | None) -> Selection:
    if bounds is None:
        return selection
    return replace(
        selection,
        start_position=bounds.start_position,
        stop_position=bounds.stop_position,
        stop_anchor=bounds.stop_anchor,
        in_parts=bounds.in_parts,
    )


class Chunk(NamedTuple):
    """Rows of one table, with data for statistics.

    Parameters
    ----------
    table : Table
        The table's definition.
    batch : pyarrow.RecordBatch
        The rows.
    ops : ndarray, shape (5,), int64
        Rows by op number: see ``binlog_core.batch.OPS``.
    first_position, last_position : int
        Positions of the first and the last row's event.
    source : ChangeBatch
        The batch that the rows were made from.
    rows : ndarray or None
        Their records in `source`; None: all.
    filled : bool
        Whether postimages took the columns that they lack from their preimages.
    """

    table: Table
    batch: pa.RecordBatch
    ops: NDArray[np.int64]
    first_position: int
    last_position: int
    source: ChangeBatch
    rows: NDArray[np.intp] | None
    filled: bool

    def absent(self) -> pa.Array:
        """Names of the columns that each row lacks: a list of strings, null if it is complete."""
        return absent_names(self.source, self.rows, filled=self.filled)


class SplitRows:
    """Iterator over the rows of one split; `read_split` makes it.

    Attributes
    ----------
    split : Split
        The split.
    report : Report
        What has been found missing or lost, or skipped, in the part read so far.
    format : FormatDescription or None
        The log's format, known once a group has been read.
    tail : Tail or None
        Where the log ended inside an event.
    first_anchor : int or None
        Position of the first event that the split owns, known once reading has begun; None if it owns none.
    next_anchor : int or None
        Position where the next split's events begin, known once everything has been read; None if the log
        ends before.
    end_position : int
        Everything before this position has been read.
    met : NamesMet
        Which tables the condition fits, and which it does not.
    not_committed : dict of int to int
        The outcomes of transactions that have not committed so far, by their versions, except for XA
        transactions that got the version of their XA COMMIT.
    """

    # exact: the split begins and ends at known transaction boundaries, so no anchor is searched.
    # prepared: XA transactions of the split, and their outcomes.
    # indexed: use an index beside the log; `next_anchor` and `end_position` then have no meaning.
    def __init__(
        self,
        split: Split,
        options: ReadOptions,
        *,
        exact: bool = False,
        prepared: Sequence[Prepared] = (),
        indexed: bool = False,
    ) -> None:
        self.split = split
        self._indexed, self._by = indexed, options  # `_by`: the options that select rows
        self.xa = XaRows(prepared or options.prepared.get(split.path, ()))
        self._exact = exact or split.whole
        self.options = options
        self.report = DamageReport()
        self.format: FormatDescription | None = None
        self.tail: Tail | None = None
        self.first_anchor: int | None = None
        self.next_anchor: int | None = None
        self.end_position = 0
        self._bounds: SplitBounds | None = None
        self.met = NamesMet()
        self.not_committed: dict[int, int] = {}
        self._undone = UndoneRows(self._read_on, split.within)
        self._schemas: dict[tuple[Column, ...], pa.Schema] = {}
        self._recorder: StatementRecorder | None = None
        self._refused_names = {*LAKE_COLUMNS, *options.metadata, *options.refused}
        self._refused_names |= {ABSENT} if options.absent else set()
        self._rows = ((chunk.table, chunk.batch) for chunk in self.chunks())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Table, pa.RecordBatch]:
        return next(self._rows)

    @property
    def bytes_read(self) -> int:
        """Bytes of the log from the first anchor to the place where reading ended."""
        return max(self.end_position - self.first_anchor, 0) if self.first_anchor is not None else 0

    @property
    def result(self) -> SplitResult:
        """The input for ``binlog_core.splits.check_seams``, known once everything has been read."""
        return SplitResult(self.split, self.first_anchor, self.next_anchor)

    def chunks(self) -> Iterator[Chunk]:
        """The rows with their counts; can be read once."""
        return (piece for piece in self.pieces() if isinstance(piece, Chunk))

    def pieces(self) -> Iterator[Chunk | LoggedStatement]:
        """The rows, and the statements that `options` asks for, in log order; can be read once."""
        import_pyarrow()
        within = self.split.within
        counted = (within.begin, within.images) if within is not None else ()
        every = self.options.pushed is None
        ordinals = Ordinals(*counted) if every else OrdinalsOfAll(self._all_groups(), *counted)
        for statements, group in self.noted_groups():
            yield from self._numbered(statements, ordinals)
            batches = [batch for batch in group.batches if batch.table.undecodable is None]
            for batch, numbers in zip(batches, ordinals.number(batches), strict=True):
                chunk = self._chunk(batch, numbers)
                if chunk is not None:
                    yield chunk
            self._reach(group.end_position)  # reading may have ended already
        yield from self._numbered(self._statements(), ordinals)

    def groups(self) -> Generator[Group]:
        """The split's groups as they are decoded; can be read once."""
        options, split = self.options, self.split
        follows = options.follows and split.definitions is not None
        schema = split.timeline() if follows else options.schema
        definitions = definitions_of(schema, split.version_base, options.schema_start)
        if options.statements:
            definitions = self._recorder = StatementRecorder(definitions)
        with options.access.file(split.path).open() as source:
            bounds = None
            if self._exact:
                self.first_anchor = max(split.start, FIRST_EVENT)
            else:
                bounds = self._bounds = SplitBounds(split, source, skip_errors=options.on_error == "skip")
                self.first_anchor = bounds.first_anchor
                if bounds.first_anchor is None:
                    return
            rules, selection = options.rules(self.report), self._selection(options, bounds)
            decoder = LogDecoder(source, selection, rules, definitions)
            try:
                for group in self._chosen(decoder, definitions, bounds):
                    self.format = decoder.format
                    yield group
            finally:
                self.tail = decoder.tail
            if bounds is not None and not self._indexed:
                bounds.finish(decoder)
                self.next_anchor = bounds.next_anchor
            self._reach(decoder.position)

    def _reach(self, position: int) -> None:
        bounds = self._bounds
        self.end_position = max(self.end_position, position if bounds is None else bounds.reached(position))

    def noted_groups(self) -> Iterator[tuple[list[LoggedStatement], Group]]:
        """The groups, when `kept` can be asked about their rows, each with the statements before it."""
        for statements, group in self._undone.groups((self._statements(), group) for group in self.groups()):
            self._note_outcomes(group)
            yield statements, group

    def _note_outcomes(self, group: Group) -> None:
        begins, outcomes = group.transactions["begin_position"], group.transactions["outcome"]
        versions = begins.astype(np.int64) + self.split.version_base
        if self.not_committed:  # a transaction that continues in the next group comes again with it
            for version in self.not_committed.keys() & versions.tolist():
                del self.not_committed[version]
        others = np.flatnonzero(outcomes != _COMMITTED)
        for version, outcome in zip(versions[others].tolist(), outcomes[others].tolist(), strict=True):
            if not (outcome == _PREPARED and self.xa):
                self.not_committed[version] = outcome

    def kept(self, image: NDArray[np.void], begin: NDArray[np.uint64]) -> NDArray[np.bool_] | None:
        """Whether each record is read, by where its transaction begins; None: all are.

        Those that did not stay are not, nor those of XA transactions that `prepared` leaves out.
        """
        stayed = self._undone.kept(begin, image["position"], image["row"])
        wanted = self.xa.kept(begin)
        return wanted if stayed is None else stayed if wanted is None else stayed & wanted

    def _read_on(self, begin: int) -> Generator[Group]:
        """The groups from the transaction that begins at a position, without values; closed at its end."""
        options = replace(self._without_values(), where=None)
        rest = replace(self.split, start=begin, end=None, within=None)
        return SplitRows(rest, options, exact=True).groups()

    def _without_values(self) -> ReadOptions:
        """Options of another pass that only counts rows."""
        return replace(self.options, pushed=None, columns={"*": ()}, statements=False)

    def _selection(self, options: ReadOptions, bounds: SplitBounds | None) -> Selection:
        return replace(_within(selection_of(options, self.split), bounds), met=self.met)

    def _chosen(
        self, decoder: LogDecoder, definitions: Definitions | None, bounds: SplitBounds | None
    ) -> Iterator[Group]:
        """The groups, without ranges in which an index shows no match."""
        if bounds is not None and self.split.within is not None:
            yield from bounds.groups(decoder)
            return
        selection = self._selection(self._by, bounds)
        if not (self._indexed and selection.narrows):
            yield from decoder.groups()
            return
        with closing(Indexes()) as indexes:
            file = self.options.access.file(self.split.path)
            yield from indexes.groups(decoder, file, definitions, selection)

    def _all_groups(self) -> Iterator[Group]:
        """The groups of another pass, which counts all rows without decoding values."""
        every = SplitRows(self.split, self._without_values(), exact=self._exact, indexed=self._indexed)
        every._by = self.options
        return every.groups()

    def count(self) -> int | None:
        """How many row images are counted in a part of a transaction; None: it is damaged or incomplete."""
        # What is damaged can be in values, and then leaves out rows.
        options = self.options if self.options.on_error == "skip" else self._without_values()
        counting = SplitRows(self.split, replace(options, pushed=None, statements=False))
        images = 0
        try:
            for group in counting.groups():
                images += sum(len(batch) for batch in group.batches if batch.table.undecodable is None)
        except BinlogError:  # its reader reports it
            return None
        report = counting.report
        damaged = report.lost_ranges or report.skipped_events or report.skipped_changes
        return images if counting.next_anchor == self.split.end and not damaged else None

    def _statements(self) -> list[LoggedStatement]:
        return list(self._recorder.take()) if self._recorder is not None else []

    @staticmethod
    def _numbered(statements: list[LoggedStatement], ordinals: Ordinals) -> Iterator[LoggedStatement]:
        # Counted with the rows: CREATE TABLE … SELECT is one transaction of a statement and rows.
        for one in statements:
            yield one._replace(ordinal=ordinals.number_one(one.transaction))

    def _chunk(self, batch: ChangeBatch, ordinals: NDArray[np.int64]) -> Chunk | None:
        pa = import_pyarrow()
        options = self.options
        rows, op = select_images(batch, options.images, options.key_columns)
        filled = rows is not None
        image = batch.array["image"]
        begin = batch.transactions["begin_position"][image["transaction"]]
        keep = self.kept(image, begin)
        if keep is not None:
            rows, op = (
                (np.flatnonzero(keep), op[keep]) if rows is None else (rows[keep[rows]], op[keep[rows]])
            )
        if not len(op):
            return None
        position, transaction = image["position"], image["transaction"]
        if rows is not None:
            position, transaction, ordinals = position[rows], transaction[rows], ordinals[rows]
            begin = begin[rows]
        times = change_column(batch, "_commit_timestamp", rows)
        versions, moments = self.xa.change(
            begin, begin.astype(np.int64) + self.split.version_base, times.values
        )
        schema = self._schema(batch)
        extras = (
            ChangeColumn("_change_type", op, labels=_LABELS),
            ChangeColumn("_commit_version", versions),
            ChangeColumn("_commit_timestamp", moments, utc=True),
            ChangeColumn("_change_ordinal", ordinals),
        )
        exported = batch.export(
            change_columns=False,
            extras=extras,
            rows=rows,
            fill_absent=filled,
            text_errors=options.text_errors,
            vectors="list",
        )
        converted = to_lake(
            pa.record_batch(exported),
            schema,
            batch.table,
            batch.columns,
            path=self.split.path,
            most=batch.arrow_bytes,
        )
        if options.absent:
            names = absent_names(batch, rows, filled=rows is not None)
            converted = converted.append_column(ABSENT, names)
        for name in options.metadata:
            if name in ("_position", "_server_id"):
                values = image[name[1:]] if rows is None else image[name[1:]][rows]
                converted = converted.append_column(name, pa.array(values.astype(np.int64)))
            else:
                converted = converted.append_column(name, metadata_column(batch, name, transaction))
        ops = np.bincount(op, minlength=len(OPS) + 1)
        return Chunk(batch.table, converted, ops, int(position[0]), int(position[-1]), batch, rows, filled)

    def _schema(self, batch: ChangeBatch) -> pa.Schema:
        schema = self._schemas.get(batch.columns)
        if schema is None:
            self.check_names(batch)
            schema = self._schemas[batch.columns] = lake_schema(batch.columns)
        return schema

    def check_names(self, batch: ChangeBatch) -> None:
        """Refuse columns without names unless options allow them, and names of change columns."""
        where: dict[str, Any] = {
            "path": self.split.path,
            "offset": int(batch.array["image"]["position"][0]),
            "table": batch.table.full_name,
        }
        for column in batch.columns:
            if not column.named and self.options.unnamed == "refuse":
                raise SchemaError(
                    f"the log does not have the column names: {NAMES_REMEDY};"
                    ' unnamed="positions" calls them c0, c1 …',
                    **where,
                )
            if column.name.lower() in self._refused_names:  # Spark does not distinguish names by case
                raise SchemaError(
                    "a column of the table has the name of a change column", column=column.name, **where
                )


def read_split(
    split: Split,
    *,
    tables: str | tuple[str, ...] | list[str] | None = None,
    columns: Mapping[str, tuple[str, ...] | list[str]] | None = None,
    where: str | Condition | None = None,
    schema: Any = None,
    keys: Any = None,
    images: Images = "both",
    unnamed: Unnamed = "refuse",
    text_errors: TextErrors = "raise",
    on_error: OnError = "raise",
    verify_checksum: bool = True,
    storage_options: dict[str, Any] | None = None,
    absent: bool = False,
) -> SplitRows:
    """Rows of a split as record batches in the types of Spark and lakes.

    Parameters
    ----------
    split : Split
        A split from `plan_splits`.
    tables, columns, where, schema, keys, images
        What to read: see `ReadOptions`.
    unnamed, text_errors, on_error, verify_checksum, storage_options, absent
        How to read it: see `ReadOptions`.

    Returns
    -------
    SplitRows
        Iterator of ``(Table, pyarrow.RecordBatch)``: the table's columns in the types of
        ``schema.lake_type``, then `_change_type`, `_commit_version` (number of the file * 2**40 + offset of
        the transaction's first event), `_commit_timestamp` and `_change_ordinal` (number of the row image
        within its transaction, over all decoded tables). Dates that do not exist in the calendar, and columns
        that an image lacks, are null. Tables whose rows cannot be decoded are skipped and counted in
        ``report``.

    Raises
    ------
    SchemaError
        Columns have no names, or a column has the name of a change column.
    ValueError
        ``schema="ddl"`` for a split behind a log's beginning that was planned without it.
    DecodeError, BinlogError
        Reading the log failed.
    MissingExtraError
        pyarrow is not installed.
    """
    options = ReadOptions(
        tables=(tables,) if isinstance(tables, str) else tuple(tables) if tables is not None else None,
        columns={name: tuple(names) for name, names in columns.items()} if columns else None,
        where=condition_of(where),
        schema=schema,
        keys=keys,
        images=images,
        unnamed=unnamed,
        text_errors=text_errors,
        on_error=on_error,
        verify_checksum=verify_checksum,
        storage_options=storage_options,
        absent=absent,
    )
    if options.follows:
        split.timeline()
    return SplitRows(split, options)
