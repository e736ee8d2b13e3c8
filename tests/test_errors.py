"""Errors: their text, what they keep between processes, and their other base classes."""

from __future__ import annotations

import ast
import pickle
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from binlog_core import errors
from binlog_core.errors import BinlogError, DecodeError, MissingExtraError, MissingFileError, PrivilegeError


def test_what_is_known_of_the_place_is_said() -> None:
    error = DecodeError("length 5, expected 4", path="bin.000001", offset=2**40, type_code=30, column="id")
    assert (
        str(error) == "length 5, expected 4 (file bin.000001, offset 1099511627776, event type 30, column id)"
    )
    assert str(DecodeError("length 5")) == "length 5"
    assert DecodeError("at the beginning", offset=0).offset == 0
    assert "offset 0" in str(DecodeError("at the beginning", offset=0))


def test_a_place_is_filled_in_as_far_as_it_was_not_known() -> None:
    error = DecodeError("length 5", offset=7)
    assert error.located(path="bin.000001", offset=9, table=None) is error
    assert (error.path, error.offset, error.table) == ("bin.000001", 7, None)


def test_passwords_are_not_shown() -> None:
    for error in (
        BinlogError("no", path="mysql://u:secret@h/"),
        BinlogError("no").located(path="mysql://u:secret@h/"),
        BinlogError("mysql://u:secret@h/ does not answer"),
    ):
        assert "secret" not in f"{error} {error.args} {vars(error)}"


@pytest.mark.parametrize(
    "kind",
    [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BinlogError)],
)
def test_each_error_can_be_sent_to_another_process(kind: type[BinlogError]) -> None:
    error = kind("words", path="bin.000001", offset=4, type_code=2, table="a.b", column="c")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_no_module_has_a_kind_of_error_of_its_own() -> None:
    """Others may only divide a kind that `errors` has, for who catches it within its room."""
    for path in Path(errors.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and path.name != "errors.py":
                assert "BinlogError" not in map(ast.unparse, node.bases), (path, node.name)


def test_what_a_server_said_comes_too() -> None:
    error = PrivilegeError("denied", code=1227, sqlstate="42000", path="h:3306")
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.sqlstate, again.path) == (1227, "42000", "h:3306")


def test_errors_of_files_and_libraries_are_pythons_too() -> None:
    missing = errors.cannot_read(FileNotFoundError(2, "gone"), "does not exist", "bin.000001")
    assert isinstance(missing, MissingFileError) and isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.filename) == (2, "bin.000001")
    assert type(errors.cannot_read(PermissionError(13, "no"), "cannot be read", "a")) is BinlogError
    extra = MissingExtraError.of("polars", "polars", "to_polars()", table="a.b")
    assert isinstance(extra, ImportError)
    assert str(extra) == "to_polars() needs polars: pip install 'binlog_core[polars]' (table a.b)"


def test_control_characters_are_escaped_in_the_text() -> None:
    error = DecodeError("found \x1b[2J\n", path="a\nb", table="shop.\u202et", column="c\udcff")
    assert str(error) == r"found \u001b[2J\n (file a\nb, table shop.\u202et, column c\udcff)"
    assert (error.table, error.column) == ("shop.\u202et", "c\udcff")


def test_a_missing_library_comes_with_a_command_that_works_without_an_index_of_ours() -> None:
    """Each requirement of the extra by name, as pyproject.toml has it."""
    with open(Path(__file__).parents[1] / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    for extra in ("live", "delta", "iceberg", "spark", "zstd"):
        text = str(MissingExtraError.of("x", extra, "it"))
        command, _, rest = text.partition(": ")[2].partition(" (the extra")
        assert rest == f" binlog_core[{extra}])"
        assert command.startswith("pip install ")
        found = shlex.split(command.removeprefix("pip install "))
        assert list(map(Requirement, found)) == list(map(Requirement, extras[extra]))
