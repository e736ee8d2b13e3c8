"""Logs whose transactions have GTIDs, and what is behind some of these by the writer's own list."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any, NamedTuple

from binlog_core._sources.timeline import ArchiveTimeline, Segment
from binlog_core.gtids import GtidSet
from binlog_core.server.start import encoded

from .innodb_logs import TABLE
from .writer import Log
from .writer import innodb_binlog as ibb

UUID = "cbecc49e-e55e-11f1-b91d-02fc00000001"


def archive(folder: Path, *later: tuple[Path, str, str | None, str]) -> None:
    """Let a folder be an archive, which goes on in "timeline-2" and so on.

    `later`: of each of these the last log before it, the seam, the GTIDs that are left out, and up to where.
    """
    server = {"address": "db1:3306", "version": "8.0.36", "uuid": None, "server_id": 1}
    timeline = ArchiveTimeline().begin(Segment("", server, "2026-11-21"))
    for number, (last, seam, before, settled) in enumerate(later, 2):
        segment = Segment(f"timeline-{number}", server, "2026-11-22", seam, before, settled)
        timeline = timeline.begin(segment, (last.name, last.stat().st_size))
    (folder / "timeline.json").write_bytes(timeline.to_bytes())


class One(NamedTuple):
    """A transaction: its GTID, the ids of its rows, and how many its domain has before it."""

    domain: int
    server: int
    number: int
    ids: list[int]
    before: int

    @property
    def gtid(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


def made(seed: int, *, strict: bool = True) -> list[One]:
    """Of three domains, each with two servers, which without `strict` number for themselves."""
    pick, ids = random.Random(seed), iter(range(1 << 20))
    numbers: dict[tuple[int, int], int] = {}
    counts = dict.fromkeys((0, 3, 1 << 31), 0)
    out = []
    for _ in range(60):
        domain, server = pick.choice(list(counts)), pick.choice([1, 1, 1, 7])
        source = domain, 0 if strict else server
        numbers[source] = number = numbers.get(source, 0) + pick.choice([1, 1, 4])
        rows = [next(ids) for _ in range(pick.choice([1, 2, 9]))]
        out.append(One(domain, server, number, rows, counts[domain]))
        counts[domain] += 1
    return out


def put(log: Log, one: One) -> None:
    log.server_id = one.server
    log.event(162, struct.pack("<QIB6x", one.number, one.domain, 0))
    log.insert(TABLE, [{"id": i, "note": "n" * 90} for i in one.ids])
    log.commit()


def classic(folder: Path, transactions: list[One], seed: int) -> list[Path]:
    pick = random.Random(seed)
    paths, left = [], list(transactions)
    state: dict[tuple[int, int], int] = {}
    while left:
        log = Log("10.11.6-MariaDB-log")
        body = b"".join(struct.pack("<IIQ", *key, number) for key, number in state.items())
        log.event(163, struct.pack("<I", len(state)) + body)
        for _ in range(min(len(left), pick.randint(1, 25))):
            one = left.pop(0)
            put(log, one)
            state.pop((one.domain, one.server), None)
            state[one.domain, one.server] = one.number
        paths.append(folder / f"bin.{len(paths) + 1:06}")
        paths[-1].write_bytes(log.getvalue())
    return paths


def in_innodb(folder: Path, transactions: list[One], seed: int) -> list[Path]:
    log = Log("11.8.1-MariaDB-log", checksum=False)
    for one in transactions:
        put(log, one)
    files = ibb.engine_files(ibb.transactions_of(log.getvalue()), seed=seed)
    return ibb.write_files(folder, files)


def position_in(transactions: list[One], pick: random.Random) -> tuple[str, list[int]]:
    """A position, and the ids behind it. A domain that it leaves out has not been read at all."""
    after = {}
    for domain in {one.domain for one in transactions}:
        own = [one for one in transactions if one.domain == domain]
        after[domain] = pick.choice([0, len(own), pick.randrange(len(own) + 1)])
    last = [one for one in transactions if one.before == after[one.domain] - 1]
    rest = [one.ids for one in transactions if one.before >= after[one.domain]]
    return ",".join(one.gtid for one in last), [i for ids in rest for i in ids]


def of_mysql(folder: Path, numbers: Any, before: int = 0, anonymous: Any = ()) -> Path:
    """A log with one row for each transaction; an anonymous one comes before the numbers given."""
    log = Log("8.0.36")
    have = GtidSet.parse(f"{UUID}:1-{before}") if before else GtidSet()
    log.event(35, encoded(have, tags=False), flags=0x80)
    for number in numbers:
        for anon in [True] * (number in anonymous) + [False]:
            log.gtid(UUID, number, anonymous=anon)
            log.begin("shop")
            log.insert(TABLE, [{"id": -number if anon else number, "note": "n"}])
            log.commit()
    folder.mkdir(exist_ok=True)
    path = folder / f"bin.{len(list(folder.glob('bin.*'))) + 1:06}"
    path.write_bytes(log.getvalue())
    return path


def of_mariadb(folder: Path, numbers: Any, before: int = 0) -> Path:
    log = Log("10.11.6-MariaDB-log")
    log.gtid_list([(0, 1, before)] if before else [])
    for number in numbers:
        put(log, One(0, 1, number, [number], 0))
    folder.mkdir(exist_ok=True)
    path = folder / f"bin.{len(list(folder.glob('bin.*'))) + 1:06}"
    path.write_bytes(log.getvalue())
    return path
