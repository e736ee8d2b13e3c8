"""Changes of a table whose columns have names that this package might use itself."""

from __future__ import annotations

from typing import Any

NAMES = (
    *("id", "a", "__lacks_a", "__base0", "__base", "__deletes", "__lacks", "__there", "__own1", "__op"),
    *("a lacks", "base 0", "deletes", "lacks", "own 1"),
)


def partial_images() -> tuple[list[Any], dict[str, Any]]:
    """Batches with an insert and then, for each column, a partial update of it; and the row at the end."""
    import pyarrow as pa

    row = dict.fromkeys(NAMES, 1)
    types: dict[str, Any] = dict.fromkeys(NAMES, pa.int32())
    types |= {"_change_type": pa.string(), "_commit_version": pa.int64(), "_change_ordinal": pa.int64()}
    types["_absent"] = pa.list_(pa.string())

    def image(kind: str, version: int, ordinal: int, values: dict[str, int]) -> dict[str, Any]:
        absent = [name for name in NAMES if name not in values] or None
        place = {"_commit_version": version, "_change_ordinal": ordinal, "_absent": absent}
        return {**dict.fromkeys(NAMES), **values, "_change_type": kind, **place}

    batches = [[image("insert", 1, 0, row)]]
    for version, name in enumerate(NAMES[1:], start=2):
        row = {**row, name: 10 * version}
        before = image("update_preimage", version, 0, {"id": 1})
        batches.append([before, image("update_postimage", version, 1, {name: 10 * version})])
    return [pa.Table.from_pylist(one, pa.schema(list(types.items()))) for one in batches], row
