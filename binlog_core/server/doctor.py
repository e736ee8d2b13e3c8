"""What a server's settings mean for reading its logs: what will fail, and how to solve it.

Source: MySQL Reference Manual, "Binary Logging Options and Variables"; MariaDB, "Replication and Binary Log
System Variables".
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from .._decode.executed import last_of_domains
from .._sources.log_names import LogName, unpacked
from .._sources.resolve import resolve
from .._sources.timeline import NAME
from .._walk.track import Rules, Track
from .._walk.typed_events import events_of
from ..errors import BinlogError, ServerError
from ..events import MariadbGtidListEvent, PreviousGtidsEvent
from ..gtids import AnyGtidSet, MariadbGtidSet
from ..report import Report
from .address import Address
from .answers import maybe
from .connection import Connection, Facts
from .foreign_keys import tables_changed_unlogged
from .refusals import clean_text
from .start import lacking, logs_of, status_of, unknown_sources

_GTID_LISTS = (PreviousGtidsEvent, MariadbGtidListEvent)
_HEAD = 4  # events at the beginning of a log, one of which lists the GTIDs before it
_TOLD = 5  # tables that a finding names
_ENOUGH = 24 * 3600  # seconds of logs; if fewer are kept, that is noted
_RIGHTS = ("REPLICATION SLAVE", "ALL PRIVILEGES", "REPLICATION REPLICA")
_NAMES = [
    *(
        "binlog_format",
        "binlog_row_image",
        "binlog_row_metadata",
        "binlog_row_value_options",
        "binlog_checksum",
    ),
    *("binlog_expire_logs_seconds", "expire_logs_days", "binlog_transaction_compression", "log_bin_compress"),
    *("gtid_mode", "enforce_gtid_consistency", "gtid_strict_mode", "time_zone", "system_time_zone"),
    *("server_id", "binlog_annotate_row_events", "log_slave_updates", "log_replica_updates", "read_only"),
    *(
        "encrypt_binlog",
        "binlog_encryption",
        "binlog_storage_engine",
        "sync_binlog",
        "require_secure_transport",
    ),
    *("max_binlog_size", "binlog_legacy_event_pos", "binlog_ignore_db", "binlog_do_db", "basedir"),
    *("binlog_expire_logs_auto_purge", "max_binlog_total_size", "binlog_space_limit", "binlog_backup"),
]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Parameters
    ----------
    subject : str
        What was checked: "row format", "rights" …
    state : str
        "ok"; "note" if it works and could be better; "fails" if reading will fail or changes will be missing.
    found : str
        What the server says.
    cure : str
        How to solve it; "" if nothing needs to be done.
    """

    subject: str
    state: Literal["ok", "note", "fails"]
    found: str
    cure: str = ""


def examine(address: Address, archive: str | os.PathLike[str] | None = None) -> list[Finding]:
    """Check a server before anything is read from it.

    Parameters
    ----------
    address : Address
        The server.
    archive : path, optional
        The directory of an archive of its logs, to check whether it can continue and its disk has room.

    Returns
    -------
    list of Finding
        The results; reading works if no finding "fails".

    Raises
    ------
    ServerError
        The server cannot be reached, or refuses the user.
    """
    with Connection(address) as connection:
        try:
            facts = connection.facts()
        except ServerError as error:
            return [Finding("binary log", "fails", error.message)]
        settings = {name: clean_text(value) for name, value in connection.variables(_NAMES).items()}
        return [
            Finding("server", "ok", f"{facts.version}, server id {facts.server_id}"),
            _connection(address),
            *_rights(connection, by_gtids=facts.by_gtids_only),
            *_rows(settings, facts),
            *_gtids(settings, facts),
            *_logs(connection, settings),
            *_others(settings, facts),
            *_cascades(connection, facts),
            *(_archive(connection, settings, os.fspath(archive)) if archive is not None else ()),
            *(_history(facts, os.fspath(archive)) if archive is not None else ()),
        ]


def _connection(address: Address) -> Finding:
    """What the connection's options protect from someone between here and the server."""
    mode = address.ssl_mode
    if address.socket:
        return Finding("connection", "ok", "a Unix socket")
    if mode == "VERIFY_IDENTITY":
        return Finding("connection", "ok", "ssl_mode=VERIFY_IDENTITY")
    if mode == "VERIFY_CA":
        found = "ssl_mode=VERIFY_CA: any server with a certificate of that CA is trusted"
        return Finding("connection", "note", found, "ssl_mode=VERIFY_IDENTITY")
    found = f"ssl_mode={mode}: whoever is on the path can read and change the password and the logs"
    cure = "ssl_mode=VERIFY_IDENTITY, with ssl_ca= if the certificate is not of a public CA"
    return Finding("connection", "note", found, cure)


def _rights(connection: Connection, *, by_gtids: bool) -> list[Finding]:
    grants = " ".join(str(row[0]).upper() for row in connection.query("SHOW GRANTS", maybe))
    out = []
    if any(re.search(rf"\b{right}\b", grants) for right in _RIGHTS):
        out.append(Finding("rights", "ok", "REPLICATION SLAVE"))
    else:
        cure = "GRANT REPLICATION SLAVE ON *.* TO the user"
        out.append(Finding("rights", "fails", "the user may not read the logs", cure))
    asked = logs_of(connection) if by_gtids else status_of(connection) and logs_of(connection)
    if asked is None:
        out.append(
            Finding(
                "rights",
                "note",
                "without REPLICATION CLIENT the server does not say which logs it has, and at which"
                " position it is",
                "GRANT REPLICATION CLIENT ON *.* TO the user",
            )
        )
    return out


def _rows(settings: dict[str, str], facts: Facts) -> list[Finding]:
    out = []
    style = settings.get("binlog_format", "ROW").upper()  # the latest servers know no other
    if style == "ROW":
        out.append(Finding("row format", "ok", "binlog_format=ROW"))
    else:
        found = f"binlog_format={style}: changes are logged as statements, without their rows"
        cure = "SET GLOBAL binlog_format = ROW, and let all clients reconnect"
        out.append(Finding("row format", "fails", found, cure))
    image = settings.get("binlog_row_image", "FULL").upper()
    if image in ("FULL", "FULL_NODUP"):
        out.append(Finding("row image", "ok", f"binlog_row_image={image}"))
    else:
        found = f"binlog_row_image={image}: columns that did not change are absent from the images"
        out.append(Finding("row image", "note", found, "SET GLOBAL binlog_row_image = FULL"))
    metadata = settings.get("binlog_row_metadata")
    if metadata == "FULL":
        out.append(Finding("metadata", "ok", "binlog_row_metadata=FULL"))
    else:
        found = (
            "this version does not log column names"
            if metadata is None
            else f"binlog_row_metadata={metadata}: the logs have no column names"
        )
        cure = 'commands, and schema="server" in Python, take them from tables that have not changed since'
        if metadata is not None:
            cure = f"SET GLOBAL binlog_row_metadata = FULL; otherwise {cure}"
        out.append(Finding("metadata", "note", found, cure))
    if "PARTIAL_JSON" in settings.get("binlog_row_value_options", "").upper():
        found = (
            "binlog_row_value_options=PARTIAL_JSON: updates of JSON columns may be logged as changes alone"
        )
        whole = image in ("FULL", "FULL_NODUP")  # other images may lack the document that is changed
        if not whole:
            found += f", which with binlog_row_image={image} do not give the new document"
        cure = "SET GLOBAL binlog_row_value_options = '', and let all clients reconnect"
        out.append(Finding("partial JSON", "note" if whole else "fails", found, cure))
    for name in ("binlog_do_db", "binlog_ignore_db"):
        if settings.get(name):
            found = f"{name}={settings[name]}: other databases are not in the logs"
            out.append(Finding("filters", "note", found))
    return out


def _gtids(settings: dict[str, str], facts: Facts) -> list[Finding]:
    if facts.gtids:
        mode = "" if facts.mariadb else "gtid_mode=ON"
        return [Finding("GTIDs", "ok", mode or "on MariaDB transactions always have them")]
    found = f"gtid_mode={settings.get('gtid_mode', 'OFF')}: after a failover the place to continue is unknown"
    return [Finding("GTIDs", "note", found, "set gtid_mode = ON, and enforce_gtid_consistency = ON")]


def _logs(connection: Connection, settings: dict[str, str]) -> list[Finding]:
    seconds = _number(settings.get("binlog_expire_logs_seconds"))
    if not seconds:
        seconds = _number(settings.get("expire_logs_days"), 86400)
    if settings.get("binlog_expire_logs_auto_purge") == "OFF":
        seconds = 0
    cure = f"SET GLOBAL binlog_expire_logs_seconds = {7 * 86400}"
    managed = settings.get("basedir", "").startswith("/rdsdbbin")
    if managed:  # these servers purge by their own setting; the usual one does not count
        cure = "CALL mysql.rds_set_configuration('binlog retention hours', 168)"
        seconds = _hours_on_rds(connection) * 3600
    kept = f"logs are kept for {seconds / 3600:g} h" if seconds else "logs are not purged by their age"
    if managed and not seconds:
        kept = "RDS purges logs at once if 'binlog retention hours' is not set"
    largest = settings.get("max_binlog_total_size") or settings.get("binlog_space_limit") or "0"
    if largest != "0":
        kept += f", and no more than {_number(largest) >> 20:,} MiB of them"
    logs = logs_of(connection)
    if logs:
        kept += f"; it has {len(logs)}, from {clean_text(logs[0][0])} to {clean_text(logs[-1][0])}"
    purged = []
    if gone := connection.variables(["gtid_purged"]).get("gtid_purged"):
        purged.append(
            Finding(
                "purged",
                "ok",
                f"transactions that can no longer be read: {clean_text(''.join(gone.split()))}",
            )
        )
    if 0 < seconds < _ENOUGH or (managed and not seconds):
        return [
            Finding("retention", "note", f"{kept}: a reader that is away longer loses changes", cure),
            *purged,
        ]
    return [Finding("retention", "ok", kept), *purged]


def _number(text: str | None, times: int = 1) -> int:
    """A setting as a number; 0 if it is not a number or out of range."""
    try:
        return int(min(float(text or 0) * times, 2**63))
    except (ValueError, OverflowError):
        return 0


def _hours_on_rds(connection: Connection) -> int:
    """The value of "binlog retention hours"; 0 if it is not set, or the user may not read it."""
    try:
        rows = connection.query(
            "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'", maybe
        )
    except ServerError:
        return 0
    return _number(rows[0][0]) if rows else 0


def _archive(connection: Connection, settings: dict[str, str], path: str) -> list[Finding]:
    """Whether an archive can continue, and its disk has room for the coming logs."""
    out = []
    there = os.path.abspath(path)
    while not os.path.isdir(there):  # it is made where it is missing
        there = os.path.dirname(there)
    if not os.access(there, os.W_OK | os.X_OK):
        out.append(Finding("archive", "fails", f"{there} cannot be written to", "give the user permission"))
    logs = logs_of(connection) or []
    held: list[str] = []
    if os.path.exists(os.path.join(path, NAME)):
        try:
            held = [unpacked(os.path.basename(file.path)) for file in resolve(path)]
        except BinlogError as error:
            out.append(Finding("archive", "fails", clean_text(error.message)))
    missing = logs
    if settings.get("binlog_storage_engine", "").lower() == "innodb":
        missing = [] if held else logs  # the archive's logs are its own
    elif held and logs:
        last = LogName.of(held[-1])
        at = next((i for i, (name, _) in enumerate(logs) if name == held[-1]), None)
        oldest = LogName.of(logs[0][0])
        if at is not None:
            missing = logs[at:]
        elif last is not None and oldest is not None and oldest.number > last.number + 1:
            found = f"it ends with {held[-1]}, the server's logs begin with {clean_text(logs[0][0])}"
            cure = "accept the gap with archive --start, or start another archive"
            out.append(Finding("archive", "fails", f"{found}: the logs between were purged", cure))
    free, wanted = shutil.disk_usage(there).free, sum(size for _, size in missing)
    most = _number(settings.get("max_binlog_size"))
    found = f"{free >> 20:,} MiB are free, {wanted >> 20:,} MiB of logs are expected"
    if free < wanted + 2 * most:
        out.append(Finding("archive's disk", "fails", found, "a larger disk, --compress zstd, or --keep"))
    else:
        out.append(Finding("archive's disk", "ok", found))
    return out


def _history(facts: Facts, path: str) -> list[Finding]:
    """Whether the server has an archive's transactions, as listed at the head of the archive's last log."""
    try:
        with resolve(path)[-1].open() as source:
            events = islice(events_of(Track(source, Rules(Report(warn=False)))), _HEAD)
            head = next((event for event in events if isinstance(event, _GTID_LISTS)), None)
    except BinlogError:  # reported already, or there is none yet
        return []
    if isinstance(head, PreviousGtidsEvent):
        gtids: AnyGtidSet = head.gtid_set
    elif head is not None:
        gtids = last_of_domains(head.gtids)
    if (
        head is None
        or isinstance(gtids, MariadbGtidSet) != facts.mariadb
        or (missing := lacking(facts, gtids)) is None
    ):
        return []
    found = (
        unknown_sources(facts, gtids)
        or f"the server lacks transactions that it contains, for example {missing}"
    )
    cure = "let the server catch up if it is behind; otherwise it has another history: start another archive"
    return [Finding("archive", "fails", clean_text(found), cure)]


def _cascades(connection: Connection, facts: Facts) -> list[Finding]:
    try:
        tables = tables_changed_unlogged(connection, facts)
    except ServerError:  # a proxy, say, without such a table
        return []
    if not tables:
        return []
    names = ", ".join(clean_text(".".join(table)) for table in tables[:_TOLD])
    names += f" and {len(tables) - _TOLD} more" if len(tables) > _TOLD else ""
    found = f"foreign keys change rows of {names}, and the server does not log these changes"
    cure = "" if facts.mariadb else "MySQL 9.6 or later logs them, without innodb_native_foreign_keys"
    return [Finding("foreign keys", "note", found, cure)]


def _others(settings: dict[str, str], facts: Facts) -> list[Finding]:
    out = []
    if settings.get("binlog_checksum", "CRC32").upper() == "NONE":
        found = "binlog_checksum=NONE: damage in transit is not noticed"
        out.append(Finding("checksums", "note", found, "SET GLOBAL binlog_checksum = CRC32"))
    else:
        out.append(Finding("checksums", "ok", "CRC32"))
    if facts.server_id == 0:
        out.append(Finding("server id", "fails", "server_id=0: it serves no replicas", "set server_id"))
    if settings.get("binlog_storage_engine", "").lower() == "innodb":
        found = (
            "binlog_storage_engine=innodb: the log is read by GTIDs alone; an archive has it in logs of its"
            " own, and a mirror locks the server for a moment before it copies tables"
        )
        cure = 'start from GTIDs, a position with GTIDs, or "now"; a mirror needs the privilege RELOAD'
        out.append(Finding("binary log", "note", found, cure))
    compressed = "ON" in (settings.get("binlog_transaction_compression"), settings.get("log_bin_compress"))
    if settings.get("binlog_transaction_compression") == "ON":
        found = "transactions are compressed by zstd"
        if importlib.util.find_spec("zstandard") is None:
            cure = "pip install 'binlog_core[zstd]'"
            out.append(Finding("compression", "fails", f"{found}, and zstandard is not installed", cure))
        else:
            out.append(Finding("compression", "ok", found))
    elif compressed:
        out.append(Finding("compression", "ok", "events are compressed by zlib"))
    zone = settings.get("time_zone", "SYSTEM")
    zone = settings.get("system_time_zone", zone) if zone == "SYSTEM" else zone
    out.append(
        Finding("time zone", "ok", f"{zone}; TIMESTAMP is UTC in the logs, DATETIME is as it was written")
    )
    updates = settings.get("log_replica_updates", settings.get("log_slave_updates"))
    if updates == "OFF" and settings.get("read_only", "OFF") != "OFF":
        found = "log_slave_updates=OFF on a server that is read_only: what it replicates is not in its logs"
        cure = "read the primary, or set log_slave_updates (log_replica_updates) = ON"
        out.append(Finding("replica", "note", found, cure))
    if settings.get("binlog_backup", "1") in ("0", "OFF"):  # Aurora, with its enhanced binlog
        found = "binlog_backup=0: the server's backups leave its logs out"
        out.append(Finding("backups", "note", found, "keep the logs in an archive: it is the only copy"))
    if settings.get("sync_binlog", "1") != "1":
        found = (
            f"sync_binlog={settings['sync_binlog']}: after a power failure it may lack what was read from it"
        )
        out.append(Finding("durability", "note", found, "SET GLOBAL sync_binlog = 1"))
    return out
