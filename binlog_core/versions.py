"""Versions of what a result depends on, for a bug report or a benchmark."""

from __future__ import annotations

import importlib.metadata
import platform

import numpy

LIBRARIES = (
    "pyarrow",
    "pandas",
    "polars",
    "duckdb",
    "pyspark",
    "zstandard",
    "cryptography",
    "sqlglot",
    "PyMySQL",
    "fsspec",
)


def versions() -> dict[str, str]:
    """Versions of binlog_core, Python, NumPy and the optional libraries that are installed.

    Returns
    -------
    dict of str to str
        The version of each by name; "crc32" says how checksums are computed on this machine.
    """
    from ._core._crc32 import crc32_implementation

    found = {
        "binlog_core": _version("binlog_core") or "not installed",
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": numpy.__version__,
        "crc32": crc32_implementation(),
    }
    found |= {name: version for name in LIBRARIES if (version := _version(name)) is not None}
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def show_versions() -> None:
    """Print `versions`, one per line."""
    found = versions()
    width = max(map(len, found))
    for name, version in found.items():
        print(f"{name:<{width}}  {version}")
