"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.golden import DATA
from support.writer import Log, Table

pytest.importorskip("typer")

from support.cli import run

LOG = DATA / "mysql97" / "gtid.binlog"


def test_several_servers(tmp_path: Path) -> None:
    table = Table("shop", "t", [("id", "INT")], primary_key=["id"])
    log = Log("8.4.0")
    for server in (7, 8, 9):
        log.server_id = server
        log.begin("shop")
        log.insert(table, [{"id": server}])
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())

    def ids(*options: str) -> list[int]:
        return [json.loads(line)["after"]["id"] for line in run("rows", path, *options).lines]

    assert ids("--server-id", "7,8") == [7, 8]
    assert ids("--server-id", "8") == [8]
    assert ids("--server-id", "7, 9", "--where", "id > 7") == [9]
    events = run("events", path, "--server-id", "7,9", "--type", "Write_rows", "-f", "jsonl").lines
    assert [json.loads(line)["server_id"] for line in events] == [7, 9]
    for wrong in ("x", "7,", "4294967296"):
        assert run("rows", path, "--server-id", wrong).code == 2


def test_a_database_of_another_name(tmp_path: Path) -> None:
    out = tmp_path / "out.sql"
    ran = run("rows", LOG, "-f", "sql", "--rewrite-db", "shop=a`b", "-r", out)
    assert ran.code == 0, ran.err
    text = out.read_text()
    assert "INSERT INTO `a``b`.`Route66_b`" in text
    assert not [line for line in text.splitlines() if "`shop`." in line and not line.startswith("# ")]
    assert run("rows", LOG, "-f", "sql", "--rewrite-db", "shop->x").text.count("INTO `x`.`Route66_b`") == 3
    for wrong in (["--rewrite-db", "shop", "-f", "sql"], ["--rewrite-db", "a=b"]):
        assert run("rows", LOG, *wrong).code == 2


@pytest.mark.parametrize("option", ["--where", "--columns"])
@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_choice_is_not_everything(option: str, value: str) -> None:
    """A script whose variable is not set would get all rows, or undo them."""
    ran = run("rows", LOG, option, value)
    assert ran.code == 2 and f"{option} is empty" in ran.err and not ran.out
    if option == "--where":
        ran = run("undo", LOG, "--table", "Route66_b", option, value)
        assert ran.code == 2 and f"{option} is empty" in ran.err and not ran.out
