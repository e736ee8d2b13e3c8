from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from .._tables.tables import Column
from .._tables.transcoding import TextErrors
from ..batch.arrow_types import ArrowField, ChangeColumn, ImageColumn

class Layout:
    dtype: np.dtype
    columns: tuple[Column | ImageColumn, ...]
    fields: tuple[ArrowField, ...]
    def __init__(
        self,
        dtype: np.dtype,
        columns: Sequence[Column],
        fields: Sequence[ArrowField],
        changes: Sequence[ImageColumn] = (),
        change_views: Container[str] = (),
    ) -> None: ...

def export_batch(
    layout: Layout,
    records: NDArray[np.void],
    buffer: Buffer,
    *,
    rows: NDArray[np.integer[Any]] | None = None,
    fill_absent: bool = False,
    text_errors: TextErrors = "raise",
    documents: Mapping[str, Mapping[int, bytes | None]] | None = None,
    extras: Sequence[ChangeColumn] = (),
    views: Container[str] = (),
    transactions: NDArray[np.void] | None = None,
    most: int,
) -> tuple[tuple[ArrowField, ...], object]: ...
def export_columns(
    layout: Layout,
    capsule: object,
    buffer: Buffer,
    *,
    extras: Sequence[ChangeColumn] = (),
    views: Container[str] = (),
) -> object | None: ...
def hold_pool(on: bool) -> None: ...
def use_wide(on: bool) -> bool: ...
def view_parts(bits: int) -> int: ...
def array_address(capsule: object) -> int: ...
def span_values(
    records: NDArray[np.void],
    column: Column,
    field: ArrowField,
    buffer: Buffer,
    *,
    text_errors: TextErrors = "raise",
    documents: Mapping[str, Mapping[int, bytes | None]] | None = None,
    most: int,
) -> list[Any]: ...
