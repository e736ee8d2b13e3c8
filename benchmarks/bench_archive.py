"""How fast a server's logs are archived, against a bare loop that receives the same logs.

    python benchmarks/bench_archive.py mysql://root@127.0.0.1:3306 FIRST_LOG [--peer "mariadb-binlog --raw …"]

Alternates, in one process: a bare loop that receives and looks at nothing, the stream alone (packets
joined, events found), the archive as it is, and the archive on a disk whose sync does nothing. Prints MB/s of
each, the ratios of the medians, and CPU per MB. A peer is a command of its own; its CPU counts too. Nothing
is asserted: on a machine that does other work the ratios of rates are too low.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import live

from binlog_core.archive.archiver import Archiver
from binlog_core.archive.files import Files
from binlog_core.archive.keeper import Keeper
from binlog_core.archive.live_feed import LiveFeed
from binlog_core.server.address import Address


class Took(NamedTuple):
    """One pass."""

    size: int
    seconds: float
    cpu: float


class Unsynced(Files):
    """A disk whose sync does nothing."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


def feed_of(address: Address) -> LiveFeed:
    return LiveFeed(address, address.hosts[0], 4_000_000_001, threading.Event())


def bare(address: Address, first: str, size: int) -> Took:
    """Receive without looking at the bytes."""
    began, cpu = time.perf_counter(), time.process_time()
    live.bare(address, (first, 4))
    return Took(size, time.perf_counter() - began, time.process_time() - cpu)


def stream(address: Address, first: str) -> Took:
    """Receive whole events."""
    feed = feed_of(address)
    began, cpu, size = time.perf_counter(), time.process_time(), 0
    for run in feed.dump(first, 4, until_now=True):
        size += len(run.data)
    took = Took(size, time.perf_counter() - began, time.process_time() - cpu)
    feed.close()
    return took


def archived(address: Address, first: str, files: Files) -> Took:
    """Keep an archive."""
    feed = feed_of(address)
    with tempfile.TemporaryDirectory(prefix="archive") as folder:
        archiver = Archiver(
            lambda: feed, folder, keeper=Keeper(files), start=(first, 4), until_now=True, files=files
        )
        began, cpu = time.perf_counter(), time.process_time()
        status = archiver.run()
        return Took(status.received_bytes, time.perf_counter() - began, time.process_time() - cpu)


def peer(command: str, size: int) -> Took:
    """Run another program that fetches the same logs."""

    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    with tempfile.TemporaryDirectory(prefix="peer") as folder:
        began, cpu = time.perf_counter(), children()
        subprocess.run(shlex.split(command), cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return Took(size, time.perf_counter() - began, children() - cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("server")
    parser.add_argument("first", help="name of the first log")
    parser.add_argument("--peer", help="command that fetches the same logs into the current folder")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    address = Address.of(arguments.server)
    size = stream(address, arguments.first).size
    roads: dict[str, Callable[[], Took]] = {
        "bare loop": lambda: bare(address, arguments.first, size),
        "stream alone": lambda: stream(address, arguments.first),
        "archive": lambda: archived(address, arguments.first, Files()),
        "archive, no sync": lambda: archived(address, arguments.first, Unsynced()),
    }
    if arguments.peer:
        roads["peer"] = lambda: peer(arguments.peer, size)
    took: dict[str, list[Took]] = {name: [] for name in roads}
    for _ in range(arguments.rounds):
        for name, road in roads.items():
            took[name].append(road())
            assert abs(took[name][-1].size - size) < 1 << 16, "the logs grew meanwhile"
    base = statistics.median(one.seconds for one in took["bare loop"])
    print(f"{size / 1e6:,.0f} MB, {arguments.rounds} rounds, medians")
    for name, several in took.items():
        seconds = statistics.median(one.seconds for one in several)
        cpu = statistics.median(one.cpu for one in several)
        rate, share = size / seconds / 1e6, base / seconds
        print(f"{name:18} {rate:7,.0f} MB/s  ratio {share:.2f}  {cpu / size * 1e9:.2f} ms CPU/MB")


if __name__ == "__main__":
    main()
