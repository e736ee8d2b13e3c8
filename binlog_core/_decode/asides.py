"""What a log has besides rows, for replaying it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .._format.event_header import LENGTH_AT, SERVER_ID_AT, THREAD_SPECIFIC_FLAG
from .group import Aside

if TYPE_CHECKING:
    from .._core._rows import Decoder
    from ..events import QueryEvent
    from .selection import Selection

_MOST = 4096  # of a group
STATEMENT_BYTES = 4096  # that are kept


class Asides:
    """Gathers asides up to the next group, if they are wanted.

    Parameters
    ----------
    loop : Decoder
    selection : Selection
    """

    def __init__(self, loop: Decoder, selection: Selection) -> None:
        self.wanted = selection.asides  # kinds
        self._where = selection.where
        self._loop = loop
        self._found: list[Aside] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def many(self) -> bool:
        """Whether there are so many that they form their own group."""
        return len(self._found) >= _MOST

    def note(
        self, kind: str, text: str = "", database: str = "", sql_mode: int = 0, *, of_session: bool = False
    ) -> None:
        """Note something about the current event."""
        loop = self._loop
        if kind in self.wanted and loop.is_selected:
            place = int(loop.event_position), int(loop.row_in_event)
            transaction = int(loop.transaction_position)
            self._found.append(Aside(kind, *place, text, database, transaction, sql_mode, of_session))

    def note_statement(self, statement: bytes, database: bytes, whole: Callable[[], QueryEvent]) -> None:
        """Note the current statement, unless its rows say the same, or its session is left out.

        `whole` makes the event. That takes long, so only if its session decides how the text is read. What is
        about a savepoint or XA is written by the server itself, in UTF-8.
        """
        if not self.wanted:
            return
        from .._format.statements import kind_of_aside

        if (kind := kind_of_aside(statement)) is None or kind not in self.wanted:
            return
        if kind == "statement" and not self._may_concern():
            return
        statement, sql_mode = statement[:STATEMENT_BYTES], 0
        if kind == "statement" and (not statement.isascii() or b'"' in statement or b"\\" in statement):
            event = whole()
            sql_mode = event.status.sql_mode or 0
            statement = event.query.encode("utf-8", "surrogateescape")[:STATEMENT_BYTES]
        text = statement.decode("utf-8", "replace")
        of_session = bool(self._loop.event_flags & THREAD_SPECIFIC_FLAG)
        self.note(kind, text, database.decode("utf-8", "replace"), sql_mode, of_session=of_session)

    def _may_concern(self) -> bool:
        if self._where is None:
            return True
        from ..conditions.bound import may_concern
        from ..conditions.language import (
            Condition,  # which only a condition needs, and which is slow to import
        )

        if not isinstance(self._where, Condition):
            return True
        server_id, thread_id = self._loop.event_bytes()[SERVER_ID_AT:LENGTH_AT], self._loop.event_body()[:4]
        server, thread = (int.from_bytes(each, "little") for each in (server_id, thread_id))
        return may_concern(self._where, server, thread)

    def lose(self, position: int, text: str, row: int = 0) -> None:
        """Note that rows logged there are not returned."""
        if "lost" in self.wanted:
            self._found.append(Aside("lost", position, row, text, "", position))

    def take(self, end_position: int) -> list[Aside]:
        """Take those before a position, and drop the others."""
        found, self._found = self._found, []
        return [one for one in found if one.position < end_position]
