"""Answers and streams that ask for much memory; a client must refuse each, or take it within its bound.

``benchmarks/hostile.py`` measures them: the server is in this process, the client in another, which this
module is when it is run as a program.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any

MEBI = 1 << 20


@dataclass(frozen=True)
class Served:
    """One kind of answer or stream.

    Parameters
    ----------
    kind : str
        What is hostile about it.
    act : str
        What the client does: "ask" for facts and logs, "copy" a table, "read" the log, "doctor".
    answers : callable
        Gives answers that differ from the usual ones, by the beginning of the statement.
    log : callable
        Gives further events of the log.
    bound : int
        MiB of anonymous memory that it may take above an idle client.
    why : str
        The limit that the bound follows from.
    """

    kind: str
    act: str
    bound: int
    why: str
    answers: Callable[[], dict[str, Any]] = dict
    log: Callable[[], Iterator[bytes]] = field(default=lambda: iter(()))


@dataclass(frozen=True)
class Cost:
    """Peak of anonymous memory above an idle client in bytes, seconds, and how it ended."""

    taken: int
    seconds: float
    ended: str


# ---------------------------------------------------------------- the measured client


def client(idle: str, url: str, act: str) -> None:
    """Do something with a server that answers well, then with a hostile one; print as JSON what that took."""
    import binlog_core
    from support.hostile import EVERY, anonymous
    from support.hostile_answers import SCENARIOS, Client, had

    warnings.simplefilter("ignore")
    patient = {"connect_timeout": 60}
    SCENARIOS[act](Client(idle, patient), had(mariadb=False))
    before = peak = anonymous()
    done, ended, begun = threading.Event(), "end", time.monotonic()

    def look() -> None:
        nonlocal peak
        while not done.wait(EVERY):
            peak = max(peak, anonymous())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        SCENARIOS[act](Client(url, patient), had(mariadb=False))
    except binlog_core.BinlogError as error:
        ended = type(error).__name__
    finally:
        done.set()
        looking.join()
    print(json.dumps([max(peak, anonymous()) - before, time.monotonic() - begun, ended]))


def cost(one: Served, package: Path) -> Cost:
    """What one of them takes in a separate process."""
    from .hostile_answers import good, log_events
    from .hostile_server import HostileServer, Raw, framed
    from .talk import serving

    hostile = {
        start: Raw(framed(answer)) if isinstance(answer, list) else answer
        for start, answer in one.answers().items()
    }
    usual = good(mariadb=False)
    other = {start: answer for start, answer in usual.items() if start not in hostile}
    server = HostileServer(answers=hostile | other, log=lambda: chain(log_events(mariadb=False), one.log()))
    idler = HostileServer(answers=usual, log=lambda: log_events(mariadb=False))

    def talking(to: HostileServer) -> Callable[[Any], None]:
        def talk(connection: Any) -> None:
            with suppress(EOFError):
                to(connection)

        return talk

    with serving(talking(idler)) as idle, serving(talking(server)) as url:
        run = subprocess.run(
            [sys.executable, __file__, idle, url, one.act],
            env={"PYTHONPATH": f"{package}:{Path(__file__).parent.parent}", "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
            timeout=300,
        )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return Cost(*json.loads(run.stdout))


# ---------------------------------------------------------------- what is served


def _rows(count: int, *row: bytes | None) -> Any:
    return [row] * count


def _gtid_text(size: int) -> bytes:
    """A set's text of alternate numbers."""
    return b"3e11fa47-71ca-11e1-9e33-c80aa9429562" + b"".join(b":%d" % (2 * n + 1) for n in range(size // 9))


def _event(kind: int, body: bytes, flags: int = 0, *, length: int | None = None) -> bytes:
    return struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body) if length is None else length, 0, flags) + body


_HEARTBEAT = 27
_ROTATION = _event(4, struct.pack("<Q", 4) + b"bin.000002", 0x20)

SERVED = [
    Served("the usual answers", "ask", 8, "—"),
    Served(
        "a million logs",
        "ask",
        192,
        "64 MiB with 128 for each row",
        lambda: {"SHOW BINARY LOGS": _rows(1_000_000, b"a.1", b"1")},
    ),
    Served(
        "a million settings without names",
        "ask",
        192,
        "64 MiB with 128 for each row",
        lambda: {"SHOW GLOBAL VARIABLES": _rows(1_000_000, None, None)},
    ),
    Served(
        "gtid_executed of 50 MB",
        "ask",
        256,
        "the text of a GTID set (32 Mi characters)",
        lambda: {"SHOW GLOBAL VARIABLES": [(b"log_bin", b"ON"), (b"gtid_executed", _gtid_text(50_000_000))]},
    ),
    Served(
        "gtid_executed of half a million intervals",
        "ask",
        384,
        "intervals of a GTID set",
        lambda: {"SHOW GLOBAL VARIABLES": [(b"log_bin", b"ON"), (b"gtid_executed", _gtid_text(4_500_000))]},
    ),
    Served(
        "an answer of 240 columns",
        "ask",
        16,
        "64 columns",
        lambda: {"SELECT VERSION()": _rows(1, *[b"8"] * 240)},
    ),
    Served(
        "a version of 3 MiB", "ask", 32, "4 MiB", lambda: {"SELECT VERSION()": _rows(1, b"8" * (3 * MEBI))}
    ),
    Served(
        "a refusal of 3 MiB",
        "ask",
        32,
        "4 MiB",
        lambda: {"SELECT VERSION()": b"\xff\x14\x04#HY000" + b"x" * (3 * MEBI)},
    ),
    Served(
        "a row of 64 MiB, and half a million short ones",
        "copy",
        320,
        "a row, held twice while its buffer grows, and as a value",
        lambda: {
            "SELECT `id`, `note` FROM": [
                (b"1", b"x" * (64 * MEBI)),
                *_rows(500_000, b"1", None),
            ]
        },
    ),
    Served(
        "a million rows of two NULL",
        "copy",
        192,
        "a million fields",
        lambda: {"SELECT `id`, `note` FROM": _rows(1_000_000, None, None)},
    ),
    Served(
        "200,000 heartbeats",
        "read",
        16,
        "a buffer",
        log=lambda: repeat(_event(_HEARTBEAT, b""), 200_000),
    ),
    Served("200,000 rotations", "read", 16, "a buffer", log=lambda: repeat(_ROTATION, 200_000)),
    Served(
        "an event that claims 1 GiB, and ends",
        "read",
        16,
        "what is received",
        log=lambda: iter([_event(2, bytes(1000), length=1 << 30)]),
    ),
    Served(
        "PREVIOUS_GTIDS of 15 MiB in a stream",
        "read",
        192,
        "intervals of a GTID set",
        log=lambda: iter(
            [
                _event(
                    35,
                    struct.pack("<Q", 1) + bytes(16) + struct.pack("<Q", 980_000) + bytes(15_680_000),
                    0x20,
                )
            ]
        ),
    ),
]


if __name__ == "__main__":
    client(*sys.argv[1:])
