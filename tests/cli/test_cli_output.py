"""What commands say besides results, how they end, and what a terminal gets."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.golden import DATA, golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogWarning

pytest.importorskip("typer")

from support.cli import COMMAND, long_log, run, start

from binlog_core.cli.output import error_text, print_table, size

LOG = DATA / "mysql97" / "gtid.binlog"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_full_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        process = start("rows", LOG, stdout=full, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == b"error: No space left on device\n"


def test_broken_pipe(tmp_path: Path) -> None:
    process = start("rows", long_log(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize("command", ["info", "verify", "transactions", "rows"])
def test_a_pipe_that_nobody_reads(command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = start(command, LOG, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (141, b"")


@pytest.mark.parametrize("command", ["info", "rows", "events", "verify"])
def test_closed_standard_output_is_no_output(command: str) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, command, str(LOG)]
    place = str(Path(binlog_core.__file__).parent.parent)
    ran = subprocess.run(
        closed, env=os.environ | {"PYTHONPATH": place}, stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "result"
    out.mkdir()
    log = long_log(tmp_path, 30_000)  # on a busy machine, this process may wait for a second
    process = start("rows", log, "-o", out / "rows.jsonl", stderr=subprocess.PIPE)
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


def test_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog_core.cli import writers

    def fail(*_: object) -> None:
        raise MemoryError("realloc of 8 GB failed")

    monkeypatch.setattr(writers.JsonWriter, "write", fail)
    ran = run("rows", LOG)
    assert ran.code == 1
    assert ran.err.strip() == "error: out of memory: realloc of 8 GB failed"


def test_what_the_log_does_not_say_is_reported_once_with_the_option_for_it(tmp_path: Path) -> None:
    """Names, signs and character sets: there is one remedy, and one line."""
    log = Log("11.8.2-MariaDB")
    log.begin("shop")
    table = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(20)")], metadata=None)
    log.insert(table, [{"id": 1, "b": "x"}])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    (tmp_path / "bin.000002").write_bytes(log.getvalue())
    for command in (("rows",), ("info",), ("sql", "select * from shop.t")):
        [told] = [line for line in run(*command, tmp_path).err.splitlines() if line.startswith("note:")]
        # info takes no names unless it is asked to; the others have looked for CREATE TABLE.
        remedy = (
            "--schema ddl takes them from CREATE TABLE"
            if command == ("info",)
            else "the logs do not have their CREATE TABLE either; --schema mysql"
        )
        assert remedy in told
        assert (
            "--schema mysql://… takes them from a server" in told
            or "--schema mysql://… from a server" in told
        )
    with binlog_core.open(path) as opened, pytest.warns(BinlogWarning):
        list(opened.rows())
    assert (opened.report.unknown_signs, opened.report.unknown_charsets) == (1, 1)
    ran = run("undo", path, "--table", "shop.t")
    assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
    assert (
        "error: the log does not have the column names: the logs do not have their CREATE TABLE either"
        in ran.err
    )
    for command in (("rows", "--where", "id = 1"), ("history", "shop.t", "id=1")):
        ran = run(*command, path)
        assert ran.code == 1
        assert ran.err.count("\n") == 1, ran.err
        assert "does not have the column names, and the condition needs 'id': the logs do" in ran.err


@pytest.mark.parametrize("name", ["maria1011/meta_no_log", "maria118/meta_no_log", "mysql97/meta_minimal"])
def test_names_come_from_the_statements_in_a_log_of_a_default_server(name: str) -> None:
    """Their values are those of the server's SELECT."""
    [golden] = golden_logs(name)
    ran = run("rows", DATA / f"{name}.binlog")
    assert "note:" not in ran.err
    named = {tuple((row["after"] or row["before"]).keys()) for row in map(json.loads, ran.lines)}
    wanted = {tuple((change["after"] or change["before"]).keys()) for change in golden.truth}
    assert {frozenset(keys) for keys in named} == {frozenset(keys) for keys in wanted}


def test_a_command_that_reads_twice_notes_once() -> None:
    ran = run("history", "shop.nothing", "id=3", LOG)
    assert ran.code == 1
    assert ran.err.count("names were given that match nothing") == 1


@pytest.mark.parametrize("command", ["info", "rows", "verify"])
def test_an_error_names_the_option_that_is_missing(command: str) -> None:
    ran = run(command, DATA / "mysql97" / "encrypted.binlog")
    assert ran.code != 0
    assert "give the server's keyring file as --keys (file " in ran.err
    assert "keys=" not in ran.err


@pytest.mark.parametrize(
    "command", [("rows",), ("undo",), ("history", "shop.t", "id=3"), ("info",), ("events",)]
)
def test_a_range_that_ends_before_it_starts_is_wrong_usage(command: tuple[str, ...]) -> None:
    ran = run(*command, LOG, "--start", 500, "--stop", 100)
    assert (ran.code, ran.out) == (2, b"")
    assert "--start 500 is after --stop 100" in ran.err


def test_a_server_has_no_position_without_a_log() -> None:
    ran = run("rows", "mysql://repl@127.0.0.1:1", "--start", 500)
    assert ran.code == 2
    assert "--start 500: a server takes" in ran.err


def test_a_condition_in_an_error_stays() -> None:
    error = binlog_core.BinlogError("gtids= has GTIDs of MariaDB; no change of keys=3", path="start=7")
    assert error_text(error) == "--include-gtids has GTIDs of MariaDB; no change of keys=3 (file start=7)"


def test_sizes() -> None:
    numbers = (0, 999, 1000, 99_940, 99_960, 999_499, 999_500, 1_234_567, 5 * 10**18)
    assert [size(n) for n in numbers] == [
        "0 bytes", "999 bytes", "1.0 kB", "99.9 kB", "100 kB", "999 kB", "1.0 MB", "1.2 MB", "5000 PB",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_a_table_is_never_cut_or_folded(width: int) -> None:
    from rich.console import Console
    from rich.table import Table as Shown
    from rich.text import Text

    table = Shown("table", "rows", "log position", title="tables")
    table.add_row(Text("shop.orders"), "1,000,000", "mysql-bin.000001:17115858")
    table.add_row(Text("shop.new"), "", "")
    out = io.StringIO()
    print_table(Console(width=width, file=out), table)
    text = out.getvalue()
    assert all(cell in text for cell in ("tables", "shop.orders", "1,000,000", "mysql-bin.000001:17115858"))
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    assert ("rows 1,000,000," in text) == (width < 80)


def test_a_list_of_transactions_does_not_miss_the_names_of_columns() -> None:
    log = DATA / "mysql97" / "meta_minimal.binlog"
    assert "column names are not in the log" in run("info", log).err
    assert run("transactions", log).err == ""


def test_an_error_names_options_as_the_command_line_has_them() -> None:
    text = error_text(binlog_core.BinlogError('schema="ddl" has them; unnamed="positions" calls them c0'))
    assert text == "--schema ddl has them; --unnamed positions calls them c0"
