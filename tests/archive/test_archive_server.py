"""Archives of a real server."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.archive import segments
from support.cli import run, start
from support.server import SERVER, connect, dump
from support.without_files import without_files

import binlog_core
from binlog_core.archive import archive, own_logs
from binlog_core.index.files import NAME, opened

BINLOG_CHECKPOINT = 161

pytestmark = pytest.mark.server


@pytest.fixture
def connection() -> Iterator[Any]:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS archived")
        cursor.execute("CREATE DATABASE archived")
        cursor.execute("CREATE TABLE archived.t (id INT PRIMARY KEY AUTO_INCREMENT, note TEXT)")
        yield connection


def write(connection: Any, transactions: int, seed: int) -> None:
    chance = random.Random(seed)
    with connection.cursor() as cursor:
        for _ in range(transactions):
            cursor.execute("INSERT INTO archived.t (note) VALUES (%s)", ("x" * chance.randrange(5000),))
            if chance.random() < 0.05:
                cursor.execute("FLUSH BINARY LOGS")


def logs_of(connection: Any) -> dict[str, bytes]:
    """The server's own files, or what it sends of them if they are not accessible."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'log_bin_basename'")
        folder = Path(cursor.fetchone()[1]).parent
        cursor.execute("SHOW BINARY LOGS")
        names = [row[0] for row in cursor.fetchall()]
    if (folder / names[0]).exists():
        return {name: (folder / name).read_bytes() for name in names}
    sent = {name: b"\xfebin" + b"".join(dump(name)) for name in names}
    last = bytearray(sent[names[-1]])
    last[21] |= 1  # the server marks the log that it writes, and sends it without the mark
    return sent | {names[-1]: bytes(last)}


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.[0-9]*"))}


def is_whole(folder: Path, connection: Any) -> bool:
    """Whether the archive has all logs of the server.

    MariaDB writes one event by itself a while after it has begun a log; the archive may lack that one.
    """
    mine, theirs = held(folder), logs_of(connection)
    last = list(theirs)[-1]
    rest = theirs[last][len(mine.get(last, b"")) :]
    theirs[last] = theirs[last][: len(theirs[last]) - len(rest)]
    while rest and rest[4] == BINLOG_CHECKPOINT:
        rest = rest[int.from_bytes(rest[9:13], "little") :]
    return not rest and mine == theirs


def test_now_is_a_position_not_a_time(connection: Any, tmp_path: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET timestamp = 4102444800")  # of the session: of 2100
    write(connection, 300, 1)
    run("archive", SERVER, tmp_path / "archive", "--until", "now")
    assert is_whole(tmp_path / "archive", connection)


def test_logs_are_the_servers_own(connection: Any, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    for seed in range(3):
        write(connection, 40, seed)
        found = run("archive", SERVER, folder, "--until", "now", "--status", tmp_path / "state.json")
        assert found.code == 0, found.err
        assert is_whole(folder, connection)
    state = json.loads((tmp_path / "state.json").read_text())
    name, last = list(held(folder).items())[-1]
    assert (state["file"], state["position"], state["state"]) == (name, len(last), "stopped")


def test_an_index_is_kept_up_and_used(connection: Any, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    for seed in range(2):
        write(connection, 60, seed)
        with connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
        found = run("archive", SERVER, folder, "--until", "now", "--index")
        assert found.code == 0, found.err
    with opened(str(folder / NAME), None) as index:
        assert [entry.log for entry in index.entries] == list(held(folder))[:-1]
    with connection.cursor() as cursor:
        cursor.execute("SELECT note FROM archived.t WHERE id = 50")
        note = cursor.fetchone()[0]
    found = run("history", "archived.t", "id=50", folder, "--schema", "ddl", "-f", "jsonl")
    # The server's logs also have rows of tables that have been dropped since.
    assert json.loads(found.out.splitlines()[-1])["after"] == {"id": 50, "note": note}


def test_a_killed_archiver_continues_where_it_was(connection: Any, tmp_path: Path) -> None:
    chance = random.Random(15)
    for round_ in range(8):
        archiver = start("archive", SERVER, tmp_path, stderr=subprocess.PIPE)
        try:
            write(connection, 60, round_)
            time.sleep(chance.random())
        finally:
            archiver.kill()
            archiver.communicate()
    assert run("archive", SERVER, tmp_path, "--until", "now").code == 0
    assert is_whole(tmp_path, connection)


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_cleanly_when_told_to(connection: Any, tmp_path: Path, number: int, code: int) -> None:
    state = tmp_path / "state.json"
    archiver = start("archive", SERVER, tmp_path / "archive", "--status", state, stderr=subprocess.PIPE)
    write(connection, 20, 1)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if is_whole(tmp_path / "archive", connection):
            break
        time.sleep(0.05)
    second = run("archive", SERVER, tmp_path / "archive")
    assert second.code == 1 and f"process {archiver.pid}" in second.err
    os.kill(archiver.pid, number)
    _, err = archiver.communicate(timeout=60)
    assert archiver.returncode == code, err
    assert json.loads(state.read_text())["state"] == "stopped"
    assert is_whole(tmp_path / "archive", connection)


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    given = SERVER.replace("mysql://root@", "mysql://root:not-the-password@")
    found = run("archive", given, tmp_path / "archive", "--status", tmp_path / "state.json")
    assert found.code == 1 and "not-the-password" not in found.err
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"not-the-password" not in path.read_bytes()


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
@pytest.mark.parametrize("seed", range(4))
def test_its_log_comes_with_files_and_without(
    seed: int, connection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To and fro; positions of the archive are places in it and on both servers."""
    pick = random.Random(seed)
    monkeypatch.setattr(own_logs, "LOG_BYTES", pick.choice([1000, 1 << 28]))
    options = {"ssl_mode": "DISABLED", "reconnect": 10}
    ids: list[int] = []

    def ids_in(place: Any, **arguments: Any) -> list[int]:
        with binlog_core.open(place, tables=["archived.t"], **arguments) as log:
            return [change.after["id"] for change in log.rows()]

    with connection.cursor() as cursor, without_files(SERVER, seed=seed) as (door, there):
        cursor.execute("RESET MASTER")
        forms = [True, False, *pick.choices([True, False], k=3)]
        for files in forms if seed % 2 else reversed(forms):
            for _ in range(pick.randint(1, 6)):
                cursor.execute(f"SET SESSION gtid_domain_id={pick.choice([0, 0, 1])}")
                cursor.execute("BEGIN")
                for _ in range(pick.randint(1, 3)):
                    ids.append(len(ids) + 1)
                    cursor.execute("INSERT INTO archived.t VALUES (%s, '')", (ids[-1],))
                cursor.execute("COMMIT")
            if pick.random() < 0.4:
                cursor.execute("FLUSH BINARY LOGS")
            door.cuts = pick.choice([0, 1]) * (not files)
            compress = pick.choice([None, "zstd"])
            archive(SERVER if files else there, tmp_path, options=options, until="now", compress=compress)
        assert ids_in(tmp_path) == ids
        assert {one["seam"] for one in segments(tmp_path)} == {None, "failover"}
        read, places = 0, []
        with binlog_core.open(tmp_path, tables=["archived.t"]) as log:
            for group in log.groups():
                read += sum(map(len, group.batches))
                places.append((read, group.position))
        for read, place in pick.sample(places, 4):
            assert ids_in(tmp_path, start=place) == ids[read:]
            for server in (SERVER, there):
                assert ids_in(server, start=place, server=options) == ids[read:]
        cursor.execute("SET SESSION gtid_domain_id=0")
