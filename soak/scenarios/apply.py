"""Changes applied to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from support.writer import Log

from scenarios.scenario import WIDER, Scenario, T, Wrong, expect


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
        from binlog_core.lake.plan.parts import plan_parts
        from binlog_core.lake.rows.source_options import SourceOptions
        from binlog_core.spark import apply_changes
        from binlog_core.spark.changes import ChangeReader, infer_schema
        from binlog_core.spark.schemas import arrow_schema, spark_schema

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
