"""Tables of a server, mirrored."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import failover

from binlog_core import BinlogError
from scenarios.scenario import Scenario, Wrong, expect


class Mirror(Scenario):
    """Tables of a server: copied, or brought up to date after changes of all kinds."""

    def __init__(self, port: int, database: str, *, first: bool = False) -> None:
        self._port, self._database, self._first = port, database, first

    def _run(self, root: Path) -> None:
        from binlog_core.mirror import mirror

        found = mirror(
            f"mysql://root@127.0.0.1:{self._port}",
            root / "lake",
            tables=f"{self._database}.*",
            until="now",
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
        own = {path.name for path in (root / "lake" / "_mirror").rglob("*") if "archive" not in path.parts}
        expect(
            sorted(own - {"round.json"}),  # there was one, unless all tables were copied at the log's end
            ["copies", "holder.json", "lock", "state.json"],
            "own files",
        )


class MirrorKept(Mirror):
    """The same with histories and status files, and small files are merged."""

    def _run(self, root: Path) -> None:
        from binlog_core.mirror import joining

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
