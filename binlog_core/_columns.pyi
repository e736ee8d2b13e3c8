from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from .arrow_types import ArrowField, ChangeColumn, ImageColumn
from .tables import Column
from .transcoding import TextErrors

def export_batch(
    records: NDArray[np.void],
    columns: Sequence[Column],
    fields: Sequence[ArrowField],
    buffer: Buffer,
    *,
    table: str | None = None,
    path: str | None = None,
    rows: NDArray[np.integer[Any]] | None = None,
    fill_absent: bool = False,
    text_errors: TextErrors = "raise",
    documents: Mapping[str, Mapping[int, bytes | None]] | None = None,
    extras: Sequence[ChangeColumn | ImageColumn] = (),
    transactions: NDArray[np.void] | None = None,
) -> tuple[tuple[ArrowField, ...], object]: ...
def span_values(
    records: NDArray[np.void],
    column: Column,
    field: ArrowField,
    buffer: Buffer,
    *,
    table: str | None = None,
    path: str | None = None,
    text_errors: TextErrors = "raise",
    documents: Mapping[str, Mapping[int, bytes | None]] | None = None,
) -> list[Any]: ...
