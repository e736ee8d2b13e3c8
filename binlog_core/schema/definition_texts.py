"""Table definitions as text: compressed JSON in base64."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import fields, is_dataclass
from typing import Any

from .table_definitions import ColumnSchema, TableSchema, UniqueKey

_LONGEST_TEXT = 256 << 20
# What reading a text of another version, or none of ours, can raise.
NOT_OURS = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError),
    zlib.error,
)


def packed(known: Any) -> str:
    """The text of plain values."""
    return base64.b64encode(zlib.compress(json.dumps(known, separators=(",", ":")).encode())).decode("ascii")


def unpacked(text: str) -> Any:
    """The values that `packed` was given; errors are those of `NOT_OURS`."""
    stored = base64.b64decode(text, validate=True)
    return json.loads(zlib.decompressobj().decompress(stored, _LONGEST_TEXT))


def plain(one: Any) -> dict[str, Any]:
    """The fields of a definition that differ from their defaults."""
    found = {}
    for about in fields(one):
        value = getattr(one, about.name)
        if value != about.default:
            of_definitions = isinstance(value, tuple) and value and is_dataclass(value[0])
            found[about.name] = [plain(each) for each in value] if of_definitions else value
    return found


def table_of(given: dict[str, Any]) -> TableSchema:
    """The definition that `plain` was given; errors are those of `NOT_OURS`."""
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
