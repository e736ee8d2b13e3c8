"""Values of rows as JSON and CSV; the same texts in both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._base.change_columns import DELETE, INSERT, POSTIMAGE, PREIMAGE
from .._base.json_text import encode_plain as _encode
from .._base.json_text import plain
from .._core._values import RowReader, row_texts
from ..batch.change_batch import ChangeBatch
from ..gtids import gtid_text

if TYPE_CHECKING:
    from .._decode.group import Group


def json_line(record: dict[str, Any]) -> bytes:
    """One object on one line; types that JSON does not have are converted by `plain`."""
    return _encode(record) + b"\n"


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
        return _encode(value).decode().strip('"')
    text = value if isinstance(value, str) else _encode(value).decode()
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


def json_lines(group: Group, readers: list[tuple[ChangeBatch, RowReader]]) -> bytes:
    """The changes of a group in log order, one object on one line each."""
    lines: list[bytes] = []
    places: list[NDArray[np.void]] = []
    path = _encode(group.path)
    for batch, reader in readers:
        labels = [_encode(column.name) + b": " for column in batch.columns]
        images = row_texts(reader, "json", labels, b", ", _encode, gaps=False)
        image = batch.array["image"]
        chosen = image[image["op"] != POSTIMAGE]
        table = b'"database": %b, "table": %b' % (_encode(batch.table.database), _encode(batch.table.name))
        beginnings = {op: b'{"op": "%b", %b, "before": ' % (name, table) for op, name in _OPS.items()}
        endings = [
            b', "gtid": %b, "file": %b, "position": ' % (_encode(gtid_text(one)), path)
            for one in batch.transactions
        ]
        each = iter(images)
        for op, timestamp, position, transaction in zip(
            chosen["op"].tolist(),
            chosen["timestamp"].tolist(),
            chosen["position"].tolist(),
            chosen["transaction"].tolist(),
            strict=True,
        ):
            before = b"null" if op == INSERT else b"{%b}" % next(each)
            after = b"null" if op == DELETE else b"{%b}" % next(each)
            lines.append(
                b'%b%b, "after": %b, "timestamp": %d%b%d}\n'
                % (beginnings[op], before, after, timestamp, endings[transaction], position)
            )
        places.append(chosen)
    if len(places) > 1:
        position = np.concatenate([chosen["position"] for chosen in places])
        row = np.concatenate([chosen["row"] for chosen in places])
        lines = [lines[i] for i in np.lexsort((row, position)).tolist()]
    return b"".join(lines)


_OPS = {INSERT: b"insert", PREIMAGE: b"update", DELETE: b"delete"}
