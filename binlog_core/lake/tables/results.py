"""What an export reports about each split, each table, and the whole."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..._base.prometheus import Metric, metrics_text
from ...report import Place
from ...splits import Split, SplitResult

if TYPE_CHECKING:
    import pyarrow as pa

    from ..._tables.tables import Table
    from ...errors import ConditionError


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """A worker's report of a Parquet file that it wrote.

    Parameters
    ----------
    name : str
        The file's path in the directory that the worker was given.
    split : int
        The number of the split that its first row is from.
    log : int
        The number of that split's log in the plan, from 0.
    database, table : str
        The names of the database and the table.
    schema : pyarrow.Schema
        The file's schema.
    key : tuple of str or None
        The primary key, if the log has it.
    rows : dict of str to int
        Rows by `_change_type`.
    partial_rows : int
        Rows that lack columns: see `_absent`.
    bytes : int
        The size of the file.
    seconds : float
        Time spent on converting and writing.
    first_position, last_position : int
        Positions of the first and last row's events in the log.
    first_version, last_version : int
        The smallest and the largest `_commit_version`.
    last_time : int
        The latest `_commit_timestamp`, microseconds since 1970 UTC.
    definition : Table or None
        The table's definition in the log.
    """

    name: str
    split: int
    log: int
    database: str
    table: str
    schema: pa.Schema
    key: tuple[str, ...] | None
    rows: dict[str, int]
    partial_rows: int
    bytes: int
    seconds: float
    first_position: int
    last_position: int
    first_version: int
    last_version: int
    last_time: int = 0
    definition: Table | None = None


# Database, table, and files in the order of the logs.
TableFiles: TypeAlias = tuple[str, str, list[FileStatistics]]


class ReportedStatement(NamedTuple):
    """A statement in the logs that changes tables or their contents without rows.

    Parameters
    ----------
    version, ordinal : int
        Its place among the rows' `_commit_version` and `_change_ordinal`.
    kind : str
        "create", "alter", "drop", "rename", "truncate"; "unknown" if it could not be read.
    tables : tuple of str
        The tables that it names, as ``database.table``.
    database : str or None
        The database that is dropped as a whole.
    clears : bool
        Whether the table has no rows right after it.
    sql : str
        The text.
    default_database : str
        The default database.
    sql_mode : int
        The server's bit mask, for the rules by which the text is quoted.
    """

    version: int
    ordinal: int
    kind: str
    tables: tuple[str, ...]
    database: str | None
    clears: bool
    sql: str
    default_database: str = ""
    sql_mode: int = 0


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of a split that wait in files of pieces, sorted by table, for the files of their tables.

    Parameters
    ----------
    names : tuple of str
        The files, in order, by their paths in the directory that the worker was given.
    pieces : int
        How many pieces they have: one or a few for each table.
    rows : int
        Row images.
    bytes : int
        What the rows take in memory.
    last_time : int
        The latest `_commit_timestamp`, microseconds since 1970 UTC.
    seconds : float
        Time spent on writing them.
    """

    names: tuple[str, ...] = ()
    pieces: int = 0
    rows: int = 0
    bytes: int = 0
    last_time: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """A worker's report of a split that it has written.

    Parameters
    ----------
    split : Split
        The split.
    seam : SplitResult
        The anchors between which it was read.
    files : tuple of FileStatistics
        The files that were written; none if its rows were staged.
    statements : tuple of ReportedStatement
        The statements in it that change tables without rows.
    counts : dict of str to int
        What was found missing or lost, or skipped: see ``binlog_core.Report``.
    first : dict of str to Place
        The first place of each kind.
    damaged : tuple of Place
        Each event that was skipped.
    tail : str or None
        Why reading ended before the end of the file.
    end_position : int
        Everything before it is written.
    log_bytes : int
        Bytes of the log that were read.
    seconds, cpu_seconds, read_seconds : float
        Total time; CPU time of the worker's process; time without converting to Parquet and writing.
    server_version : str
        The version of the server that wrote the log.
    not_committed : tuple of (int, int)
        `_commit_version` and outcome of the transactions that the split does not commit.
    fits : frozenset of str
        Full names of tables that the condition fits.
    unfit : dict of str to ConditionError
        By full name, what a definition of a table lacks for the condition.
    words : frozenset of str, or None
        The words, in small letters, of the changes that were logged as statements; None if some may be of any
        table.
    staged : Staged or None
        Its rows, if they wait for those of other splits.
    """

    split: Split
    seam: SplitResult
    files: tuple[FileStatistics, ...]
    statements: tuple[ReportedStatement, ...]
    counts: dict[str, int]
    first: dict[str, Place]
    damaged: tuple[Place, ...]
    tail: str | None
    end_position: int
    log_bytes: int
    seconds: float
    cpu_seconds: float
    read_seconds: float
    server_version: str = ""
    not_committed: tuple[tuple[int, int], ...] = ()
    fits: frozenset[str] = frozenset()
    unfit: dict[str, ConditionError] = field(default_factory=dict)
    words: frozenset[str] | None = frozenset()
    staged: Staged | None = None

    @property
    def rows(self) -> int:
        """Row images written."""
        return self.staged.rows if self.staged else sum(sum(file.rows.values()) for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of Parquet; of rows in memory, if they were staged."""
        return self.staged.bytes if self.staged else sum(file.bytes for file in self.files)

    @property
    def last_time(self) -> int:
        """The latest `_commit_timestamp`, microseconds since 1970 UTC; 0 without rows."""
        return self.staged.last_time if self.staged else max((one.last_time for one in self.files), default=0)

    @property
    def overrun(self) -> int:
        """Bytes read after the split's end, up to the end of its last transaction."""
        if self.seam.first_anchor is None or self.split.end is None:
            return 0
        return max(self.end_position - self.split.end, 0)

    @property
    def long_transaction(self) -> bool:
        """Whether its last transaction extends beyond the following split, which then has nothing to do."""
        return self.split.end is not None and self.overrun > self.split.end - self.split.start


@dataclass(frozen=True, slots=True)
class TableResult:
    """An export's result for one table.

    Parameters
    ----------
    database, table : str
        The names of the database and the table.
    directory : str
        The path of its directory.
    rows : dict of str to int
        Row images by `_change_type`.
    partial_rows : int
        Row images that lack columns.
    files, bytes : int
        The number of its files, and their bytes.
    versions : int
        How many definitions the table had.
    seconds : float
        Time that all workers spent on converting and writing.
    key : tuple of str or None
        The primary key in the last definition that has one.
    """

    database: str
    table: str
    directory: str
    rows: dict[str, int]
    partial_rows: int
    files: int
    bytes: int
    versions: int
    seconds: float
    key: tuple[str, ...] | None


@dataclass
class ExportState:
    """How far an export with `state` has come.

    Parameters
    ----------
    output : str
        The directory or URL of the export.
    id : str
        The name of its runs; each adds its number.
    runs : int
        How many runs are done.
    file, position : str or None, int
        Where the next run begins; None is the beginning of the logs.
    gtids : str or None
        The transactions up to there, as far as the logs have GTIDs.
    next_file, next_position, next_gtids
        Where a run that began and is not done will end; None if there is none.
    rows : dict of str to dict of str to int
        Row images of all runs, by table and `_change_type`.
    timestamp : int
        Time of the last change, in microseconds since 1970 UTC.
    seconds_behind : float
        How far the export is behind the logs, in seconds; 0 if everything is exported.
    bytes_behind, transactions_behind : int, int or None
        How much of the logs is not exported yet; None if the logs do not say.
    updated : float
        When this was written, in seconds since 1970 UTC.
    """

    output: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    runs: int = 0
    file: str | None = None
    position: int = 0
    gtids: str | None = None
    next_file: str | None = None
    next_position: int = 0
    next_gtids: str | None = None
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    timestamp: int = 0
    seconds_behind: float = 0.0
    bytes_behind: int = 0
    transactions_behind: int | None = None
    updated: float = 0.0

    @property
    def run_id(self) -> str:
        """The id of the next run."""
        return f"{self.id}-{self.runs + 1}"

    @property
    def run_name(self) -> str:
        """The name of its directory in a Parquet output."""
        return f"{self.runs + 1:06}"

    def to_json(self) -> bytes:
        """The state as one JSON object, for programs."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def to_prometheus(self) -> bytes:
        """The state as metrics in Prometheus' text format."""
        labels = {"output": self.output}
        number = (self.file or "").rpartition(".")[2]

        def one(name: str, kind: str, text: str, value: float | None) -> Metric:
            return Metric(name, kind, text, [] if value is None else [(labels, value)])

        rows = [
            ({**labels, "table": table, "change_type": kind}, count)
            for table, counts in sorted(self.rows.items())
            for kind, count in counts.items()
        ]
        return metrics_text(
            "binlog_core_export",
            [
                one("runs_total", "counter", "Completed runs.", self.runs),
                one(
                    "position_bytes",
                    "gauge",
                    "Position in the log that the export has reached.",
                    self.position,
                ),
                one("log_number", "gauge", "Number of that log.", int(number) if number.isdigit() else None),
                one(
                    "seconds_behind",
                    "gauge",
                    "Age of the last exported change; 0 when all are exported.",
                    self.seconds_behind,
                ),
                one("bytes_behind", "gauge", "Bytes of the logs that are not exported.", self.bytes_behind),
                one(
                    "transactions_behind",
                    "gauge",
                    "Transactions, by their GTIDs, that are not exported.",
                    self.transactions_behind,
                ),
                Metric("rows_total", "counter", "Row images that were exported.", rows),
                one(
                    "updated_seconds", "gauge", "When this was written, seconds since 1970 UTC.", self.updated
                ),
            ],
        )


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export.

    Parameters
    ----------
    output : str
        The directory or URL of the export.
    run_id : str
        The name of the run.
    tables : list of TableResult
        What was written of each table, by database and table.
    splits : list of WrittenSplit
        What was written of each split, in the order of the plan; empty if `repeated`.
    seconds : float
        The time from the plan to the commit.
    reread : int
        Splits that were read again because they began at a forged event inside a BLOB.
    repeated : bool
        True if this run was committed before, so that nothing was done.
    missing : tuple of str
        Tables that you named and that have no row changes in the logs; patterns may match none.
    state : ExportState or None
        How far an export with `state` has come.
    """

    output: str
    run_id: str
    tables: list[TableResult]
    splits: list[WrittenSplit]
    seconds: float
    reread: int = 0
    repeated: bool = False
    missing: tuple[str, ...] = ()
    state: ExportState | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Missing, lost and skipped information in all logs."""
        total: dict[str, int] = {}
        for split in self.splits:
            for kind, count in split.counts.items():
                total[kind] = total.get(kind, 0) + count
        return total

    @property
    def rows(self) -> int:
        """Row images written."""
        return sum(sum(table.rows.values()) for table in self.tables)

    @property
    def bytes(self) -> int:
        """Bytes of Parquet."""
        return sum(table.bytes for table in self.tables)

    @property
    def logs(self) -> int:
        """Log files."""
        return len({split.split.path for split in self.splits})

    @property
    def log_bytes(self) -> int:
        """Bytes of the logs that were read."""
        return sum(split.log_bytes for split in self.splits)

    @property
    def skipped_events(self) -> int:
        """Damaged events that were skipped."""
        return self.counts.get("skipped_events", 0)

    @property
    def slowest(self) -> WrittenSplit | None:
        """The split that took longest."""
        return max(self.splits, key=lambda split: split.seconds, default=None)

    @property
    def skew(self) -> float:
        """Seconds of the slowest split over those of the mean one that had something to read."""
        seconds = [split.seconds for split in self.splits if split.log_bytes]
        return max(seconds) * len(seconds) / sum(seconds) if seconds and sum(seconds) else 1.0

    @property
    def long_transactions(self) -> list[WrittenSplit]:
        """Splits with a transaction that is larger than a split."""
        return [split for split in self.splits if split.long_transaction]
