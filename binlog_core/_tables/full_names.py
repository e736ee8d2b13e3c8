"""``database.table`` as one text, and the two names in it again."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_QUOTED = "`((?:[^`]|``)+)`"
_FULL = rf"(?:{_QUOTED}|([^.]*))\.(?:{_QUOTED}|(.*))"


def full_name(database: str, table: str) -> str:
    """``database.table``; a name with a dot in it is in backquotes, so that full names are unique."""
    return f"{quoted_with_dot(database)}.{quoted_with_dot(table)}"


def split_name(name: str) -> tuple[str, str]:
    """Database and table of a full name; without quotes, it is divided at the first dot."""
    found = re.fullmatch(_FULL, name, re.DOTALL)
    if found is None:
        return name, ""
    return _plain(found[1], found[2]), _plain(found[3], found[4])


def canonical_name(name: str) -> str:
    """A name that a user wrote, as `full_name` writes it, whatever parts of it are in backquotes.

    A table's name alone loses its backquotes, unless it has a dot.
    """
    if (own := re.fullmatch(_QUOTED, name, re.DOTALL)) is not None:
        return name if "." in own[1] else _plain(own[1], "")
    return full_name(*split_name(name)) if "`" in name and has_database(name) else name


def has_database(name: str) -> bool:
    """Whether a name or pattern has a database; a dot within backquotes is a name's."""
    return "." in name and re.fullmatch(_QUOTED, name, re.DOTALL) is None


def own_name(name: str) -> str:
    """The table of a full name."""
    return split_name(name)[1]


def matches_names(database: str, table: str, pattern: str) -> bool:
    """Whether a pattern of ``database.table``, or of a table alone, fits; dots in backquotes are a name's."""
    if "`" in pattern:
        own = re.fullmatch(_QUOTED, pattern, re.DOTALL)
        full = re.fullmatch(_FULL, pattern, re.DOTALL)
        if own is not None:
            return fnmatchcase(table, _plain(own[1], ""))
        if full is not None and (full[1] or full[3]):
            own_pattern, of_table = _plain(full[1], full[2]), _plain(full[3], full[4])
            return fnmatchcase(database, own_pattern) and fnmatchcase(table, of_table)
    if "." not in pattern:
        return fnmatchcase(table, pattern)
    if "." not in database:  # otherwise the middle dot is one of several
        return fnmatchcase(f"{database}.{table}", pattern)
    parts = pattern.split(".")
    return any(
        fnmatchcase(database, ".".join(parts[:i])) and fnmatchcase(table, ".".join(parts[i:]))
        for i in range(1, len(parts))
    )


def quoted_with_dot(name: str) -> str:
    """One of the two names, in backquotes if they are needed in a full name."""
    return "`" + name.replace("`", "``") + "`" if "." in name or name.startswith("`") else name


def _plain(quoted: str | None, plain: str) -> str:
    return plain if quoted is None else quoted.replace("``", "`")
