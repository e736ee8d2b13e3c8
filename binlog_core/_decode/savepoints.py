"""Which rows a transaction itself undid, by ROLLBACK TO a savepoint.

A server that logs ROLLBACK TO has logged the savepoint before. A savepoint that was set before the
transaction's first change is not logged, but then going back to it is logged as ROLLBACK, and what follows as
another transaction. So a savepoint that was not read was set before the part that was read.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from .._format.statements import savepoint_of


class RowPlace(NamedTuple):
    """Before the row with this number in the event at this position."""

    position: int
    row: int


class Savepoints:
    """Follows the savepoints of one transaction.

    Parameters
    ----------
    begin : int
        Position of its first event, or of the first one that is read.

    Attributes
    ----------
    undone : list of (RowPlace, RowPlace)
        What was undone so far, in log order: from the first place up to the second. No two have a row in
        common.
    """

    def __init__(self, begin: int) -> None:
        self._begin = RowPlace(begin, 0)
        self._places: dict[str, RowPlace] = {}  # of those that were set, by name
        self.undone: list[tuple[RowPlace, RowPlace]] = []

    def note(self, statement: str, place: RowPlace) -> tuple[str, str | None] | None:
        """Take the next statement of the transaction.

        Parameters
        ----------
        statement : str
            Its text.
        place : RowPlace
            Where it is: after the rows before it.

        Returns
        -------
        tuple of (str, str or None), or None
            Of a statement about a savepoint, its verb in capitals, and the name under which the savepoint was
            set, in small letters; None for one that was not read. None for any other statement.
        """
        found = savepoint_of(statement)
        if found is None:
            return None
        verb, name = found
        if verb == "SAVEPOINT":
            self._places[name] = place
            return verb, name
        known = self._name_when_set(name)
        if verb.startswith("ROLLBACK"):
            first = self._begin if known is None else self._places[known]
            while self.undone and self.undone[-1][0] >= first:
                self.undone.pop()
            self.undone.append((first, place))
        return verb, known

    def _name_when_set(self, name: str) -> str | None:
        """MySQL, and MariaDB before 11.5, take a savepoint `é` for `e`; later MariaDB can have both."""
        if name in self._places:
            return name
        plain = _without_accents(name)
        return next((other for other in self._places if _without_accents(other) == plain), None)


def _without_accents(name: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", name) if not unicodedata.combining(one))
