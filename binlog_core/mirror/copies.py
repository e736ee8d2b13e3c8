"""The first copy of a table: read by the workers in chunks of its key, and committed as one.

Each chunk is one SELECT and one Parquet file, and is noted when the file is complete, so that the next run
does not read it again.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from .._sources.object_stores import load_json
from .._tables.full_names import full_name
from ..errors import BinlogError, PrivilegeError, SchemaError, ServerError, UnreachableError
from ..lake.apply.files import statistics_of
from ..lake.exports.manifests import MIRROR
from ..lake.rows.fit import SPECIAL
from ..lake.rows.types import import_pyarrow
from ..lake.runner import GivenUp, LocalRunner, Runner, go_on, is_given_up
from ..lake.tables.destination import open_filesystem
from ..lake.tables.parquet_writer import parquet_writer
from ..lake.tables.table import App, DataFile, FileTable
from ..schema.given import parse_create_table
from ..schema.table_definitions import TableSchema
from ..server.address import Address
from ..server.answers import maybe, text
from ..server.connection import LIST_BYTES, Connection
from ..server.result_set import RECEIVED
from .chunks import CHUNK_BYTES, Chunks, Finding, Order, chunks_of, outage, sizes_of
from .columns import EVERYTHING, ColumnRules, ColumnSettings
from .lake import COPIES, Lake
from .marks import connected
from .state import MirrorState, TableState
from .values import SelectList, quoted, set_for_reading

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES = 16 << 20  # of a row group, as Arrow holds it
_TASKS = 4  # for each that is at work; each has one connection for its chunks
_AT_ONCE = 8  # notes of chunks that are read at the same time
COPY = "binlog_core.copy"  # its id, in a commit
_TRIES = 3  # of a chunk whose connection is lost
_PAUSE = 1.0
# By their TABLE_TYPE; TEMPORARY ones belong to this session.
_NO_TABLES = ("VIEW", "SYSTEM VIEW", "SEQUENCE", "TEMPORARY", "TEMPORARY SEQUENCE")


@dataclass(frozen=True)
class Copy:
    """A copy that is being made; kept until it is committed.

    Parameters
    ----------
    id : str
        A part of its files' names.
    definition : str
        The CREATE TABLE statement when the copy began.
    mark : dict
        The fields of its safe mark: see `marks.Mark`.
    chunks : tuple of str
        The conditions of the first chunks in SQL; "" has all rows.
    unlogged : sequence of str
        The names of columns that are left out, because the server does not log all their changes.
    columns : dict
        What becomes of the columns: the fields of `columns.ColumnRules`.
    versioned : bool
        Whether the server keeps past rows in the table, whose log then has them among the present ones.
    rest : str or None
        The condition of the rows in no chunk so far; None: there are none.
    rows : int
        How many rows a chunk has.
    expected : int
        About how many chunks there are.
    """

    id: str
    definition: str
    mark: dict[str, Any]
    chunks: tuple[str, ...]
    unlogged: Sequence[str] = ()
    columns: dict[str, Any] = field(default_factory=dict)
    versioned: bool = False
    rest: str | None = None
    rows: int = 0
    expected: int = 0

    @property
    def rules(self) -> ColumnRules:
        """What becomes of the columns."""
        return ColumnRules.of_json(self.columns)


class Planned(NamedTuple):
    """A table, its copy, its definition when the copy began, and its columns."""

    state: TableState
    copy: Copy
    definition: TableSchema
    selection: SelectList

    def chunks(self, lake: Lake) -> Chunks:
        """Its chunks, as far as earlier runs have found them."""
        copy = self.copy
        order = Order(self.selection.table, self.definition.row_key or (), copy.rows)
        return Chunks(lake, copy.id, copy.chunks, copy.rest, order, copy.mark["server"])


@dataclass(frozen=True)
class CopyChunk:
    """A chunk for a worker to read."""

    table: str
    folder: str
    number: int
    copy: str
    server: str
    selection: SelectList = field(repr=False)
    condition: str = field(repr=False)


@dataclass(frozen=True)
class Copied:
    """The result for a chunk: its file, which may have no rows, or an error."""

    table: str
    number: int
    result: DataFile | BinlogError


# ---------------------------------------------------------------- planning


def plan_copy(
    connection: Connection,
    state: TableState,
    mark: dict[str, Any],
    *,
    mariadb: bool,
    logs_computed: bool = True,
    settings: ColumnSettings = EVERYTHING,
    chunks: int | None = None,
    size: int = CHUNK_BYTES,
    slots: int = 1,
) -> Copy:
    """Divide a table by its key.

    Parameters
    ----------
    connection, state, mark
        The server, the table, and the fields of the copy's mark.
    mariadb : bool
        Whether the server is MariaDB.
    logs_computed : bool
        Whether the server logs generated columns of updated rows; otherwise they are left out.
    settings : ColumnSettings
        Which columns are left out or masked.
    chunks : int or None
        How many chunks to find now; None: all.
    size, slots : int
        The most bytes of a chunk, by the server's estimate, and how many are read at the same time.

    Raises
    ------
    SchemaError
        The table cannot be copied.
    ServerError
        The server cannot be asked.
    """
    definition = _definition(connection, state)
    schema = parse_create_table(definition, state.database, state.name)
    rules = settings.rules(schema, state.rules)
    selection = SelectList.of(schema, mariadb=mariadb)
    columns = {column.name: column for column in selection.table.columns}
    for one in columns:
        if one.lower() in SPECIAL:  # its changes could not be applied
            raise SchemaError(
                "a column of the table has the name of a change column", table=schema.full_name, column=one
            )
    rules.check_partition(selection.schema)
    sizes = sizes_of(connection, state.database, state.name)
    rows, rest = sizes.chunk(size, slots), None if sizes.versioned else ""
    order = Order(selection.table, schema.row_key or (), rows)
    found = [""] if sizes.versioned else list[str]()  # its log cannot be applied: it is copied in one read
    if rest is not None:
        for one, after in islice(chunks_of(connection, order), chunks):
            found.append(one)
            rest = after
    expected = len(found) + (0 if rest is None else sizes.all // max(rows * sizes.row, 1))
    unlogged = () if logs_computed else computed_columns(schema)
    rules = replace(rules, unlogged=tuple(name.lower() for name in unlogged))
    if rules.soft and (sizes.versioned or not schema.row_key):
        raise SchemaError("deleted rows can only be kept in a table with a key", table=schema.full_name)
    return Copy(
        uuid.uuid4().hex[:12],
        definition,
        mark,
        tuple(found),
        unlogged,
        asdict(rules),
        sizes.versioned,
        rest,
        rows,
        expected,
    )


def computed_columns(definition: TableSchema) -> tuple[str, ...]:
    """The names of generated columns outside the key."""
    key = definition.row_key or ()
    return tuple(one.name for one in definition.columns if one.generated and one.name not in key)


def tables_of_server(connection: Connection) -> dict[str, tuple[str, str]]:
    """The server's tables, also those that cannot be mirrored: names of database and table by full name."""
    rows = connection.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE TABLE_TYPE NOT IN ({', '.join(map(repr, _NO_TABLES))})",
        text,
        text,
        most=LIST_BYTES,
        right="SELECT",
    )
    return {full_name(database, name): (database, name) for database, name, *_ in rows}


def charsets_of_server(connection: Connection) -> dict[str, str | None]:
    """The default character sets of the server's databases."""
    rows = connection.query(
        "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA",
        text,
        maybe,
        most=LIST_BYTES,
        right="SELECT",
    )
    return {name: charset for name, charset, *_ in rows}


def is_hidden(connection: Connection, state: TableState) -> bool:
    """Whether the user has no privileges for a table, so that the server's lists lack it."""
    try:
        _definition(connection, state)
    except PrivilegeError:
        return True
    except UnreachableError:
        raise
    except ServerError:  # there is no such table
        return False
    return False  # or something else has its name, such as a view


def _sql_name(state: TableState) -> str:
    return f"{quoted(state.database)}.{quoted(state.name)}"


def _definition(connection: Connection, state: TableState) -> str:
    sql = f"SHOW CREATE TABLE {_sql_name(state)}"
    found: str = connection.query(sql, maybe, text, least=1, most=LIST_BYTES, right="SELECT")[0][1]
    return found


# ---------------------------------------------------------------- on the workers


@dataclass(frozen=True)
class Copier:
    """What a worker calls: reads chunks over its own connection and writes Parquet.

    Parameters
    ----------
    address : Address
    password : str or None
        The password, which goes with the function, not in data or a plan.
    lake : str
        The lake's path or URL.
    storage_options : dict or None
        Options for the lake's store.
    rate : float or None
        The most bytes that it receives in a second.
    delta : bool
        Whether the lake's tables are Delta tables.
    mask_key : bytes or None
        The key of masked columns, which goes as the password does.
    """

    address: Address
    password: str | None = field(repr=False)
    lake: str
    storage_options: dict[str, Any] | None = field(default=None, repr=False)
    rate: float | None = None
    delta: bool = True
    mask_key: bytes | None = field(default=None, repr=False)

    def __call__(self, chunks: Iterable[CopyChunk]) -> list[Copied]:
        """Copy each chunk; an error is a result, so that other tables continue."""
        return list(self._results(chunks))

    def _results(self, chunks: Iterable[CopyChunk]) -> Iterator[Copied]:
        connection, server = None, ""
        try:
            for chunk in chunks:
                if is_given_up():
                    return
                for left in reversed(range(_TRIES)):
                    try:
                        if connection is None or server != chunk.server:
                            server = chunk.server
                            connection = connected(replace(self.address, password=self.password), server)
                            set_for_reading(connection)
                        yield self._copy(connection, chunk)
                        break
                    except GivenUp:
                        return
                    except UnreachableError as error:
                        connection = None
                        if left:
                            self.address.world.sleep(_PAUSE)
                        else:
                            yield Copied(chunk.table, chunk.number, error)
                    except Exception as error:
                        if connection is not None:
                            connection.close()  # rows may still be on their way
                        connection = None
                        if not isinstance(
                            error, BinlogError
                        ):  # of Arrow, for example: only this table has it
                            error = BinlogError(f"it cannot be copied: {type(error).__name__}: {error}")
                        yield Copied(chunk.table, chunk.number, error.located(table=chunk.table))
                        break
        finally:
            if connection is not None:
                connection.close()

    def _copy(self, connection: Connection, chunk: CopyChunk) -> Copied:
        selection = chunk.selection
        filesystem, folder = open_filesystem(chunk.folder, self.storage_options)
        name = f"copy-{chunk.copy}-{chunk.number:06}-{uuid.uuid4().hex[:8]}.parquet"
        path = f"{folder}/{name}"
        table = f"{quoted(selection.table.database)}.{quoted(selection.table.name)}"
        where = f" WHERE {chunk.condition}" if chunk.condition else ""
        sql = f"SELECT {', '.join(selection.expressions)} FROM {table}{where}"
        read = batches_of(connection, sql, selection, rate=self.rate, mask_key=self.mask_key)
        count, writer, metadata = 0, None, list[Any]()
        try:
            filesystem.create_dir(folder, recursive=True)
            with (
                ExitStack() as undone,
                filesystem.open_output_stream(path) as sink,
                ExitStack() as written,  # closed before its file: otherwise it complains when it is collected
            ):
                undone.callback(_delete, filesystem, path)
                for rows in _groups(_ahead(read, connection.close)):
                    if writer is None:
                        writer = parquet_writer(
                            sink, selection.lake_schema, rows, delta=self.delta, metadata_collector=metadata
                        )
                        written.callback(writer.close)
                    writer.write_table(rows, row_group_size=rows.num_rows)
                    count += rows.num_rows
                written.close()
                size = sink.tell()
                sink.close()
                undone.pop_all()
            done = DataFile(name, count, size, *(statistics_of(metadata[0]) if metadata else ()))
            filesystem, lake = open_filesystem(self.lake, self.storage_options)
            notes = f"{lake}/{MIRROR}/{COPIES}/{chunk.copy}"
            filesystem.create_dir(notes, recursive=True)
            with filesystem.open_output_stream(f"{notes}/{chunk.number:06}.json") as sink:
                told = {"name": name, "rows": count, "bytes": size, "condition": chunk.condition}
                sink.write(json.dumps(told).encode())
            return Copied(chunk.table, chunk.number, done)
        except OSError as error:
            raise outage(error) from error


def _delete(filesystem: Any, path: str) -> None:
    with suppress(OSError):
        filesystem.delete_file(path)


def batches_of(
    connection: Connection,
    sql: str,
    selection: SelectList,
    *,
    rate: float | None = None,
    mask_key: bytes | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT as the lake has them; `rate`: the most bytes to receive in a second."""
    most = RECEIVED if rate is None else max(min(RECEIVED, int(rate * _PAUSE)), 1)
    next_at = time.monotonic()
    for rows in connection.stream(sql, most=most):
        size = rows.size
        kept = selection.rules.of_server(selection.batch(rows), selection.table, mask_key)
        if kept.num_rows:
            yield kept
        if rate is not None:  # rows that are not received wait at the server
            next_at += size / rate
            time.sleep(max(next_at - time.monotonic(), 0))


def _ahead(batches: Iterator[pa.RecordBatch], give_up: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Read each batch while the one before is written; `give_up` ends the wait for a batch.

    Raises
    ------
    GivenUp
        Nobody waits for them any more.
    """
    with ThreadPoolExecutor(1) as pool:
        try:
            coming = pool.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                go_on()
                coming = pool.submit(next, batches, None)
                yield batch
        except BaseException:  # also of the code that takes the batches
            give_up()
            raise


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches gathered into row groups."""
    pa, waiting, size = import_pyarrow(), [], 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


# ---------------------------------------------------------------- on the driver


def run_copies(
    runner: Runner,
    lake: Lake,
    address: Address,
    copies: dict[str, Planned],
    *,
    rate: float | None = None,
    stop: threading.Event | None = None,
    stepped: Callable[[], None] = lambda: None,
    mask_key: bytes | None = None,
) -> Iterator[tuple[str, list[DataFile] | BinlogError]]:
    """Read the missing chunks of some copies; a table's files that have rows once it is whole, or its error.

    `stepped` is called now and then. When `stop` is set, tables that are not complete are left out.
    """
    found: dict[str, dict[int, DataFile]] = {}
    known: dict[str, Chunks] = {}
    folders: dict[str, str] = {}
    for name, planned in copies.items():
        try:
            folders[name] = lake.folder(planned.state).root
            there = planned.chunks(lake)
            found[name] = _done(lake, folders[name], planned.copy, there.found)
        except BinlogError as refused:
            yield name, refused
        except OSError as away:
            yield name, outage(away)
        else:
            known[name] = there
    slots = runner.slots
    while known:
        waiting = [
            CopyChunk(
                name,
                folders[name],
                number,
                copies[name].copy.id,
                one.server,
                copies[name].selection,
                condition,
            )
            for name, one in known.items()
            for number, condition in enumerate(one.found)
            if number not in found[name]
        ]
        left = Counter(one.table for one in waiting)
        whole = [name for name, one in known.items() if one.rest is None and not left[name]]
        for name in whole:
            del known[name]
            yield name, _with_rows(found[name])
        if stop is not None and stop.is_set():
            return
        failed: dict[str, BinlogError] = {}
        unknown = {name: one for name, one in known.items() if one.rest is not None}
        with Finding(address, unknown, stop) as more:
            count = max(min(len(waiting), slots * _TASKS), 1)
            share = None if rate is None else rate / min(count, slots)
            copier = Copier(
                address, address.password, lake.uri, lake.storage_options, share, lake.is_delta, mask_key
            )
            ends = [len(waiting) * i // count for i in range(count + 1)]
            tasks = [waiting[begin:end] for begin, end in pairwise(ends) if begin < end]
            for results in runner.each(copier, tasks, stop):
                for one in results:
                    if isinstance(one.result, BinlogError):
                        failed.setdefault(one.table, one.result)
                    else:
                        found[one.table][one.number] = one.result
                    left[one.table] -= 1
                    if not left[one.table] and one.table not in unknown:
                        del known[one.table]
                        error = failed.pop(one.table, None)
                        yield one.table, _with_rows(found[one.table]) if error is None else error
                stepped()
        if stop is not None and stop.is_set():
            return
        for name, its in {**more.errors, **failed}.items():
            del known[name]
            yield name, its


def _with_rows(files: Mapping[int, DataFile]) -> list[DataFile]:
    return [one for one in files.values() if one.rows]


def _done(lake: Lake, directory: str, copy: Copy, conditions: Sequence[str]) -> dict[int, DataFile]:
    """The files of earlier runs' chunks that are whole, by number.

    Others may delete files without a commit, and a power failure may cut them.
    """
    from pyarrow.fs import FileSelector

    folder = f"{lake.path}/{MIRROR}/{COPIES}/{copy.id}"
    notes = lake.filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    if not notes:
        return {}
    filesystem, path = open_filesystem(directory, lake.storage_options)
    within = FileSelector(path, allow_not_found=True)
    there = {info.base_name: info.size for info in filesystem.get_file_info(within)}

    def found(info: Any) -> tuple[int, DataFile] | None:
        try:
            noted = load_json(lake.filesystem, info.path)
            number = int(info.base_name.removesuffix(".json"))
            if noted.pop("condition") != conditions[number]:
                return None  # other ranges were found since
            one = DataFile(**noted)
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError):  # it was cut off
            return None
        known = _bounded(one, filesystem, path) if there.get(one.name) == one.bytes else None
        return None if known is None else (number, known)

    notes = [info for info in notes if info.base_name.endswith(".json")]
    done = LocalRunner(_AT_ONCE).map(found, notes)  # they wait for the store
    return dict(one for one in done if one is not None)


def _bounded(one: DataFile, filesystem: Any, folder: str) -> DataFile | None:
    """A file of an earlier run with the bounds of its columns; None: it is damaged."""
    import pyarrow.parquet as pq

    if not one.rows:
        return one
    pa = import_pyarrow()
    try:
        with filesystem.open_input_file(f"{folder}/{one.name}") as source:
            least, most, nulls = statistics_of(pq.read_metadata(source))
    except (OSError, pa.ArrowInvalid):
        return None
    return replace(one, least=least, most=most, nulls=nulls)


def selected(state: TableState, copy: Copy, *, mariadb: bool) -> Planned:
    """A table's definition when its copy began, and its columns."""
    definition = parse_create_table(copy.definition, state.database, state.name)
    selection = SelectList.of(definition, mariadb=mariadb, without=copy.unlogged, rules=copy.rules)
    return Planned(state, copy, definition, selection)


def commit_copy(
    table: FileTable,
    schema: pa.Schema,
    files: Sequence[DataFile],
    app: App,
    properties: dict[str, str],
) -> None:
    """Make the files of a copy the table, in one commit, in place of what was there.

    Parameters
    ----------
    table : FileTable
        The table.
    schema : pyarrow.Schema
        Its columns.
    files : sequence of DataFile
        The copy's files.
    app : App
        The mirror, and the place of the copy's mark.
    properties : dict
        Further properties of the commit.
    """
    table.replace(files, schema, app, properties)


def remove_notes(lake: Lake, state: MirrorState) -> None:
    """Remove the notes of copies that have ended."""
    from pyarrow.fs import FileSelector

    made = {one.copy["id"] for one in state.tables.values() if one.copy is not None}
    folder = FileSelector(f"{lake.path}/{MIRROR}/{COPIES}", allow_not_found=True)
    for info in lake.filesystem.get_file_info(folder):
        if info.base_name not in made:
            lake.remove(f"{COPIES}/{info.base_name}")


def clean_up(lake: Lake, state: TableState, copy: str, kept: Collection[str] | None = None) -> None:
    """Remove the files of a copy, by its id, except for `kept`; None: except for those of the table."""
    from pyarrow.fs import FileSelector

    # Those of the table, not those of the notes: a run that was killed after its commit copies again.
    kept = {one.name for one in lake.opened(state).files()} if kept is None else kept
    filesystem, folder = open_filesystem(lake.folder(state).root, lake.storage_options)
    for info in filesystem.get_file_info(FileSelector(folder, allow_not_found=True)):
        if info.base_name.startswith((f"copy-{copy}-", f"part-{copy}-")) and info.base_name not in kept:
            filesystem.delete_file(info.path)
    lake.remove(f"{COPIES}/{copy}")
    state.left = [one for one in state.left if one != copy]
