"""Every call that writes, renames or syncs fails once. Nothing lost, doubled or half-named.

    python soak/faults.py                        # everything; the mirror on the machine's mariadbd
    python soak/faults.py apply export_delta     # these alone
    python soak/faults.py --most 20 index        # twenty faults of each kind at most, spread over the calls
    python soak/faults.py --first 61 mirror      # from the 61st call on: to continue a walk that was ended

A first run counts the calls that change something: tests/support/faults.py has the list. Then, for each call
and each kind of fault, a run begins from the same files and fails there. A reader checks the result so far;
the command runs again without a fault, and must give the result of a run without any. Only data files that no
commit names may remain of a killed run.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from copy import deepcopy
from pathlib import Path
from typing import Any

import failover
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from fsspec import register_implementation
from fsspec.implementations.local import LocalFileSystem
from server import port_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support import archive_store
from support.archive import FakeServer, archive, busy, ids
from support.faults import KILLED, KINDS, Faults
from support.here import Here
from support.writer import Log, Table

import binlog_core
from binlog_core import BinlogError

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)")], primary_key=["id"])
WIDER = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)"), ("b", "INT")], primary_key=["id"])
U = Table("shop", "u", [("id", "INT")], primary_key=["id"])


class Wrong(Exception):
    """What a reader found."""


def expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {found!r:.600}, expected {wanted!r:.600}")


class Scenario:
    """A command, and what it must leave."""

    killed = False
    kinds: Sequence[str] = KINDS

    def prepare(self, root: Path) -> None:
        """Make what is there before."""

    def work(self, root: Path) -> None:
        """Run the command."""
        raise NotImplementedError

    def look(self, root: Path) -> None:
        """Check that a reader after the fault sees a valid result, old or new."""

    def pause(self, root: Path) -> None:
        """Simulate the time that passes before the command runs again."""

    def check(self, root: Path) -> None:
        """The result that a run without a fault must give."""
        raise NotImplementedError

    def expect_no_orphans(self, lake: Path) -> None:
        if not self.killed:  # then there was nobody to delete them: VACUUM does
            expect(orphans(lake), [], "files that no commit names")


def plain(data: bytes) -> bytes:
    """A log as closed."""
    return data[:21] + bytes([data[21] & ~1]) + data[22:] if len(data) > 21 else data


def hidden(root: Path) -> list[str]:
    """Files and directories that only a crash leaves behind."""
    return [str(path.relative_to(root)) for path in root.rglob(".*") if path.name != ".lock"]


# ---------------------------------------------------------------- archive, index, files


class Archive(Scenario):
    """A server's logs, compressed, with an index."""

    def __init__(self, compress: bool) -> None:
        self._compress = compress
        self._before = busy(FakeServer("8.0.36"), 4)
        self._server = deepcopy(self._before)
        self._server.transaction()
        for _ in range(2):
            self._server.rotate()
            busy(self._server, 3)

    def _run(self, server: FakeServer, root: Path) -> None:
        archive(server, root / "archive", most=4, compress=self._compress, index=self._compress)

    def prepare(self, root: Path) -> None:
        (root / "archive").mkdir()
        self._run(self._before, root)

    def work(self, root: Path) -> None:
        self._run(self._server, root)

    def _logs(self, root: Path) -> dict[str, bytes]:
        import zstandard

        found = {}
        for path in sorted((root / "archive").iterdir()):
            name = path.name.removesuffix(".zst")
            if not name.startswith(".") and name.rpartition(".")[2].isdigit():
                data = path.read_bytes()
                unpacked = data if path.name == name else zstandard.decompress(data, 1 << 24)
                expect(found.get(name, unpacked), unpacked, name)
                found[name] = unpacked
        return found

    def look(self, root: Path) -> None:
        for name, data in self._logs(root).items():
            if not plain(self._server.bytes_of(name)).startswith(plain(data)):
                raise Wrong(f"{name} is not the server's")
        found = ids(root / "archive") if self._logs(root) else []
        expect(found, list(range(1, len(found) + 1)), "rows")

    def check(self, root: Path) -> None:
        logs = {name: self._server.bytes_of(name) for name in self._server.logs}
        expect(self._logs(root), logs, "logs")
        names = {path.name for path in (root / "archive").iterdir()}
        finished = [f"{name}.zst" if self._compress else name for name in list(logs)[:-1]]
        own = (
            {".lock", "timeline.json", "binlog-core-index.parquet"}
            if self._compress
            else {".lock", "timeline.json"}
        )
        expect(names - own, {*finished, list(logs)[-1]}, "files")
        expect(ids(root / "archive"), list(range(1, self._server.next_id)), "rows")
        if self._compress:
            indexed(root / "archive", finished)


def indexed(folder: Path, logs: list[str]) -> None:
    from binlog_core._index.files import NAME, opened

    index = opened(str(folder / NAME), None)
    expect(index and sorted(entry.log for entry in index.entries), logs, "index")
    if index is not None:
        index.close()


class Objects(LocalFileSystem):
    """A directory whose files appear complete, like objects in a store."""

    protocol = "objects"

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self.Object(path) if mode == "wb" else super()._open(path, mode)

    class Object(io.BytesIO):
        def __init__(self, path: str) -> None:
            super().__init__()
            self._path = path

        def close(self) -> None:
            if not self.closed:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                unfinished = os.path.join(self._path.partition("/store/")[0], "unfinished")
                with open(unfinished, "wb") as file:
                    file.write(self.getvalue())
                os.replace(unfinished, self._path)
            super().close()


class Stored(Scenario):
    """A server's logs in a store; the growing one is in parts."""

    kinds = ("ENOSPC", "EIO", "EINTR", "kill")  # uploads run in a thread, which Ctrl-C does not reach

    def __init__(self) -> None:
        self._before = busy(FakeServer("8.0.36"), 4)
        self._server = deepcopy(self._before)
        self._server.transaction()
        self._server.rotate()
        busy(self._server, 3)

    def _target(self, root: Path) -> tuple[str, dict[str, Any] | None]:
        return f"objects://{root}/store", None

    def _run(self, server: FakeServer, root: Path) -> None:
        archive_store.archive(server, self._target(root), root / "spool", patience=0.01)

    def prepare(self, root: Path) -> None:
        (root / "spool").mkdir()
        self._run(self._before, root)

    def work(self, root: Path) -> None:
        self._run(self._server, root)

    def pause(self, root: Path) -> None:
        shutil.rmtree(root / "store" / "archiver", ignore_errors=True)  # a claim ends after a minute

    def look(self, root: Path) -> None:
        for name, data in archive_store.logs_in(self._target(root)).items():
            if not plain(self._server.bytes_of(name)).startswith(plain(data)):
                raise Wrong(f"{name} is not the server's")
        found = archive_store.ids(self._target(root))
        expect(found, list(range(1, len(found) + 1)), "rows")

    def check(self, root: Path) -> None:
        logs = {name: self._server.bytes_of(name) for name in self._server.logs}
        expect(archive_store.logs_in(self._target(root)), logs, "logs")
        expect(archive_store.ids(self._target(root)), list(range(1, self._server.next_id)), "rows")


register_implementation(Objects.protocol, Objects)


def logs_into(folder: Path, numbers: Iterable[int]) -> None:
    """Logs of six transactions each."""
    folder.mkdir(exist_ok=True)
    for file in numbers:
        log = Log("8.0.36")
        for number in range(file * 10, file * 10 + 6):
            log.gtid(UUID, number)
            log.begin()
            log.insert(T, [{"id": number * 10 + i, "a": "x" * 15} for i in range(3)])
            if number % 2:
                log.insert(U, [{"id": number}])
            log.commit()
        log.rotate(f"bin.{file + 1:06}")
        (folder / f"bin.{file:06}").write_bytes(log.getvalue())


class Index(Scenario):
    """Bring an index up to date."""

    def prepare(self, root: Path) -> None:
        from binlog_core.index import index

        logs_into(root / "logs", (1, 2))
        index(root / "logs")
        logs_into(root / "logs", (3,))

    def work(self, root: Path) -> None:
        from binlog_core.index import index

        index(root / "logs")

    def look(self, root: Path) -> None:
        with binlog_core.open(root / "logs", where="id = 322") as log:
            expect([change.after["id"] for change in log.rows("shop.t")], [322], "rows")

    def check(self, root: Path) -> None:
        self.look(root)
        indexed(root / "logs", [f"bin.{n:06}" for n in (1, 2, 3)])
        expect(hidden(root), [], "left over")


class RowsFile(Scenario):
    """`binlog-core rows --output`, into a new file or over an older one."""

    def __init__(self, *, new: bool) -> None:
        self._new = new

    def prepare(self, root: Path) -> None:
        logs_into(root / "logs", (1,))
        if not self._new:
            (root / "rows.json").write_bytes(b"older\n")

    def work(self, root: Path) -> None:
        given = ["rows", str(root / "logs"), "--output", str(root / "rows.json")]
        command(*given, *(["--overwrite"] if (root / "rows.json").exists() else []))

    def look(self, root: Path) -> None:
        if self._new and not (root / "rows.json").exists():
            return
        held = (root / "rows.json").read_bytes()
        if (self._new or held != b"older\n") and held.count(b"\n") != 21:
            raise Wrong(f"half a file: {len(held)} bytes")

    def check(self, root: Path) -> None:
        expect((root / "rows.json").read_bytes().count(b"\n"), 21, "lines")
        expect(hidden(root), [], "left over")


def command(*arguments: str) -> None:
    """Run ``binlog-core``; an error that it prints is raised as a BinlogError."""
    from binlog_core.cli.app import app

    with open(os.devnull, "w") as nothing, redirect_stderr(nothing):
        try:
            app(list(arguments))
        except SystemExit as error:
            if error.code == 130:
                raise KeyboardInterrupt from None
            if error.code:
                raise BinlogError(f"exit {error.code}") from None


# ---------------------------------------------------------------- export


class Connected:
    """One without a SparkContext."""


def called_here() -> None:
    from binlog_core.spark.doors import running

    running.call_tasks = lambda _, function, tasks: [function(one) for one in tasks]


class Export(Scenario):
    """The second export of logs that grew: into new directories, over the first one, or into Delta tables."""

    def __init__(self, format: str, *, state: bool) -> None:
        self._format, self._state = format, state

    def _run(self, root: Path, number: int) -> None:
        from binlog_core.spark import export_logs

        called_here()
        given: dict[str, Any] = {"state": root / "state.json"} if self._state else {}
        if not self._state and self._format == "parquet":
            given = {"overwrite": True}
        elif not self._state:
            given = {"run_id": f"run {number}"}
        logs = (
            root / "logs" if self._state or self._format == "parquet" else root / "logs" / f"bin.{number:06}"
        )
        session: Any = Connected()
        export_logs(logs, root / "out", spark=session, format=self._format, split_size=400, **given)

    def prepare(self, root: Path) -> None:
        logs_into(root / "logs", (1,))
        self._run(root, 1)
        logs_into(root / "logs", (2,))

    def work(self, root: Path) -> None:
        self._run(root, 2)

    def _rows(self, root: Path) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"shop.t": [], "shop.u": []}
        for name, keys in found.items():
            if self._format == "delta":
                from deltalake import DeltaTable

                keys += DeltaTable(str(root / "out" / name)).to_pyarrow_table()["id"].to_pylist()
                continue
            runs = (
                [path for path in (root / "out").iterdir() if path.name.isdigit()]
                if self._state
                else [root / "out"]
            )
            for run in runs:
                if not (run / "_manifest.json").exists():
                    raise Wrong(f"{run.name} without a manifest")
                for file in sorted((run / name).iterdir()):
                    keys += pq.read_table(file)["id"].to_pylist()
            keys.sort()
        return {name: sorted(keys) for name, keys in found.items()}

    def _wanted(self, logs: Iterable[int]) -> dict[str, list[int]]:
        numbers = [number for log in logs for number in range(log * 10, log * 10 + 6)]
        return {
            "shop.t": [number * 10 + i for number in numbers for i in range(3)],
            "shop.u": [number for number in numbers if number % 2],
        }

    def look(self, root: Path) -> None:
        found, old, new = self._rows(root), self._wanted((1,)), self._wanted((1, 2))
        for name, keys in found.items():
            if keys not in (old[name], new[name]):
                raise Wrong(f"{name}: {keys}")
        if self._format == "parquet" and found not in (old, new):
            raise Wrong("one table is new, another old")

    def check(self, root: Path) -> None:
        expect(self._rows(root), self._wanted((1, 2)), "rows")
        if self._format == "parquet":
            expect(hidden(root), [], "left over")
        else:
            self.expect_no_orphans(root / "out")


def orphans(lake: Path) -> list[str]:
    """Parquet files that no version of a Delta table names."""
    from deltalake import DeltaTable

    found: list[str] = []
    for table in lake.iterdir():
        if (table / "_delta_log").is_dir():
            named: set[str] = set()
            for version in range(DeltaTable(str(table)).version() + 1):
                named.update(Path(uri).name for uri in DeltaTable(str(table), version=version).file_uris())
            found += [
                f"{table.name}/{path.name}" for path in table.rglob("*.parquet") if path.name not in named
            ]
    return found


# ---------------------------------------------------------------- apply


class Apply(Scenario):
    """Batches of changes into a Delta table, each applied once."""

    def _log(self) -> tuple[list[bytes], list[dict[int, dict[str, Any]]]]:
        """Three batches, and the table after each."""
        rows: dict[int, dict[str, Any]] = {}
        logs, states = [], []
        for batch in range(3):
            log = Log("8.0.36")
            table = T if batch < 2 else WIDER
            if batch == 2:
                log.query("ALTER TABLE t ADD COLUMN b INT", "shop")
                rows = {key: {**row, "b": None} for key, row in rows.items()}
            for number in range(5):
                key = batch * 10 + number
                new = {"id": key, "a": f"{batch}.{number}"} | ({"b": key} if batch == 2 else {})
                log.begin()
                log.insert(table, [new])
                rows[key] = new
                if number == 3 and batch:
                    old = rows.pop(key - 10)
                    moved = {**old, "id": 100 + key}
                    log.update(table, [(old, moved)])
                    rows[100 + key] = moved
                if number == 4 and batch:
                    log.delete(table, [rows.pop(key - 12)])
                log.commit(key + 1)
            logs.append(log.getvalue())
            states.append({key: dict(row) for key, row in rows.items()})
        return logs, states

    def _apply(self, root: Path, number: int) -> None:
        from binlog_core.spark.apply.batch import apply_changes
        from binlog_core.spark.doors.changes import ChangeReader, infer_schema
        from binlog_core.spark.options import SourceOptions
        from binlog_core.spark.plan.parts import plan_parts
        from binlog_core.spark.rows.types import arrow_schema, spark_schema

        path = str(root / f"{number}.binlog")
        options = SourceOptions.parse(
            {"table": "shop.t", "ddl": "rows", "absent": "true", "mergeSchema": "true"}
        )
        schema = arrow_schema(spark_schema(infer_schema([path], options)))
        reader = ChangeReader.of(options, schema, projected=False)
        batches = [batch for part in plan_parts([path], options) for batch in reader.read(part)]
        apply_changes(pa.Table.from_batches(batches, schema), root / "table", app_id="app", batch_id=number)

    def prepare(self, root: Path) -> None:
        for number, data in enumerate(self._log()[0]):
            (root / f"{number}.binlog").write_bytes(data)

    def work(self, root: Path) -> None:
        for number in range(3):
            self._apply(root, number)

    def _rows(self, root: Path) -> dict[int, dict[str, Any]]:
        from deltalake import DeltaTable

        if not (root / "table" / "_delta_log").is_dir():
            return {}
        rows = DeltaTable(str(root / "table")).to_pyarrow_table().to_pylist()
        found = {row["id"]: row for row in rows}
        expect(len(rows), len(found), "rows of different keys")
        return found

    def look(self, root: Path) -> None:
        found, states = self._rows(root), self._log()[1]
        wide = [{key: {**row, "b": None} for key, row in state.items()} for state in states[:2]]
        if found not in ({}, *states, *wide):
            raise Wrong(f"neither the table before nor behind a batch: {sorted(found)}")

    def check(self, root: Path) -> None:
        expect(self._rows(root), self._log()[1][-1], "rows")
        self.expect_no_orphans(root)


# ---------------------------------------------------------------- mirror


class Mirror(Scenario):
    """Tables of a server: copied, or brought up to date after changes of all kinds."""

    def __init__(self, port: int, database: str, *, first: bool = False) -> None:
        self._port, self._database, self._first = port, database, first

    def _run(self, root: Path) -> None:
        from binlog_core.spark.mirror import mirror

        session: Any = Here()
        found = mirror(
            f"mysql://root@127.0.0.1:{self._port}",
            root / "lake",
            tables=f"{self._database}.*",
            until="now",
            spark=session,
            **self._options(root),
        )
        for one in found:
            if one.stage == "parked":
                raise BinlogError(f"{one.table}: {one.reason}")

    def _options(self, root: Path) -> dict[str, Any]:
        return {"compact": None}

    def _sql(self, *statements: str) -> list[Any]:
        return failover.run(self._port, *statements)

    def _checkpointed(self) -> None:
        """Wait for the checkpoint that MariaDB writes after it began a log: later places need it."""
        name = self._sql("SHOW MASTER STATUS")[0][0]
        for _ in range(600):
            events = self._sql(f"SHOW BINLOG EVENTS IN '{name}'")
            if any((row[2], row[5]) == ("Binlog_checkpoint", name) for row in events):
                return
            time.sleep(0.05)
        raise Wrong(f"{name} has no checkpoint of its own")

    def prepare(self, root: Path) -> None:
        self._change(root)
        self._checkpointed()

    def _change(self, root: Path) -> None:
        base = self._database
        self._sql(
            f"DROP DATABASE IF EXISTS {base}",
            f"CREATE DATABASE {base}",
            f"CREATE TABLE {base}.t (id INT PRIMARY KEY, note VARCHAR(20))",
            f"CREATE TABLE {base}.u (id INT PRIMARY KEY, note VARCHAR(20))",
            f"INSERT INTO {base}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            f"INSERT INTO {base}.u VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        )
        if self._first:
            return
        self._run(root)
        self._sql(
            f"INSERT INTO {base}.t VALUES (4, 'd')",
            f"UPDATE {base}.t SET id = 7, note = 'moved' WHERE id = 2",
            f"DELETE FROM {base}.u WHERE id = 1",
            f"ALTER TABLE {base}.t ADD COLUMN n INT NOT NULL DEFAULT 5",
            f"INSERT INTO {base}.t VALUES (8, 'e', 6)",
            f"CREATE TABLE {base}.later (id INT PRIMARY KEY, note VARCHAR(20))",
            f"INSERT INTO {base}.later VALUES (1, 'x')",
            "FLUSH BINARY LOGS",
            f"UPDATE {base}.u SET note = 'z' WHERE id = 3",
        )

    def work(self, root: Path) -> None:
        self._run(root)

    def look(self, root: Path) -> None:
        from deltalake import DeltaTable

        lake = root / "lake"
        for table in lake.iterdir() if lake.exists() else ():
            if (table / "_delta_log").is_dir():
                DeltaTable(str(table)).to_pyarrow_table()

    def check(self, root: Path) -> None:
        from deltalake import DeltaTable

        names = [row[0] for row in self._sql(f"SHOW TABLES IN {self._database}")]
        for name in names:
            wanted = self._sql(f"SELECT * FROM {self._database}.{name} ORDER BY id")
            found = (
                DeltaTable(str(root / "lake" / f"{self._database}.{name}")).to_pyarrow_table().sort_by("id")
            )
            expect([tuple(row.values()) for row in found.to_pylist()], wanted, name)
        self.expect_no_orphans(root / "lake")
        expect(
            sorted(
                path.name for path in (root / "lake" / "_mirror").rglob("*") if "archive" not in path.parts
            ),
            ["copies", "lock", "state.json"],
            "own files",
        )


class MirrorKept(Mirror):
    """The same with histories and status files, and small files are merged."""

    def _run(self, root: Path) -> None:
        from binlog_core.spark.mirror import joining

        joining._MOST_SMALL = 2
        super()._run(root)

    def _options(self, root: Path) -> dict[str, Any]:
        return {"history": True, "compact": 1e-6, "status": [root / "status.json", root / "status.prom"]}

    def look(self, root: Path) -> None:
        super().look(root)
        if (root / "status.json").exists():
            json.loads((root / "status.json").read_bytes())
        if (root / "status.prom").exists() and not (root / "status.prom").read_text().endswith("\n"):
            raise Wrong("half a status file")

    def check(self, root: Path) -> None:
        super().check(root)
        self.look(root)
        self.expect_no_orphans(root / "lake" / "history")
        found = json.dumps(histories(root / "lake"), default=str)
        wanted = root.parent / "histories.json"
        if not wanted.exists():  # that of the run without a fault
            wanted.write_text(found)
        expect(found, wanted.read_text(), "histories")


def histories(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of all histories."""
    from deltalake import DeltaTable

    found = {}
    for table in sorted((lake / "history").iterdir()):
        rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
        found[table.name] = sorted(rows, key=repr)
    return found


# ---------------------------------------------------------------- the walk


def in_child(work: Callable[[], Any]) -> tuple[int, str]:
    """Exit code and output of a process that does some work."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        code = 0
        said = ""
        try:
            said = work() or ""
        except BaseException as error:
            code = 1
            said = " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            if not isinstance(error, Wrong | BinlogError | KeyboardInterrupt):
                said += "\n" + "".join(traceback.format_exception(error))
        with os.fdopen(write, "w") as pipe:
            pipe.write(said)
        os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def faulty(scenario: Scenario, root: Path, at: int, kind: str) -> str:
    """Run with a fault; return what failed, in a line, or \"\" if there are not that many calls."""
    faults = Faults(str(root), at, kind)
    told = "went on"
    try:
        scenario.work(root)
    except (BinlogError, KeyboardInterrupt) as error:
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        if faults.failed is None:
            raise
        if isinstance(error, KeyboardInterrupt) and kind != "ctrl-c":
            raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-6:]
        told = f"NOT TOLD, {type(error).__name__}: {error}" + "".join(
            f" < {one.name}:{one.lineno}" for one in reversed(where)
        )
    return "\n".join([faults.failed or "", told, *(faults.calls if not at else [])])


def repaired(scenario: Scenario, root: Path) -> None:
    """Check, run without a fault, and check again."""
    steps = {
        "seen": scenario.look,
        "paused": scenario.pause,
        "run again": scenario.work,
        "then": scenario.check,
    }
    for step, function in steps.items():
        try:
            function(root)
        except Exception as error:
            error.add_note(f"when {step}")
            raise


def walk(
    name: str, scenario: Scenario, kinds: Iterable[str], first: int, most: int, verbose: bool
) -> tuple[int, list[str]]:
    """The number of faults, and what was wrong after them."""
    wrong: list[str] = []
    count = 0
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        base, root = Path(folder) / "base", Path(folder) / "root"
        root.mkdir()  # paths are kept in some of the files
        code, said = in_child(lambda: scenario.prepare(root))
        if code:
            return 0, [f"{name}: prepare: {said}"]
        shutil.copytree(root, base)

        def again() -> None:
            shutil.rmtree(root)
            shutil.copytree(base, root)

        code, said = in_child(lambda: faulty(scenario, root, 0, "EIO"))
        calls = said.splitlines()[2:]
        code, said = (code, said) if code else in_child(lambda: scenario.check(root))
        if code or not calls:
            return 0, [f"{name}: without a fault: {said}"]
        chosen = range(first, len(calls) + 1)
        if most and chosen:
            chosen = range(first, len(calls) + 1, -(-len(chosen) // most))
        for at in chosen:
            for kind in filter(scenario.kinds.__contains__, kinds):
                again()
                scenario.killed = False
                code, said = in_child(lambda at=at, kind=kind: faulty(scenario, root, at, kind))
                failed, _, told = said.partition("\n")
                if code == KILLED:
                    failed, told = calls[at - 1], "killed"
                elif code:
                    wrong.append(f"{name} {kind} at {at} ({calls[at - 1]}): {said}")
                    continue
                elif not failed:
                    continue  # fewer calls than before
                count += 1
                if verbose:
                    print(f"  {kind} {at} {failed}: {told}", flush=True)
                if "NOT TOLD" in told:
                    wrong.append(f"{name} {kind} at {at} ({failed}): {told}")
                scenario.killed = told == "killed"
                code, said = in_child(lambda: repaired(scenario, root))
                if code:
                    wrong.append(f"{name} {kind} at {at} ({failed}) {told}; {said}")
    return count, wrong


def warm() -> None:
    """Import once what each child would import again; none of it starts a thread."""
    import deltalake  # noqa: F401
    import pyspark.sql.streaming.datasource  # noqa: F401
    import zstandard  # noqa: F401

    import binlog_core.cli.app
    import binlog_core.spark.apply.batch
    import binlog_core.spark.doors.export
    import binlog_core.spark.lake.tables
    import binlog_core.spark.mirror.mirroring  # noqa: F401


def scenarios(names: Iterable[str], port: int | None) -> Iterator[tuple[str, Scenario]]:
    simple: dict[str, Callable[[], Scenario]] = {
        "archive": lambda: Archive(False),
        "archive_compressed": lambda: Archive(True),
        "index": Index,
        "archive_store": Stored,
        "rows": lambda: RowsFile(new=False),
        "rows_new": lambda: RowsFile(new=True),
        "export": lambda: Export("parquet", state=False),
        "export_state": lambda: Export("parquet", state=True),
        "export_delta": lambda: Export("delta", state=False),
        "export_delta_state": lambda: Export("delta", state=True),
        "apply": Apply,
    }
    served: dict[str, Callable[[int], Scenario]] = {
        "mirror_first": lambda port: Mirror(port, "faulty_first", first=True),
        "mirror": lambda port: Mirror(port, "faulty"),
        "mirror_kept": lambda port: MirrorKept(port, "faulty_kept"),
    }
    for name in names or [*simple, *served]:
        if name in simple:
            yield name, simple[name]()
            continue
        with port_of(port) as own:
            yield name, served[name](own)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=0, help="faults of each kind, spread over the calls")
    parser.add_argument("--first", type=int, default=1, help="the first call that fails")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--port", type=int)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    warm()
    failed = False
    for name, scenario in scenarios(arguments.names, arguments.port):
        began = time.monotonic()
        count, wrong = walk(
            name, scenario, arguments.kinds, arguments.first, arguments.most, arguments.verbose
        )
        seconds = time.monotonic() - began
        print(f"{name}: {count} faults, {len(wrong)} wrong, {seconds:.0f} s", *wrong, sep="\n  ", flush=True)
        failed |= bool(wrong) or not count
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
