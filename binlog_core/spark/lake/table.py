"""A table of a lake, whatever its format: what it has, what was committed to it, and how rows join it.

Export, apply and mirror know tables by this. How changes are merged into one is told in ``apply.batch``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

App = tuple[str, int]  # who commits, and which of its batches


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table.

    Parameters
    ----------
    name : str
    rows, bytes : int
    least, most : dict of name to value
        Bounds of the columns that have some.
    nulls : dict of name to int
    """

    name: str
    rows: int
    bytes: int
    least: Mapping[str, Any] = field(default_factory=dict)
    most: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)


class LakeTable(Protocol):
    """A table of a lake."""

    @property
    def columns(self) -> pa.Schema:
        """As it is; empty: it is not there yet."""
        ...

    def applied(self, app_id: str) -> int | None:
        """The last batch that one has committed; None: none, as far back as the table tells."""
        ...


class GrowingTable(LakeTable, Protocol):
    """One that files are appended to."""

    def append(self, files: Sequence[DataFile], columns: pa.Schema, app: App) -> None:
        """Make the table of these columns, or add those that it lacks, and the files, in one commit."""
        ...
