"""What a logged statement does, judged by its first words: enough to count it or to examine it."""

from __future__ import annotations

import re

# An atomic group, not `*+`: Python before 3.11.5 handles that wrongly if its last repetition fails half-way.
_COMMENT = rb"(?>(?:\s|/\*(?!!|M!).*?\*/|(?:--\s|#)[^\n]*\n|/\*M?!\d*)*)"
# MariaDB logs SET STATEMENT variable = value FOR … as it was given; what it does comes after FOR.
_SETTINGS = rb"""(?>(?i:SET\s+STATEMENT\b(?:'[^']*'|"[^"]*"|[^'"])*?\bFOR\b))"""
_FIRST_WORD = re.compile(rb"%b(?:%b%b)?\(?\s*([A-Za-z]+)" % (_COMMENT, _SETTINGS, _COMMENT), re.DOTALL)
# A SELECT is logged only if a function that it calls has changed rows.
_CHANGES_ROWS = frozenset((b"INSERT", b"UPDATE", b"DELETE", b"REPLACE", b"LOAD", b"WITH", b"CALL", b"SELECT"))
_CHANGES_DEFINITIONS = frozenset((b"CREATE", b"ALTER", b"DROP", b"RENAME", b"TRUNCATE"))


_ABOUT_TRANSACTIONS = re.compile(
    rb"(BEGIN|START\s+TRANSACTION|COMMIT|XA\s+(?:START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)"
    rb"|SAVEPOINT|ROLLBACK\s+TO|ROLLBACK|RELEASE\s+SAVEPOINT)(?![\w$])",
    re.IGNORECASE,
)
_SAVEPOINT = re.compile(
    r"(SAVEPOINT|ROLLBACK\s+TO(?:\s+SAVEPOINT)?|RELEASE\s+SAVEPOINT)\s+(.+)", re.IGNORECASE | re.DOTALL
)
_ASIDES = {
    b"SAVEPOINT": "savepoint",
    b"ROLLBACK TO": "savepoint",
    b"RELEASE SAVEPOINT": "savepoint",
    b"XA START": "xa start",
    b"XA BEGIN": "xa start",
    b"XA PREPARE": "xa prepare",
    b"XA COMMIT": "xa commit",
    b"XA ROLLBACK": "xa rollback",
}


def first_word(statement: bytes) -> bytes:
    """The first word in capitals, after SET STATEMENT … FOR that of the statement; empty if there is none."""
    found = _FIRST_WORD.match(statement[:4096])
    return found[1].upper() if found else b""


def kind_of_aside(statement: bytes) -> str | None:
    """What a statement means for a replay of rows, a `group.Aside`; None if the transactions show it."""
    found = _ABOUT_TRANSACTIONS.match(statement[:4096])
    if found is None:
        return "statement"
    word = b" ".join(found[1].upper().split())
    return _ASIDES.get(word)


def savepoint_of(statement: str) -> tuple[str, str] | None:
    """The verb, in capitals, and the name, in small letters, in a statement about a savepoint.

    None for any other statement. Servers quote the name as the session's settings say at that time.
    """
    found = _SAVEPOINT.fullmatch(statement.strip())
    if found is None:
        return None
    verb, name = found.groups()
    quote = name[0]
    if quote in '`"' and len(name) > 1 and name.endswith(quote):
        name = name[1:-1].replace(2 * quote, quote)
    return " ".join(verb.upper().split()), name.lower()


def changes_rows(statement: bytes) -> bool:
    """Whether the statement changes rows, and the log has it instead of the rows."""
    return first_word(statement) in _CHANGES_ROWS


def may_change_definitions(statement: bytes) -> bool:
    """Whether the statement may change a table's definition."""
    return first_word(statement) in _CHANGES_DEFINITIONS
