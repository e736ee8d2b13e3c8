"""Values of rows as JSON and CSV; the same texts in both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.change_columns import POSTIMAGE
from .._base.json_text import encode_plain, plain
from .._core._values import JsonTexts, RowReader
from ..batch.change_batch import ChangeBatch

if TYPE_CHECKING:
    from .._decode.group import Group


def json_line(record: dict[str, Any]) -> bytes:
    """One object on one line; types that JSON does not have are converted by `plain`."""
    return encode_plain(record) + b"\n"


def csv_line(values: Iterable[Any]) -> bytes:
    """One line of CSV: NULL is an empty field, empty text is two quotes."""
    return ",".join(map(csv_field, values)).encode("utf-8", "backslashreplace") + b"\n"


def csv_field(value: Any) -> str:
    """One field of CSV; lists and JSON-like values as JSON."""
    if value is None:
        return ""
    value = plain(value)
    if isinstance(value, dict):  # bytes
        value = value["hex"]
    if isinstance(value, float):
        return encode_plain(value).decode().strip('"')
    text = value if isinstance(value, str) else encode_plain(value).decode()
    if text and not any(c in text for c in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


# ---------------------------------------------------------------- whole columns

_CSV_AS_IT_IS = re.compile(r'[^\s,"](?>(?:[^,"\r\n]*[^\s,"])?)').fullmatch


def csv_values(values: Iterable[Any]) -> list[str]:
    """Fields of CSV."""
    return [
        value if isinstance(value, str) and _CSV_AS_IT_IS(value) else csv_field(value) for value in values
    ]


def json_lines(texts: JsonTexts, group: Group, readers: list[tuple[ChangeBatch, RowReader]]) -> bytes:
    """The changes of a group in log order, one object on one line each; `texts` is used anew."""
    texts.clear()
    path = encode_plain(group.path)
    for _, reader in readers:
        texts.add_changes(reader, path)
    if len(readers) < 2:
        return texts.joined()
    images = [batch.array["image"] for batch, _ in readers]
    begins = [image["op"] != POSTIMAGE for image in images]
    position, row = (
        np.concatenate([image[name][begin] for image, begin in zip(images, begins, strict=True)])
        for name in ("position", "row")
    )
    return texts.joined(np.lexsort((row, position)))
