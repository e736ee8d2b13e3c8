"""Names that the user gave: which of them a pass found, and suggestions for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..errors import ConditionError
    from .tables import Table

_MOST_TOLD = 8
_MOST_KEPT = 10_000  # names of tables, to find near ones among


@dataclass(slots=True, eq=False, repr=False)
class NamesMet:
    """Which of the given names a pass has found.

    Attributes
    ----------
    tables : set of str
        Full names of tables, the first 10,000.
    patterns : set of str
        Patterns of ``tables=`` and ``exclude_tables=`` that matched a table.
    columns : dict of str to set of str
        For each pattern of ``columns=`` that matched a table, the columns that its definitions had.
    gtids : bool
        Whether any transaction was in ``gtids=``.
    fitting : dict of str to Table
        By full name, tables that the condition (``where=``) fits, the first 10,000 of them.
    unfitting : dict of str to ConditionError
        By full name, what a definition of a table lacks for the condition.
    rows : bool
        Whether there were row changes.
    left_out : bool
        Whether an index let parts be skipped without saying which tables they have: a name that was not found
        may be there.
    undefined : dict of str to list of str or None
        Keys of ``schema=`` that no table had, with the existing tables; None: not checked.
    last : bool
        Whether this is the last file: names that were not found are then reported.
    """

    tables: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    columns: dict[str, set[str]] = field(default_factory=dict)
    gtids: bool = False
    fitting: dict[str, Table] = field(default_factory=dict)
    unfitting: dict[str, ConditionError] = field(default_factory=dict)
    rows: bool = False
    left_out: bool = False
    undefined: dict[str, Collection[str]] | None = None
    last: bool = True

    def table(self, name: str) -> None:
        """Note a table."""
        if len(self.tables) < _MOST_KEPT:
            self.tables.add(name)

    def fits(self, table: Table) -> None:
        """Note that the condition fits this table."""
        if len(self.fitting) < _MOST_KEPT:
            self.fitting[table.full_name] = table

    def unfit(self, name: str, error: ConditionError) -> None:
        """Note that the condition does not fit a table."""
        if name not in self.unfitting and len(self.unfitting) >= _MOST_KEPT:
            return
        if name not in self.unfitting or error.column is not None:  # an error about a type, which says more
            self.unfitting[name] = error

    def taken(self) -> NamesMet:
        """What was found since the last call; `add` takes it."""
        out = replace(self)
        self.tables, self.patterns, self.columns = set(), set(), {}
        self.gtids, self.fitting, self.unfitting = False, {}, {}
        return out

    def add(self, other: NamesMet) -> None:
        """Add what another decoder of the pass found."""
        for name in other.tables:
            self.table(name)
        self.patterns |= other.patterns
        for pattern, columns in other.columns.items():
            self.columns.setdefault(pattern, set()).update(columns)
        self.gtids |= other.gtids
        self.left_out |= other.left_out
        for table in other.fitting.values():
            self.fits(table)
        for name, error in other.unfitting.items():
            self.unfit(name, error)


def near(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """The known names similar to an unknown one, as the end of a message; without any, the first known names.

    Parameters
    ----------
    name : str
    known : iterable of str
        A name without a dot is also compared with the part after the last dot.
    most : int
        Maximum number of similar names.
    """
    names = sorted(known)
    if not names:
        return ""
    found = near_names(name, names, most=most)
    if found:
        return f"; near: {', '.join(found)}"
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"; known: {', '.join(names[:_MOST_TOLD])}{more}"


def near_names(name: str, known: Collection[str], *, most: int = 3) -> list[str]:
    """The known names that a name may have been meant for, the nearest first; case does not matter."""
    import difflib

    by_text = {full.lower(): full for full in known}
    if "." not in name:
        by_text.update((full.rpartition(".")[2].lower(), full) for full in known)
    close = difflib.get_close_matches(name.lower(), by_text, n=most, cutoff=0.5)
    return list(dict.fromkeys(by_text[text] for text in close))
