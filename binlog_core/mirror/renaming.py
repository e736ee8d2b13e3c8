"""Names that tables have in the lake in place of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._tables.full_names import split_name

Names = tuple[str, str]  # of a database and a table


def check_renames(rename: Mapping[str, str]) -> None:
    """Check that names and patterns can be followed.

    Raises
    ------
    ValueError
        One is not ``database.table``, or has a ``*`` in the new name that the old one lacks.
    """
    for old, new in rename.items():
        for before, after in zip(split_name(old), split_name(new), strict=True):
            if not before or not after:
                raise ValueError(f"rename={old!r}: {new!r}: expected database.table for both")
            if before.count("*") > 1 or after.count("*") > before.count("*"):
                raise ValueError(
                    f"rename={old!r}: {new!r}: expected at most one * on each side of the dot, and one in the"
                    " new name only where the old name has one"
                )


def renamed(database: str, table: str, rename: Mapping[str, str]) -> Names:
    """The names of database and table in the lake, by the first of `rename` that matches.

    Parameters
    ----------
    database, table : str
        Their names on the server.
    rename : mapping of str to str
        New names by old ones, as ``database.table``. A ``*`` stands for any text, the same on both sides.
    """
    for old, new in rename.items():
        found = [
            _replaced(name, before, after)
            for name, before, after in zip((database, table), split_name(old), split_name(new), strict=True)
        ]
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    return database, table


def _replaced(name: str, before: str, after: str) -> str | None:
    found = re.fullmatch("(.*)".join(map(re.escape, before.split("*"))), name, re.DOTALL)
    if found is None:
        return None
    return after.replace("*", found[1]) if "*" in before else after
