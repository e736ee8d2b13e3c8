"""Arrow types of columns: format strings and extension types, by hand from Arrow's documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.batches import column

from binlog_core._tables.column_types import Kind
from binlog_core.batch.arrow_types import ArrowField, ChangeColumn, arrow_field, arrow_fields, struct_field

pytestmark = pytest.mark.sanitize

EXTENSION = "ARROW:extension:name"


@pytest.mark.parametrize(
    ("kind", "attributes", "format_"),
    [
        (Kind.NULL, {}, "n"),
        (Kind.INT, {"bytes_": 1}, "c"),
        (Kind.INT, {"bytes_": 1, "signed": False}, "C"),
        (Kind.INT, {"bytes_": 2}, "s"),
        (Kind.INT, {"bytes_": 3}, "i"),  # Arrow has no integers of three bytes
        (Kind.INT, {"bytes_": 4, "signed": False}, "I"),
        (Kind.INT, {"bytes_": 8}, "l"),
        (Kind.INT, {"bytes_": 8, "signed": False}, "L"),
        (Kind.BIT, {"length": 1}, "C"),
        (Kind.BIT, {"length": 17}, "I"),
        (Kind.BIT, {"length": 64}, "L"),
        (Kind.YEAR, {}, "S"),
        (Kind.FLOAT, {}, "f"),
        (Kind.DOUBLE, {}, "g"),
        (Kind.DECIMAL, {"precision": 10, "scale": 2}, "d:10,2"),
        (Kind.DECIMAL, {"precision": 38, "scale": 0}, "d:38,0"),
        (Kind.DECIMAL, {"precision": 39, "scale": 30}, "d:39,30,256"),
        (Kind.DATE, {}, "tdD"),
        (Kind.DATETIME, {"fsp": 3}, "tsu:"),
        (Kind.TIMESTAMP, {}, "tsu:UTC"),
        (Kind.TIME, {}, "tDu"),  # of up to 838 hours and either sign: a duration
        (Kind.TEXT, {}, "u"),
        (Kind.BINARY, {}, "z"),
    ],
)
def test_formats(kind: Kind, attributes: dict[str, Any], format_: str) -> None:
    assert arrow_field(column("a", kind, **attributes)) == ArrowField("a", format_)


def test_extension_types() -> None:
    uuid = arrow_field(column("a", Kind.BINARY, declared_type="uuid"))
    assert (uuid.format, dict(uuid.metadata)[EXTENSION]) == ("w:16", "arrow.uuid")
    document = arrow_field(column("a", Kind.JSON))
    assert (document.format, dict(document.metadata)[EXTENSION]) == ("u", "arrow.json")
    assert (document.as_binary().format, document.as_binary().metadata) == ("z", ())


def test_nested_types() -> None:
    geometry, vector = column("g", Kind.GEOMETRY), column("v", Kind.VECTOR, dimensions=3)
    assert arrow_field(geometry) == ArrowField(
        "g", "+s", children=(ArrowField("srid", "I"), ArrowField("wkb", "z"))
    )
    assert arrow_field(geometry, geometry="ewkb") == ArrowField("g", "z")
    assert arrow_field(vector).format == "+w:3"
    assert arrow_field(vector, vectors="list").format == "+l"
    assert arrow_field(vector).children == (ArrowField("item", "f"),)
    for dimensions in (None, 16384):  # MySQL has at most 16383
        assert arrow_field(column("v", Kind.VECTOR, dimensions=dimensions)).format == "+l"


def test_members() -> None:
    """Number 0 of an ENUM is the empty text; members that are equal have one place in the dictionary."""
    enum = arrow_field(column("e", Kind.ENUM, members=("x", "", "x", "y")))
    assert (enum.format, enum.labels, enum.codes) == ("s", ("", "x", "y"), (0, 1, 0, 1, 2))
    assert enum.dictionary == ArrowField("", "u")
    [item] = arrow_field(column("s", Kind.SET, members=("p", "q"))).children
    assert (item.format, item.labels, item.codes) == ("c", ("p", "q"), (0, 1))
    many = tuple(map(str, range(0x7FFF)))
    assert arrow_field(column("e", Kind.ENUM, members=many[:-1])).format == "s"
    assert arrow_field(column("e", Kind.ENUM, members=many)).format == "i"
    assert arrow_field(column("e", Kind.ENUM)).format == "S"
    assert arrow_field(column("s", Kind.SET)).format == "L"


def test_fields_of_one_type_may_have_other_members() -> None:
    one, other = (arrow_field(column("e", Kind.ENUM, members=m)) for m in (("a",), ("b", "c")))
    assert one.type == other.type
    assert one.type != arrow_field(column("e", Kind.ENUM)).type
    fixed, plain = (arrow_field(column("v", Kind.VECTOR, dimensions=n)) for n in (3, None))
    assert fixed.type != plain.type


def test_wide_decimals_as_text() -> None:
    wide, narrow = (column("d", Kind.DECIMAL, precision=n, scale=1) for n in (39, 38))
    assert [f.format for f in arrow_fields((wide, narrow), wide_decimals="text")] == ["u", "d:38,1"]
    assert struct_field(arrow_fields((wide,))).children == (ArrowField("d", "d:39,1,256"),)


def test_columns_about_the_changes() -> None:
    kinds = ChangeColumn("k", np.array([1, 0]), ("a", "b"))
    assert (kinds.to_pylist(), kinds.field) == (["b", "a"], ArrowField("k", "u", nullable=False))
    times = ChangeColumn("t", np.array(["2024-01-02T03:04:05"], "M8[us]"), utc=True)
    assert times.to_pylist()[0].isoformat() == "2024-01-02T03:04:05+00:00"
    assert times.field.format == "tsu:UTC"
    with pytest.raises(ValueError, match="code 2 of 2 labels"):
        ChangeColumn("k", np.array([2]), ("a", "b"))
    with pytest.raises(ValueError, match="expected 1 dimension, found 2"):
        ChangeColumn("k", np.zeros((1, 1)))
    texts = ChangeColumn("t", np.array([0, 2, 2, 3]), text="éx".encode())
    assert (texts.to_pylist(), texts.field.format) == (["é", "", "x"], "u")
    for wrong in ([], [1, 3], [0, 2], [0, 4], [0, 3, 2, 3], [3]):
        with pytest.raises(ValueError, match="expected places from 0 to 3"):
            ChangeColumn("t", np.array(wrong, np.int64), text="éx".encode())
