"""From a part of a log to record batches of a DataFrame's schema, for every interface of Spark."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._base.change_columns import ABSENT, LAKE_COLUMNS, LAKE_METADATA
from .._decode.selection import Selection, check_condition
from ..conditions.bound import bind
from ..conditions.pushed import Predicate, PushedFilters
from ..errors import BinlogError, ConditionError, SchemaError
from ..index.finding import Indexes
from ..lake.plan.long_transactions import divide_parts
from ..lake.plan.parts import TaskPart, plan_parts, tasks_of_parts, timeline_of
from ..lake.plan.statements import kind_of
from ..lake.rows.fit import CORRUPT, RESCUED, SPECIAL, STATEMENT, Fitter, FrameSchema, special_fields
from ..lake.rows.json_rows import DebeziumRows, JsonRows, all_tables_schema
from ..lake.rows.observers import LoggedStatement
from ..lake.rows.read_options import ReadOptions
from ..lake.rows.reader import Chunk, SplitRows, selection_of
from ..lake.rows.source_options import SourceOptions
from ..lake.rows.types import import_pyarrow
from ..lake.runner import HERE, Runner
from ..report import BinlogWarning
from ..schema.timeline import DefinitionTimeline, definitions_of
from ..splits import Split
from .inference import Found, find_definitions

if TYPE_CHECKING:
    import pyarrow as pa


def infer_schema(paths: Iterable[str], options: SourceOptions) -> pa.Schema:
    """The schema of a DataFrame for which the user gave none.

    Raises
    ------
    BinlogError
        The logs do not exist, or none has the table; see `find_definitions`.
    """
    pa = import_pyarrow()
    paths = list(paths)
    if options.table is None:
        return all_tables_schema(
            options.metadata,
            corrupt=options.on_error == "rows",
            documents=options.documents,
        )
    found = find_definitions(paths, options, every=options.merge_schema)
    types = special_fields()
    wanted = [*LAKE_COLUMNS]
    if options.absent or (options.absent is None and found.partial):
        wanted.append(ABSENT)
    wanted += options.metadata
    if options.on_schema_change == "rescue":
        wanted.append(RESCUED)
    if options.on_error == "rows":
        wanted.append(CORRUPT)
    if options.ddl == "rows":
        wanted.append(STATEMENT)
    _check_condition(found, paths, options)
    own = found.fields()
    for field in own:
        if field.name.lower() in wanted:
            raise SchemaError(
                "a column of the table has the name of a change column",
                table=options.table,
                column=field.name,
            )
    return pa.schema([*own, *((name, types[name]) for name in wanted)])


def check_types(schema: pa.Schema, options: SourceOptions) -> None:
    """Refuse a schema given by the user in which a change column has another type.

    Raises
    ------
    SchemaError
        A change column has another type, or without option table there is another column.
    """
    if options.table is None:
        types = {field.name: field.type for field in all_tables_schema(documents=options.documents)}
    else:
        types = special_fields()
    for field in schema:
        known = types.get(field.name.lower())
        if known is not None and field.type != known:
            raise SchemaError(f"the column is {known}, the schema has {field.type}", column=field.name)
        if known is None and options.table is None:
            raise SchemaError(
                f"without option table, expected only the columns {', '.join(types)}", column=field.name
            )


def check_columns(
    schema: pa.Schema, paths: Iterable[str], options: SourceOptions, *, growing: bool = False
) -> None:
    """Refuse a schema given by the user with columns that the logs do not have.

    Parameters
    ----------
    schema : pyarrow.Schema
        The schema.
    paths : iterable of str
        The logs.
    options : SourceOptions
        The options of the source.
    growing : bool
        Whether rows of the table may still come: then nothing is refused if there are none yet.

    Raises
    ------
    SchemaError
        No definition has a column of the schema.
    ConditionError
        ``where`` names such a column, or has a value that does not fit its column.
    """
    paths = list(paths)
    if options.table is not None and options.where is not None:
        _check_condition(find_definitions(paths, options, every=False, required=not growing), paths, options)
    if options.table is None or options.on_schema_change != "fail":
        return
    wanted = [field.name for field in schema if field.name.lower() not in SPECIAL]
    if not wanted:
        return
    found = find_definitions(paths, options, every=False, required=not growing)
    if found.definitions and _missing(wanted, found):
        found = find_definitions(paths, options, every=True)
        if missing := _missing(wanted, found):
            names = ", ".join(field.name for field in found.fields())
            raise SchemaError(
                f"no definition in the logs has the columns {', '.join(missing)} of the schema;"
                f" they have {names}",
                table=options.table,
            )


def _check_condition(found: Found, paths: Iterable[str], options: SourceOptions) -> None:
    """Refuse a condition that fits no definition of the table: a worker knows only those in its part."""
    if options.where is None:
        return
    misfit: ConditionError | None = None
    for every in (False, True):
        if every:
            found = find_definitions(paths, options, every=True)
        for table in found.definitions:
            try:
                bind(options.where, table)
                return
            except ConditionError as error:
                misfit = misfit or error
    if misfit is not None:
        raise misfit


def _missing(wanted: Iterable[str], found: Found) -> list[str]:
    known = {column.name.lower() for table in found.definitions for column in table.columns}
    return [name for name in wanted if name.lower() not in known]


@dataclass(frozen=True)
class ChangeReader:
    """Reads parts; pickled to the workers.

    Parameters
    ----------
    options : SourceOptions
        The options of the source.
    reading : ReadOptions
        How splits are read.
    schema : pyarrow.Schema
        The schema of the DataFrame.
    projected : bool
        Whether the user gave the schema.
    """

    options: SourceOptions
    reading: ReadOptions
    schema: pa.Schema
    projected: bool

    @classmethod
    def of(cls, options: SourceOptions, schema: pa.Schema, *, projected: bool) -> ChangeReader:
        """The reader for a schema, which decodes only what this needs."""
        columns = None
        names = {name.lower() for name in schema.names}
        if options.table is not None and projected and RESCUED not in names:
            columns = [name for name in schema.names if name.lower() not in SPECIAL]
            columns += options.key_columns or ()
            if options.images == "keychange" and not options.key_columns:
                columns = None  # the key's columns, whatever they are, are needed
        reading = replace(
            options.read_options(columns=columns),
            metadata=tuple(name for name in LAKE_METADATA if name in names),
        )
        return cls(options, reading, schema, projected)

    def following(self, timeline: DefinitionTimeline | None) -> ChangeReader:
        """The reader with the definitions of all parts, which would be most of each part."""
        return self if timeline is None else replace(self, reading=replace(self.reading, schema=timeline))

    def planned(self, paths: Iterable[str], run: Runner = HERE) -> tuple[ChangeReader, list[TaskPart]]:
        """The parts of a batch query, and the reader with the definitions of all of them."""
        paths = list(paths)
        parts = plan_parts(paths, self.options, run)
        # Afterwards: a log that comes meanwhile is then in no part, not in one without its statements.
        reader = self.following(timeline_of(paths, self.options, run))
        return reader, divide_parts(parts, reader.reading, run)

    def pushed(self, predicates: Iterable[Predicate]) -> ChangeReader:
        """The reader that may leave out rows for which some predicates do not hold."""
        options, found = self.options, tuple(predicates)
        # A condition is about whole changes, and may hold for the other image of an update; statements are
        # numbered together with all rows; and bytes that are not valid text are replaced only here.
        if not found or options.table is None or options.where is not None or options.ddl != "ignore":
            return self
        if options.text_errors == "replace":
            return self
        return replace(self, reading=replace(self.reading, pushed=PushedFilters(found)))

    def wanted(self, parts: list[TaskPart]) -> list[TaskPart]:
        """The parts without those of which the indexes beside the logs show that nothing matches."""
        reading = self.reading
        if reading.statements or not reading.index or not selection_of(reading, Split("")).narrows:
            return parts
        if isinstance(reading.schema, DefinitionTimeline):  # with it, names depend on the place
            return parts
        with closing(Indexes()) as indexes:
            return [
                part
                for part in parts
                if part.split.within is not None
                or indexes.may_hold(
                    reading.access.file(part.split.path),
                    selection_of(reading, part.split),
                    definitions_of(reading.schema, part.split.version_base),
                )
            ]

    def tasks(self, parts: Sequence[TaskPart]) -> list[tuple[TaskPart, ...]]:
        """The parts of each task: see `tasks_of_parts`."""
        return tasks_of_parts(parts, self.options.split_size)

    def read_all(self, parts: Iterable[TaskPart]) -> Iterator[pa.RecordBatch]:
        """The record batches of parts, one after the other."""
        for part in parts:
            yield from self.read(part)

    def read(self, part: TaskPart) -> Iterator[pa.RecordBatch]:
        """Record batches of the schema.

        Raises
        ------
        BinlogError
            With file and offset.
        """
        reading = self.reading
        if part.definitions is not None:
            reading = replace(reading, schema=part.definitions)
        # With a timeline, definitions depend on the place.
        indexed = reading.index and not isinstance(reading.schema, DefinitionTimeline)
        reader = SplitRows(part.split, reading, exact=part.exact, prepared=part.prepared, indexed=indexed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BinlogWarning)
                yield from self._batches(reader, part.split)
        except BinlogError as error:
            raise error.located(path=part.split.path) from error.__cause__

    def _batches(self, reader: SplitRows, split: Split) -> Iterator[pa.RecordBatch]:
        options = self.options
        if options.table is None:
            kind = DebeziumRows if options.documents == "debezium" else JsonRows
            variant = variant_of if options.documents == "variant" else None
            yield from kind(self.schema, options.images, variant).read(reader)
            return
        fitter = Fitter(
            FrameSchema(
                options.table,
                self.schema,
                self.projected,
                options.on_schema_change,
                require_absent=options.absent is not False,
            )
        )
        corrupt = CORRUPT in (name.lower() for name in self.schema.names)
        for piece in reader.pieces():
            if isinstance(piece, LoggedStatement):
                yield from self._statement(piece, fitter, split)
            elif isinstance(piece, Chunk) and piece.batch.num_rows:
                yield fitter.rows(piece)
            if corrupt:
                for place in reader.report.take_damaged():
                    yield fitter.damage(place, split)
        if corrupt:
            for place in reader.report.take_damaged():
                yield fitter.damage(place, split)
        if options.where is not None:
            check_condition(Selection(tables=(options.table,), met=reader.met), whole=False)

    def _statement(
        self, statement: LoggedStatement, fitter: Fitter, split: Split
    ) -> Iterator[pa.RecordBatch]:
        assert self.options.table is not None
        kind = kind_of(statement, self.options.table)
        if kind is None:
            return
        if self.options.ddl == "fail":
            raise SchemaError(
                f"the statement changes the table: {statement.sql[:200]}",
                path=split.path,
                offset=statement.position,
                table=self.options.table,
            )
        yield fitter.statement(statement, split, kind)


def variant_of(text: str) -> dict[str, bytes]:
    """A JSON text as Spark stores a VARIANT."""
    from pyspark.sql.types import VariantVal

    found = VariantVal.parseJson(text)
    return {"value": found.value, "metadata": found.metadata}
