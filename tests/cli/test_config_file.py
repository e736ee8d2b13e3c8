"""A TOML file with the options of a command, checked as those of the command line are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

from support.cli import run

import binlog_core.mirror as work

FILE = """
server = "mysql://repl@db1"
lake = "/lake/shop"
tables = ["shop.*", "hr.people"]
exclude_tables = "shop.tmp_*"
mask-columns = ["shop.*.email"]
mask_key_file = "/etc/key"
history = true
deletes = "vectors"
compact = "10m"
rate = 20
until = "now"
catalog = { type = "sql", uri = "sqlite:///c.db" }
status = ["shop.prom"]
rename = { "shop_prod.*" = "shop.*" }
"""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the mirror is given, instead of running."""
    asked: list[dict[str, Any]] = []

    def mirror(server: str, lake: str, **settings: Any) -> list[Any]:
        asked.append({"server": server, "lake": lake, **settings})
        return []

    monkeypatch.setattr(work, "mirror", mirror)
    return asked


def written(folder: Path, text: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(text)
    return path


def told(text: str) -> str:
    """A message without its box."""
    return re.sub(r"[\s│]+", " ", text)


def test_a_file_says_it_all(tmp_path: Path, given: list[dict[str, Any]]) -> None:
    ran = run("mirror", "--config", written(tmp_path, FILE))
    assert (ran.code, ran.err) == (0, "")
    (asked,) = given
    expected = {
        "server": "mysql://repl@db1",
        "lake": "/lake/shop",
        "tables": ["shop.*", "hr.people"],
        "exclude_tables": ["shop.tmp_*"],
        "mask_columns": ["shop.*.email"],
        "mask_key_file": Path("/etc/key"),
        "history": True,
        "deletes": "vectors",
        "compact": 600.0,
        "rate": 20e6,
        "until": "now",
        "catalog": {"type": "sql", "uri": "sqlite:///c.db"},
        "status": [Path("shop.prom")],
        "rename": {"shop_prod.*": "shop.*"},
        "format": None,
    }
    assert {name: asked[name] for name in expected} == expected


def test_the_command_line_counts_more(tmp_path: Path, given: list[dict[str, Any]]) -> None:
    file = written(tmp_path, FILE)
    ran = run("mirror", "mysql://db2", "/lake/b", "--tables", "a.*", "--config", file, "--compact", "1h")
    assert (ran.code, ran.err) == (0, "")
    (asked,) = given
    found = [asked[name] for name in ("server", "lake", "tables", "compact", "rate")]
    assert found == ["mysql://db2", "/lake/b", ["a.*"], 3600.0, 20e6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tabels = ['shop.*']", "there is no option tabels: expected"),
        ("config = 'other.toml'", "there is no option config"),
        ("p = true", "there is no option p"),
        ("tables = [1]", "expected a text or a list of texts"),
        ("rename = { a = { b = 'c' } }", "expected a text or a list of texts"),
        ("mask-columns = 'a.b.c'\nmask_columns = 'a.b.d'", "mask_columns is given twice"),
        ("table = 'a.b'\ntables = 'a.c'", "tables is given twice"),
        ("history = 'yes'", "expected true or false"),
        ("compact = ['1h']", "expected a text or a number"),
        ("rate = true", "expected a text or a number"),
        ("compact = 2026-11-26", "expected a text or a number"),
        ("format = 'hudi'", "hudi"),
        ("deletes = 'vector'", "vector"),
        ("rate = -1", "--rate"),
        ("tables = [", "shop.toml is not TOML"),
        ("tables:\n  - a.*", "shop.toml is not TOML"),
    ],
)
def test_a_wrong_file_is_wrong_usage(
    text: str, message: str, tmp_path: Path, given: list[dict[str, Any]]
) -> None:
    ran = run("mirror", "mysql://db1", "/lake", "--tables", "a.*", "--config", written(tmp_path, text))
    assert (ran.code, given) == (2, [])
    assert re.sub(r"\s", "", message) in re.sub(r"[\s│]", "", ran.err)  # a long path is wrapped anywhere


def test_a_file_that_is_not_there(tmp_path: Path, given: list[dict[str, Any]]) -> None:
    ran = run("mirror", "--config", tmp_path / "none.toml")
    assert (ran.code, given) == (2, [])
    assert "No such file" in told(ran.err)
