"""``schema=ddl``: table definitions as text, for what has to go on from them later."""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any

from ...errors import BinlogError
from ...schema.ddl import DdlTracker
from ...schema.table_definitions import ColumnSchema, TableSchema, UniqueKey

_LONGEST_TEXT = 256 << 20
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
    known = {"tables": [_plain(table) for table in tables], "charsets": charsets}
    packed = zlib.compress(json.dumps(known, separators=(",", ":")).encode())
    text = base64.b64encode(packed).decode("ascii")
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
        unpacking = zlib.decompressobj()
        known = json.loads(unpacking.decompress(base64.b64decode(text, validate=True), _LONGEST_TEXT))
        tables = tuple(map(_table, known["tables"]))
        tracker = DdlTracker(tables, database_charsets=known["charsets"])
        _written.append((text, tables, tracker))
        return tracker.copied(lower_case=lower_case)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise BinlogError("the offset's definitions cannot be read: another version wrote them") from error


def _plain(one: Any) -> dict[str, Any]:
    """The fields of a definition that differ from their defaults."""
    found = {}
    for about in fields(one):
        value = getattr(one, about.name)
        if value != about.default:
            of_definitions = isinstance(value, tuple) and value and is_dataclass(value[0])
            found[about.name] = [_plain(each) for each in value] if of_definitions else value
    return found


def _table(given: dict[str, Any]) -> TableSchema:
    columns = tuple(
        ColumnSchema(**{name: _tuple(value) for name, value in column.items()}) for column in given["columns"]
    )
    unique = tuple(
        UniqueKey(**{name: _tuple(value) for name, value in key.items()})
        for key in given.get("unique_keys", ())
    )
    rest = {name: _tuple(value) for name, value in given.items()}
    return TableSchema(**{**rest, "columns": columns, "unique_keys": unique})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
