"""The table formats of a lake, for tests that are the same for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest


class DeltaForm:
    """Delta tables."""

    name = "delta"
    settings: dict[str, Any] = {"format": "delta"}  # noqa: RUF012

    def __init__(self, root: Path) -> None:
        pytest.importorskip("deltalake")

    def target(self, path: Path) -> Any:
        """What `apply_changes` is given."""
        return path

    def read(self, path: Path) -> Any:
        """All rows, by the format's own library."""
        return self.table(path).to_pyarrow_table()

    def table(self, path: Path) -> Any:
        """The table as deltalake has it."""
        from deltalake import DeltaTable

        return DeltaTable(str(path))

    def files(self, path: Path) -> int:
        """How many files it has."""
        return len(self.table(path).file_uris())

    def last_commit(self, path: Path) -> dict[str, Any]:
        """What the last commit says."""
        found: dict[str, Any] = self.table(path).history(1)[0]
        return found

    def spoil(self, path: Path, key: int, gone: int, column: str) -> None:
        """Change a text by hand in the row of one key, and delete that of another."""
        table = self.table(path)
        table.update(predicate=f"id = {key}", updates={column: "'wrong'"})
        table.delete(f"id = {gone}")


class VectorForm(DeltaForm):
    """Delta tables with deletion vectors."""

    settings: dict[str, Any] = {"format": "delta", "deletes": "vectors"}  # noqa: RUF012

    def target(self, path: Path) -> Any:
        """What `apply_changes` is given."""
        from binlog_core.lake.apply.file_target import FileTarget
        from binlog_core.lake.apply.jobs import Folder
        from binlog_core.lake.tables.delta import DeltaLakeTable

        return FileTarget(DeltaLakeTable(str(path)), Folder(str(path), delta=True), vectors=True)

    def read(self, path: Path) -> Any:
        """All rows, by deltalake's engine: it has no Arrow dataset of such a table."""
        import pyarrow as pa

        from binlog_core.lake.tables.delta import DeltaLakeTable

        found = self.table(path)  # the engine has views of texts, which Arrow does not sort
        return pa.table(found.scan().read_all()).cast(DeltaLakeTable(str(path)).columns)


class IcebergForm:
    """Iceberg tables of a catalog in SQLite; each is known by its directory's name."""

    name = "iceberg"

    def __init__(self, root: Path) -> None:
        pytest.importorskip("pyiceberg")
        pytest.importorskip("sqlalchemy")
        self.catalog = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db"}
        self.settings = {"format": "iceberg", "catalog": self.catalog}

    def target(self, path: Path) -> Any:
        """What `apply_changes` is given."""
        from binlog_core.spark import IcebergTarget

        return IcebergTarget(".".join(self.identifier(path)), self.catalog, location=str(path))

    def identifier(self, path: Path) -> tuple[str, str]:
        """Namespace and name of a table in the catalog."""
        name, _, version = path.name.partition(".v")
        database, dot, name = name.rpartition(".")
        database, name = (
            unquote(one.replace("~", "%")) for one in (database, name)
        )  # as directories are named
        name += "__history" if path.parent.name == "history" else ""
        return database if dot else "shop", f"{name}__v{version}" if version else name

    def table(self, path: Path) -> Any:
        """As pyiceberg has it."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("default", **self.catalog).load_table(self.identifier(path))

    def read(self, path: Path) -> Any:
        """All rows, by the format's own library."""
        return self.table(path).scan().to_arrow()

    def files(self, path: Path) -> int:
        """How many files it has."""
        return len(list(self.table(path).scan().plan_files()))

    def last_commit(self, path: Path) -> dict[str, Any]:
        """What the last commit says."""
        found: dict[str, Any] = self.table(path).current_snapshot().summary.additional_properties
        return found

    def spoil(self, path: Path, key: int, gone: int, column: str) -> None:
        """Change a text by hand in the row of one key, and delete that of another."""
        import pyarrow as pa

        table = self.table(path)
        rows = table.scan(row_filter=f"id = {key}").to_arrow()
        rows = rows.set_column(rows.column_names.index(column), column, pa.array(["wrong"]))
        table.overwrite(rows, f"id = {key}")
        table.delete(f"id = {gone}")


Form = DeltaForm | IcebergForm
FORMS: dict[str, Callable[[Path], Form]] = {
    "delta": DeltaForm,
    "iceberg": IcebergForm,
    "vectors": VectorForm,
}


@pytest.fixture(params=("delta", "iceberg"))
def form(request: pytest.FixtureRequest, tmp_path: Path) -> Form:
    """For the conftest of tests that run once with each form."""
    return FORMS[request.param](tmp_path)
