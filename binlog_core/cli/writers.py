"""Formats that ``binlog-core rows`` writes; each writes groups as they come and keeps none.

What one format alone needs is imported when that format is asked for: it takes longer than the first rows.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from .._base.change_columns import DEFAULT_CHANGE_COLUMNS, POSTIMAGE
from .._base.json_text import encode_plain
from .._core._values import JsonTexts, RowReader, column_texts
from .._decode.merge import ChangeReader
from .._tables.tables import records_at_a_time
from ..errors import BinlogError, MissingExtraError, SchemaError
from ..lake.rows.debezium import Envelopes
from ..limits import DEFAULT_LIMITS, Limits
from .text import csv_field, csv_line, csv_values, json_lines

if TYPE_CHECKING:
    import pyarrow
    from rich.console import Console

    from .._decode.group import Group
    from .._format.format_description import FormatDescription
    from ..batch.change_batch import ChangeBatch
    from ..replay.scripts import Script
    from ..report import Report


class Writer(ABC):
    """Writes row changes in one format.

    Parameters
    ----------
    file : binary file
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    @abstractmethod
    def write(self, group: Group) -> None:
        """Write a group."""

    def close(self) -> None:  # noqa: B027  (most formats have no end)
        """Write the end of the output."""

    def abandon(self) -> None:
        """End properly after an error; the output may be dropped, or may already be written."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        with contextlib.suppress(Exception):
            self.abandon()


class JsonWriter(Writer):
    """One JSON object per changed row, in log order across tables."""

    def __init__(self, file: BinaryIO, report: Report, *, skip_errors: bool) -> None:
        super().__init__(file)
        self._changes = ChangeReader(report, skip_errors=skip_errors)
        self._texts = JsonTexts("readable", encode_plain)

    def write(self, group: Group) -> None:
        for piece in pieces(group):
            with self._changes.readers(piece) as readers:
                self.file.write(json_lines(self._texts, piece, readers))


class DebeziumWriter(Writer):
    """One of Debezium's change events for each changed row, in log order across tables."""

    def __init__(self, file: BinaryIO, report: Report, *, skip_errors: bool, mariadb: bool) -> None:
        super().__init__(file)
        self._changes = ChangeReader(report, skip_errors=skip_errors)
        self._envelopes = Envelopes(mariadb=mariadb, end=b"\n")

    def write(self, group: Group) -> None:
        with self._changes.readers(group) as readers:
            for events in self._envelopes.of(group.path, readers):
                self.file.write(events.values.joined())


class TextWriter(Writer):
    """Changes for people, in log order across tables.

    Parameters
    ----------
    file : binary file
    report : Report
    skip_errors : bool
    console : Console or None
        A terminal, which shows colours, in place of the file.
    """

    def __init__(
        self, file: BinaryIO, report: Report, *, skip_errors: bool, console: Console | None = None
    ) -> None:
        from .readable import change_lines

        super().__init__(file)
        self._changes = ChangeReader(report, skip_errors=skip_errors)
        self._lines = change_lines
        self._console = console

    def write(self, group: Group) -> None:
        for piece in pieces(group):
            for change in self._changes.changes([piece]):
                for line in self._lines(change):
                    if self._console is not None:
                        self._console.print(line)
                    else:
                        self.file.write(f"{line.plain}\n".encode("utf-8", "backslashreplace"))


class SqlWriter(Writer):
    """Statements for a server: the changes in the log or, with `flashback`, their inverse."""

    def __init__(
        self,
        file: BinaryIO,
        description: FormatDescription,
        tell: Callable[[str], None],
        *,
        flashback: bool,
        partial: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        databases: Mapping[str, str] | None = None,
        tables: tuple[str, ...] | None = None,
        exclude_tables: tuple[str, ...] | None = None,
    ) -> None:
        from ..replay.flashback_script import FlashbackScript
        from ..replay.replay_script import ReplayScript
        from ..replay.statements import StatementMaker

        super().__init__(file)
        maker = StatementMaker(description, databases)
        options: Any = {"mariadb": description.is_mariadb, "limits": limits}
        options |= {"tables": tables, "exclude_tables": exclude_tables}
        self._script: Script
        if flashback:
            self._script = FlashbackScript(file, maker, tell, partial=partial, **options)
        else:
            self._script = ReplayScript(file, maker, tell, **options)

    def write(self, group: Group) -> None:
        self._script.add(group)

    def close(self) -> None:
        self._script.close()

    def abandon(self) -> None:
        self._script.close(broken=True)


class _OneTable(Writer):
    """A format whose columns are those of one table."""

    name = ""

    def __init__(self, file: BinaryIO, *, change_columns: bool = True) -> None:
        super().__init__(file)
        self.change_columns = change_columns
        self.table: str | None = None

    def write(self, group: Group) -> None:
        for batch in self.parts(group):
            if self.table is None:
                self.table = batch.table.full_name
            if batch.table.full_name != self.table:
                raise SchemaError(
                    f"{self.name} holds one table, but there are {self.table} and {batch.table.full_name}:"
                    " choose one with --table, or use jsonl or sql"
                )
            self.write_batch(batch)

    def parts(self, group: Group) -> Iterable[ChangeBatch]:
        """The batches in the form in which they are written."""
        return group.batches

    @abstractmethod
    def write_batch(self, batch: ChangeBatch) -> None:
        """Write the images of one batch."""


class CsvWriter(_OneTable):
    """One line per row image, with a header; columns of a table whose definition changes may not."""

    name = "csv"

    def __init__(self, file: BinaryIO, *, change_columns: bool = True) -> None:
        super().__init__(file, change_columns=change_columns)
        self._names: list[str] | None = None

    def parts(self, group: Group) -> Iterable[ChangeBatch]:
        return (batch for piece in pieces(group) for batch in piece.batches)

    def write_batch(self, batch: ChangeBatch) -> None:
        extras = batch.export(change_columns=self.change_columns).change_columns
        names = [column.name for column in batch.value_columns] + [extra.name for extra in extras]
        if self._names is None:
            self._names = names
            self.file.write(csv_line(names))
        elif names != self._names:
            raise SchemaError(
                "the table's definition changed, but csv has one header: choose unchanged columns with"
                " --columns",
                path=batch.path,
                offset=batch.position_of(0),
                table=batch.table.full_name,
            )
        if batch.table.undecodable is None:
            reader = RowReader(batch)
            columns = [column_texts(reader, column.name, "csv", csv_field) for column in batch.columns]
        else:
            columns = [csv_values(batch.column(column.name).tolist()) for column in batch.value_columns]
        known: dict[Any, str] = {}  # most are the same for many rows
        for extra in extras:
            values = extra.to_pylist()
            for value in set(values) - known.keys():
                known[value] = csv_field(value)
            columns.append([known[value] for value in values])
        lines = map(",".join, zip(*columns, strict=True))
        self.file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))


class ArrowWriter(_OneTable):
    """Arrow's IPC stream."""

    name = "arrow"

    def __init__(self, file: BinaryIO, *, change_columns: bool = True) -> None:
        super().__init__(file, change_columns=change_columns)
        try:
            import pyarrow
        except ImportError:
            raise MissingExtraError.of("pyarrow", "arrow", f"--format {self.name}") from None
        self._pyarrow = pyarrow
        self._writer: Any = None

    def write_batch(self, batch: ChangeBatch) -> None:
        # Not from `array`: asked for records, the log would no longer be decoded into columns directly.
        with self._errors(path=batch.path, offset=batch.position_of(0)):
            self._write(batch)

    @contextlib.contextmanager
    def _errors(self, **where: Any) -> Iterator[None]:
        """Turn errors of pyarrow into our own."""
        try:
            yield
        except (MemoryError, OSError):
            raise  # reported as what they are
        except self._pyarrow.ArrowException as error:
            text = " ".join(str(error).split())
            raise BinlogError(f"{self.name} cannot hold it: {text}", table=self.table, **where) from None

    def _write(self, batch: ChangeBatch) -> None:
        names = DEFAULT_CHANGE_COLUMNS if self.change_columns else ()
        table = self._pyarrow.Table.from_batches([batch.to_arrow(change_columns=names)])
        if self._writer is None:
            self._schema = table.schema
            self._writer = self.start(table.schema)
        elif table.schema != self._schema:
            raise SchemaError(
                f"the table's definition changed, but {self.name} has one schema:"
                " choose unchanged columns with --columns",
                path=batch.path,
                offset=batch.position_of(0),
                table=batch.table.full_name,
            )
        self._writer.write_table(table)

    def start(self, schema: pyarrow.Schema) -> Any:
        """Begin the file."""
        return self._pyarrow.ipc.new_stream(self.file, schema)

    def close(self) -> None:
        if self._writer is not None:
            with self._errors():
                self._writer.close()


class ParquetWriter(ArrowWriter):
    """Parquet, compressed by zstd; a row group per group of the log."""

    name = "parquet"

    def start(self, schema: pyarrow.Schema) -> Any:
        from pyarrow import parquet

        return parquet.ParquetWriter(self.file, schema, compression="zstd")


def pieces(group: Group) -> Iterator[Group]:
    """A group, in pieces of some rows each if their text may be much larger than in the log."""
    most = min((records_at_a_time(batch.columns) for batch in group.batches), default=0)
    if sum(map(len, group.batches)) <= most:
        yield group
        return
    each = [_places(batch.array["image"]) for batch in group.batches]
    places = np.unique(np.concatenate(each))
    for i in range(0, len(places), most // 2):  # two images have one place
        ends = places[i], places[min(i + most // 2, len(places)) - 1]
        cut = []
        for batch, its in zip(group.batches, each, strict=True):
            first = int(np.searchsorted(its, ends[0], side="left"))
            last = int(np.searchsorted(its, ends[1], side="right"))
            if first < last:
                cut.append(batch[first:last])
        yield replace(group, batches=cut)


def first_rows(group: Group, count: int) -> tuple[Group, int]:
    """The first changed rows of a group in log order, up to a number, and their count."""
    starts = [batch.array["image"][batch.array["image"]["op"] != POSTIMAGE] for batch in group.batches]
    found = sum(map(len, starts))
    if found <= count:
        return group, found
    places = np.sort(np.concatenate([_places(images) for images in starts]))
    last = places[count - 1] if count else np.zeros(1, _PLACE_DTYPE)[0]
    end = int(places[count]["position"])  # of the first row that is left out
    transactions = group.transactions.copy()
    ends_later = transactions["end_position"] > end
    transactions["end_position"][ends_later] = transactions["outcome"][ends_later] = 0
    asides = [one for one in group.asides if (one.position, one.row) <= (last["position"], last["row"])]
    cut = []
    for batch in group.batches:
        # A batch is in log order, so that its first records are its first rows.
        keep = int(np.searchsorted(_places(batch.array["image"]), last, side="right")) if count else 0
        if keep:
            cut.append(batch[:keep])
    return replace(group, batches=cut, transactions=transactions, asides=asides), count


_PLACE_DTYPE = np.dtype([("position", "<u8"), ("row", "<u4")])


def _places(images: NDArray[np.void]) -> NDArray[np.void]:
    places = np.empty(len(images), _PLACE_DTYPE)
    places["position"], places["row"] = images["position"], images["row"]
    return places
