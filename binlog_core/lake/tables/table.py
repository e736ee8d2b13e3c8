"""A table of a lake, whatever its format: its content, its commits, and how rows are added.

Export, apply and mirror use tables through this. ``apply.batch`` describes how changes are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from .partitions import Partition
    from .vectors import Vector


class App(NamedTuple):
    """What a commit records of the application that makes it.

    Parameters
    ----------
    id : str
        The application.
    batch : int
        Its batch.
    last : int or None
        The `_commit_version` of the batch's last change; None if it has none.
    """

    id: str
    batch: int
    last: int | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table.

    Parameters
    ----------
    name : str
        Its path in the table's directory.
    rows, bytes : int
        The number of its rows, also of deleted ones, and its size; rows are -1 if not known.
    least, most : dict of name to value
        The bounds of columns, as far as they are known.
    nulls : dict of name to int
        The number of nulls in columns, as far as it is known.
    deleted : Vector or None
        Which of its rows are deleted; None: none.
    partition : tuple
        The values of its partition, as many as the table has fields; () if it has none.
    """

    name: str
    rows: int
    bytes: int
    least: Mapping[str, Any] = field(default_factory=dict)
    most: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    deleted: Vector | None = None
    partition: tuple[Any, ...] = ()

    @property
    def live(self) -> int:
        """The number of its rows that are not deleted; below 0 if not known."""
        return self.rows if self.rows < 0 or self.deleted is None else self.rows - self.deleted.cardinality


class LakeTable(Protocol):
    """A table of a lake."""

    @property
    def columns(self) -> pa.Schema:
        """The current schema; empty: the table does not exist yet."""
        ...

    def applied(self, app_id: str) -> int | None:
        """The last batch that an application has committed; None: none, as far back as the table knows."""
        ...

    def reached(self, app_id: str) -> int | None:
        """The last `_commit_version` that an application has committed; None: it is not known."""
        ...


class GrowingTable(LakeTable, Protocol):
    """A table that files are appended to."""

    def append(self, files: Sequence[DataFile], columns: pa.Schema, app: App) -> None:
        """Add files in one commit, which creates the table or adds columns that it lacks."""
        ...


class FileTable(LakeTable, Protocol):
    """A table whose files are added and removed by name; `properties` are further ones of a commit.

    It is seen as it was when opened, or after its own last commit. If another writer has committed in the
    meantime, a commit is an error, and nothing of it is in the table.
    """

    @property
    def uri(self) -> str:
        """Where its files are."""
        ...

    @property
    def exists(self) -> bool:
        """Whether it exists."""
        ...

    @property
    def partition(self) -> Partition:
        """By what its files are divided, or will be when it is created again."""
        ...

    @property
    def special(self) -> list[str]:
        """Its features that only Spark can write."""
        ...

    @property
    def no_vectors(self) -> list[str]:
        """What keeps commits from giving its files deletion vectors; empty: nothing."""
        ...

    @property
    def version(self) -> int:
        """The version of the last commit, to which a reader can go back."""
        ...

    @property
    def rows(self) -> int:
        """The number of its rows."""
        ...

    def files(self) -> list[DataFile]:
        """Its files, with the bounds of their columns."""
        ...

    def last_commit(self) -> dict[str, Any]:
        """The properties of the last commit, with its `timestamp` in milliseconds; {} if there is none."""
        ...

    def reopened(self) -> FileTable:
        """The table, opened again in its current state."""
        ...

    def kept(self, columns: pa.Schema) -> pa.Schema:
        """The columns in the types that the table's format has for them."""
        ...

    def takes(self, columns: pa.Schema) -> bool:
        """Whether its columns can get these types without a rewrite of its files."""
        ...

    def exchange(
        self,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None = None,
        *,
        changes: bool = True,
    ) -> None:
        """Add and remove files, and add columns that it lacks; `changes` False: the rows stay the same.

        A file that only gets another deletion vector is removed and added.
        """
        ...

    def replace(
        self,
        files: Sequence[DataFile],
        columns: pa.Schema,
        app: App | None,
        properties: dict[str, str] | None = None,
    ) -> None:
        """Create it again, with only these files and columns."""
        ...

    def add_columns(self, columns: pa.Schema) -> None:
        """Add the columns that it lacks."""
        ...

    def empty(self) -> None:
        """Delete its rows, if it exists."""
        ...
