"""Safe marks: a server's position, and the matching place in an archive."""

from __future__ import annotations

import struct
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.answering import Server
from support.s3 import CREDENTIALS, client_of, store
from support.writer import Log, Table

from binlog_core import MirrorError
from binlog_core.lake.access import Access
from binlog_core.mirror.marks import Mark, place_of, take_mark, unseen
from binlog_core.server.connection import Facts
from binlog_core.splits import Split

PREVIOUS_GTIDS, XA_PREPARE = 35, 38
GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = Table("shop", "t", [("id", "INT")], primary_key=["id"])


def facts(*, mariadb: bool, gtids: bool, executed: str = "", by_gtids: bool = False) -> Facts:
    version = "10.11.6-MariaDB" if mariadb else "8.0.36"
    return Facts(version, mariadb, 1, None, "CRC32", gtids, executed, by_gtids)


def test_a_mark_is_what_every_later_select_sees() -> None:
    server: Any = Server({})
    assert take_mark(server, facts(mariadb=False, gtids=True, executed=f"{GTIDS}:1-5")) == Mark(
        "1", gtids=f"{GTIDS}:1-5"
    )
    assert server.asked == []
    snapshot = [("binlog_snapshot_file", "bin.000007"), ("binlog_snapshot_position", "1234")]
    xa = [("1", "2", "1", b"x\xffy"), ("7", "1", "0", b"z")]
    server = Server({"SHOW STATUS": snapshot, "XA RECOVER": xa})
    assert take_mark(server, facts(mariadb=True, gtids=True)) == Mark(
        "1", file="bin.000007", offset=1234, prepared="1:78ff:79 7:7a:"
    )
    assert [sql.split()[0] for sql in server.asked] == ["START", "SHOW", "XA", "ROLLBACK"]
    server = Server({"SHOW BINARY LOG STATUS": [("bin.000008", "55", "", "", "")]})
    assert take_mark(server, facts(mariadb=False, gtids=False)) == Mark("1", file="bin.000008", offset=55)
    assert (server.asked[0], server.asked[-1]) == ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES")


def test_without_positions_it_is_the_last_gtids_while_nobody_can_commit() -> None:
    """What the server said when the connection began is older, or newer than what others see."""
    server: Any = Server({"gtid_binlog_pos": "0-1-7, 1-2-3"})
    taken = take_mark(server, facts(mariadb=True, gtids=True, executed="0-1-9", by_gtids=True))
    assert taken == Mark("1", last="0-1-7,1-2-3")
    assert server.asked == ["FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"]


def archive(folder: Path) -> tuple[list[Split], list[int]]:
    """Two logs with transactions 1 to 3 and 4 to 6, and where the six begin."""
    logs, begins = [], []
    for number, first in ((1, 1), (2, 4)):
        log = Log("8.0.36")
        known = struct.pack("<Q16sQQQ", 1, uuid.UUID(GTIDS).bytes, 1, 1, first)  # 1 to before the first
        log.event(PREVIOUS_GTIDS, known if first > 1 else bytes(8), flags=0x80)
        for i in range(first, first + 3):
            begins.append(log.position)
            log.gtid(GTIDS, i)
            log.begin()
            log.insert(T, [{"id": i}])
            log.commit()
        path = folder / f"bin.{number:06}"
        path.write_bytes(log.getvalue())
        logs.append(Split(str(path), file_number=number))
    return logs, begins


def test_where_a_mark_is_in_an_archive(tmp_path: Path) -> None:
    logs, begins = archive(tmp_path)
    assert place_of(Mark("1", file="bin.000002", offset=99), logs, Access()) == (1, 99)
    assert place_of(Mark("1", file="bin.000002", offset=99), [Split("in/bin.000002.zst")], Access()) == (
        0,
        99,
    )
    with pytest.raises(MirrorError, match=r"does not have the server's log bin\.000009"):
        place_of(Mark("1", file="bin.000009", offset=4), logs, Access())
    assert place_of(Mark("1", gtids=f"{GTIDS}:1-4"), logs, Access()) == (1, begins[4])
    assert place_of(Mark("1", gtids=f"{GTIDS}:1-2"), logs, Access()) == (0, begins[2])
    with pytest.raises(MirrorError, match="begins after the copy was made"):
        place_of(Mark("1", gtids=f"{GTIDS}:1-2"), logs[1:], Access())
    everything = place_of(Mark("1", gtids=f"{GTIDS}:1-6"), logs, Access())
    assert everything == (1, Path(logs[1].path).stat().st_size)


def test_an_archive_in_a_store_is_read_with_its_credentials(tmp_path: Path) -> None:
    logs, begins = archive(tmp_path)
    with store("marks") as endpoint:
        for log in logs:
            name = Path(log.path).name
            client_of(endpoint).put_object(Bucket="marks", Key=name, Body=Path(log.path).read_bytes())
        there = [replace(log, path=f"s3://marks/{Path(log.path).name}") for log in logs]
        access = Access(storage_options={**CREDENTIALS, "endpoint_override": endpoint})
        assert place_of(Mark("1", gtids=f"{GTIDS}:1-4"), there, access) == (1, begins[4])


def test_a_mark_begins_before_what_is_committed_while_it_is_taken(tmp_path: Path) -> None:
    """Of each XA transaction that was listed, its last event before the mark counts."""
    logs, begins = [], dict[str, int]()
    statements = [("COMMIT a", "PREPARE b", "COMMIT b"), ("PREPARE c", "COMMIT d", "ROLLBACK e", "COMMIT b")]
    for number, its in enumerate(statements):
        log = Log("10.11.6-MariaDB")
        for i, one in enumerate(its):
            begins[f"{number} {one}"] = log.position
            log.maria_gtid(10 * number + i + 1)
            how, name = one.split()
            if how == "PREPARE":
                log.event(XA_PREPARE, bytes(1) + struct.pack("<III", 1, 1, 0) + name.encode())
            else:
                log.query(f"XA {how} X'{name.encode().hex()}',X'',1")
        path = tmp_path / f"bin.{number + 1:06}"
        path.write_bytes(log.getvalue())
        logs.append(Split(str(path), file_number=number))

    def found(names: str, at: tuple[int, int] = (1, Path(logs[1].path).stat().st_size)) -> Any:
        listed = " ".join(f"1:{one.encode().hex()}:" for one in names)
        return unseen(Mark("1", prepared=listed), at, logs, Access())

    assert found("") is found("c") is found("e") is found("x") is None
    assert found("d") == found("cde") == (1, begins["1 COMMIT d"])
    assert found("b") == (1, begins["1 COMMIT b"])
    assert found("bd") == (1, begins["1 COMMIT d"])
    assert found("abcdex") == (0, begins["0 COMMIT a"])
    assert found("b", (1, begins["1 COMMIT b"])) == (0, begins["0 COMMIT b"])
    assert found("d", (1, begins["1 COMMIT d"])) is None


def by_gtids(folder: Path) -> tuple[list[Split], list[int]]:
    """Three logs of two transactions each, and where the six begin; numbers do not only grow."""
    gtids = [(0, 1, 1), (1, 1, 1), (0, 2, 9), (0, 1, 2), (1, 1, 2), (0, 1, 3)]
    logs, begins, last = [], [], dict[int, tuple[int, int, int]]()
    for number in range(3):
        log = Log("12.3.1-MariaDB")
        log.gtid_list(list(last.values()))
        for domain, server, sequence in gtids[2 * number :][:2]:
            begins.append(log.position)
            log.server_id = server
            log.maria_gtid(sequence, domain)
            log.insert(T, [{"id": sequence}])
            log.commit()
            last[domain] = (domain, server, sequence)
        path = folder / f"stream.{number + 1:06}"
        path.write_bytes(log.getvalue())
        logs.append(Split(str(path), file_number=number))
    return logs, begins


def test_where_the_last_gtids_are_in_an_archive(tmp_path: Path) -> None:
    logs, begins = by_gtids(tmp_path)
    ends = [Path(log.path).stat().st_size for log in logs]

    def place(last: str, among: list[Split] = logs) -> tuple[int, int]:
        return place_of(Mark("1", last=last), among, Access())

    # Where a log ends and the next one begins is the same place.
    assert place("") == (0, begins[0])
    assert place("0-1-1") == (0, begins[1])
    assert place("0-1-1,1-1-1") in ((0, ends[0]), (1, begins[2]))
    assert place("0-2-9,1-1-1") == (1, begins[3])
    assert place("1-1-1,0-1-2") in ((1, ends[1]), (2, begins[4]))
    assert place("0-1-2,1-1-2") == (2, begins[5])
    assert place("0-1-3,1-1-2") == (2, ends[2])
    assert place("0-1-2,1-1-1", logs[2:]) == (0, begins[4])
    for last, among in (
        ("0-1-1", logs[1:]),
        ("", logs[1:]),
        ("0-1-4,1-1-7", logs),
        ("0-2-9,1-1-1", logs[2:]),
    ):
        with pytest.raises(MirrorError, match="does not have the copy's last GTIDs"):
            place(last, among)
