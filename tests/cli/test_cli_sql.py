"""``binlog-core sql``: what a query says, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.golden import golden_logs

import binlog_core

pytest.importorskip("typer")
pytest.importorskip("duckdb")
pytest.importorskip("pytz")

from support.cli import run

from binlog_core.cli.sql import _fitting

GTID = next(g for g in golden_logs() if g.name == "mysql97/gtid")
TABLE = "shop.naïve_table_a"


def test_command_line(tmp_path: Path) -> None:
    sql = f"select id, _gtid from changes('{TABLE}') where _change_type = 'delete'"
    ran = run("sql", sql, GTID.path)
    assert ran.code == 0, ran.err
    assert ran.lines[0] == "id,_gtid"
    assert len(ran.lines) == 2
    assert run("sql", sql, GTID.path, "-f", "table").code == 0
    assert run("sql", "select count(*) as n from shop.route66_b", GTID.path).lines == ["n", "3"]
    assert run("sql", sql, "-", "-f", "jsonl", stdin=GTID.data).text.startswith('{"id": ')
    ran = run("sql", "from changes('shop.rute66_b')", GTID.path)
    assert (ran.code, ran.out) == (1, b"")
    assert "near: shop.Route66_b" in ran.err
    ran = run("sql", "selec 1", GTID.path)
    assert ran.code == 1
    assert ran.err.startswith("error: the query failed") and "LINE" not in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_log_before_the_query_is_a_wrong_order() -> None:
    ran = run("sql", GTID.path, "select 1")
    assert (ran.code, ran.out) == (2, b"")
    assert "expected the query before the logs" in " ".join(ran.err.replace("│", " ").split())
    assert run("sql", "x" * 5000, GTID.path).err.startswith("error: the query failed")


def test_ctrl_c_while_duckdb_asks_python_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # An exception of Python while DuckDB plans a query becomes an error of DuckDB.
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("binlog_core.scans.dataset.ScannedDataset.scanner", interrupted)
    assert run("sql", "select count(*) from events a, events b where a.info < b.info", GTID.path).code == 130


def test_ctrl_c_ends_a_query(tmp_path: Path) -> None:
    path = tmp_path / "long.binlog"
    path.write_bytes(GTID.data)
    cross = ", ".join(f"events e{i}" for i in range(6))  # does not end by itself
    query = f"select count(*) from {cross} where e0.info < e5.info"
    code = "from binlog_core.cli import main; print('ready', flush=True); main()"
    place = str(Path(binlog_core.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", code, "sql", query, str(path)],
        env=os.environ | {"PYTHONPATH": place},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(1)
    for _ in range(12):  # one that comes while DuckDB begins may be lost
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            break
    said = process.stderr.read()
    process.wait(60)
    assert process.returncode == 130
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (200, [0, 1, 2, 3]),
        (60, [0, 1, 2, 3]),  # 2 around it, and 5 + 3, 20 + 3, 9 + 3, 12 + 3
        (59, [0, 1, 3]),
        (30, [0, 3]),
        (10, [0, 3]),  # two always: they are folded
    ],
)
def test_columns_are_left_out_by_their_rank(width: int, kept: list[int]) -> None:
    """Not cut or folded: what a change did stays, and the first columns."""
    names = ["id", "customer_id", "_position", "_change_type"]
    cells = [["12345", "18446744073709550034", "9", "insert"], ["1", "2", "10000", "delete"]]
    assert _fitting(names, cells, width) == kept
