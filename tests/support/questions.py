"""Random queries on logs: which rows, of which tables, times and transactions."""

from __future__ import annotations

import datetime as dt
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core import BinlogError
from binlog_core.conditions.language import quoted, quoted_name

from .golden import full_name


class Questions:
    """Arguments for ``open``, about what some logs contain, and about values close to that.

    Parameters
    ----------
    target : Path
    seed : int
    """

    def __init__(self, target: Path, seed: int, **options: Any) -> None:
        self._random = random.Random(seed)
        self._values: dict[str, dict[str, list[Any]]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._gtids: list[str] = []
        self._positions: list[Any] = []
        self._times: list[int] = []
        self.rows = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with binlog_core.open(target, **options) as log:
                for batch in log.batches():
                    self._keys[batch.table.full_name] = batch.table.primary_key or ()
                for change in log.rows():
                    self.rows += 1
                    self._add(change)

    def _add(self, change: Any) -> None:
        columns = self._values.setdefault(full_name(change.database, change.table), {})
        for image in (change.before, change.after):
            for name, value in (image or {}).items():
                try:
                    quoted(value)
                except TypeError:
                    continue
                known = columns.setdefault(name, [])
                if len(known) < 500:
                    known.append(value)
        self._positions.append((Path(change.path).name, change.position))
        self._times.append(int(change.timestamp))
        if change.gtid is not None and (not self._gtids or self._gtids[-1] != change.gtid):
            self._gtids.append(change.gtid)

    def one(self) -> dict[str, Any]:
        """The next query."""
        pick, found = self._random, {}
        table = pick.choice(list(self._values))
        if pick.random() < 0.7:
            found["tables"] = table if pick.random() < 0.8 else f"{table.partition('.')[0]}.*"
        if pick.random() < 0.85:
            found["where"] = self._condition(table, pick.choice((0, 0, 1, 2)))
        if pick.random() < 0.1:
            found["ops"] = pick.choice(("insert", "update", "delete"))
        if pick.random() < 0.1:
            found["server_id"] = pick.choice((1, 2, 101, 99))
        for end in ("start", "stop"):
            if pick.random() < 0.15:
                time = pick.choice(self._times) + pick.choice((-1, 0, 0, 1))
                found[end] = dt.datetime.fromtimestamp(time, dt.UTC)
        if "start" in found and "stop" in found and found["start"] > found["stop"]:
            found["start"], found["stop"] = found["stop"], found["start"]
        if self._gtids and pick.random() < 0.15:
            name = pick.choice(("gtids", "exclude_gtids"))
            found[name] = pick.sample(self._gtids, min(len(self._gtids), pick.choice((1, 3, 20))))
        return found

    def _condition(self, table: str, depth: int) -> str:
        pick = self._random
        if depth:
            joined = pick.choice((" and ", " or "))
            parts = [self._condition(table, depth - 1) for _ in range(pick.choice((2, 2, 3)))]
            text = f"({joined.join(parts)})"
            return f"not {text}" if pick.random() < 0.1 else text
        columns = self._values[table]
        key = [name for name in self._keys[table] if name in columns]
        about = pick.random()
        if about < 0.06:
            return f"_gtid = {quoted(pick.choice(self._gtids or ['0-1-1']))}"
        if about < 0.1:
            return f"_server_id in (1, {pick.randrange(3)})"
        if about < 0.11:
            return f"_thread_id in (7, {pick.randrange(60, 80)})"
        if about < 0.14:
            return f"_change_type = '{pick.choice(('insert', 'update_preimage', 'delete', 'update'))}'"
        if about < 0.18:
            moment = dt.datetime.fromtimestamp(pick.choice(self._times), dt.UTC).replace(tzinfo=None)
            return f"_commit_timestamp {pick.choice(('<', '>=', '='))} '{moment}'"
        if not columns:
            return "_server_id = 1"
        name = pick.choice(key if key and pick.random() < 0.7 else list(columns))
        value = self._near(pick.choice(columns[name]))
        side = pick.choice(("", "", "", "before.", "after."))
        shown = f"{side}{quoted_name(name)}"
        if value is None or pick.random() < 0.04:
            return f"{shown} is null"
        if pick.random() < 0.05:
            return f"changed({quoted_name(name)})"
        form = pick.choice(("=", "=", "=", "in", "<", ">=", "between", "<>"))
        if form == "in":
            more = [self._near(pick.choice(columns[name])) for _ in range(2)]
            return f"{shown} in ({', '.join(map(quoted, (value, *more)))})"
        if form == "between":
            return f"{shown} between {quoted(value)} and {quoted(self._near(value))}"
        return f"{shown} {form} {quoted(value)}"

    def _near(self, value: Any) -> Any:
        if isinstance(value, int) and self._random.random() < 0.2:
            return value + self._random.choice((-1, 1, 1000))
        if isinstance(value, str) and self._random.random() < 0.1:
            return self._random.choice((value.upper(), value + " ", value[:-1]))
        return value


def answer(target: Path, question: dict[str, Any], **options: Any) -> tuple[list[Any], str]:
    """The rows, and the error that ended reading."""
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with binlog_core.open(target, **(options | question)) as log:
                for c in log.rows():
                    found.append(
                        (c.op, c.database, c.table, repr((c.before, c.after)), c.position, c.gtid, c.path)
                    )
        except BinlogError as error:
            return found, f"{type(error).__name__}: {error}"
    return found, ""


def without_index(work: Callable[[], Any]) -> Any:
    """The result of a call when no index is found."""
    from binlog_core.index import finding

    kept = finding.opened
    finding.opened = lambda path, options: None  # type: ignore[assignment]
    try:
        return work()
    finally:
        finding.opened = kept
