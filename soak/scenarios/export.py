"""Files of rows, and exports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from binlog_core import BinlogError
from scenarios.scenario import Scenario, Wrong, expect, hidden, logs_into


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


class Connected:
    """One without a SparkContext."""


def called_here() -> None:
    from binlog_core.spark import workers

    workers.call_tasks = lambda _, function, tasks: [function(one) for one in tasks]
