"""``schema=ddl``: table definitions as text, for what has to go on from them later."""

from __future__ import annotations

from collections import deque
from operator import is_

from ...errors import BinlogError
from ...schema.ddl import DdlTracker
from ...schema.definition_texts import NOT_OURS, packed, plain, table_of, unpacked
from ...schema.table_definitions import TableSchema

# The last texts, and what they say: a mirror's rounds ask for the same ones again and again.
_written: deque[tuple[str, tuple[TableSchema, ...], DdlTracker]] = deque(maxlen=4)


def to_text(tracker: DdlTracker) -> str:
    """What a tracker knows as compressed JSON in base64; the same text for the same definitions."""
    tables = tuple(sorted(tracker, key=lambda table: (table.database, table.name)))
    charsets = dict(sorted(tracker.database_charsets.items()))
    for text, same, known_by in [*_written]:  # most often no definition has changed
        if (
            len(same) == len(tables)
            and all(map(is_, same, tables))
            and known_by.database_charsets == charsets
        ):
            return text
    text = packed({"tables": [plain(table) for table in tables], "charsets": charsets})
    _written.append((text, tables, DdlTracker(tables, database_charsets=charsets)))
    return text


def from_text(text: str, *, lower_case: bool | None = None) -> DdlTracker:
    """The tracker that `to_text` was given; `lower_case`: see `DdlTracker`.

    Raises
    ------
    BinlogError
        The text is not one of this version.
    """
    for same, _, tracker in [*_written]:
        if same == text:
            return tracker.copied(lower_case=lower_case)
    try:
        known = unpacked(text)
        tables = tuple(map(table_of, known["tables"]))
        tracker = DdlTracker(tables, database_charsets=known["charsets"])
        _written.append((text, tables, tracker))
        return tracker.copied(lower_case=lower_case)
    except NOT_OURS as error:
        raise BinlogError("the offset's definitions cannot be read: another version wrote them") from error
