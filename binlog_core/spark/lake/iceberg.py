"""A table of an Iceberg catalog through pyiceberg: no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import BinlogError, MissingExtraError
from ..rows.types import import_pyarrow, plain_type
from .table import App, DataFile

if TYPE_CHECKING:
    import pyarrow as pa

_APP, _BATCH = "binlog_core.app_id", "binlog_core.batch_id"


class IcebergLakeTable:
    """A table of a catalog, which may not be there yet.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    identifier : (str, str)
        Namespace and name.
    """

    def __init__(self, catalog: Any, identifier: tuple[str, str]) -> None:
        self._catalog, self._identifier = catalog, identifier
        self._table = catalog.load_table(identifier) if catalog.table_exists(identifier) else None

    @property
    def columns(self) -> pa.Schema:
        """See `LakeTable`."""
        pa = import_pyarrow()
        if self._table is None:
            return pa.schema([])
        return pa.schema([(one.name, plain_type(one.type)) for one in self._table.schema().as_arrow()])

    def applied(self, app_id: str) -> int | None:
        """See `LakeTable`."""
        if self._table is None:
            return None
        told = [one.summary.additional_properties for one in self._table.snapshots() if one.summary]
        return max((int(one[_BATCH]) for one in told if one.get(_APP) == app_id), default=None)

    def append(self, files: Sequence[DataFile], columns: pa.Schema, app: App) -> None:
        """See `GrowingTable`; names of files are URIs. Types that are wider here become the table's."""
        if self._table is None:
            self._catalog.create_namespace_if_not_exists(self._identifier[:1])
            self._table = self._catalog.create_table_if_not_exists(self._identifier, columns)
        with self._table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(columns)
            # Their names are new, so there is no need to look through the whole table for them.
            transaction.add_files(
                [one.name for one in files],
                snapshot_properties={_APP: app[0], _BATCH: str(app[1])},
                check_duplicate_files=False,
            )


def load_iceberg_catalog(catalog: Mapping[str, str] | str | None) -> Any:
    """A catalog by its properties, or by its name in pyiceberg's configuration.

    Raises
    ------
    MissingExtraError
        pyiceberg is not installed.
    BinlogError
        It cannot be opened.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise MissingExtraError("format=iceberg needs pyiceberg: pip install pyiceberg") from None
    try:
        if isinstance(catalog, Mapping):
            properties = {"name": "default", **catalog}
            return load_catalog(properties.pop("name"), **properties)
        return load_catalog(catalog)
    except Exception as error:
        raise BinlogError(f"the catalog cannot be opened: {type(error).__name__}: {error}") from error


def promoted(here: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Iceberg makes one type of the other in place: int to long, float to double, decimals longer."""
    types = import_pyarrow().types
    if types.is_decimal(here) and types.is_decimal(wanted):
        return bool(here.scale == wanted.scale and here.precision <= wanted.precision)
    return bool(
        (types.is_int32(here) and types.is_int64(wanted))
        or (types.is_float32(here) and types.is_float64(wanted))
    )
