"""Tries an installed binlog_core: smoke.py TESTS_DATA. Needs nothing but the wheel and NumPy."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import binlog_core

OPTIONAL = {
    "cryptography",
    "fsspec",
    "pandas",
    "pyarrow",
    "pymysql",
    "pyspark",
    "rich",
    "sqlglot",
    "typer",
    "zstandard",
}


def main(data: Path) -> None:
    package = Path(binlog_core.__file__).parent
    assert (package / "py.typed").exists() and (package / "_core" / "_columns.pyi").exists(), (
        "types are not packaged"
    )

    compiled = [m.name for m in pkgutil.iter_modules([str(package / "_core")])]
    for name in compiled:
        module = importlib.import_module(f"binlog_core._core.{name}")
        assert module.__file__ and not module.__file__.endswith(".py"), f"{name} is not compiled"
    assert {"_headers", "_table_map", "_rows", "_values", "_columns", "_jsonb"} <= set(compiled), compiled
    size = sum(file.stat().st_size for file in (package / "_core").iterdir())
    assert size < 5 << 20, f"{size} bytes of compiled modules: are they stripped?"
    imported = OPTIONAL & set(sys.modules)
    assert not imported, f"import binlog_core imports {imported}"

    # From tests/data/mysql97/types_ints.meta.json (operations) and .truth.jsonl.gz (the first two lines).
    with binlog_core.open(data / "mysql97" / "types_ints.binlog") as log:
        assert log.format.server_version.startswith("9.7.4"), log.format
        changes = list(log.rows())
    assert Counter(change.op for change in changes) == {"insert": 16, "update": 6, "delete": 3}
    first, second = changes[0].after, changes[1].after
    assert first is not None and second is not None
    assert (first["id"], first["Größe_bigint"], first["select_ubigint"]) == (1, -(2**63), 0)
    assert (second["id"], second["Größe_bigint"], second["select_ubigint"]) == (11, 2**63 - 1, 2**64 - 1)

    # From tests/data/mysql97/types_decimals.truth.jsonl.gz, the second line.
    with binlog_core.open(data / "mysql97" / "types_decimals.binlog") as log:
        second = [change.after for change in log.rows()][1]
    assert second is not None
    assert (second["val_d10_2"], second["Größe_d65_0"]) == (Decimal("99999999.99"), Decimal("9" * 65))

    print(f"smoke test passed: {package}, Python {sys.version.split()[0]}, {len(changes)} changes")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
