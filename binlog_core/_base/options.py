"""The options of reading logs that are given in several ways: what each may be, and what it does.

`binlog_core.open`, `ReadOptions`, the data source and the commands have options of these names. The commands
and the checks of `open` are made from this table; tests compare the defaults and values of the others.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

# The first value of each is the default.
OnError: TypeAlias = Literal["raise", "skip"]
Images: TypeAlias = Literal["both", "after", "keychange"]
Unnamed: TypeAlias = Literal["refuse", "positions"]
TextErrors: TypeAlias = Literal["raise", "replace"]
Xa: TypeAlias = Literal["prepared", "committed"]
Deletes: TypeAlias = Literal["copy", "vectors"]

_SWITCH = Literal[False, True]
_ON = Literal[True, False]


class Option(NamedTuple):
    """One option.

    Parameters
    ----------
    text : str
        What it does, as ``--help`` says it; empty if no command has it.
    flags : tuple of str
        What commands call it.
    values : Literal, optional
        All that it may be, the default first. Others take more than a few values: then only the default.
    metavar : str, optional
        What ``--help`` calls its value.
    """

    text: str = ""
    flags: tuple[str, ...] = ()
    values: Any = Literal[None]
    metavar: str | None = None

    @property
    def default(self) -> Any:
        """The value of an option that is not given."""
        return get_args(self.values)[0]


OPTIONS = {
    "schema": Option(
        "Table definitions: an SQL file, a server (mysql://…), or ddl, the statements in the log.",
        ("--schema",),
    ),
    "schema_start": Option(
        "With --schema ddl: definitions at the start of the log, an SQL file or a server.",
        ("--schema-start",),
    ),
    "keys": Option("Key file of encrypted logs: MySQL's keyring or MariaDB's key file.", ("--keys",)),
    "verify_checksum": Option("Do not verify the log's checksums.", ("--no-verify-checksum",), values=_ON),
    "on_error": Option("Damaged events: stop with an error, or skip them.", ("--on-error",), values=OnError),
    "strict": Option(values=_SWITCH),
    "start": Option(
        "Start at a position, FILE:POSITION, time (also '1 hour ago'), GTID, or the JSON text of a Position,"
        " or after a GTID set; for a server also now.",
        ("--start",),
        metavar="PLACE",
    ),
    "stop": Option(
        "Stop before a position, FILE:POSITION, time or Position, or after a GTID.",
        ("--stop",),
        metavar="PLACE",
    ),
    "tables": Option(
        "Table or pattern: orders, shop.orders, shop.*; can be repeated.", ("--table", "--tables", "-t")
    ),
    "exclude_tables": Option("Table or pattern to leave out; can be repeated.", ("--exclude-table",)),
    "columns": Option("Columns to read, separated by commas.", ("--columns",)),
    "where": Option(
        "Only changes that match, before or after: id = 42 and status in ('paid', 'sent')."
        " The collation does not count: 'A' is not 'a'.",
        ("--where",),
        metavar="TEXT",
    ),
    "gtids": Option("Only transactions in this GTID set.", ("--include-gtids",), metavar="SET"),
    "exclude_gtids": Option("Only transactions outside this GTID set.", ("--exclude-gtids",), metavar="SET"),
    "server_id": Option("Only events of this server, or of several: 7,8.", ("--server-id",), metavar="IDS"),
    "ops": Option("insert, update or delete; can be repeated, or separated by commas.", ("--op",)),
    "rows_v0": Option(values=_SWITCH),
    "follow": Option(
        "At the end, wait for what the server writes next, until Ctrl-C.",
        ("--follow", "-F", "--stop-never"),
        values=_SWITCH,
    ),
    "mmap": Option(values=Literal[None, True, False]),
    "storage_options": Option(),
    "charset": Option(
        "Character set of text if the log and --schema do not give one: utf8mb4, latin1 …", ("--charset",)
    ),
    "limits": Option(),
    "threads": Option(values=Literal[1]),
    "index": Option(
        "Ignore indexes beside the logs, for example where others can write them.",
        ("--no-index",),
        values=_ON,
    ),
    "server": Option(),
    "password_file": Option("For a server: file whose first line is the password.", ("--password-file",)),
    "defaults_file": Option(
        "For a server: option file with user and password, as for its own clients.", ("--defaults-file",)
    ),
    # of the export and the data source
    "images": Option("Row images to write for an update.", ("--images",), values=Images),
    "unnamed": Option(
        "Columns without names: stop with an error, or name them c0, c1 … by position.",
        ("--unnamed",),
        values=Unnamed,
    ),
    "text_errors": Option(
        "Text that is not valid in its character set: stop with an error, or use U+FFFD.",
        ("--text-errors",),
        values=TextErrors,
    ),
    "file_size": Option(
        "Bytes of a Parquet file after which the table's next rows go to another, also with k, m or g; 0: one"
        " file for a table.",
        ("--file-size",),
        values=Literal["128m"],
    ),
    "xa": Option(
        "Rows of XA transactions: at XA PREPARE, where they are logged, or at XA COMMIT.",
        ("--xa",),
        values=Xa,
    ),
    # of the mirror
    "deletes": Option(
        "Files with changed rows: write them again, or leave them and list these rows in deletion vectors.",
        ("--deletes",),
        values=Deletes,
    ),
}


def check_choice(name: str, value: object) -> None:
    """Refuse a value that an option of a few texts does not have.

    Raises
    ------
    ValueError
    """
    values = get_args(OPTIONS[name].values)
    if not (isinstance(value, str) and value in values):
        raise ValueError(f"{name}={value!r}: expected {' or '.join(map(repr, values))}")
