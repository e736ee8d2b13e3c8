"""Golden logs, and their rows read in one pass."""

from __future__ import annotations

import shutil
from pathlib import Path

import binlog_core
from support.golden import Golden, full_name, golden_logs

MIXED = golden_logs("mysql97/dml_mixed")[0]
GTID = golden_logs("mysql97/gtid")[0]
MARIA_GTID = golden_logs("maria1011/maria_gtid")[0]
META_FULL = golden_logs("mysql97/meta_full")[0]
KILLED = golden_logs("mysql97/killed")[0]
DDL = golden_logs("mysql97/ddl")[0]


def path_of(golden: Golden) -> str:
    return f"{golden.base}.binlog"


def keys_of(golden: Golden) -> list[tuple[str, str]]:
    """(operation, table) of each truth row."""
    return [(t["op"], full_name(t["db"], t["table"])) for t in golden.truth]


def places(changes: list[binlog_core.RowChange]) -> list[tuple[str, str, int]]:
    return [(c.op, full_name(c.database, c.table), c.position) for c in changes]


def all_rows(target: object, **options: object) -> list[binlog_core.RowChange]:
    with binlog_core.open(target, **options) as log:  # type: ignore[arg-type]
        return list(log.rows())


def copy_as(golden: Golden, folder: Path, number: int) -> Path:
    target = folder / f"mysql-bin.{number:06d}"
    shutil.copyfile(path_of(golden), target)
    return target
