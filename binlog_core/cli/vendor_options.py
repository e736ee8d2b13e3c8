"""Options of the vendors' mysqlbinlog that do not exist here: each is answered with what does the same."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

_SERVER = "give the server's address in place of files: mysql://user@host:port"
_PASSWORD = "--ask-password, --password-file, --defaults-file or MYSQL_PWD gives the password"
_TLS = f"{_SERVER}/?ssl_mode=VERIFY_IDENTITY, and there ssl_ca=, ssl_cert= and ssl_key="
_OF_TLS = (
    f"the system's OpenSSL decides that; what can be chosen is in the address: {_TLS.partition('files: ')[2]}"
)
_COMPRESSED = f"{_SERVER}/?compression=zstd"
_DEBUG = "it is for debugging mysqlbinlog itself"
_PLUGINS = "the methods of login are built in, and the server names one"
_SCRIPTS = "binlog-core rows -f sql has it"
_ANSWERS = {
    "--read-from-remote-server": _SERVER,
    "--read-from-remote-source": _SERVER,
    "--read-from-remote-master": _SERVER,
    "-R": _SERVER,
    "--host": _SERVER,
    "--port": _SERVER,
    "-P": _SERVER,
    "--user": _SERVER,
    "-u": _SERVER,
    "--socket": f"{_SERVER}/?socket=PATH",
    "-S": f"{_SERVER}/?socket=PATH",
    "--password": _PASSWORD,
    "--to-last-log": "a server is read to its end; of files, give the directory or the index file",
    "--raw": "binlog-core archive SERVER FOLDER keeps byte-for-byte copies",
    "--stop-never": "binlog-core rows and events --follow wait for more; archive runs until it is stopped",
    "--stop-never-slave-server-id": f"{_SERVER}/?server_id=NUMBER",
    "--connection-server-id": f"{_SERVER}/?server_id=NUMBER",
    "--base64-output": "values are always decoded: binlog-core rows -v shows them",
    "--verbose": "binlog-core rows -v shows the values before and after",
    "-v": "binlog-core rows -v shows the values before and after",
    "-vv": "binlog-core rows -v shows the values before and after",
    "--print-row-count": "binlog-core transactions counts rows",
    "--print-row-event-positions": "each change has its position: binlog-core rows",
    "--print-table-metadata": "binlog-core events --type Table_map shows it",
    "--hexdump": "binlog_core.open(LOG).events() has each event's bytes",
    "-H": "binlog_core.open(LOG).events() has each event's bytes",
    "--skip-gtids": "scripts never set a GTID: what they do gets the server's next one",
    "--idempotent": "scripts stop at a row that is not as logged; undo --check compares rows first",
    "--skip-annotate-row-events": "statements are never in a script: nothing to skip",
    "--force-read": "--on-error skip passes over damaged events",
    "--force-if-open": "a log in use is read as it is",
    "--disable-log-bin": "put SET sql_log_bin = 0; before the script",
    "-D": "put SET sql_log_bin = 0; before the script",
    "--short-form": "binlog-core rows -f sql has the statements alone",
    "--set-charset": "scripts say SET NAMES utf8mb4 themselves",
    "--local-load": "binlog-core events shows LOAD DATA; their files are not written",
    "--ignore-domain-ids": "--exclude-gtids takes sets such as 3-1-1..9",
    "--do-domain-ids": "--include-gtids takes sets of a domain",
    "--ignore-server-ids": "--where '_server_id not in (7, 8)'",
    "--do-server-ids": "--server-id 7,8",
    **dict.fromkeys(("--flashback", "-B"), "binlog-core undo, or rows -f sql --flashback"),
    "--rewrite-db": _SCRIPTS,
    **dict.fromkeys(("--result-file", "-r"), "--output FILE where a command writes files; otherwise > FILE"),
    "--offset": "--start-position or --start says where to begin",
    "-o": "--start-position or --start says where to begin; to a file with > FILE",
    "-i": "scripts stop at a row that is not as logged; undo --check compares rows first",
    "-l": "binlog-core events shows LOAD DATA; their files are not written",
    "-s": "binlog-core rows -f sql has the statements alone",
    "-F": "a log in use is read as it is",
    "-f": "--on-error skip passes over damaged events; JSON comes with --json where a command has it",
    "-T": "--table, or -t",
    **dict.fromkeys(("-V", "--version"), "binlog-core --version"),
    "-?": "--help, or -h",
    **dict.fromkeys(
        ("--verify-binlog-checksum", "-c"), "checksums are verified; --no-verify-checksum turns it off"
    ),
    "--require-row-format": "a change that was logged as a statement is always reported",
    "--gtid-strict-mode": "GTIDs are taken as they are in the log",
    "--binlog-row-event-max-size": "events of any size are read: nothing to set",
    "--open-files-limit": "one log is open at a time: nothing to set",
    "--server-id-bits": "server ids are read with all 32 bits",
    "--character-sets-dir": "character sets are built in",
    "--bind-address": "the system chooses the address to connect from",
    "--protocol": f"{_SERVER} for TCP, mysql://user@localhost/?socket=PATH for a Unix socket",
    "--default-auth": _PLUGINS,
    "--plugin-dir": _PLUGINS,
    "--get-server-public-key": _TLS,
    "--server-public-key-path": f"{_SERVER}/?server_public_key=FILE",
    **dict.fromkeys(
        ("--compress", "-C", "--compression-algorithms", "--zstd-compression-level"), _COMPRESSED
    ),
    **dict.fromkeys(("--debug", "-#", "--debug-check", "--debug-info"), _DEBUG),
    **dict.fromkeys(
        ("--ssl", "--ssl-mode", "--ssl-ca", "--ssl-cert", "--ssl-key", "--ssl-verify-server-cert"), _TLS
    ),
    **dict.fromkeys(
        (
            *("--ssl-capath", "--ssl-cipher", "--ssl-crl", "--ssl-crlpath", "--ssl-fips-mode", "--ssl-fp"),
            *("--ssl-fplist", "--ssl-session-data", "--ssl-session-data-continue-on-failed-reuse"),
            *("--tls-ciphersuites", "--tls-sni-servername", "--tls-version"),
        ),
        _OF_TLS,
    ),
}
_JSON = {"--format": "-f jsonl writes JSON lines", "--json": "--json writes JSON"}
_WRAPPED = re.compile(r"(?<=\S)\n(?=\S)")  # the end of a line in a paragraph of a docstring
_UsageError: Any = typer.BadParameter.__mro__[1]  # of the click that typer brings, whichever that is


class Command(TyperCommand):
    """A command that knows what users of mysqlbinlog look for; paragraphs of its help are wrapped once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.help = _WRAPPED.sub(" ", self.help or "")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an unknown option of mysqlbinlog is answered."""
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            name = getattr(error, "option_name", None)  # of NoSuchOption
            options = {option for one in self.params for option in one.opts}
            for missing, other in (("--json", "--format"), ("--format", "--json")):
                if name == missing and other in options:
                    raise _UsageError(f"no {name} here: {_JSON[other]}", ctx) from None
            if (answer := _ANSWERS.get(name or "")) is None:
                raise
            raise _UsageError(f"{name} is mysqlbinlog's: {answer}", ctx) from None
