"""Row changes for people: values before and after, in color on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.text import Text

from .._base.json_text import plain
from .._tables.full_names import full_name
from ..inspect.history import changed_values
from .output import moment, printable

if TYPE_CHECKING:
    from .._core._values import RowChange

_STYLES = {"insert": "green", "update": "yellow", "delete": "red"}
_MOST = 200  # characters of a value


def change_lines(change: RowChange, *more: str) -> Iterator[Text]:
    """A change: one line about it, then one for each column that it set.

    Parameters
    ----------
    change : RowChange
    *more : str
        What else is known about it.
    """
    head = Text(f"{change.op:<6} ", style=f"bold {_STYLES[change.op]}")
    seconds = change.timestamp if change.commit_time is None else change.commit_time / 1e6
    told = [full_name(change.database, change.table), moment(seconds), change.gtid or "", *more]
    place = f"{(change.path or '').rpartition('/')[2]}:{change.position}"
    head.append(printable("  ".join(filter(None, (*told, place)))), style="default")
    yield head
    changed = changed_values(change)
    # An update without the key would not show which row it changes: unchanged columns come first.
    image = change.before or {} if change.op == "update" else {}
    for name, value in image.items():
        if name not in changed:
            yield _line(name, Text(value_text(value), style="dim"))
    for name, (old, new) in changed.items():
        if change.op == "insert":
            shown = Text(value_text(new), style="green")
        elif change.op == "delete":
            shown = Text(value_text(old), style="red")
        else:
            was = value_text(old) if name in (change.before or {}) else "?"
            shown = Text.assemble((was, "red"), " → ", (value_text(new), "green"))
        yield _line(name, shown)


def _line(name: str, value: Text) -> Text:
    return Text.assemble("  ", (printable(name), "cyan"), ": ", value)


def value_text(value: Any) -> str:
    """A value on one line; a long one is cut."""
    if value is None:
        return "NULL"
    if isinstance(value, Decimal):
        return f"{value:f}"
    value = plain(value)
    if isinstance(value, dict) and set(value) == {"hex"}:
        text = f"0x{value['hex']}"
    elif isinstance(value, str):
        text = f"'{printable(value)}'"
    else:
        text = printable(str(value))
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
