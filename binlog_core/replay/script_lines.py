"""The parts of scripts that are not changes: session settings and comments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import numpy as np

from .._base.redaction import shown_statement
from .._decode.group import Aside
from ..gtids import gtid_text

SANDBOX = r"/*M!999999\- enable the sandbox mode */ "  # to MariaDB's client: no commands from here on
_CHARSETS_WITH_BACKSLASHES = "'big5', 'cp932', 'gb18030', 'gbk', 'sjis'"  # in the second byte of a character
# A client that reads its input in such a character set is stopped before anything is changed. Such a client
# reads these scripts correctly, but maybe not a script that was edited, or joined to another.
_PROBE = (
    f"SET @binlog_core_probe = IF(@@character_set_client IN ({_CHARSETS_WITH_BACKSLASHES}),"
    " 'run the client with --default-character-set=utf8mb4', 'DO 0');",
    "PREPARE binlog_core_probe FROM @binlog_core_probe;",
    "EXECUTE binlog_core_probe;",
    "DEALLOCATE PREPARE binlog_core_probe;",
)
# The settings with which the statements write exactly their values: TIMESTAMP in UTC, also zero in
# AUTO_INCREMENT columns and dates that are in no calendar. Foreign keys impose no order on the rows.
SESSION = (
    "SET NAMES utf8mb4;",
    "SET @OLD_TIME_ZONE = @@SESSION.time_zone, @OLD_SQL_MODE = @@SESSION.sql_mode;",
    "SET @OLD_FOREIGN_KEY_CHECKS = @@SESSION.foreign_key_checks;",
    "SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES',"
    " foreign_key_checks = 0;",
)
POSTAMBLE = (
    "SET SESSION time_zone = @OLD_TIME_ZONE, sql_mode = @OLD_SQL_MODE;",
    "SET SESSION foreign_key_checks = @OLD_FOREIGN_KEY_CHECKS;",
)
_MOST_OF_A_STATEMENT = 200  # characters that are shown


def preamble(*, mariadb: bool) -> Iterator[str]:
    """The lines before a script's statements."""
    if mariadb:
        yield SANDBOX
    yield "# For a client with --default-character-set=utf8mb4"
    yield from _PROBE
    yield from SESSION


def comment(text: str) -> str:
    """One line of ASCII that is not executed, whatever a path, a GTID's tag or a statement holds."""
    return "# " + "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in text)


def place_text(path: str, position: int) -> str:
    """A place in a log as --start takes it: mysql-bin.000042:3735."""
    return f"{path.rpartition('/')[2]}:{position}"


def transaction_text(path: str, record: np.void) -> str:
    """Where and when a transaction was, and its GTID, for people."""
    moment = dt.datetime.fromtimestamp(int(record["timestamp"]), dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    gtid = gtid_text(record)
    place = f"{place_text(path, int(record['begin_position']))}, {moment} UTC"
    return f"{place}, GTID {gtid}" if gtid else place


def statement_text(aside: Aside) -> str:
    """A statement for people: without passwords, on one line, at most 200 characters."""
    text = " ".join(shown_statement(aside.text, aside.sql_mode).split())
    if len(text) > _MOST_OF_A_STATEMENT:
        text = text[: _MOST_OF_A_STATEMENT - 1] + "…"
    return f"use {aside.database}; {text}" if aside.database else text
