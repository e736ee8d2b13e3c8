"""A table of a lake, whatever its format: its content, its commits, and how rows are added.

Export, apply and mirror use tables through this. ``apply.batch`` describes how changes are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import BinlogError

if TYPE_CHECKING:
    import pyarrow as pa

App = tuple[str, int]  # the application that commits, and its batch


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
        """The current schema; empty: the table does not exist yet."""
        ...

    def applied(self, app_id: str) -> int | None:
        """The last batch that one has committed; None: none, as far back as the table knows."""
        ...


class GrowingTable(LakeTable, Protocol):
    """One that files are appended to."""

    def append(self, files: Sequence[DataFile], columns: pa.Schema, app: App) -> None:
        """Make the table of these columns, or add those that it lacks, and the files, in one commit."""
        ...


class FileTable(LakeTable, Protocol):
    """A table whose files are added and removed by name, in one commit each; `told`: the commit's properties.

    It is seen as it was when opened, or after its own last commit. If another writer has committed in the
    meantime, a commit is an error, and nothing of it is in the table.
    """

    @property
    def uri(self) -> str:
        """Where its files are."""
        ...

    @property
    def exists(self) -> bool:
        """It is there."""
        ...

    @property
    def special(self) -> list[str]:
        """Its features that only Spark can write."""
        ...

    @property
    def version(self) -> int:
        """The version of the last commit, to which a reader can go back."""
        ...

    @property
    def rows(self) -> int:
        """How many it has."""
        ...

    def files(self) -> list[DataFile]:
        """Its files with the bounds of their columns; rows are -1 where a file does not say."""
        ...

    def last_commit(self) -> dict[str, Any]:
        """The properties of the last commit, its `timestamp` in milliseconds; {}: there is none."""
        ...

    def reopened(self) -> FileTable:
        """The table, opened again in its current state."""
        ...

    def kept(self, columns: pa.Schema) -> pa.Schema:
        """Columns in the types that it has for them."""
        ...

    def takes(self, columns: pa.Schema) -> bool:
        """Whether its columns get these types without its files being rewritten."""
        ...

    def exchange(
        self,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        told: dict[str, str] | None = None,
        *,
        changes: bool = True,
    ) -> None:
        """Add and remove files, and add columns that it lacks; `changes` False: it has the same rows."""
        ...

    def replace(
        self,
        files: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        told: dict[str, str] | None = None,
    ) -> None:
        """Create it again, of these files and columns alone."""
        ...

    def add_columns(self, columns: pa.Schema) -> None:
        """Add those that it lacks."""
        ...

    def empty(self) -> None:
        """Delete its rows, if it exists."""
        ...


class CommitInDoubtError(BinlogError):
    """A commit may have been made or not: its files have to stay."""
