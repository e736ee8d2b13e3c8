"""`open`: checks its arguments and returns a Log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from .._decode.gtid_selection import GtidArgument, gtid_set
from .._decode.selection import Columns, Selection, columns_by_pattern, names, ops_mask
from .._sources.places import is_server
from .._sources.resolve import resolve
from ..errors import BinlogError
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet
from ..limits import DEFAULT_LIMITS, Limits
from ..position import CommitRecord, Position
from ..schema.definitions import load
from .arguments import check
from .log import Log
from .settings import Settings, condition_in
from .threads import processors

if TYPE_CHECKING:
    from .._base.options import OnError
    from .._decode.selection import LogPlace
    from .._sources.log_files import LogFiles
    from ..conditions.language import Condition
    from ..schema.definitions import SchemaSource
    from ..schema.given import Schema
    from .options import Keys, Op, Path, Start, Target


def open(
    target: Target,
    *,
    schema: SchemaSource | Schema | None = None,
    keys: Keys | None = None,
    verify_checksum: bool = True,
    on_error: OnError = "raise",
    strict: bool = False,
    start: Start | None = None,
    stop: LogPlace | None = None,
    tables: str | Iterable[str] | None = None,
    exclude_tables: str | Iterable[str] | None = None,
    columns: Columns | None = None,
    where: str | Condition | None = None,
    gtids: GtidArgument | None = None,
    exclude_gtids: GtidArgument | None = None,
    server_id: int | None = None,
    ops: Op | Iterable[Op] | None = None,
    rows_v0: bool = False,
    follow: bool = False,
    mmap: bool | None = None,
    storage_options: dict[str, Any] | None = None,
    schema_start: SchemaSource | Schema | None = None,
    charset: str | None = None,
    limits: Limits | None = None,
    threads: int = 1,
    index: bool = True,
    server: Mapping[str, Any] | None = None,
    password_file: Path | None = None,
    defaults_file: Path | None = None,
) -> Log:
    """Open MySQL or MariaDB binary logs.

    Parameters
    ----------
    target : str, path, file object, bytes-like, or a list of them
        A log (plain, gzip, zstd or xz; or encrypted, with ``keys``), ``"-"`` for standard input, a URL that
        fsspec supports, a directory of logs, an index file, or a running server
        (``mysql://user@host:port,host:port`` or ``mariadb://…``), which is read the way its replicas do.
    schema : dict, str or path, optional
        Names, signs, character sets and members for logs that lack them: a dict of "db.table" to CREATE
        TABLE text, a .sql file, or a server that is asked once (``mysql://user:password@host:port/database``).
        "ddl" follows the CREATE, ALTER, DROP and RENAME statements in the log, starting from the definitions
        in ``schema_start``. For a server, "server" takes its current definitions and follows the statements
        from there; a table's earlier definitions are not guessed.
    keys : path or dict, optional
        MySQL's keyring file or MariaDB's key file of an encrypted log.
    verify_checksum : bool
        Verify each event's CRC32, if the log has them.
    on_error : "raise" or "skip"
        With "skip", a damaged event is counted in ``log.report`` and skipped.
    strict : bool
        Raise an error if the log lacks information: a cut tail, an unknown sign, an unnamed column, a
        change logged as a statement.
    start, stop : int, (file name, int), datetime or Position, optional
        The first event read and the first event not read: byte positions, times in the event headers (naive
        datetimes are UTC), or the ``position`` of a group. ``start`` can also be a GTID set, to read
        everything not in it (MariaDB: everything behind the last GTID of each domain), for ``.ibb`` files a
        `CommitRecord`, and for a server "now"; None is its oldest log.
    tables : str or iterable of str, optional
        Names or glob patterns, "shop.orders" or "shop.*"; other tables are not decoded.
    exclude_tables : str or iterable of str, optional
        Names or glob patterns of tables to leave out.
    columns : mapping or iterable of str, optional
        Names of the columns to decode, or a dict of table name or pattern to such names.
    where : str or Condition, optional
        Only changes that match, such as ``"id = 42 and status = 'paid'"``: see `binlog_core.conditions`.
    gtids, exclude_gtids : str, GTID, GTID set or iterable of them, optional
        Transactions to read, or to leave out.
    server_id : int, optional
        Only events of this server.
    ops : str or iterable of str, optional
        One or more of "insert", "update", "delete".
    rows_v0 : bool
        Also decode rows events of version 0 (5.1 before 5.1.18), in the layout of tables without BIT columns
        in the usual row format. The real layout depends on table options that are not logged; ``events()``
        returns the raw rows.
    follow : bool
        At the end, `rows`, `batches`, `groups` and `events` wait for more bytes and for the server's next log
        (local files with numbered names), until ``log.stop()``. A group is returned as soon as there is
        nothing more to read; after a restart, resume with ``start=(path, group.resume_position)``.
    mmap : bool, optional
        False reads with pread, which is safe if the file shrinks; this is the default for logs in use and on
        network mounts.
    storage_options : dict, optional
        Options for fsspec.
    charset : str, optional
        Character set (MySQL's name, such as "latin1") of text for which neither the log nor the schema gives
        one. Without character sets and a schema, BLOB looks the same as TEXT: then both become text.
    limits : Limits, optional
        Rows and bytes of a group, and the maximum size of decompressed data.
    threads : int
        Number of decoding threads; 0 uses one per processor. The order of results does not change. Threads
        share the work on plain local logs; "All cores" in "Performance" says what stays with one thread.
    index : bool
        Use an index beside the logs, if there is one (`binlog_core.index`). Set False if others can write
        there: a forged index can hide rows.
    server : mapping, optional
        Options for a server: ``server_id``, ``ssl_mode``, ``ssl_ca``, ``ssl_cert``, ``ssl_key``, ``socket``,
        ``connect_timeout``, ``heartbeat``, ``reconnect``, ``semi_sync``, ``ignore_missing_gtids`` (see "Live
        servers"). They can also be in the URL's query.
    password_file, defaults_file : path, optional
        For a server: a file with the password, and an option file as for the vendors' clients. Without a
        password in these or in the URL, it comes from MYSQL_PWD in the environment.

    Returns
    -------
    Log

    Raises
    ------
    NotABinlogError, FormatError
        The first file is not a log, or its descriptor is not valid.
    EncryptionError, MissingExtraError
        A key or a library is missing.
    ConditionError
        ``where`` is not a condition.
    GtidError
        A text is not a GTID set, or a set is of the other vendor than the (first) log.
    SchemaError
        A given definition cannot be read.
    ServerError
        A server cannot be reached, or refuses: `UnreachableError`, `AuthenticationError`,
        `PrivilegeError`, `PurgedError`, `PositionError`, `DivergedError`, `IdentityError`,
        `ProtocolError`. The first four can be raised here, and all of them while the log is read.
    BinlogError
        The target does not exist or cannot be read.
    TypeError, ValueError
        An argument's type or value is not one of those listed here.
    """
    given = locals()
    if isinstance(target, list | tuple) and len(target) == 1:
        target = target[0]
    check(target, given)
    limits = limits or DEFAULT_LIMITS
    if schema is not None:
        schema = load(schema)
    if schema_start is not None:
        schema_start = load(schema_start)
    begin: LogPlace | None
    end: LogPlace | None
    behind: Position | AnyGtidSet | None = None
    if is_server(target):
        from ..server.target import server_logs

        files, begin, end = server_logs(
            target,
            server,
            start=start,
            stop=stop,
            follow=follow,
            limits=limits,
            password_file=password_file,
            defaults_file=defaults_file,
        )
    else:
        files = resolve(target, keys=keys, mmap=False if follow else mmap, storage_options=storage_options)
        begin = _place_of_record(start, files) if isinstance(start, CommitRecord) else cast("Any", start)
        end = stop
        if isinstance(start, GtidSet | MariadbGtidSet) or (isinstance(start, Position) and not start.file):
            begin, behind = None, start
        if len(files) == 1 and isinstance(start, int) and isinstance(stop, int) and start > stop:
            raise ValueError(f"start={start} is after stop={stop}")
    settings = Settings(
        selection=Selection(
            tables=names(tables),
            exclude_tables=names(exclude_tables),
            columns=columns_by_pattern(columns),
            where=condition_in(where, limits),
            ops=ops_mask(ops),
            server_id=server_id,
            rows_v0=rows_v0,
            gtids=gtid_set(gtids, "gtids"),
            exclude_gtids=gtid_set(exclude_gtids, "exclude_gtids"),
        ),
        start=begin,
        stop=end,
        schema=schema,
        schema_start=schema_start,
        charset=charset,
        verify_checksum=verify_checksum,
        skip_errors=on_error == "skip",
        strict=strict,
        limits=limits,
        follow=follow,
        threads=threads or processors(),
        indexed=index,
    )
    if behind is not None:
        from .gtid_start import begun_after

        settings = begun_after(files, settings, behind)
    return Log(files, settings)


def _place_of_record(record: CommitRecord, files: LogFiles) -> tuple[str, int]:
    named = [file for file in files if os.path.basename(file.path) == record.file or not record.file]
    if len(named) != 1:
        name = repr(record.file) if record.file else "that is meant, of several: name it"
        raise BinlogError(f"expected one file {name} among those given", path=files[0].path)
    with named[0].open() as source:
        if not source.finds_transactions:
            raise BinlogError("not an .ibb file: expected start= as a position", path=named[0].path)
        position = source.transaction_in_file(record.offset)
        if position is None:
            raise BinlogError(
                f"no commit record begins at or behind offset {record.offset}", path=named[0].path
            )
    return named[0].path, position
