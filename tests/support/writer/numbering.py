"""Differences between servers: checksum support, post-header lengths, event codes of early 5.1."""

from __future__ import annotations

import re

START_V3, QUERY, STOP, ROTATE, INTVAR = 1, 2, 3, 4, 5
RAND, USER_VAR, FORMAT_DESCRIPTION, XID = 13, 14, 15, 16
TABLE_MAP, INCIDENT, IGNORABLE, ROWS_QUERY = 19, 26, 28, 29
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 33, 34, 35
XA_PREPARE, PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD, GTID_TAGGED = 38, 39, 40, 42
MARIADB_ANNOTATE_ROWS, MARIADB_BINLOG_CHECKPOINT, MARIADB_GTID, MARIADB_GTID_LIST = 160, 161, 162, 163
MARIADB_QUERY_COMPRESSED = 165

WRITE, UPDATE, DELETE = 0, 1, 2
ROWS_CODES = {0: 20, 1: 23, 2: 30}  # first of the three, by version of the rows events
MARIADB_COMPRESSED_ROWS = 166

# File numbering of the renumbered 5.1 and 5.2 builds, for today's codes that differ.
RENUMBERED = {19: 16, 20: 17, 21: 18, 22: 19, 16: 20, 17: 21, 18: 22}
_RENUMBERED_SERVERS = re.compile(r"5\.1\.[1-5]-a_drop5|5\.1\.4-a_drop6|5\.2\.[0-2]-a_drop6")


def is_mariadb(server: str) -> bool:
    return "mariadb" in server.lower() or "-maria-" in server


def version_of(server: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)\.?(\d*)", server)
    assert found, server
    return tuple(int(part or 0) for part in found.groups())


def is_renumbered(server: str) -> bool:
    return bool(_RENUMBERED_SERVERS.match(server))


def has_checksums(server: str) -> bool:
    return version_of(server) >= ((5, 3, 0) if is_mariadb(server) else (5, 6, 1))


def post_header_lengths(server: str) -> bytes:
    """The array that a server's FORMAT_DESCRIPTION_EVENT carries: entry i is that of type code i + 1.

    Source: the servers' own descriptors; the array's length follows from the version.
    """
    version = version_of(server)
    lengths = [56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 0, 0, 4, 26]
    if is_renumbered(server):
        lengths += [6 if "a_drop6" in server else 8] * 4
        lengths = [
            lengths[{v: k for k, v in RENUMBERED.items()}.get(code, code) - 1] for code in range(1, 23)
        ]
    elif version >= (5, 1):
        lengths += [8, 0, 0, 0, 8, 8, 8, 2]
        lengths += _mariadb_tail(version) if is_mariadb(server) else _mysql_tail(version, lengths)
    lengths[14] = (57 + len(lengths)) % 256
    return bytes(lengths)


def _mariadb_tail(version: tuple[int, ...]) -> list[int]:
    v2 = 10 if version >= (10, 0) else 0
    partial = 10 if version >= (10, 6) else 0
    tail = [0, 0, 0, v2, v2, v2, 0, 0, 0, 0, 0, 0, partial, partial, partial] + [0] * 118
    if version >= (10, 0):
        tail += [0, 4, 19, 4]
    if version >= (10, 2):
        tail += [0, 13, 8, 8, 8, 10, 10, 10]
    return tail if version >= (10, 0) else [*tail, 0]


def _mysql_tail(version: tuple[int, ...], lengths: list[int]) -> list[int]:
    tail = [0] if version >= (5, 5) else []
    if version >= (5, 6, 1):
        gtid = 42 if version >= (5, 7, 6) else 25
        tail += [0, 0, 10, 10, 10, gtid, gtid, 0]
    if version >= (5, 7, 6):
        tail += [18, 52, 0]
    if version >= (8, 0, 11):
        tail += [10]
        for code in (1, 6, 8, 10, 12):
            lengths[code - 1] = 0
    if version >= (8, 0, 20):
        tail += [40]
    if version >= (8, 0, 28):
        tail += [0]
    if version >= (8, 4):
        tail += [0]
        lengths[22:25] = [0, 0, 0]
    return tail
