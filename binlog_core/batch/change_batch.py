"""ChangeBatch: decoded rows of one table definition from one file, as a structured array."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Unpack, overload

import numpy as np

from .._base.change_columns import OPS as OPS
from .._base.change_columns import PREIMAGE
from .._core._columns import span_values
from .._tables.column_types import KINDS, Kind
from .._tables.side_dtypes import INVALID_DATE_DTYPE as INVALID_DATE_DTYPE
from .._tables.side_dtypes import JSON_DIFF_DTYPE as JSON_DIFF_DTYPE
from .._tables.side_dtypes import TRANSACTION_DTYPE as TRANSACTION_DTYPE
from .._tables.tables import Column
from .._tables.tables import image_dtype as image_dtype
from .._tables.tables import record_dtype as record_dtype
from .._tables.transcoding import TextErrors
from ..errors import DecodeError, MissingExtraError
from .arrow_batch import NO_POLARS, ArrowBatch, json_documents, made_by_default, made_together
from .arrow_types import ArrowField, ChangeColumn, ExportOptions, Geometry, Text, Vectors, WideDecimals
from .records import RAW_COLUMN as RAW_COLUMN
from .records import BatchRecords
from .subsets import only

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from numpy.typing import NDArray

    from .arrow_types import Rows

OUTCOMES = ("unknown", "committed", "rolled back", "XA prepared")  # by transaction["outcome"]

# ChangeBatch.invalid_dates
INVALID_DATE_TEXT_DTYPE = np.dtype([("record", "<u4"), ("column", "<u2"), ("text", "U26")])


class ChangeBatch(BatchRecords):
    """Decoded rows of one table definition from one file.

    It has one record for each row image: an update has two, first the one before, then the one after.
    ``log.batches()`` makes batches. The arguments are also the attributes.

    Parameters
    ----------
    table : Table
        The table's definition when the rows were logged.
    columns : tuple of Column
        The decoded columns, in the table's order. Empty if the table cannot be decoded: each record is then
        a whole event, in the one field `raw`.
    array : ndarray, shape (n,), dtype ``record_dtype(len(table.columns), columns)``
        ``array["image"]`` says what each record is and where it is in the log; ``array["row"]`` has one
        field for each decoded column. Times are datetime64 (UTC for TIMESTAMP); spans point into `buffer`.
    buffer : bytes-like
        The bytes that spans refer to: the mapped file, or memory of the batch's own.
    transactions : ndarray, dtype TRANSACTION_DTYPE
        The transactions; ``array["image"]["transaction"]`` is an index into them. Batches share them: to
        change them, assign a copy.
    invalid : ndarray, dtype INVALID_DATE_DTYPE
        The fields of dates that do not exist in the calendar; see `invalid_dates`.
    json_diffs : ndarray, dtype JSON_DIFF_DTYPE
        JSON values that were logged as a list of changes; the record before each is its preimage.
    path : str or None
        The path of the file, or the name of the source.

    Attributes
    ----------
    arrow_bytes : int
        The most bytes that its columns may take in Arrow: ``Limits.arrow_bytes`` of the log. A batch that
        you made or unpickled has the default.
    """

    def __repr__(self) -> str:
        return (
            f"<ChangeBatch {self.table.full_name}: {len(self)} records, {len(self.columns)} columns"
            f"{f' of {self.path}' if self.path else ''}>"
        )

    def _repr_html_(self) -> str:
        from .html import ROWS, table_of

        return table_of(self, self[:ROWS].to_pylist(change_columns="_change_type"))

    @overload
    def __getitem__(self, key: str) -> np.ma.MaskedArray[Any, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> ChangeBatch: ...
    def __getitem__(self, key: str | slice) -> np.ma.MaskedArray[Any, Any] | ChangeBatch:
        """``batch["id"]`` is :meth:`column` with its defaults; ``batch[10:20]`` a batch of those records.

        Raises
        ------
        SchemaError
            No decoded column has this name.
        TypeError
            The key is neither a name nor a slice.
        ValueError
            The slice goes backwards.
        """
        if isinstance(key, str):
            return self.column(key)
        if not isinstance(key, slice):
            raise TypeError(f"expected a column's name or a slice, not {type(key).__name__}")
        if key.step is not None and key.step < 1:
            raise ValueError("a slice of a batch keeps the records' order: expected a step of 1 or more")
        kept = np.zeros(len(self), bool)
        kept[key] = True
        return only(self, kept)

    __iter__ = None  # it could mean records or columns; to_pylist(), columns and array are explicit

    def _ipython_key_completions_(self) -> list[str]:
        return [column.name for column in self.value_columns]

    # --- NumPy ---------------------------------------------------------------------------------

    def column(
        self,
        name: str,
        *,
        decimals: Literal["unscaled", "float", "decimal"] = "unscaled",
        members: Literal["names", "numbers"] = "names",
        text_errors: Literal["raise", "replace"] = "raise",
    ) -> np.ma.MaskedArray[Any, Any]:
        """One column as a contiguous masked array.

        Parameters
        ----------
        name : str
            The name of a decoded column.
        decimals : "unscaled", "float" or "decimal"
            How to give DECIMAL(p, s): as whole numbers of 10**-s (int64 up to 18 digits, else Python ints),
            as rounded float64, or as exact `decimal.Decimal` objects.
        members : "names" or "numbers"
            How to give ENUM and SET: as names (StringDType for ENUM, lists for SET) or as the stored
            numbers. If the log does not have the names, the result is numbers in both cases.
        text_errors : "raise" or "replace"
            What to do with bytes that are not valid text in the column's character set.

        Returns
        -------
        numpy.ma.MaskedArray, shape (n,)
            Masked where the value is NULL, where the image lacks the column, and where a partial JSON update
            has no document to apply to (`json_diffs`). Text and JSON are StringDType; BINARY and GEOMETRY
            (SRID and WKB) are bytes objects; VECTOR is float32 arrays. Temporal types are datetime64 or
            timedelta64; a date that does not exist in the calendar is NaT, not masked.

        Raises
        ------
        SchemaError
            No decoded column has this name.
        DecodeError
            A value is not valid for the column's type.
        ValueError
            An option is not one of those listed here.
        """
        if decimals not in ("unscaled", "float", "decimal"):
            raise ValueError(f"decimals={decimals!r}: expected unscaled, float or decimal")
        if members not in ("names", "numbers"):
            raise ValueError(f"members={members!r}: expected names or numbers")
        if text_errors not in ("raise", "replace"):
            raise ValueError(f"text_errors={text_errors!r}: expected raise or replace")
        column = self._find(name)
        if KINDS[column.kind].stored == "span":
            return self._span_column(column, text_errors)
        mask = self.is_null(name) | self.is_absent(name)
        return np.ma.MaskedArray(self._values(column, decimals, members), mask=mask)

    @cached_property
    def lost_documents(self) -> NDArray[np.void]:
        """The `json_diffs` of decoded columns whose document the log lacks: the new value is not known.

        Returns
        -------
        ndarray, dtype JSON_DIFF_DTYPE
            Fields record u4 and column u2 (`Column.index`).
        """
        if not len(self.json_diffs):
            return self.json_diffs
        diffs = self.json_diffs[np.isin(self.json_diffs["column"], [one.index for one in self.columns])]
        before = diffs["record"].astype(np.int64) - 1
        byte, bit = diffs["column"] // 8, 1 << (diffs["column"] % 8)
        image = self.array["image"]
        there = (before >= 0) & (image["op"][before] == PREIMAGE)
        bits = image["null_bitmap"][before, byte] | image["absent_bitmap"][before, byte]
        lost: NDArray[np.void] = diffs[~there | (bits & bit != 0)]
        return lost

    @cached_property
    def invalid_dates(self) -> NDArray[np.void]:
        """Dates that do not exist in the calendar (zero, partial, year 0), as the server prints them.

        Returns
        -------
        ndarray, dtype INVALID_DATE_TEXT_DTYPE
            Fields record u4, column u2 (`Column.index`) and text U26, sorted by record and column. In
            `array` these values are NaT.
        """
        out = np.empty(len(self.invalid), INVALID_DATE_TEXT_DTYPE)
        out["record"] = self.invalid["record"]
        out["column"] = self.invalid["column"]
        out["text"] = [_date_text(self.table.columns[date["column"]], date) for date in self.invalid]
        return out

    # --- Arrow ---------------------------------------------------------------------------------

    def export(
        self,
        *,
        change_columns: bool | str | Sequence[str] = True,
        extras: Sequence[ChangeColumn] = (),
        rows: Rows | None = None,
        fill_absent: bool = False,
        text_errors: TextErrors = "raise",
        vectors: Vectors = "fixed",
        wide_decimals: WideDecimals = "decimal256",
        geometry: Geometry = "struct",
        text: Text = "string",
    ) -> ArrowBatch:
        """The batch in Arrow's memory layout, without any Arrow library.

        Parameters
        ----------
        change_columns : bool, str or sequence of str
            Columns about the change, after the table's own. True adds `_change_type` (insert,
            update_preimage, update_postimage, delete), `_commit_timestamp` (of the commit in microseconds
            UTC if the log has it, else of the transaction's first event), `_position` (offset of the
            event in the file) and `_row` (number of the row within the event; in a compressed transaction,
            among the rows read). Or give the names that you want, in order, of these and `_timestamp` (of
            the event), `_server_id`, `_file`, `_gtid` (text, empty if the transaction has none),
            `_transaction` (offset of its first event), `_xid` (0 if it has none) and `_thread_id` (of the
            connection, 0 if the log does not have it).
        extras : sequence of ChangeColumn
            Your own columns, which follow these; each has one value for each exported row.
        rows : array or sequence of int, shape (m,), or of bool, shape (n,), or None
            The records to export: their numbers in the order that you want, or a mask; None exports all.
        fill_absent : bool
            Take a column that a postimage lacks from its preimage, if it exists.
        text_errors : "raise", "replace" or "binary"
            What to do with bytes that are not valid text in the column's character set: raise an error,
            replace them with U+FFFD, or give the whole column as binary.
        vectors : "fixed" or "list"
            Give VECTOR(n) as a fixed-size list of floats, or as a list, which can also hold shorter values.
        wide_decimals : "decimal256" or "text"
            Give DECIMAL of more than 38 digits as decimal256, which polars and DuckDB refuse, or as text.
        geometry : "struct" or "ewkb"
            Give GEOMETRY as a struct of srid (uint32) and wkb (binary), or as binary in PostGIS's EWKB: the
            type has bit 0x20000000 set and the SRID follows it. With an SRID of 0 this is plain WKB.
        text : "string", "view" or frozenset of str
            Give strings and bytes as Arrow's string and binary, which are copies, or as string view and
            binary view, which refer to the log and keep its bytes in memory or mapped. A frozenset names the
            columns to give as views. A consumer's requested schema comes before this option.

        Returns
        -------
        ArrowBatch
            An object with the Arrow PyCapsule interface.

        Raises
        ------
        DecodeError
            Text or another value is not valid for its type, or the columns take more than ``arrow_bytes``.
        SchemaError
            A change column is unknown, or has the name of one of the table's columns.
        TypeError, IndexError
            `rows` has the wrong type or length, or a number that is not that of a record.

        Notes
        -----
        In Arrow, NULL and absent are both null; `is_absent` tells them apart. Dates that do not exist in the
        calendar (`invalid_dates`) and partial JSON updates whose preimage lacks the document (`json_diffs`)
        are null too.
        """
        return ArrowBatch(
            self,
            change_columns=change_columns,
            extras=extras,
            rows=rows,
            fill_absent=fill_absent,
            text_errors=text_errors,
            vectors=vectors,
            wide_decimals=wide_decimals,
            geometry=geometry,
            text=text,
        )

    def to_arrow(self, **options: Unpack[ExportOptions]) -> pyarrow.RecordBatch:
        """The batch as ``pyarrow.RecordBatch``.

        Parameters
        ----------
        **options
            As in :meth:`export`, which also says which values become null.

        Raises
        ------
        MissingExtraError
            pyarrow is not installed.
        DecodeError, SchemaError
            As in :meth:`export`.
        """
        if not options and (shared := self.from_shelf(made_together)) is not None:
            return shared
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtraError.of("pyarrow", "arrow", "to_arrow()", path=self.path) from None
        return self.export(**options).to_pyarrow() if options else made_by_default(self)

    def to_pandas(self, **options: Unpack[ExportOptions]) -> pandas.DataFrame:
        """The batch as ``pandas.DataFrame`` with Arrow-backed columns.

        Parameters
        ----------
        **options
            As in :meth:`export`.

        Raises
        ------
        MissingExtraError
            pandas or pyarrow is not installed.
        DecodeError, SchemaError
            As in :meth:`export`.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError.of("pandas", "pandas", "to_pandas()", path=self.path) from None
        return self.to_arrow(**options).to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self, **options: Unpack[ExportOptions]) -> polars.DataFrame:
        """The batch as ``polars.DataFrame``; pyarrow is not needed.

        Parameters
        ----------
        **options
            As in :meth:`export`; DECIMAL of more than 38 digits becomes text, as polars has no such type.

        Raises
        ------
        MissingExtraError
            polars is not installed.
        DecodeError, SchemaError
            As in :meth:`export`.
        """
        try:
            import polars
        except ImportError:
            raise MissingExtraError(NO_POLARS, path=self.path) from None
        options.setdefault("wide_decimals", "text")
        return polars.DataFrame(self.export(**options))

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        # pandas.DataFrame(batch) asks for this; the result would be useless.
        raise TypeError(
            "a batch is not an array: batch.array is one, to_pandas() and to_arrow() give its columns"
        )

    def to_pylist(self, *, change_columns: bool | str | Sequence[str] = True) -> list[dict[str, Any]]:
        """The records as dicts of Python values as in ``RowChange``; an Arrow library is not needed.

        Parameters
        ----------
        change_columns : bool or sequence of str
            As in :meth:`export`.

        Returns
        -------
        list of dict, length n
            Column names and values; a column that the image lacks is not a key.

        Raises
        ------
        DecodeError
            A value is not valid for its column's type.
        SchemaError
            As in :meth:`export`.
        """
        from .._core._values import RowReader

        extras = self.export(change_columns=change_columns).change_columns
        if self.table.undecodable is None:
            reader = RowReader(self)
            records: list[dict[str, Any]] = [reader.values(i) for i in range(len(self))]
        else:
            records = [{RAW_COLUMN.name: value} for value in self.column(RAW_COLUMN.name).tolist()]
        for extra in extras:
            for record, value in zip(records, extra.to_pylist(), strict=True):
                record[extra.name] = value
        return records

    def __arrow_c_schema__(self) -> object:
        """The schema of :meth:`export` with its defaults, as Arrow PyCapsule."""
        return self.export().__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """:meth:`export` with its defaults, as Arrow PyCapsules; of a requested schema views are followed."""
        return self.export().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """:meth:`export` with its defaults, as Arrow PyCapsule; of a requested schema views are followed."""
        return self.export().__arrow_c_stream__(requested_schema)

    # --- Inside --------------------------------------------------------------------------------

    def _values(self, column: Column, decimals: str, members: str) -> NDArray[Any]:
        field = self.array["row"][column.name]
        if KINDS[column.kind].stored == "decimal":
            return _decimals(column, field, decimals)
        if column.members is not None and members == "names":
            if column.kind == Kind.ENUM:
                return _enum_names(column, field)
            if column.kind == Kind.SET:
                return _set_names(column, field)
        return np.ascontiguousarray(field)

    def _span_column(self, column: Column, text_errors: TextErrors) -> np.ma.MaskedArray[Any, Any]:
        is_text = column.kind in (Kind.TEXT, Kind.JSON)
        try:
            values = span_values(
                self.array,
                column,
                ArrowField(column.name, "u" if is_text else "z"),
                self.buffer,
                text_errors=text_errors,
                documents=json_documents(self),
                most=self.arrow_bytes,
            )
        except DecodeError as error:
            raise error.located(path=self.path, table=self.table.full_name) from error.__cause__
        mask = [value is None for value in values]
        if is_text:
            text = np.array([value or "" for value in values], np.dtypes.StringDType())
            return np.ma.MaskedArray(text, mask=mask, fill_value="")
        if column.kind == Kind.VECTOR:
            values = [value if value is None else self._vector(column, value) for value in values]
        return np.ma.MaskedArray(_objects(values), mask=mask)

    def _vector(self, column: Column, value: bytes) -> NDArray[np.float32]:
        if len(value) % 4:
            raise DecodeError(
                f"VECTOR of {len(value)} bytes: expected a multiple of 4",
                path=self.path,
                table=self.table.full_name,
                column=column.name,
            )
        return np.frombuffer(value, "<f4")


def _date_text(column: Column, date: np.void) -> str:
    day = f"{date['year']:04}-{date['month']:02}-{date['day']:02}"
    if column.kind == Kind.DATE:
        return day
    text = f"{day} {date['hour']:02}:{date['minute']:02}:{date['second']:02}"
    return f"{text}.{date['microsecond']:06}"[: 20 + column.fsp] if column.fsp else text


def _limbs(field: NDArray[Any]) -> list[int]:
    # Unscaled whole numbers of two or four 64-bit limbs, the last one signed.
    return [
        sum(limb << 64 * i for i, limb in enumerate(limbs)) for limbs in np.ascontiguousarray(field).tolist()
    ]


def _decimals(column: Column, field: NDArray[Any], decimals: str) -> NDArray[Any]:
    narrow = field.dtype.names is None
    if narrow and decimals == "unscaled":
        return np.ascontiguousarray(field)
    numbers = field.tolist() if narrow else _limbs(field)
    if decimals == "float":
        # Divides whole numbers: rounded once, as the decimal text would be.
        return np.array([number / 10**column.scale for number in numbers], np.float64)
    if decimals == "unscaled":
        return _objects(numbers)
    return _objects([_decimal(number, column.scale) for number in numbers])


def _objects(values: Sequence[object]) -> NDArray[np.object_]:
    # Item by item: NumPy would make a matrix of lists of one length.
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def _decimal(number: int, scale: int) -> Decimal:
    # From its parts, since the usual context rounds to 28 digits.
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def _enum_names(column: Column, field: NDArray[Any]) -> NDArray[Any]:
    names = np.array(("", *(column.members or ())), np.dtypes.StringDType())
    if len(field) and field.max() >= len(names):
        raise DecodeError(
            f"ENUM number {field.max()}: the column has {len(names) - 1} members", column=column.name
        )
    chosen: NDArray[Any] = names[field]
    return chosen


def _set_names(column: Column, field: NDArray[Any]) -> NDArray[Any]:
    members = column.members or ()
    if len(field) and int(np.bitwise_or.reduce(field)) >> len(members):
        raise DecodeError(f"SET has a bit above its {len(members)} members", column=column.name)
    return _objects(
        [[name for bit, name in enumerate(members) if mask >> bit & 1] for mask in field.tolist()]
    )
