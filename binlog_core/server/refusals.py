"""A server's refusals as errors of binlog_core, with how to solve them.

Replication has one error number for nearly everything, 1236; only the text shows which error it is.

Source: MySQL server, sql/rpl_binlog_sender.cc, sql/share/messages_to_error_log.txt; MariaDB, sql/sql_repl.cc.
"""

from __future__ import annotations

from ..errors import (
    AuthenticationError,
    DivergedError,
    IdentityError,
    PositionError,
    PrivilegeError,
    PurgedError,
    ServerError,
)

_LONGEST_TEXT = 600

_NOT_LET_IN = "check user, password and host; the password comes from the address, a file or MYSQL_PWD"
_OTHER_PLUGIN = (
    "the user's authentication plugin is not supported on both sides: ALTER USER … IDENTIFIED WITH …"
)
_EXPIRED = "the user's password has expired: ALTER USER … IDENTIFIED BY …"
_AUTHENTICATION = {
    1045: _NOT_LET_IN,
    1130: "the user may not connect from this host: CREATE USER user@'host', or user@'%'",
    1251: _OTHER_PLUGIN,
    1275: _OTHER_PLUGIN,
    1524: _OTHER_PLUGIN,
    1698: _NOT_LET_IN,
    1820: _EXPIRED,
    1862: _EXPIRED,
    2049: _OTHER_PLUGIN,
    2059: _OTHER_PLUGIN,
    2061: _OTHER_PLUGIN,
    3118: "the account is locked: ALTER USER … ACCOUNT UNLOCK",
    3159: "the server requires TLS: ssl_mode=REQUIRED, or VERIFY_IDENTITY with ssl_ca=",
    4151: "the account is locked: ALTER USER … ACCOUNT UNLOCK",
}
_PRIVILEGE = frozenset((1044, 1142, 1143, 1227, 1370))
_ACCESS_DENIED = 1045
_IDENTITY = frozenset((4052,))
_MALFORMED_LIST = 1941
_READ_ERROR = 1236
_SHUTTING_DOWN = frozenset((1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 3169))

_COPY_AGAIN = "the server has purged transactions that are needed: read an archive, or copy the data again"
COPY_AGAIN = "copy the data again, and start from a position of this server"
_NOT_ITS_OWN = (
    "the position has transactions that this server never had: it was restored, or has another history;"
    f" {COPY_AGAIN}"
)
_SAME_ID = "another replica has the same server id or UUID: give each its own server_id"
NO_EVENT = "no event begins at this position: start from one given by a group, an archive or the server"
_NO_LOG = "the server has purged this log, or never had it: start from a position that it still has"
_NEXT_GONE = (
    "the next log is missing: the server was reset, or its logs were removed; read an archive,"
    " or copy the data again"
)
_NO_GTIDS = "the server has no GTIDs (gtid_mode is not ON): start from a file and position"

# For error 1236: words of its text, the class of the error, how to solve it. The first that matches counts.
_READ_ERRORS: tuple[tuple[str, type[ServerError], str], ...] = (
    ("could not find first log file name", PurgedError, _NO_LOG),
    ("could not find next log", PurgedError, _NEXT_GONE),
    ("purged", PurgedError, _COPY_AGAIN),
    ("could not find gtid state", PurgedError, _COPY_AGAIN),
    ("has more gtids than", DivergedError, _NOT_ITS_OWN),
    ("which is not in the master's binlog", DivergedError, _NOT_ITS_OWN),
    ("diverge", DivergedError, _NOT_ITS_OWN),
    ("same server_uuid", IdentityError, _SAME_ID),
    ("same server_id", IdentityError, _SAME_ID),
    ("gtid_mode", ServerError, _NO_GTIDS),
    ("replication events with the checksum", ServerError, "the checksum was not agreed on"),
    ("impossible position", PositionError, NO_EVENT),
    ("> file size", PositionError, NO_EVENT),
    ("position < 4", PositionError, NO_EVENT),
    ("truncated in the middle of event", PositionError, NO_EVENT),
    ("bogus data", PositionError, NO_EVENT),
    ("crc", PositionError, NO_EVENT),
    ("max_allowed_packet", PositionError, NO_EVENT),
    ("event read from", PositionError, NO_EVENT),
)


# Their texts name users, hosts, logs, tables, settings and GTIDs. Others may quote values of rows.
_WITHOUT_VALUES = (
    frozenset((_READ_ERROR, _MALFORMED_LIST, 1040, 1042, 1043, 1049, 1129, 1146, 1193, 1203, 1205, 1213))
    | frozenset((1220, 1226, 1290, 1373, 1381, 1792, 1836, 1969, 3024))
    | _AUTHENTICATION.keys()
    | _PRIVILEGE
    | _IDENTITY
    | _SHUTTING_DOWN
)


def clean_text(text: str) -> str:
    """A server's words without control characters, and not longer than an error needs."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:_LONGEST_TEXT])
    return shown + "..." if len(text) > _LONGEST_TEXT else shown


def refusal(
    code: int,
    text: str,
    sqlstate: str | None = None,
    *,
    path: str | None = None,
    offset: int | None = None,
    right: str = "REPLICATION SLAVE",
    logged_in: bool = True,
    texts: bool = False,
) -> ServerError:
    """The error for a refusal by a server.

    Parameters
    ----------
    code : int
        The server's error number.
    text : str
        The server's message.
    sqlstate : str or None
        The server's SQLSTATE.
    path, offset
        The log and the position that were asked for, or the server's address.
    right : str
        The privilege that the user needs for this.
    logged_in : bool
        Whether the user is logged in, so that what is denied is not the login.
    texts : bool
        Add the server's message as a note where it may hold values, which is why the error does not have it.
    """
    number = f"error {code}, SQLSTATE {clean_text(sqlstate)}" if sqlstate else f"error {code}"
    shown = code in _WITHOUT_VALUES
    said = f"the server says: {clean_text(text)} ({number})" if shown else f"the server refuses ({number})"
    kind, cure = ServerError, ""
    if code in _PRIVILEGE or (logged_in and code == _ACCESS_DENIED):
        kind, cure = PrivilegeError, f"the user needs the privilege {right}: GRANT {right} ON *.* TO the user"
    elif code in _AUTHENTICATION:
        kind, cure = AuthenticationError, _AUTHENTICATION[code]
    elif code in _IDENTITY:
        kind, cure = IdentityError, _SAME_ID
    elif code == _MALFORMED_LIST:
        kind, cure = PositionError, "the GTIDs of start= are not a position of this server"
    elif code == _READ_ERROR:
        lower = text.lower()
        for words, found, why in _READ_ERRORS:
            if words in lower:
                kind, cure = found, why
                break
    error = kind(f"{said}: {cure}" if cure else said, code=code, sqlstate=sqlstate, path=path, offset=offset)
    if texts and not shown:
        error.add_note(f"the server says: {clean_text(text)}")
    return error


def is_passing(code: int) -> bool:
    """Whether an error only says that the server or the connection is going down: it is worth another try."""
    return code in _SHUTTING_DOWN
