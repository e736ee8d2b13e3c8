"""``binlog-core rows``: what is chosen, damaged logs and logs that grow."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA, Golden, golden_logs

import binlog_core

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import head_and_block, run, start

LOG = DATA / "mysql97" / "gtid.binlog"
GOLDEN = next(g for g in golden_logs() if g.name == "mysql97/gtid")
UUID = "cbecc49e-e55e-11f1-b91d-02fc00000001"


def rows(*arguments: object) -> list[dict[str, Any]]:
    ran = run("rows", *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.lines]


def row_positions(golden: Golden) -> list[int]:
    """Of the rows events, by SHOW BINLOG EVENTS."""
    return [e["pos"] for e in golden.events if e["type"] in ("Write_rows", "Update_rows", "Delete_rows")]


# ------------------------------------------------------------ what is chosen


def test_tables_operations_and_columns() -> None:
    truth = GOLDEN.truth
    assert len(rows(LOG, "-t", "Route66_b")) == sum(c["table"] == "Route66_b" for c in truth)
    assert len(rows(LOG, "-t", "shop.*", "-d", "shop")) == len(truth)
    assert rows(LOG, "-d", "sho") == []
    assert len(rows(LOG, "--op", "update,delete")) == sum(c["op"] != "insert" for c in truth)
    found = rows(LOG, "-t", "naïve_table_a", "--columns", "id")
    assert {key for row in found for key in (row["after"] or row["before"])} == {"id"}


@pytest.mark.parametrize("count", [0, 1, 3, 7, 1000])
def test_limit(count: int) -> None:
    assert rows(LOG, "-n", count) == rows(LOG)[:count]
    compressed = DATA / "mysql97" / "trx_compression.binlog"
    assert rows(compressed, "-n", count) == rows(compressed)[:count]


def test_positions() -> None:
    places = row_positions(GOLDEN)
    anchors = [e["pos"] for e in GOLDEN.events if e["type"].startswith("Gtid")]
    begin, end = anchors[6], anchors[10]
    want = [p for p in places if begin <= p < end]
    assert 0 < len(want) < len(places)
    for given in (("--start-position", begin, "--stop-position", end), ("--start", begin, "--stop", end)):
        assert sorted({r["position"] for r in rows(LOG, *given)}) == want
    named = rows(LOG, "--start", f"gtid.binlog:{begin}", "--stop", f"gtid.binlog:{end}")
    assert named == rows(LOG, "--start-position", begin, "--stop-position", end)


def test_gtids() -> None:
    by_gtid: dict[str, int] = {}
    gtid = ""
    for event in GOLDEN.events:
        if event["type"].startswith("Gtid"):
            gtid = event["info"].split("'")[1]
        elif event["pos"] in row_positions(GOLDEN):
            by_gtid[gtid] = by_gtid.get(gtid, 0) + 1
    one = next(g for g in by_gtid if g.count(":") == 2)
    assert {r["gtid"] for r in rows(LOG, "--include-gtids", one)} == {one}
    assert {r["gtid"] for r in rows(LOG, "--exclude-gtids", one)} == set(by_gtid) - {one}
    order = list(by_gtid)
    found = {r["gtid"] for r in rows(LOG, "--start", order[2], "--stop", order[5])}
    assert found == set(order[2:6])
    assert {r["gtid"] for r in rows(LOG, "--start", order[-1])} == {order[-1]}
    ran = run("rows", LOG, "--start", f"{UUID}:77")
    assert ran.code == 1
    assert f"{UUID}:77" in ran.err


def test_times() -> None:
    path = DATA / "mysql97" / "trx_compression.binlog"  # has rows with times of 2023, made by SET TIMESTAMP
    every = rows(path)
    old = [r for r in every if r["timestamp"] < 1_700_100_000]
    assert 0 < len(old) < len(every)
    new = [r for r in every if r not in old]
    assert rows(path, "--start-datetime", "2025-01-01 00:00:00") == new
    assert rows(path, "--start", "2025-01-01T00:00:00Z") == new
    assert run("rows", path, "--start-datetime", "soon").code == 2
    assert run("rows", path, "--start", "soon").code == 2
    assert run("rows", path, "--start", "4", "--start-position", "4").code == 2


# ------------------------------------------------------------ what goes wrong


def test_damaged_log(tmp_path: Path) -> None:
    data = bytearray(LOG.read_bytes())
    at = row_positions(GOLDEN)[0] + 30
    data[at] ^= 0xFF
    path = tmp_path / "bad.binlog"
    path.write_bytes(data)
    ran = run("rows", path)
    assert ran.code == 1
    assert "wrong checksum" in ran.err
    ran = run("rows", path, "--on-error", "skip")
    assert ran.code == 0
    assert "note: damaged events were skipped" in ran.err
    assert 0 < len(ran.lines) < len(GOLDEN.truth)


# ------------------------------------------------------------ a log that grows


@pytest.mark.parametrize("command", [("rows",), ("rows", "-f", "sql"), ("events",)], ids=" ".join)
def test_follow(command: tuple[str, ...], tmp_path: Path) -> None:
    """Existing rows come immediately, later ones soon after they are written; then the next log's."""
    data = LOG.read_bytes()
    path = tmp_path / "bin.000001"
    path.write_bytes(data[:3000])
    end = 2 if "sql" in command else 0  # the end of the SQL output, which is not written while it follows
    want = run(*command, LOG).lines
    want = want[: len(want) - end]
    process = start(*command, path, "--follow", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    lines: queue.Queue[str] = queue.Queue()
    reading = threading.Thread(target=lambda: [lines.put(line.decode()) for line in process.stdout or ()])
    reading.start()
    try:
        got = [lines.get(timeout=60)]
        assert lines.qsize() < len(want) - 1
        with path.open("ab") as file:
            for begin in range(3000, len(data), 700):  # an event may be half written
                file.write(data[begin : begin + 700])
                file.flush()
        got += [lines.get(timeout=60) for _ in want[1:]]
        (tmp_path / "bin.000002").write_bytes(data)
        assert "bin.000002" in lines.get(timeout=60)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        reading.join(60)
    assert process.returncode == 130
    place = re.compile(r"bin\.000001  |[^ \"]*(bin\.000001|gtid\.binlog)")
    assert [place.sub("", line.rstrip("\n")) for line in got] == [place.sub("", line) for line in want]


def test_follow_ends_with_its_limit(tmp_path: Path) -> None:
    assert len(rows(LOG, "--follow", "-n", 5)) == 5


def test_follow_has_no_end() -> None:
    for wrong in (
        ("--stop", "5000"),
        ("--stop-datetime", "2026-11-21"),
        ("-o", "x"),
        ("-f", "parquet"),
        ("-f", "sql", "--flashback"),
    ):
        ran = run("rows", LOG, "--follow", *wrong)
        assert ran.code == 2, wrong
        assert "--follow" in ran.err
    assert run("events", "-", "--follow").code == 2


_PEAK = """
import resource, sys
from binlog_core.cli.app import app
code = app(["rows", "-", "-o", "/dev/null"], standalone_mode=False)
print(code or 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log() -> None:
    """Peaks in kB over streams of 36 and 180 MB: the shorter one fills a group already."""
    place = str(Path(binlog_core.__file__).parent.parent)
    head, block = head_and_block()
    peaks = []
    for times in (1, 5):
        process = subprocess.Popen(
            [sys.executable, "-c", _PEAK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": place},
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(head)
        for _ in range(4 * times):
            process.stdin.write(block * 1000)
        process.stdin.close()
        code, peak = map(int, process.stdout.read().split())
        process.wait(60)
        assert code == 0
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 20_000


def test_operations_in_capitals() -> None:
    assert rows(LOG, "--op", "UPDATE,Delete") == rows(LOG, "--op", "update,delete") != []


def test_the_user_s_word_for_text_of_unknown_character_set() -> None:
    path = DATA / "maria1011" / "meta_no_log.binlog"
    golden = next(g for g in golden_logs() if g.name == "maria1011/meta_no_log")
    texts = [list(c["after"].values())[5] for c in golden.truth if c["after"]]
    found = [list(row["after"].values())[5] for row in rows(path, "--charset", "utf8mb4") if row["after"]]
    assert found == texts
    assert any(not text.isascii() for text in texts)
    for unknown in ("nope", "binary"):
        ran = run("rows", path, "--charset", unknown)
        assert (ran.code, "--charset" in ran.err) == (2, True)


def test_tables_that_are_left_out() -> None:
    every = rows(LOG)
    assert {row["table"] for row in every} == {"naïve_table_a", "Route66_b"}
    kept = rows(LOG, "--exclude-table", "shop.naïve*")
    assert kept == [row for row in every if row["table"] == "Route66_b"] != []
    assert rows(LOG, "-t", "shop.*", "--exclude-table", "Route66_b", "--exclude-table", "naïve_table_a") == []
    ran = run("events", LOG, "--type", "Write_rows", "--exclude-table", "Route66_b", "-f", "jsonl")
    assert {json.loads(line)["table"] for line in ran.lines} == {"shop.naïve_table_a"}
    assert set(json.loads(run("info", LOG, "--json", "--exclude-table", "Route66_b").text)["tables"]) == {
        "shop.naïve_table_a"
    }
    ran = run("rows", LOG, "--exclude-table", "shop.Route67_b")
    assert "--exclude-table 'shop.Route67_b'; near: shop.Route66_b" in ran.err
