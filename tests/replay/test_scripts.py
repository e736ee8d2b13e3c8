"""SQL scripts: what they commit and report, and how real clients run them."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from support.golden import DATA
from support.server import SERVER, connect
from support.writer import Log, Table

pytest.importorskip("typer")

from support.cli import Ran, run

from binlog_core import Limits
from binlog_core.replay.literals import quote_name

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

UUID = "00112233-4455-6677-8899-aabbccddeeff"
ORDERS = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(20)")], primary_key=["id"])


def row(number: int) -> list[dict[str, Any]]:
    return [{"id": number, "note": f"row {number}"}]


def xa(log: Log, verb: str, xid: str = "X'61',X'',1") -> int:
    return log.query(f"XA {verb} {xid}")


def xa_prepare(log: Log, *, one_phase: bool = False) -> int:
    return log.event(38, struct.pack("<BIII", one_phase, 1, 1, 0) + b"a")


def transaction(log: Log, number: int, *inside: Callable[[], object], end: str = "") -> None:
    """BEGIN, a row, what is inside, another row and the end."""
    log.begin("shop")
    log.insert(ORDERS, row(number))
    for one in inside:
        one()
    log.insert(ORDERS, row(number + 1))
    if end:
        log.query(end)
    else:
        log.commit()


def play(log: Log | bytes, tmp_path: Path, *options: str, code: int = 0) -> Ran:
    path = tmp_path / "bin.000001"
    path.write_bytes(log if isinstance(log, bytes) else log.getvalue())
    ran = run("rows", path, "-f", "sql", *options)
    assert ran.code == code, ran.err
    assert ran.text.isascii()
    return ran


def work(ran: Ran) -> list[str]:
    """Each transaction by how it ends and the numbers of its rows."""
    found, numbers, open_ = [], [], False
    for line in ran.lines:
        if line == "BEGIN;":
            assert not open_
            open_, numbers = True, []
        elif line in ("COMMIT;", "ROLLBACK;"):
            assert open_
            open_ = False
            found.append(f"{line[:-1]} {' '.join(numbers)}")
        elif open_:
            numbers += re.findall(r"(?:VALUES \(|WHERE `id` = )(\d+)", line)
            numbers += re.findall(r"^(SAVEPOINT|ROLLBACK TO)", line)
    assert not open_
    return found


# ------------------------------------------------------------ what is committed


def test_a_log_that_ends_inside_a_transaction(tmp_path: Path) -> None:
    log = Log("8.4.0")
    transaction(log, 1)
    log.begin("shop")
    log.insert(ORDERS, row(3))
    ran = play(log, tmp_path)
    assert work(ran) == ["COMMIT 1 2", "ROLLBACK 3"]
    assert "not committed, since its beginning or its end was not read" in ran.err
    ran = play(log, tmp_path, "--flashback", code=1)
    assert ran.out == b""
    assert "cannot be reversed completely" in ran.err
    assert work(play(log, tmp_path, "--flashback", "--partial")) == ["COMMIT 2 1"]


def test_a_range_that_ends_inside_a_transaction(tmp_path: Path) -> None:
    log = Log("8.4.0")
    places: list[int] = []
    transaction(log, 1, lambda: places.append(log.position))
    assert work(play(log, tmp_path, "--stop-position", str(places[0]))) == ["ROLLBACK 1"]
    assert work(play(log, tmp_path, "--start-position", str(places[0]))) == ["ROLLBACK 2"]


def test_a_limit_inside_a_transaction(tmp_path: Path) -> None:
    log = Log("8.4.0")
    transaction(log, 1)
    transaction(log, 3)
    assert work(play(log, tmp_path, "-n", "2")) == ["COMMIT 1 2"]
    assert work(play(log, tmp_path, "-n", "3")) == ["COMMIT 1 2", "ROLLBACK 3"]


def test_what_the_log_rolls_back(tmp_path: Path) -> None:
    log = Log("8.4.0")
    transaction(log, 1, end="ROLLBACK")
    transaction(log, 3, end="COMMIT")
    ran = play(log, tmp_path)
    assert work(ran) == ["ROLLBACK 1 2", "COMMIT 3 4"]
    assert "it is rolled back in the log" in ran.err
    play(log, tmp_path, "--flashback", code=1)
    assert work(play(log, tmp_path, "--flashback", "--partial")) == ["COMMIT 4 3"]


def test_savepoints(tmp_path: Path) -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.query("SAVEPOINT `a\\`")
    log.insert(ORDERS, row(1))
    log.query("SAVEPOINT `b`")
    log.insert(ORDERS, row(2))
    log.query("ROLLBACK TO `a\\`")
    log.commit()
    ran = play(log, tmp_path)
    assert work(ran) == ["COMMIT SAVEPOINT 1 SAVEPOINT 2 ROLLBACK TO"]
    assert [line for line in ran.lines if "SAVEPOINT" in line or "ROLLBACK TO" in line] == [
        "SAVEPOINT `s0`;",
        "SAVEPOINT `s1`;",
        "ROLLBACK TO `s0`;",
    ]
    play(log, tmp_path, "--flashback", code=1)


def test_a_savepoint_has_one_name_however_it_was_written(tmp_path: Path) -> None:
    log = Log("10.11.6-MariaDB")
    transaction(
        log,
        1,
        lambda: log.query("SAVEPOINT `é`"),
        lambda: log.query('ROLLBACK TO "É"'),
        lambda: log.query("ROLLBACK TO e"),
    )
    ran = play(log, tmp_path)
    assert [line for line in ran.lines if "SAVEPOINT" in line or "ROLLBACK TO" in line] == [
        "SAVEPOINT `s0`;",
        "ROLLBACK TO `s0`;",
        "ROLLBACK TO `s0`;",
    ]


def test_a_savepoint_before_the_range_is_not_in_the_script(tmp_path: Path) -> None:
    """A client would end with an error there."""
    log = Log("10.11.6-MariaDB")
    places: list[int] = []
    transaction(
        log,
        1,
        lambda: log.query("SAVEPOINT `a`"),
        lambda: places.append(log.position),
        lambda: log.insert(ORDERS, row(5)),
        lambda: log.query("ROLLBACK TO `a`"),
    )
    assert work(play(log, tmp_path, "--start-position", str(places[0]))) == ["ROLLBACK 5 2"]


def test_xa_transactions_come_where_they_are_committed(tmp_path: Path) -> None:
    log = Log("8.4.0")
    for number, xid in ((1, "X'61',X'',1"), (3, "X'62',X'',1"), (5, "X'63',X'',1")):
        xa(log, "START", xid)
        log.insert(ORDERS, row(number))
        xa(log, "END", xid)
        log.event(38, struct.pack("<BIII", 0, 1, 1, 0) + bytes.fromhex(xid[2:4]))
    transaction(log, 7)
    xa(log, "ROLLBACK", "X'62',X'',1")
    xa(log, "COMMIT", "X'61',X'',1")
    ran = play(log, tmp_path)
    assert work(ran) == ["COMMIT 7 8", "COMMIT 1"]
    assert "rolled back by XA ROLLBACK" in ran.err
    assert "neither committed nor rolled back so far" in ran.err
    assert work(play(log, tmp_path, "--flashback")) == ["COMMIT 1", "COMMIT 8 7"]


def test_xa_committed_in_one_phase_or_prepared_before(tmp_path: Path) -> None:
    log = Log("8.4.0")
    xa(log, "COMMIT", "X'ff',X'',1")
    xa(log, "START")
    log.insert(ORDERS, row(1))
    xa(log, "END")
    xa_prepare(log, one_phase=True)
    ran = play(log, tmp_path)
    assert work(ran) == ["COMMIT 1"]
    assert "XA COMMIT of a transaction prepared earlier" in ran.err


@pytest.mark.parametrize("name", ["mysql97/xa", "maria118/xa", "maria1011/xa"])
def test_xa_of_servers(name: str) -> None:
    """By hand, from what was run: two are committed later, one in one phase, one rolled back, one plain."""
    ran = run("rows", DATA / f"{name}.binlog", "-f", "sql")
    assert [found.partition(" ")[0] for found in work(ran)] == ["COMMIT"] * 4
    assert "VALUES (50," in ran.text
    assert ran.err.count("rolled back by XA ROLLBACK") == 1


@pytest.mark.parametrize("skip", [False, True])
def test_damage_in_a_transaction(skip: bool, tmp_path: Path) -> None:
    log = Log("8.4.0")
    transaction(log, 1)
    places: list[int] = []
    transaction(log, 3, lambda: places.append(log.position), lambda: log.insert(ORDERS, row(9)))
    transaction(log, 5)
    data = bytearray(log.getvalue())
    data[places[0] + 25] ^= 0xFF  # in the table map or the rows: its checksum is wrong
    if not skip:
        ran = play(bytes(data), tmp_path, code=1)
        assert work(ran) == ["COMMIT 1 2", "ROLLBACK 3"]
        return
    ran = play(bytes(data), tmp_path, "--on-error", "skip")
    found = work(ran)
    assert found[0] == "COMMIT 1 2"
    assert found[-1] == "COMMIT 5 6"
    assert all(one.startswith("ROLLBACK 3") for one in found[1:-1])
    assert "a damaged event" in ran.err
    play(bytes(data), tmp_path, "--on-error", "skip", "--flashback", code=1)


# ------------------------------------------------------------ what errors and notes name


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("ALTER TABLE orders ADD COLUMN x INT", False),
        ("TRUNCATE TABLE orders", True),
        ("DROP TABLE orders", True),
        ("INSERT INTO orders VALUES (7, 'x')", True),
    ],
)
def test_statements_are_named(statement: str, refused: bool, tmp_path: Path) -> None:
    log = Log("8.4.0")
    transaction(log, 1)
    log.query(statement, "shop")
    transaction(log, 3)
    ran = play(log, tmp_path)
    assert work(ran) == ["COMMIT 1 2", "COMMIT 3 4"]
    assert f"use shop; {statement}" in ran.err
    named = next(line for line in ran.lines if statement in line)
    assert named.startswith("# not in the script: ")
    between = [line for line in ran.lines if line in ("COMMIT;", "BEGIN;") or line == named]
    assert between == ["BEGIN;", "COMMIT;", named, "BEGIN;", "COMMIT;"]
    play(log, tmp_path, "--flashback", code=1 if refused else 0)


def test_a_statement_inside_a_transaction(tmp_path: Path) -> None:
    log = Log("8.4.0")
    transaction(log, 1, lambda: log.query("UPDATE t SET a = 1", "shop"))
    assert work(play(log, tmp_path)) == ["COMMIT 1 2"]
    refused = play(log, tmp_path, "--flashback", code=1).err
    assert "cannot be reversed completely" in refused
    assert "reverse the rest with --partial" in refused
    assert work(play(log, tmp_path, "--flashback", "--partial")) == ["COMMIT 2 1"]


def test_statements_of_transactions_that_are_left_out_are_not_named(tmp_path: Path) -> None:
    log = Log("8.4.0")
    for number, name in ((1, "a"), (2, "b")):
        log.gtid(UUID, number)
        log.query(f"DROP TABLE {name}", "shop")
    ran = play(log, tmp_path, "--include-gtids", f"{UUID}:2")
    assert "DROP TABLE b" in ran.err
    assert "DROP TABLE a" not in ran.err


def test_passwords_are_not_named(tmp_path: Path) -> None:
    log = Log("8.4.0")
    log.query("CREATE USER u IDENTIFIED BY 'geheim'")
    ran = play(log, tmp_path)
    assert "CREATE USER u" in ran.err
    assert "geheim" not in ran.err + ran.text


def test_many_statements_are_counted(tmp_path: Path) -> None:
    log = Log("8.4.0")
    for i in range(5000):
        log.query(f"DROP TABLE t{i}", "shop")
    ran = play(log, tmp_path)
    assert ran.text.count("# not in the script") == 5000
    assert ran.err.count("not in the script") == 100
    assert "and 4,900 more notes" in ran.err


# ------------------------------------------------------------ what ends in an error


@pytest.mark.parametrize("flashback", [False, True])
def test_a_table_that_cannot_be_decoded(flashback: bool, tmp_path: Path) -> None:
    log = Log("8.4.0", checksum=False)
    transaction(log, 1)
    log.begin("shop")
    log.insert(Table("shop", "odd", [("id", "INT")]), [{"id": 1}])
    log.commit()
    data = bytearray(log.getvalue())
    data[data.index(b"\x03odd\x00") + 6] = 99  # the type of its column
    flags = ["--flashback"] if flashback else []
    ran = play(bytes(data), tmp_path, *flags, code=1)
    assert "the table's rows cannot be decoded" in ran.err
    assert "table shop.odd" in ran.err
    assert "Traceback" not in ran.err
    assert work(play(bytes(data), tmp_path, *flags, "--exclude-table", "odd")) == [
        f"COMMIT {'2 1' if flashback else '1 2'}"
    ]


def test_statements_that_wait_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("8.4.0")
    transaction(log, 1)
    xa(log, "START")
    for number in range(3, 9):
        log.insert(ORDERS, row(number))
    xa(log, "END")
    xa_prepare(log)
    xa(log, "COMMIT")
    with monkeypatch.context() as context:
        context.setattr("binlog_core.log.opening.DEFAULT_LIMITS", Limits(spool_bytes=300))
        for flags in (["--flashback"], []):
            ran = play(log, tmp_path, *flags, code=1)
            assert "Limits.spool_bytes=300" in ran.err
            assert "COMMIT" not in ran.text.partition("ROLLBACK")[2]
        assert not play(log, tmp_path, "--flashback", code=1).text
    assert work(play(log, tmp_path, "--flashback")) == ["COMMIT 8 7 6 5 4 3", "COMMIT 2 1"]


# ------------------------------------------------------------ real clients


CLIENTS = sorted({path for name in ("mariadb", "mysql") if (path := shutil.which(name))})
ATTACK = "\\! echo OWNED #"
CHARSETS = ("utf8mb4", "gbk", "big5", "sjis", "cp932")


@pytest.fixture
def database() -> Iterator[Any]:
    connection = connect()
    yield connection
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS lexer")
    connection.close()


def hostile(server: str) -> tuple[bytes, Table, list[str]]:
    """A log of values and names that would end a literal and give a command in some client."""
    names = ["a数\\", f"`{ATTACK}", f"ソ'{ATTACK}"]
    table = Table("lexer", "表\\", [("id", "INT")] + [(n, "VARCHAR(200)") for n in names], primary_key=["id"])
    values = [
        f"中\\','中{ATTACK}",
        f"ソ' {ATTACK}",
        f"\n{ATTACK}\n",
        "it's; -- /* `",
    ]
    log = Log(server)
    log.begin("lexer")
    for i, value in enumerate(values):
        log.insert(table, [{"id": i} | dict.fromkeys(names, value)])
    log.commit()
    return log.getvalue(), table, values


@pytest.mark.server  # and a command line client of it: what is tested is how that reads its input
@pytest.mark.skipif(not CLIENTS, reason="no mariadb or mysql client on this machine")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("force", [False, True])
def test_a_client_reads_nothing_but_statements(
    client: str, charset: str, force: bool, database: Any, tmp_path: Path
) -> None:
    mysql = "MariaDB" not in subprocess.run([client, "--version"], capture_output=True, text=True).stdout
    data, table, values = hostile("8.4.0" if mysql else "10.11.0-MariaDB")
    name = f"lexer.{quote_name('表' + chr(92))}"
    columns = ", ".join(f"{quote_name(c.name)} VARCHAR(200)" for c in table.columns[1:])
    with database.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS lexer")
        cursor.execute("CREATE DATABASE lexer CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns})")
    parts = urlsplit(SERVER)
    command = [
        client,
        "--no-defaults",
        f"--host={parts.hostname or '127.0.0.1'}",
        f"--port={parts.port or 3306}",
        f"--user={unquote(parts.username or 'root')}",
        f"--password={unquote(parts.password or '')}",
        "--protocol=tcp",
        f"--default-character-set={charset}",
        *(["--force"] if force else []),
    ]

    def feed(*options: str) -> int:
        script = play(data, tmp_path, *options).out
        ran = subprocess.run(command, input=script, cwd=tmp_path, capture_output=True)
        assert b"OWNED" not in ran.stdout
        return ran.returncode

    def found() -> list[Any]:
        with database.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name} ORDER BY id")
            return list(cursor.fetchall())

    told_apart = charset == "utf8mb4"
    code = feed()
    assert force or (code == 0) == told_apart
    want = [(i, value, value, value) for i, value in enumerate(values)]
    assert found() == (want if told_apart or force else [])
    feed("--flashback")
    assert found() == []
