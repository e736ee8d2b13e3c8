"""Everything at once over one server: archive, readers, a Spark stream and a mirror, each killed at random.

    python soak/everything.py --seconds 3600               # starts the machine's mariadbd
    python soak/everything.py --seconds 3600 --port 3306   # a server that runs, root has no password

The server is written to and archived. One reader follows the server and one the archive as it grows, both
with checkpoints; a stream reads the archive and applies it to a Delta table; a mirror copies other tables. In
the first third of the time all of them are killed (SIGKILL) and started again, each at its own moments. After
that they keep running, and once they are warm their memory, descriptors and threads must not grow. At the end
each must have the rows that SELECT has, every change once, and the archive's logs must equal the server's.

A process with a JVM needs long for its first commit, longer on a busy machine: its first life lasts until
then, and later ones half to three times as long. If Spark ends by itself, because a Python worker did not
start within ten seconds, that counts as a kill.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import mirror_kills
from archive_kills import difference, held, sent
from live_soak import measure
from server import port_of

import soak

_ARCHIVER = "import sys; from binlog_core.archive import archive; archive(*sys.argv[1:3], start=sys.argv[3])"
_SESSION = """
import sys
from binlog_core.spark import apply_changes, start_session
from binlog_core.spark.mirror import mirror
settings = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
session = start_session("local[1]", config=settings)
"""
_STREAM = """
options = {"table": "soak.t", "ddl": "rows", "absent": "true", "mergeSchema": "true"}
changes = session.readStream.format("binlog").options(**options).load(sys.argv[1])
def merge(batch, number):
    apply_changes(batch, sys.argv[2], app_id="soak", batch_id=number)
into = changes.writeStream.foreachBatch(merge).option("checkpointLocation", sys.argv[3])
into.trigger(processingTime="2 seconds").start().awaitTermination()
"""
_MIRROR = "mirror(sys.argv[1], sys.argv[2], tables=sys.argv[3], spark=session)"
# Fractions of the time without kills; each window is a tenth of it. Spark's pools are full before the first.
WINDOWS = {"begin": 0.3, "middle": 0.6, "end": 0.9}


@dataclass
class Process:
    """A process that is killed and started again.

    Parameters
    ----------
    command : list of str
    lives : tuple of float
        Seconds, from and to.
    errors : Path
        What it says.
    lake : Path or None
        The Delta table, or the directory of tables, where it commits; its lives last as long as its first
        commit took, times `lives`.
    """

    command: list[str]
    lives: tuple[float, float]
    errors: Path
    lake: Path | None = None
    kills: int = 0
    commits: int = 0
    unit: float = 1
    until: float = 0
    figures: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def start(self, chance: random.Random) -> None:
        with self.errors.open("wb") as errors:
            self.running = subprocess.Popen(self.command, stderr=errors, stdout=subprocess.DEVNULL)
        self.began = time.monotonic()
        if self.lake is None or self.commits:
            self.until = self.began + self.unit * chance.uniform(*self.lives)

    def may_die(self) -> bool:
        """Whether its time is over."""
        if self.lake is not None:
            # Not below that: the mirror's own directories come and go.
            places = ("_delta_log/*.json", "*/_delta_log/*.json")
            self.commits = sum(1 for place in places for _ in self.lake.glob(place))
            if self.commits and not self.until:
                self.unit = time.monotonic() - self.began
                return True
        return 0 < self.until < time.monotonic()

    def was_left_alone(self) -> bool:
        """Whether Spark stopped waiting for its worker."""
        return "Python worker failed to connect back" in self.errors.read_text()[-3000:]

    def kill(self) -> None:
        self.running.kill()
        self.running.wait()

    def look(self, when: str) -> None:
        """Keep the highest figures so far, including its children's."""
        found = [measure_or_none(pid) for pid in tree(self.running.pid)]
        sums = tuple(map(sum, zip(*filter(None, found), strict=True)))
        self.figures[when] = tuple(map(max, self.figures.get(when, sums), sums))


def measure_or_none(pid: int) -> tuple[int, int, int] | None:
    try:
        return measure(pid)
    except (OSError, KeyError):  # it has ended in the meantime
        return None


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    found = [pid]
    for one in found:
        found += parents.get(one, ())
    return found


def wait_for(what: Callable[[], bool], seconds: float = 180) -> bool:
    end = time.monotonic() + seconds
    while not (done := what()) and time.monotonic() < end:
        time.sleep(1)
    return done


def delta_rows(table: Path) -> dict[int, tuple[object, ...]]:
    from deltalake import DeltaTable

    if not (table / "_delta_log").is_dir():
        return {}
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["id", "writer", "value", "text"]).to_pylist()
    found = {row["id"]: tuple(row.values()) for row in rows}
    return found if len(found) == len(rows) else {}


def everything(port: int, seconds: float, seed: int, pause: float, folder: Path) -> int:
    chance, url, python = random.Random(seed), f"mysql://root@127.0.0.1:{port}", [sys.executable, "-c"]
    archive, lake, table = folder / "archive", folder / "lake", folder / "table"
    stores = {name: str(folder / f"{name}.sqlite") for name in ("server", "archive")}
    random.seed(seed)
    soak.prepare(port, "", stores["server"])
    soak.prepare(port, str(archive), stores["archive"])
    mirror_kills.prepare(port)
    first = soak.rows_of(port)[0]
    reader = [sys.executable, soak.__file__, "--read"]
    commands = {
        "archiver": ([*python, _ARCHIVER, url, str(archive), first], (2.0, 20.0)),
        "reader of the server": ([*reader, url, stores["server"]], (2.0, 20.0)),
        "reader of the archive": ([*reader, str(archive), stores["archive"]], (2.0, 20.0)),
        "stream into Delta": (
            [*python, _SESSION + _STREAM, str(archive), str(table), str(folder / "checkpoint")],
            (0.5, 3.0),
        ),
        "mirror": ([*python, _SESSION + _MIRROR, url, str(lake), mirror_kills.PATTERN], (0.5, 3.0)),
    }
    stop, done = threading.Event(), [0] * soak.WRITERS
    writers = [
        threading.Thread(target=soak.write, args=(port, n, stop, done, pause)) for n in range(soak.WRITERS)
    ]
    writers += [threading.Thread(target=mirror_kills.write, args=(port, n, stop)) for n in range(4)]
    for writer in writers:
        writer.start()
    lakes = {"stream into Delta": table, "mirror": lake}
    processes: dict[str, Process] = {}
    try:
        for number, (name, (command, lives)) in enumerate(commands.items()):
            processes[name] = Process(command, lives, folder / f"{number}.errors", lakes.get(name))
            processes[name].start(chance)
            if name == "archiver" and not wait_for((archive / first).exists):
                sys.exit(f"no archive: {processes[name].errors.read_text()[-3000:]}")
        run(processes, seconds, chance)
        stop.set()
        for writer in writers:
            writer.join()
        return judge(port, processes, stores, done, folder, first)
    finally:
        stop.set()
        for process in processes.values():
            process.kill()


def run(processes: dict[str, Process], seconds: float, chance: random.Random) -> None:
    began = time.monotonic()
    calm = seconds / 3
    while (now := time.monotonic() - began) < seconds:
        time.sleep(min(1, seconds / 100))
        for name, process in processes.items():
            if process.running.poll() is not None and process.was_left_alone():
                process.kills += 1
                process.start(chance)
            elif process.running.poll() is not None:
                sys.exit(
                    f"{name} ended with {process.running.returncode}: {process.errors.read_text()[-3000:]}"
                )
            if now < calm and process.may_die():
                process.kill()
                process.kills += 1
                process.start(chance)
            for when, begin in WINDOWS.items():
                if 0 <= (now - calm) / (seconds - calm) - begin < 0.1:
                    process.look(when)


def judge(
    port: int,
    processes: dict[str, Process],
    stores: dict[str, str],
    done: list[int],
    folder: Path,
    first: str,
) -> int:
    """Print the results. `lost` counts tables for the mirror, logs for the archive."""
    from binlog_core.mirror import status

    with closing(soak.connect(port)) as connection, connection.cursor() as cursor:
        # The very last event is one that the readers see.
        cursor.execute("INSERT INTO soak.t (writer, value, text) VALUES (-1, 0, 'last')")
        connection.commit()
    file, position, rows = soak.rows_of(port)
    told: dict[str, tuple[int, int, int]] = {}
    for name, store in stores.items():
        wait_for(lambda store=store: soak.reached(store, file, position))
        found = soak.judge(store, rows)
        told[f"reader of the {name}"] = found["changes"], found["lost"], found["doubled"]
    wait_for(lambda: delta_rows(folder / "table") == rows)
    streamed = delta_rows(folder / "table")
    lost = sum(streamed.get(key) != row for key, row in rows.items())
    told["stream into Delta"] = len(streamed), lost, len(streamed.keys() - rows.keys())
    time.sleep(15)  # MariaDB writes a late checkpoint
    for process in processes.values():
        process.kill()
    if mirror_kills.command(port, folder / "lake", "run"):
        return 1
    wrong = mirror_kills.differences(port, folder / "lake")
    told["mirror"] = sum(one.rows or 0 for one in status(folder / "lake")), len(wrong), 0
    mine, logs = held(folder / "archive"), sent(port, first)
    different = {log: said for log in logs if (said := difference(mine.get(log), logs[log]))}
    told["archiver"] = len(logs), len(different), len(mine.keys() - logs.keys())
    size = sum(map(len, logs.values()))
    print(f"{sum(done):,} transactions, {size:,} bytes of logs; {wrong or ''} {different or ''}")
    head = "| process | rows | kills | commits meanwhile | lost | doubled | memory, MiB"
    print(f"{head} | descriptors | threads |\n{'|---' * 9}|")
    for name, process in processes.items():
        columns = zip(*(process.figures[when] for when in WINDOWS), strict=True)
        memory, descriptors, threads = (
            ", ".join(f"{figure / 1024:.1f}" if not k else str(figure) for figure in column)
            for k, column in enumerate(columns)
        )
        count, lost, doubled = told[name]
        what = f"{count:,} logs" if name == "archiver" else f"{count:,}"
        commits = process.commits if process.lake else ""
        cells = (name, what, process.kills, commits, lost, doubled, memory, descriptors, threads)
        print("|", " | ".join(map(str, cells)), "|")
    return int(any(lost or doubled or not count for count, lost, doubled in told.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds after each transaction of a writer")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without ending the others
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="everything") as name, port_of(arguments.port) as port:
        return everything(port, arguments.seconds, arguments.seed, arguments.pause, Path(name))


if __name__ == "__main__":
    sys.exit(main())
