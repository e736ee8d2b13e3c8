"""Schemas of Spark from those of Arrow, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from ..lake.rows.types import SPARK_METADATA, import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema that Spark itself makes of an Arrow schema.

    Raises
    ------
    MissingExtraError
        pyspark is not installed.
    """
    try:
        from pyspark.sql.pandas.types import from_arrow_schema
    except ImportError:
        raise MissingExtraError.of("pyspark", "spark", "a Spark schema") from None
    plain = import_pyarrow().schema([field.with_type(_no_geometry(field.type)) for field in schema])
    found: StructType = from_arrow_schema(plain, prefer_timestamp_ntz=True)
    for ours, theirs in zip(schema, found, strict=True):
        if ours.metadata and SPARK_METADATA in ours.metadata:  # before Spark 4.2 it is not carried over
            theirs.metadata = json.loads(ours.metadata[SPARK_METADATA])
    return found


def _no_geometry(kind: pa.DataType) -> pa.DataType:
    """A struct of SRID and WKB, marked as different from Spark's own GEOMETRY: Spark 4.1 fails without it."""
    pa = import_pyarrow()
    if not pa.types.is_struct(kind) or kind.get_field_index("wkb") < 0:
        return kind
    return pa.struct(
        [one.with_metadata({b"geometry": b"false"}) if one.name == "wkb" else one for one in kind]
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark wants of batches for its own schema."""
    from pyspark.sql.pandas import types

    to_arrow: Any = types.to_arrow_schema
    try:
        found: pa.Schema = to_arrow(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2: it is always UTC, and metadata is not carried over
        fields = [
            field.with_metadata({SPARK_METADATA: json.dumps(theirs.metadata)}) if theirs.metadata else field
            for field, theirs in zip(to_arrow(schema), schema, strict=True)
        ]
        found = import_pyarrow().schema(fields)
    return found
