"""``binlog-core rows``: every format against the servers' truth, ranges, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import queue
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA, Golden, golden_logs

import binlog_core

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import run, start

LOG = DATA / "mysql97" / "gtid.binlog"
GOLDEN = next(g for g in golden_logs() if g.name == "mysql97/gtid")
UUID = "cbecc49e-e55e-11f1-b91d-02fc00000001"
SIMPLE = ("mysql97/types_ints", "maria118/types_ints", "mysql97/types_decimals", "maria1011/types_decimals")


def rows(*arguments: object) -> list[dict[str, Any]]:
    ran = run("rows", *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.lines]


def row_positions(golden: Golden) -> list[int]:
    """Of the rows events, by SHOW BINLOG EVENTS."""
    return [e["pos"] for e in golden.events if e["type"] in ("Write_rows", "Update_rows", "Delete_rows")]


# ------------------------------------------------------------ formats


@pytest.mark.parametrize("name", SIMPLE)
def test_jsonl(name: str) -> None:
    """Integers and decimals stand in the truth as they do in JSON here."""
    golden = next(g for g in golden_logs() if g.name == name)
    want = [(c["op"], c["db"], c["table"], c["before"], c["after"]) for c in golden.truth]
    got = [(c["op"], c["database"], c["table"], c["before"], c["after"]) for c in rows(golden.path)]
    assert got == want


def test_jsonl_of_other_types() -> None:
    """By hand: what has no type in JSON."""
    import datetime as dt
    from decimal import Decimal

    from binlog_core.cli.text import csv_line, json_line

    moment = dt.datetime(2026, 11, 21, 8, 0, 5, 250000, dt.UTC)
    record = {
        "d": Decimal("-0.50"),
        "b": b"\x00\xff",
        "t": -dt.timedelta(hours=838, minutes=59, seconds=59, microseconds=500000),
        "day": dt.date(1, 2, 3),
        "at": moment,
        "naive": dt.datetime(2026, 1, 1),
        "set": ["a", "b"],
        "none": None,
        "text": 'say "hi",\n',
    }
    assert json.loads(json_line(record)) == {
        "d": "-0.50",
        "b": {"hex": "00ff"},
        "t": "-838:59:59.500000",
        "day": "0001-02-03",
        "at": "2026-11-21 08:00:05.250000+00:00",
        "naive": "2026-01-01 00:00:00",
        "set": ["a", "b"],
        "none": None,
        "text": 'say "hi",\n',
    }
    fields = next(csv.reader(io.StringIO(csv_line(record.values()).decode(), newline="")))
    assert fields[:4] == ["-0.50", "00ff", "-838:59:59.500000", "0001-02-03"]
    assert fields[6:] == ['["a", "b"]', "", 'say "hi",\n']
    assert csv_line(["", None, " x"]) == b'"",," x"\n'


@pytest.mark.parametrize("name", SIMPLE)
def test_csv(name: str) -> None:
    golden = next(g for g in golden_logs() if g.name == name)
    table = golden.truth[0]["table"]
    want = []
    for change in golden.truth:
        if change["table"] == table:
            want += [change[side] for side in ("before", "after") if change[side] is not None]
    ran = run("rows", golden.path, "-t", table, "-f", "csv", "--no-change-columns")
    assert ran.code == 0, ran.err
    got = list(csv.DictReader(io.StringIO(ran.text, newline="")))
    assert got == [{k: "" if v is None else str(v) for k, v in row.items()} for row in want]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_arrow_and_parquet(form: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    golden = next(g for g in golden_logs() if g.name == "mysql97/types_ints")
    table = golden.truth[0]["table"]
    path = tmp_path / "out"
    ran = run("rows", golden.path, "-t", table, "-f", form, "-o", path)
    assert ran.code == 0, ran.err
    found = parquet.read_table(path) if form == "parquet" else pyarrow.ipc.open_stream(path).read_all()
    images = []
    for change in golden.truth:
        if change["table"] == table:
            images += [change[side] for side in ("before", "after") if change[side] is not None]
    assert found.select(list(images[0])).to_pylist() == images
    assert set(found.column("_change_type").to_pylist()) <= {
        "insert",
        "delete",
        "update_preimage",
        "update_postimage",
    }


def test_one_table_formats_say_so(tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        ran = run("rows", LOG, "-f", form, "-o", tmp_path / "out")
        assert ran.code == 1
        assert "--table" in ran.err
    assert list(tmp_path.iterdir()) == []


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
    path = DATA / "mysql97" / "trx_compression.binlog"  # has rows of 2023 that SET TIMESTAMP made
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


def test_unknown_table() -> None:
    ran = run("rows", LOG, "--table", "rute66")
    assert (ran.code, ran.out) == (1, b"")
    assert "no table 'rute66'" in ran.err
    assert "near: shop.Route66_b" in ran.err
    ran = run("rows", LOG, "--table", "shop.Route66_b", "--stop-position", 200)
    assert (ran.code, ran.out) == (0, b""), "the table is in the log, its rows are not in the range"


def test_unknown_column(tmp_path: Path) -> None:
    ran = run("rows", LOG, "-t", "naïve_table_a", "--columns", "exta")
    assert (ran.code, ran.out) == (1, b""), "nothing is written before"
    ran = run("rows", LOG, "-t", "naïve_table_a", "--columns", "id,exta", "-o", tmp_path / "out")
    assert ran.code == 1
    assert ran.out == b""
    assert "'exta'; near: extra" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_output_exists(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("mine")
    ran = run("rows", LOG, "-o", path)
    assert ran.code == 1
    assert "--overwrite" in ran.err
    assert path.read_text() == "mine"
    assert run("rows", LOG, "-o", path, "--overwrite").code == 0
    assert len(path.read_text().splitlines()) == len(GOLDEN.truth)
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    assert run("rows", LOG, "-o", tmp_path / "no" / "out").code == 1


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_full_disk(form: str, tmp_path: Path) -> None:
    """A limit on the size of files is as good as a full disk."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    log = DATA / "mysql97" / "types_strings.binlog"
    golden = next(g for g in golden_logs() if g.path == log)
    command = ("rows", log, "-t", golden.truth[0]["table"], "-f", form, "-o", tmp_path / "out")
    process = start(*command, preexec_fn=small_files, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert said.startswith(b"error: File too large")
    assert said.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_full_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        process = start("rows", LOG, stdout=full, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == b"error: No space left on device\n"


def _head_and_block() -> tuple[bytes, bytes]:
    """What a log begins with, and its transactions, which may be repeated (positions do not agree then)."""
    golden = next(g for g in golden_logs() if g.name == "mysql97/types_ints")
    begin = next(e["pos"] for e in golden.events if e["type"] == "Anonymous_Gtid")
    end = next(e["pos"] for e in golden.events if e["type"] == "Rotate")
    return golden.data[:begin], golden.data[begin:end]


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A log that takes a while."""
    head, block = _head_and_block()
    path = tmp_path / "long.binlog"
    path.write_bytes(head + block * 2000)
    return path


def test_broken_pipe(long_log: Path) -> None:
    process = start("rows", long_log, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


def test_interrupted(long_log: Path, tmp_path: Path) -> None:
    out = tmp_path / "result"
    out.mkdir()
    process = start("rows", long_log, "-o", out / "rows.jsonl", stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not list(out.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == b"interrupted\n"
    assert list(out.iterdir()) == []


def test_interrupted_before_it_begins() -> None:
    """Also while libraries are loaded: no traceback."""
    code = (
        "import os, signal, sys, binlog_core.cli as cli\n"
        "kill = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, type('', (), {'find_spec': kill}))\n"
        "cli.main()"
    )
    place = str(Path(binlog_core.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": place}, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, b"")


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
    """What is there comes at once, what is written next soon after; then the next log."""
    data = LOG.read_bytes()
    path = tmp_path / "bin.000001"
    path.write_bytes(data[:3000])
    end = 2 if "sql" in command else 0  # what SQL has at its end, which does not come
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


# ------------------------------------------------------------ terminal and pipe


def _said_on_terminal(pause: float) -> bytes:
    """What a command says on a terminal, while its input makes a pause after the first groups."""
    head, block = _head_and_block()
    master, slave = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "100"}
    process = start(
        "rows", "-", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=slave, env=environment
    )
    os.close(slave)
    assert process.stdin is not None
    process.stdin.write(head + block * 3000)
    time.sleep(pause)
    process.stdin.write(block * 3000)
    process.stdin.close()
    said = b""
    try:
        while chunk := os.read(master, 65536):
            said += chunk
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert process.wait(60) == 0
    return said


def test_progress_on_a_terminal_only(long_log: Path) -> None:
    assert b"<stdin>" in _said_on_terminal(pause=1.1)
    process = start("rows", long_log, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")


def test_binary_formats_not_to_a_terminal() -> None:
    master, slave = pty.openpty()
    process = start("rows", LOG, "-t", "Route66_b", "-f", "arrow", stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    _, said = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 2
    assert b"--output" in said


_PEAK = """
import resource, sys
from binlog_core.cli.app import app
code = app(["rows", "-", "-o", "/dev/null"], standalone_mode=False)
print(code or 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log() -> None:
    """Peaks in kB over streams of 36 and 180 MB: the shorter one fills a group already."""
    place = str(Path(binlog_core.__file__).parent.parent)
    head, block = _head_and_block()
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


def test_versions() -> None:
    ran = run("versions")
    assert ran.code == 0
    found = dict(line.split(None, 1) for line in ran.lines)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["crc32"]
    assert binlog_core.show_versions is not None


@pytest.mark.parametrize("command", ["rows", "events"])
def test_a_table_that_is_quiet_in_the_range_is_no_mistake(command: str) -> None:
    later = ["--start-datetime", "2030-01-01"]
    table = rows(LOG)[0]["table"]
    ran = run(command, LOG, "--table", table, *later)
    assert (ran.code, ran.out) == (0, b""), ran.err
    ran = run(command, LOG, "--table", f"{table}x", *later)
    assert ran.code == 1
    assert f"near: shop.{table}" in ran.err


def test_a_terminal_gets_no_commands_of_values(tmp_path: Path) -> None:
    """Raw control and bidirectional characters of values come as escapes, on a terminal only."""
    from support.writer import Log, Table

    log = Log("8.4.0")
    log.begin("shop")
    evil = "a\x1b[2J\x9b1m\u202eb"
    log.insert(Table("shop", "t", [("id", "INT"), ("v", "VARCHAR(50)")]), [{"id": 1, "v": evil}])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    assert evil in run("rows", path, "-f", "csv").text
    named = tmp_path / "a\x1b]0;b\x9b1m\u202e.000001"
    named.write_bytes(log.getvalue())
    for command in (
        ("rows", path, "-f", "csv"),
        ("rows", path, "-f", "jsonl"),
        ("events", path, named, "-f", "jsonl"),
        ("events", path, named),
        ("info", path, named),
        ("info", path, named, "--json"),
    ):
        master, slave = pty.openpty()
        process = start(
            *command, stdout=slave, stderr=subprocess.DEVNULL, env={"NO_COLOR": "1", "TERM": "dumb"}
        )
        os.close(slave)
        said = b""
        try:
            while chunk := os.read(master, 65536):
                said += chunk
        except OSError:
            pass
        os.close(master)
        assert process.wait(60) == 0
        text = said.decode().replace("\r\n", "\n")
        assert "\\u202e" in text
        assert all(c.isprintable() or c == "\n" for c in text)


def test_operations_in_capitals() -> None:
    assert rows(LOG, "--op", "UPDATE,Delete") == rows(LOG, "--op", "update,delete") != []


def test_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog_core.cli import writers

    def fail(*_: object) -> None:
        raise MemoryError("realloc of 8 GB failed")

    monkeypatch.setattr(writers.JsonWriter, "write", fail)
    ran = run("rows", LOG)
    assert ran.code == 1
    assert ran.err.strip() == "error: out of memory: realloc of 8 GB failed"


def test_what_the_log_does_not_tell_is_told_once_with_its_option() -> None:
    path = DATA / "maria1011" / "meta_no_log.binlog"
    ran = run("rows", path)
    told = [line for line in ran.err.splitlines() if "character set" in line]
    assert len(told) == 1
    assert "--schema or --charset tells" in told[0]
    assert "schema=" not in ran.err


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


def test_a_server_id_or_gtid_that_is_nowhere_is_told() -> None:
    path = DATA / "maria1011" / "ddl.binlog"
    for command in ("rows", "events", "info"):
        assert "--server-id 99" in run(command, path, "--server-id", "99").err.replace(
            "server-id=", "server-id "
        )
    assert "--include-gtids 7-7-7" in run("events", path, "--include-gtids", "7-7-7").err
    assert "--include-gtids" in run("rows", path, "--include-gtids", "7-7-7").err
    assert "--include-gtids" not in run("events", path, "--include-gtids", "0-11-912").err


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_errors_of_pyarrow_are_one_line(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a batch whose stream pyarrow finds broken, or of a type that Parquet does not take."""
    pyarrow = pytest.importorskip("pyarrow")

    def broken(_self: object, **_options: object) -> None:
        raise pyarrow.ArrowNotImplementedError("no such\nlayout")

    monkeypatch.setattr("binlog_core.batch.ChangeBatch.to_arrow", broken)
    out = tmp_path / "rows"
    ran = run("rows", LOG, "-t", "shop.Route66_b", "-f", form, "-o", out)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert f"error: {form} cannot hold it: no such layout" in ran.err
    assert "table shop.Route66_b" in ran.err
    assert not out.exists()


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_errors_of_pyarrow_at_the_end_are_one_line(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    class Broken:
        def write_table(self, _table: object) -> None:
            pass

        def close(self) -> None:
            raise pyarrow.ArrowInvalid("no such\nfooter")

    monkeypatch.setattr(pyarrow.ipc, "new_stream", lambda *_: Broken())
    monkeypatch.setattr(parquet, "ParquetWriter", lambda *_, **_more: Broken())
    out = tmp_path / "rows"
    ran = run("rows", LOG, "-t", "shop.Route66_b", "-f", form, "-o", out)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert f"error: {form} cannot hold it: no such footer" in ran.err
    assert not out.exists()


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


@pytest.mark.parametrize("form", ["jsonl", "csv", "sql"])
def test_long_members_do_not_fill_memory(form: str, tmp_path: Path) -> None:
    """260 MB of text out of 20 kB; each value is there."""
    import tracemalloc

    from support.writer import Log, Table

    table = Table("d", "t", [("id", "INT"), ("e", "ENUM()", {"members": ("a" * 65000, "b")})])
    log = Log("8.4.0")
    log.begin("d")
    log.insert(table, [{"id": i, "e": 2 if i % 7 == 0 else 1} for i in range(4000)])
    log.commit()
    path, out = tmp_path / "bin.000001", tmp_path / "out"
    path.write_bytes(log.getvalue())
    run("rows", path, "-n", "1", "-f", form)  # what is imported once
    tracemalloc.start()
    try:
        ran = run("rows", path, "-f", form, "-o", out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ran.code == 0, ran.err
    assert peak < 80 << 20
    text = out.read_text()
    assert (text.count("a" * 65000), len(re.findall(r"\bb\b", text))) == (3428, 572)


def test_an_image_is_not_much_longer_as_text_than_in_the_log(tmp_path: Path) -> None:
    """A control character is six in JSON, a byte two in SQL; names come once for each image."""
    from support.writer import Log, Table

    table = Table("d", "t" * 60, [("id", "INT"), ("v" * 60, "LONGTEXT"), ("b", "LONGBLOB")])
    value = {"id": 1, "v" * 60: "\x01" * 50_000, "b": b"\xff" * 100_000}
    log = Log("8.4.0")
    log.begin("d")
    log.update(table, [(value, value | {"id": 2})])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    assert len(run("rows", path, "-f", "jsonl").out) < 2 * (6 * 50_000 + 2 * 100_000 + 400)
    assert len(run("rows", path, "-f", "sql").out) < 2 * (2 * 150_000 + 400) + 2000


def test_a_terminal_gets_no_commands_of_names_in_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from binlog_core.cli import progress

    shown = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(progress, "messages", lambda: shown)
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    bar = progress.Bar(100)
    bar("logs/a\x1b]0;b\x9b1m\u202e[red].000001", 50)
    bar.close()
    text = shown.file.getvalue()
    assert "a\\u001b]0;b\\u009b1m\\u202e[red].000001" in text
    assert not {"\x1b]0", "\x9b", "\u202e"} & {text[i : i + n] for i in range(len(text)) for n in (1, 3)}
