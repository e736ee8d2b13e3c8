"""The package's own namespace: what it exports, and that an import loads nothing else."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import binlog_core
from binlog_core import errors


def python(code: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_every_name_is_there() -> None:
    for name in (*binlog_core.__all__, "__version__"):
        assert getattr(binlog_core, name) is not None
        assert name in dir(binlog_core)
    with pytest.raises(AttributeError, match="nonsense"):
        binlog_core.nonsense  # noqa: B018


def test_every_error_is_exported() -> None:
    own = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and found.__module__ == errors.__name__
    }
    assert own <= set(binlog_core.__all__)


def test_type_checkers_see_what_is_loaded_later() -> None:
    """The names under TYPE_CHECKING are those of the table."""
    tree = ast.parse(Path(binlog_core.__file__).read_text("utf-8"))
    [block] = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    homes, modules = {}, set()
    for statement in block.body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            homes |= {alias.asname: statement.module for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            modules |= {alias.asname for alias in statement.names}
    assert homes == binlog_core._HOMES
    assert modules <= binlog_core._MODULES


def test_an_import_loads_neither_extras_nor_what_takes_long() -> None:
    loaded = set(python("import binlog_core, sys; print(*sys.modules)").split())
    few = {"binlog_core._core", "binlog_core.schema", "binlog_core.schema.asked"}
    assert not {m for m in loaded if m.startswith("binlog_core.")} - few
    assert not loaded & {
        "numpy",
        "pyarrow",
        "pandas",
        "asyncio",
        "email",
        "http",
        "socket",
        "typing_extensions",
    }


def test_opening_a_log_loads_no_extra() -> None:
    extras = {"pyarrow", "pandas", "polars", "duckdb", "pyspark", "fsspec", "pymysql", "zstandard"}
    slow = {"asyncio", "email", "html", "http", "importlib.metadata", "concurrent.futures", "numpy.typing"}
    log = Path(__file__).parent / "data" / "mysql97" / "types_ints.binlog"
    code = f"import binlog_core, sys; list(binlog_core.open({str(log)!r}).rows()); print(*sys.modules)"
    loaded = set(python(code).split())
    families = {f"binlog_core.events.{name}" for name in ("control", "load", "rows", "user_var")}
    assert "binlog_core.log.log" in loaded
    assert not loaded & (extras | slow | families)


def test_modules_are_loaded_when_they_are_asked_for() -> None:
    code = (
        "import binlog_core; print(binlog_core.dataset.changes.__name__, binlog_core.gtids.GtidSet.__name__)"
    )
    assert python(code).split() == ["changes", "GtidSet"]


def test_options_of_open_are_the_same_for_those_that_hand_them_on() -> None:
    from binlog_core.log.options import OpenOptions

    given = {name: p.annotation for name, p in inspect.signature(binlog_core.open).parameters.items()}
    del given["target"]
    assert {name: kind.__forward_arg__ for name, kind in OpenOptions.__annotations__.items()} == given
