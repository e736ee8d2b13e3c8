"""``binlog-core export``: what a user sees, and the exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.golden import golden_logs

pytest.importorskip("typer")

from typer.testing import CliRunner

import binlog_core
from binlog_core.cli.app import app
from binlog_core.cli.export import rows_table
from binlog_core.cli.output import size
from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.schema.given import Schema

GOLDEN = golden_logs("mysql97/types_ints")[0]


# Each command as in a process of its own, except that Java starts only once: its output goes to files.
COMMANDS = """
import json, os, sys
from binlog_core.cli import main
commands = json.loads(sys.argv[1])
for number, (name, arguments) in enumerate(commands):
    for descriptor, kind in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{kind}", os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv[1:] = ["export", *arguments, "--master", "local[1]"]
    try:
        main()
    except SystemExit as ended:
        if number == len(commands) - 1:
            raise  # the process ends as the last command
        if ended.code:
            print(f"ended with {ended.code}", file=sys.stderr)
    sys.stdout.flush()
"""


@dataclass
class Exported:
    """What three exports have said and left: one that works, one with a state, one of a damaged log."""

    folder: Path
    code: int  # of the last

    def said(self, name: str) -> tuple[str, str]:
        return tuple((self.folder / f"{name}.{kind}").read_text("utf-8") for kind in ("out", "err"))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    pytest.importorskip("pyspark")
    folder = tmp_path_factory.mktemp("exports")
    data = bytearray(GOLDEN.data)
    data[max(GOLDEN.row_positions) + 25] ^= 0xFF
    (folder / "damaged").mkdir()
    (folder / "damaged" / "bin.000001").write_bytes(data)
    log = str(GOLDEN.path)
    commands = {
        "plain": [log, "plain/out", "--current", "plain/now", "--show", "1", "--split-size", "2k"],
        "state": [
            *(log, "state/out", "--state", "state/state.json"),
            *("--status", "state/lag.prom", "--status", "state/lag.json"),
        ],
        "damaged": ["damaged/bin.000001", "damaged/out"],
    }
    for name in commands:
        (folder / name).mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(list(commands.items()))],
        cwd=folder,
        check=False,
        env={
            **os.environ,
            "COLUMNS": "160",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": str(Path(binlog_core.__file__).parents[1]),
        },
    )
    return Exported(folder, done.returncode)


@pytest.mark.spark
def test_export_tells_what_it_wrote(exported: Exported) -> None:
    out, err = exported.said("plain")
    # Nothing from Spark itself, and no progress bar without a terminal
    (line,) = err.splitlines()
    assert re.match(r"slowest split: \d+\.\d\d s, \d+\.\d times the mean", line)
    ops = [row["op"] for row in GOLDEN.truth]
    inserts, updates, deletes = (ops.count(op) for op in ("insert", "update", "delete"))
    name = f"{GOLDEN.truth[0]['db']}.{GOLDEN.truth[0]['table']}"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    summary = next(row for row in cells if row and row[0] == name)
    manifest = json.loads((exported.folder / "plain" / "out" / "_manifest.json").read_text())
    files = manifest["tables"][0]["files"]
    assert summary[1:5] == [str(inserts), str(updates), str(deletes), str(len(files))]
    assert summary[5] == size(sum(file["bytes"] for file in files))
    number = -(-len(GOLDEN.data) // 2048)
    assert f"1 log, {size(len(GOLDEN.data) - 4)} in {number} splits" in " ".join(out.split())
    assert float(summary[6]) >= 0
    assert next(row for row in cells if row and row[0] == "all")[1:4] == summary[1:4]
    # The first row of the result, read back through Spark.
    first = GOLDEN.truth[0]["after"]
    shown = {row[0]: row[1] for row in cells if row and len(row) == 2}
    assert {name: shown[name] for name in first} == {name: str(value) for name, value in first.items()}
    assert shown["_change_type"] == "insert"
    # The table as it is now
    left: set[int] = set()
    for change in GOLDEN.truth:
        left -= {change["before"]["id"]} if change["before"] else set()
        left |= {change["after"]["id"]} if change["after"] else set()
    assert [name, str(len(left)), ""] in cells


@pytest.mark.spark
def test_a_damaged_log_is_one_line(exported: Exported) -> None:
    out, err = exported.said("damaged")
    assert exported.code == 1
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert "damaged/bin.000001" in line
    assert f"offset {max(GOLDEN.row_positions)}" in line
    assert os.listdir(exported.folder / "damaged") == ["bin.000001"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing", "missing"),
        ("empty", "no binary log"),
        ("*.binlog", "no file matches the pattern"),
        ("text.txt", "not a binary log: expected fe 62 69 6e at its beginning, found 68 65 6c 6c"),
    ],
)
def test_what_cannot_be_read_is_reported_before_spark_starts(
    tmp_path: Path, target: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("binlog_core.cli.export.spark_session")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_bytes(b"hello")
    done = CliRunner().invoke(app, ["export", str(tmp_path / target), str(tmp_path / "out")])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not (tmp_path / "out").exists()


class _Begun(Exception):
    """Spark would be started now."""


def _schema_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """What an export asks for as its source of names."""
    given = []

    def begin(*inputs: object, options: ReadOptions, **more: object) -> None:
        given.append(options.schema)
        raise _Begun

    monkeypatch.setattr("binlog_core.cli.export.spark_session", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr("binlog_core.spark.export_logs", begin)
    done = CliRunner().invoke(app, ["export", *arguments, "out"])
    assert isinstance(done.exception, _Begun), done.output
    return given[0]


def test_names_that_logs_lack_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, silent = (golden_logs(name)[0].path for name in ("mysql97/meta_full", "maria1011/meta_no_log"))
    assert _schema_of(monkeypatch, str(named)) is None
    assert _schema_of(monkeypatch, str(silent)) == "ddl"
    assert _schema_of(monkeypatch, str(silent), "--unnamed", "positions") is None
    assert _schema_of(monkeypatch, str(silent), "--schema", "mysql://root@db1") == "mysql://root@db1"

    monkeypatch.setattr(
        "binlog_core.cli.export._keep", lambda server, folder, login: shutil.copy(silent, folder)
    )
    for visible in ({"shop.t": "CREATE TABLE t (id INT)"}, {}):
        asked = Schema.load(visible)
        monkeypatch.setattr("binlog_core.cli.export.names_at", lambda address, wanted: asked)  # noqa: B023
        assert _schema_of(monkeypatch, "mysql://root@db1") == (asked if visible else "ddl")


@pytest.mark.parametrize(
    "arguments",
    [
        ["only-one"],
        ["a", "b", "--images", "none"],
        ["a", "b", "--show", "-1"],
        ["a", "b", "--split-size", "many"],
        ["a", "b", "--format", "delta", "--current", "c"],
        ["a", "b", "--metadata", "_gtid,_thread_id"],
        ["a", "b", "--runner", "local", "--show", "1"],
        ["a", "b", "--runner", "local", "--master", "local[2]"],
        ["a", "b", "--runner", "local", "--current", "c"],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["export", *arguments]).exit_code == 2


def test_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    command = ["export", str(GOLDEN.path), str(tmp_path / "out"), "--runner", "local"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "160"})
    assert done.exit_code == 0
    assert f"1 log, {size(len(GOLDEN.data) - 4)} in 1 split" in " ".join(done.output.split())
    assert (tmp_path / "out" / "_manifest.json").exists()


def test_wide_rows_are_shown_upright() -> None:
    from rich.console import Console

    def lines(width: int) -> list[str]:
        console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
        console.print(rows_table("d.t", ["a", "b"], [(1, "x" * 30), (None, b"\x01")], width=width))
        return console.export_text().splitlines()

    assert any(re.search(r"│ 1 +│ x{30}", line) for line in lines(80))
    upright = lines(30)
    assert any("row 1" in line and "row 2" in line for line in upright)
    assert any(re.search(r"│ a +│ 1 +│ NULL", line) for line in upright)


def test_control_characters_do_not_reach_the_terminal() -> None:
    from binlog_core.cli.export import _cell

    assert _cell("a\x1b[31mb\n") == "a·[31mb·"
    assert _cell("[bold]") == "[bold]"


def test_names_in_what_an_export_says() -> None:
    """Of tables, logs and the output."""
    from types import SimpleNamespace

    from rich.console import Console

    from binlog_core.cli import export

    evil = "a\x1b]0;b\x9b1m\u202e"
    table = SimpleNamespace(
        database=evil,
        table=evil,
        rows=dict.fromkeys(("insert", "update_postimage", "delete"), 1),
        files=1,
        bytes=1,
        seconds=0.0,
        directory=None,
        reason=evil,
    )
    result = SimpleNamespace(
        output=evil, repeated=False, logs=1, splits=[], log_bytes=1, seconds=0.0, tables=[table], run_id=evil
    )
    console = Console(width=300, file=io.StringIO(), force_terminal=True)
    for shown in (
        export._summary(result),  # type: ignore[arg-type]
        export._current_summary(evil, [table]),  # type: ignore[list-item]
        rows_table(evil, [evil], [(evil,)], width=300),
    ):
        console.print(shown)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("\\u001b]0;b\\u009b1m\\u202e") >= 8
    assert not {"\x9b", "\u202e", "\x07"} & set(text)
    assert "\x1b]" not in text


@pytest.mark.spark
def test_export_continues_with_a_state(exported: Exported) -> None:
    out, err = exported.said("state")
    assert "error" not in err and "ended" not in err
    folder = exported.folder / "state"
    rows = len(GOLDEN.truth) + sum(row["op"] == "update" for row in GOLDEN.truth)
    told = json.loads((folder / "lag.json").read_text())
    assert sum(sum(counts.values()) for counts in told["rows"].values()) == rows
    assert f"{GOLDEN.path.name}:{told['position']}" in out
    text = (folder / "lag.prom").read_text()
    assert re.search(r"^binlog_core_export_seconds_behind\{output=.*\} 0\.0$", text, re.MULTILINE)
    assert (
        sum(int(n) for n in re.findall(r"^binlog_core_export_rows_total\{.*\} (\d+)$", text, re.MULTILINE))
        == rows
    )
    assert os.listdir(folder / "out") == ["000001"]


def test_what_does_not_go_with_a_state(tmp_path: Path) -> None:
    for arguments in (
        ["--status", "x.prom"],
        ["--state", "s", "--overwrite"],
        ["--state", "s", "--run-id", "r"],
    ):
        assert (
            CliRunner().invoke(app, ["export", str(GOLDEN.path), str(tmp_path / "o"), *arguments]).exit_code
            == 2
        )
