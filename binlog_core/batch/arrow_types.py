"""The Arrow type of each column: the single table from which both schemas and column buffers are made.

Source: "The Arrow C data interface" (format strings, metadata) and "Canonical extension types"
of the Apache Arrow documentation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import numpy as np

from .._core._capsules import requested_formats
from .._tables.column_types import KINDS, Kind
from .._tables.tables import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.integer[Any]] | NDArray[np.bool_] | Sequence[int] | Sequence[bool]
    from .._tables.transcoding import TextErrors

Vectors = Literal["fixed", "list"]
WideDecimals = Literal["decimal256", "text"]
Geometry = Literal["struct", "ewkb"]
Text = Literal["string", "view"] | frozenset[str]
NewColumns = Literal["raise", "drop"]

_MAX_DIMENSIONS = 16383  # of MySQL's VECTOR; larger numbers come from broken logs and size no memory
_EXTENSION_NAME = "ARROW:extension:name"
_EXTENSION_METADATA = "ARROW:extension:metadata"

# Strings and binary, and their views
VIEWS = {"u": "vu", "z": "vz"}

# NumPy's type characters are not Arrow's.
_NUMBER_FORMATS = {
    "|i1": "c", "|u1": "C", "<i2": "s", "<u2": "S", "<i4": "i", "<u4": "I", "<i8": "l", "<u8": "L",
    "<f4": "f", "<f8": "g", "<M8[us]": "tsu:", "<m8[us]": "tDu",
}  # fmt: skip


class ValueOptions(TypedDict, total=False):
    """Options of ``ChangeBatch.export`` about values."""

    text_errors: TextErrors
    vectors: Vectors
    wide_decimals: WideDecimals
    geometry: Geometry


class SharedOptions(ValueOptions, total=False):
    """Options of ``ChangeBatch.export`` for all batches of a stream."""

    change_columns: bool | str | Sequence[str]
    fill_absent: bool
    text: Text


class StreamOptions(SharedOptions, total=False):
    """Options of a stream of batches."""

    columns: Sequence[Column] | None
    new_columns: NewColumns


class ExportOptions(SharedOptions, total=False):
    """Options of ``ChangeBatch.export``."""

    extras: Sequence[ChangeColumn]
    rows: Rows | None


@dataclass(frozen=True, slots=True)
class ArrowField:
    """One field of an Arrow schema.

    Parameters
    ----------
    name : str
    format : str
        Format string of the Arrow C data interface; for a dictionary that of its indices.
    metadata : tuple of (str, str)
    children : tuple of ArrowField
    dictionary : ArrowField or None
        The type of the dictionary's values.
    labels : tuple of str
        The dictionary's values, no two alike.
    codes : tuple of int
        Place in ``labels`` for each number of an ENUM (0: the invalid empty value) or bit of a SET.
    nullable : bool
    """

    name: str
    format: str
    metadata: tuple[tuple[str, str], ...] = ()
    children: tuple[ArrowField, ...] = ()
    dictionary: ArrowField | None = None
    labels: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    nullable: bool = True

    @property
    def type(self) -> tuple[object, ...]:
        """What two fields must share for one column to hold the values of both; labels may differ."""
        return (
            self.format,
            self.metadata,
            tuple((c.name, c.type) for c in self.children),
            self.dictionary and self.dictionary.type,
        )

    def as_binary(self) -> ArrowField:
        """This field with the type binary, or binary view."""
        return replace(self, format="vz" if self.format in VIEWS.values() else "z", metadata=())

    def as_view(self) -> ArrowField:
        """This field with views instead of strings or bytes; unchanged if it has neither."""
        view = VIEWS.get(self.format)
        return self if view is None else replace(self, format=view)


def arrow_field(
    column: Column,
    *,
    vectors: Vectors = "fixed",
    wide_decimals: WideDecimals = "decimal256",
    geometry: Geometry = "struct",
) -> ArrowField:
    """The Arrow field of a column.

    Parameters
    ----------
    column : Column
    vectors : "fixed" or "list"
        VECTOR(n) as a fixed-size list of n floats, or as a list. MySQL allows values shorter than n, which
        only fit a list.
    wide_decimals : "decimal256" or "text"
        DECIMAL of more than 38 digits as decimal256, which few libraries support, or as text.
    geometry : "struct" or "ewkb"
        GEOMETRY as struct of srid and wkb, or as one binary value in PostGIS's EWKB.
    """
    name, plain = column.name, KINDS[column.kind].arrow
    if plain is not None:
        return ArrowField(name, plain)
    match column.kind:
        case Kind.BINARY:
            return (
                _extension(name, "w:16", "uuid") if column.declared_type == "uuid" else ArrowField(name, "z")
            )
        case Kind.DECIMAL:
            if column.precision > 38 and wide_decimals == "text":
                return ArrowField(name, "u")
            width = "" if column.precision <= 38 else ",256"
            return ArrowField(name, f"d:{column.precision},{column.scale}{width}")
        case Kind.ENUM if column.members is not None:
            return _enum_field(column, column.members)
        case Kind.SET if column.members is not None:
            return _set_field(column, column.members)
        case Kind.JSON:
            return _extension(name, "u", "json")
        case Kind.GEOMETRY if geometry == "ewkb":
            return ArrowField(name, "z")
        case Kind.GEOMETRY:
            return ArrowField(name, "+s", children=(ArrowField("srid", "I"), ArrowField("wkb", "z")))
        case Kind.VECTOR:
            most = _MAX_DIMENSIONS if vectors == "fixed" else -1
            fixed = column.dimensions is not None and column.dimensions <= most
            item = ArrowField("item", "f")
            return ArrowField(name, f"+w:{column.dimensions}" if fixed else "+l", children=(item,))
    return ArrowField(name, number_format(column.dtype))


@lru_cache(maxsize=256)  # batches of the same table recur, and many tables are alike
def arrow_fields(
    columns: tuple[Column, ...],
    *,
    vectors: Vectors = "fixed",
    wide_decimals: WideDecimals = "decimal256",
    geometry: Geometry = "struct",
    text: Text = "string",
) -> tuple[ArrowField, ...]:
    """The Arrow fields of columns, in their order; see :func:`arrow_field`.

    Parameters
    ----------
    text : "string", "view" or frozenset of str
        The columns of strings and bytes that are views: none, all, or those of these names.
    """
    options: dict[str, Any] = {"vectors": vectors, "wide_decimals": wide_decimals, "geometry": geometry}
    views = view_names(text, [column.name for column in columns])
    fields = [arrow_field(column, **options) for column in columns]
    return tuple([field.as_view() if field.name in views else field for field in fields])


def view_names(text: Text, names: Iterable[str]) -> frozenset[str]:
    """The names of the columns that are views, of all that have these names."""
    return text if isinstance(text, frozenset) else frozenset(names if text == "view" else ())


def followed(fields: Iterable[ArrowField], requested: object) -> frozenset[str]:
    """The names of the fields that are views once a requested schema is followed.

    Parameters
    ----------
    fields : iterable of ArrowField
    requested : PyCapsule
        A schema. Only this of it is followed: whether strings and bytes come as such or as views.
    """
    asked = requested_formats(requested)
    views = set()
    for field in fields:
        plain = next((plain for plain, view in VIEWS.items() if field.format in (plain, view)), None)
        wanted = asked.get(field.name)
        if plain is not None and (wanted if wanted in (plain, VIEWS[plain]) else field.format) != plain:
            views.add(field.name)
    return frozenset(views)


def struct_field(fields: tuple[ArrowField, ...]) -> ArrowField:
    """The schema of a stream with these fields."""
    return ArrowField("", "+s", children=fields, nullable=False)


def number_format(dtype: np.dtype, *, utc: bool = False) -> str:
    """Arrow's format string of a NumPy number or time type; ``utc`` makes datetimes instants."""
    return _NUMBER_FORMATS[dtype.str] + ("UTC" if utc and dtype.kind == "M" else "")


@lru_cache(maxsize=64)  # all small batches have the same few
def _change_field(name: str, kind: str) -> ArrowField:
    return ArrowField(name, kind, nullable=False)


def _extension(name: str, format: str, extension: str) -> ArrowField:
    metadata = ((_EXTENSION_NAME, f"arrow.{extension}"), (_EXTENSION_METADATA, ""))
    return ArrowField(name, format, metadata)


def _enum_field(column: Column, members: tuple[str, ...]) -> ArrowField:
    # Number 0 is '', which a strict server refuses but a lenient one stores. It comes first, as it sorts;
    # a member can be '' too, and members can be equal, but values of a dictionary must not be.
    labels, codes = _distinct(("", *members))
    return ArrowField(
        column.name,
        "s" if len(labels) <= 0x7FFF else "i",
        dictionary=ArrowField("", "u"),
        labels=labels,
        codes=codes,
    )


def _set_field(column: Column, members: tuple[str, ...]) -> ArrowField:
    labels, codes = _distinct(members)
    item = ArrowField("item", "c", dictionary=ArrowField("", "u"), labels=labels, codes=codes)
    return ArrowField(column.name, "+l", children=(item,))


def _distinct(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    places: Mapping[str, int] = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return tuple(places), tuple(places[name] for name in names)


@dataclass(frozen=True, eq=False, slots=True)
class ChangeColumn:
    """A column about the changes that is appended to the table's own.

    Parameters
    ----------
    name : str
        The column's name.
    values : ndarray, shape (n,)
        The values: int64, uint32 … float64, datetime64[us]; with labels, unsigned codes of at most 32 bits;
        with text, n + 1 of int64: where each value begins in it, and where the last one ends.
    labels : tuple of str or None
        Makes a column of text, in which value i is ``labels[values[i]]``.
    utc : bool
        Whether datetime64 values are instants in UTC.
    text : bytes or None
        Makes a column of text, in UTF-8, of which each value is a part.

    Raises
    ------
    ValueError
        A code has no label, `values` are not places in the text in their order, or they do not have exactly
        one dimension.
    """

    name: str
    values: NDArray[Any]
    labels: tuple[str, ...] | None = None
    utc: bool = False
    text: bytes | None = None

    def __post_init__(self) -> None:
        dtype = np.int64 if self.text is not None else np.uint32 if self.labels is not None else None
        values = np.ascontiguousarray(self.values, dtype)
        if values.ndim != 1:
            raise ValueError(f"change column {self.name!r}: expected 1 dimension, found {values.ndim}")
        if self.labels is not None and len(values) and values.max() >= len(self.labels):
            raise ValueError(f"change column {self.name!r}: code {values.max()} of {len(self.labels)} labels")
        if self.text is not None and (
            not len(values) or values[0] or values[-1] != len(self.text) or np.any(np.diff(values) < 0)
        ):
            raise ValueError(f"change column {self.name!r}: expected places from 0 to {len(self.text)}")
        object.__setattr__(self, "values", values)

    def to_pylist(self) -> list[Any]:
        """The values as Python objects; instants are datetimes with a time zone."""
        values: list[Any] = self.values.tolist()
        if self.text is not None:
            return [self.text[begin:end].decode() for begin, end in pairwise(values)]
        if self.labels is not None:
            return [self.labels[code] for code in values]
        return [value.replace(tzinfo=dt.UTC) for value in values] if self.utc else values

    @property
    def field(self) -> ArrowField:
        """Its Arrow field."""
        is_text = self.labels is not None or self.text is not None
        kind = "u" if is_text else number_format(self.values.dtype, utc=self.utc)
        return _change_field(self.name, kind)


class ImageColumn(NamedTuple):
    """A column about the changes that the core takes from the records itself.

    Parameters
    ----------
    name : str
    source : str
        The field of the records' ``image`` that it is made of.
    format : str
        As in ArrowField.
    labels : tuple of str or None
        Text: ``labels[image[source]]``, of at most 31 bytes each.
    """

    name: str
    source: str
    format: str
    labels: tuple[str, ...] | None = None

    @property
    def field(self) -> ArrowField:
        """Its Arrow field."""
        return _change_field(self.name, self.format)
