"""The formats of a lake, for tests that are the same in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
        from deltalake import DeltaTable

        return DeltaTable(str(path)).to_pyarrow_table()


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

        return IcebergTarget(self.identifier(path), self.catalog, location=str(path))

    def identifier(self, path: Path) -> str:
        """The name of a table in the catalog."""
        name = path.name if "." in path.name else f"shop.{path.name}"
        return f"{name}__history" if path.parent.name == "history" else name

    def table(self, path: Path) -> Any:
        """As pyiceberg has it."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("default", **self.catalog).load_table(self.identifier(path))

    def read(self, path: Path) -> Any:
        """All rows, by the format's own library."""
        return self.table(path).scan().to_arrow()


FORMS = {"delta": DeltaForm, "iceberg": IcebergForm}
