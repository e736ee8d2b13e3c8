"""What SECURITY.md says: names in a log are not paths, SQL, HTML or terminal commands; nothing unpickled."""

from __future__ import annotations

import ast
import datetime as dt
import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.golden import Golden, golden_logs
from support.growth import assert_linear
from support.hostile import INPUTS, MEBI, SANITIZED, cost
from support.writer import Log, Table

import binlog_core
from binlog_core._decode.selection import is_wanted_name
from binlog_core._sources.encryption_keys import read_key_file, read_keyring
from binlog_core._sources.resolve import resolve
from binlog_core.cli.output import printable
from binlog_core.cli.text import csv_line, json_line
from binlog_core.inspect.verify import verify_log
from binlog_core.replay.flashback_script import FlashbackScript
from binlog_core.replay.literals import is_plain, quote_name, quote_text
from binlog_core.replay.replay_script import ReplayScript
from binlog_core.replay.script_lines import comment
from binlog_core.replay.statements import StatementMaker

PACKAGE = Path(binlog_core.__file__).parent
UUID = "00112233-4455-6677-8899-aabbccddeeff"
EVIL = "x`; DROP TABLE y; -- \x1b[2J<script>../../x"
INJECTED = "\nDROP TABLE victims;\n#"

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


def hostile() -> bytes:
    """A log whose database, table, column, member, value and GTID tag are all meant to do harm."""
    log = Log("8.4.0")
    log.gtid(UUID, 1, tag=INJECTED)
    log.begin(EVIL)
    table = Table(EVIL, EVIL, [("id", "INT"), (EVIL, "VARCHAR(200)")], primary_key=["id"])
    log.insert(table, [{"id": 1, EVIL: "it's \\' " + EVIL + INJECTED}])
    log.commit()
    return log.getvalue()


def statements_of(text: str) -> list[str]:
    """SQL cut at semicolons as a server reads it: outside of quotes and comments to the end of a line."""
    found, current, quote, comment, i = [], "", "", False, 0
    while i < len(text):
        c = text[i]
        if comment:
            comment = c != "\n"
        elif quote:
            current += c
            if c == "\\" and quote == "'":
                i += 1
                current += text[i]
            elif c == quote:
                quote = ""
        elif c == "#" or text.startswith("-- ", i):
            comment = True
        elif c == ";":
            found.append(current.strip())
            current = ""
        else:
            quote = c if c in "`'\"" else ""
            current += c
        i += 1
    assert not current.strip()
    return found


def test_a_script_of_undo_executes_nothing_of_the_log(tmp_path: Path) -> None:
    path, out = tmp_path / "bin\nDROP TABLE p;.000001", tmp_path / "undo.sql"
    path.write_bytes(hostile())
    assert run("undo", path, "--op", "insert", "-o", out).code == 0
    text = out.read_text(encoding="ascii")
    assert "\\" not in text
    assert all(c == "\n" or c.isprintable() for c in text)
    verbs = [statement.split()[0] for statement in statements_of(text)]
    assert set(verbs) == {"SET", "PREPARE", "EXECUTE", "DEALLOCATE", "BEGIN", "COMMIT"}


@pytest.mark.parametrize("writer", [ReplayScript, FlashbackScript])
def test_generated_sql_executes_nothing_of_the_log(writer: type, tmp_path: Path) -> None:
    path = tmp_path / "bin\nDROP TABLE p;.000001"
    path.write_bytes(hostile())
    out = io.BytesIO()
    with binlog_core.open(path) as log:
        made = writer(out, StatementMaker(log.format), print, mariadb=False)
        for group in log.groups(asides=True):
            made.add(group)
        made.close()
    text = out.getvalue().decode("ascii")
    assert "\\" not in text
    assert all(c == "\n" or c.isprintable() for c in text)
    verbs = [statement.split()[0] for statement in statements_of(text)]
    assert set(verbs) == {"SET", "PREPARE", "EXECUTE", "DEALLOCATE", "BEGIN", "COMMIT"}
    assert verbs.count("EXECUTE") == 2


def test_what_a_terminal_gets_has_no_commands_for_it(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(hostile())
    for command in (
        ("info", path),
        ("verify", path),
        ("events", path),
        ("transactions", path),
        ("transactions", path, "--per", "table"),
        ("rows", path, "-v"),
        ("history", f"{EVIL}.{EVIL}".replace(".", "?"), "id=1", path),
        ("undo", path, "--op", "insert", "-o", tmp_path / "undo.sql"),
    ):
        shown = run(*command)
        assert "\x1b[2J" not in shown.text + shown.err
        assert shown.code == 0 or command[0] == "history"


def test_a_report_shows_names_and_does_not_run_them(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes(hostile())
    page = tmp_path / "page.html"
    assert run("report", path, "-o", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("kind", ["plain", "quotes", "escapes", "half"])
def test_time_for_names_grows_no_faster_than_they_do(kind: str) -> None:
    name = {"plain": "a", "quotes": "`'\"", "escapes": "\x1b\u202e\\", "half": "\udcff"}[kind]

    def run(text: str) -> None:
        printable(text)
        json_line({text: text})
        csv_line([text])
        comment(text)
        is_plain(text)
        is_wanted_name(f"shop.{text}", ("shop.*",), None)
        if kind != "half":
            quote_name(text)
            quote_text(text)

    assert_linear(run, lambda n: name * n, 4000)


def test_names_do_not_act_as_directories() -> None:
    pytest.importorskip("pyspark")
    from binlog_core.lake.tables.destination import directory_name

    for name in ("../x", "..", "/etc/passwd", "a/b", "\\\\host\\share", "C:", "\0", "a\nb", "_x", ".x", EVIL):
        made = directory_name(name, name)
        assert not {*made} & {*"/\\:\0\n "}
        assert not made.startswith((".", "_"))
        assert Path(made).name == made


def test_the_package_unpickles_and_evaluates_nothing() -> None:
    unpickling = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle"} | {
        "yaml"
    }
    for path in PACKAGE.rglob("*.py"):
        # What goes between a driver and its workers, as SECURITY.md says; nothing else there is unpickled.
        between = path in [PACKAGE / "spark" / f"{name}.py" for name in ("workers", "plan_rows", "arrival")]
        banned = unpickling - {"pickle"} if between else unpickling
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & banned, where
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in banned, where
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, where
            elif isinstance(node, ast.keyword) and node.arg in {"shell", "allow_pickle"}:
                assert isinstance(node.value, ast.Constant), where
                assert not node.value.value, where


def test_messages_have_no_values() -> None:
    """Whatever byte of a log is damaged: neither errors nor the report nor warnings repeat what rows hold."""
    secret = "correct horse battery staple"
    log = Log()
    log.begin("shop")
    table = Table(
        "shop", "people", [("id", "INT"), ("name", "VARCHAR(200)"), ("note", "JSON"), ("born", "DATE")]
    )
    row = {"id": 1, "name": secret, "note": {secret: secret}, "born": dt.date(2001, 2, 3)}
    at = log.insert(table, [row] * 2)
    log.commit()
    data = bytearray(log.getvalue())
    said = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for place in range(at, len(data)):
            original = data[place]
            for value in (0, 0x7F, 0xFF):
                data[place] = value
                for on_error in ("raise", "skip"):
                    try:
                        with binlog_core.open(
                            bytes(data), verify_checksum=False, on_error=on_error
                        ) as opened:
                            try:
                                list(opened.rows())
                            finally:
                                said.append(str(opened.report.first) + str(opened.report.skipped))
                    except binlog_core.BinlogError as error:
                        said.append(str(error) + repr(error))
            data[place] = original
    said += [str(one.message) for one in warned]
    assert len([text for text in said if "DecodeError" in text]) > 100
    assert not [text for text in said if "horse" in text]


@pytest.mark.parametrize("golden", golden_logs("*/encrypted"), ids=str)
def test_keys_are_in_no_message(golden: Golden, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    assert golden.keys is not None
    keys = Path(golden.keys).read_bytes()
    read = read_keyring if "mysql" in golden.name else read_key_file
    secrets = [key for key in read(golden.keys).values() if any(key[4:])]
    assert secrets
    said = []
    for place in range(0, min(len(golden.data), 900), 7):
        data = bytearray(golden.data)
        data[place] ^= 0x55
        try:
            with binlog_core.open(bytes(data), keys=golden.keys) as log:
                list(log.rows())
                said.append(str(log.report.first))
        except binlog_core.BinlogError as error:
            said.append(str(error) + repr(error))
    for place in range(0, len(keys), 11):
        broken = tmp_path / "keys"
        broken.write_bytes(keys[:place])
        try:
            with binlog_core.open(golden.path, keys=broken) as log:
                list(log.rows())
        except binlog_core.BinlogError as error:
            said.append(str(error) + repr(error))
    assert len(said) > 50
    for secret in secrets:
        for shown in (secret.hex(), secret.hex().upper(), repr(secret)[2:-1], secret[:8].hex()):
            assert not [text for text in said if shown in text]


WORST = (
    "cut at 40 places",
    "a 4 GiB event in a zstd payload",
    "256 MiB of small events in a zstd payload",
    "a zlib block of 512 MiB, 64 MiB allowed",
    "2000 COMPRESSED values of 1 MiB, 64 MiB allowed",
    "JSON of 2**60 shared values",
    "rows of a byte, records of 139 KB, 64 MiB allowed",
    "half a million table ids in a transaction",
    "20,000 tables of 100 columns, rows in each",
    "300,000 transactions without rows",
    "every second event of 524,288 broken",
    "a .gz file of 256 MiB of zeros",
    "a .xz file of 256 MiB of zeros",
    "a .zst file of 256 MiB of zeros",
)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes memory of its own")
@pytest.mark.parametrize("kind", WORST)
def test_memory_stays_within_its_bound(kind: str, tmp_path: Path) -> None:
    """The worst inputs of those that benchmarks/hostile.py measures."""
    if "zst" in kind:
        pytest.importorskip("zstandard")
    (hostile,) = (one for one in INPUTS if one.kind == kind)
    found = cost(hostile, tmp_path, PACKAGE.parent)
    assert found.taken < hostile.bound * MEBI, found
    assert set(found.ended) <= {"end", "cut tail", "DecodeError", "DecompressionError"}, found


ENCRYPTED = golden_logs("*/encrypted")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("golden", ENCRYPTED, ids=str)
def test_what_comes_out_of_encrypted_logs_is_its_owners_alone(golden: Golden, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for form in ("jsonl", "sql"):
            out = tmp_path / form
            ran = run("rows", golden.path, "--keys", golden.keys, "-f", form, "-o", out, "--overwrite")
            assert ran.code == 0, ran.err
            assert mode(out) == 0o600
        undone = tmp_path / "undo.sql"
        ran = run("undo", golden.path, "--keys", golden.keys, "--op", "insert", "--partial", "-o", undone)
        assert ran.code == 0, ran.err
        assert mode(undone) == 0o600
        page = tmp_path / "page.html"
        assert run("report", golden.path, "--keys", golden.keys, "-o", page).code == 0
        assert mode(page) == 0o600
        plain = tmp_path / "plain"
        (other,) = golden_logs("mysql97/gtid")
        assert run("rows", other.path, "-f", "jsonl", "-o", plain).code == 0
        assert mode(plain) == 0o644  # as the umask has it
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="spools are unnamed on Linux")
@pytest.mark.parametrize("golden", ENCRYPTED, ids=str)
def test_spools_are_their_owners_alone_and_have_no_name(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[tuple[int, list[str]]] = []
    real = tempfile.TemporaryFile

    def spool(*arguments: Any, **options: Any) -> Any:
        file = real(*arguments, **options)
        made.append((stat.S_IMODE(os.fstat(file.fileno()).st_mode), os.listdir(tmp_path)))
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", spool)
    (file,) = resolve(str(golden.path), keys=golden.keys)
    assert verify_log(file).rows == len(golden.truth)
    assert made == [(0o600, [])]


SHRINKS = """
import os, sys
import binlog_core
path, way = sys.argv[1], sys.argv[2]
mapped = {"mapped": True, "read": False, "default": None}[way]
with binlog_core.open(path, mmap=mapped, limits=binlog_core.Limits(group_rows=100)) as log:
    groups = log.groups()
    kept = [batch for batch in next(groups).batches]
    os.truncate(path, 8192)
    try:
        for group in groups:
            pass
        print("end", log.tail is not None)
    except binlog_core.BinlogError as error:
        print(type(error).__name__, error.message)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be shortened")
@pytest.mark.parametrize("way", ["mapped", "read"])
def test_a_file_that_shrinks_while_it_is_read(way: str, tmp_path: Path) -> None:
    """Read piece by piece it ends in an error or a cut tail; mapped, the system may end the process."""
    log = Log(checksum=False)
    for i in range(20_000):
        log.begin()
        log.insert(Table("shop", "t", [("id", "INT"), ("v", "VARCHAR(90)")]), [{"id": i, "v": "x" * 80}])
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    ran = subprocess.run(
        [sys.executable, "-c", SHRINKS, str(path), way], capture_output=True, text=True, timeout=60
    )
    if way == "mapped" and ran.returncode == -signal.SIGBUS:
        return
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(("end True", "BinlogError", "DecodeError")), ran.stdout


def test_key_files_are_not_written(tmp_path: Path) -> None:
    for golden in ENCRYPTED:
        folder = tmp_path / golden.name
        folder.mkdir(parents=True)
        keys = folder / "keys"
        keys.write_bytes(Path(str(golden.keys)).read_bytes())
        os.utime(keys, ns=(1, 1))
        with binlog_core.open(golden.path, keys=keys) as log:
            assert list(log.rows())
        assert keys.read_bytes() == Path(str(golden.keys)).read_bytes()
        assert keys.stat().st_mtime_ns == 1
        assert list(folder.iterdir()) == [keys]


def test_checksums_show_damage_and_no_forgery() -> None:
    """Anyone who can write a log can write a valid checksum."""
    log = Log()
    log.begin()
    log.insert(Table("shop", "t", [("id", "INT")]), [{"id": 12345}])
    log.commit()
    data = bytearray(log.getvalue())
    at = data.rindex((12345).to_bytes(4, "little"))
    begin = data.rindex(b"\x1e", 0, at) - 4  # WRITE_ROWS
    end = begin + int.from_bytes(data[begin + 9 : begin + 13], "little")
    data[at] ^= 1
    with binlog_core.open(bytes(data)) as opened, pytest.raises(binlog_core.ChecksumError):
        list(opened.rows())
    data[end - 4 : end] = zlib.crc32(data[begin : end - 4]).to_bytes(4, "little")
    with binlog_core.open(bytes(data)) as opened:
        assert [row.after for row in opened.rows()] == [{"id": 12345 ^ 1}]


def test_csv_has_values_as_they_are(tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.insert(Table("shop", "t", [("v", "VARCHAR(20)")]), [{"v": "=1+1"}])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    ran = run("rows", path, "-f", "csv")
    assert ran.code == 0
    assert "=1+1" in ran.text


def test_errors_have_no_commands_for_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "no\x1b[2Jlog\u202e.000001"
    for made in (False, True):
        if made:
            path.write_bytes(b"this is not a log")
        for command in ("info", "verify", "rows", "events"):
            shown = run(command, path)
            assert shown.code
            assert "\\u001b[2J" in shown.err
            assert "\x1b[2J" not in shown.text + shown.err
            assert "\u202e" not in shown.text + shown.err
