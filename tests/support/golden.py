"""The golden logs of tests/data, and the servers' truth about them."""

from __future__ import annotations

import fnmatch
import gzip
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"
SERVERS = ("mysql56", "mysql97", "maria1011", "maria118")

# What a log says about its columns (binlog_row_metadata).
KNOWN_NOTHING, KNOWN_MINIMAL, KNOWN_FULL, KNOWN_SCHEMA = range(4)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def full_name(database: str, table: str) -> str:
    """A table's full name; a part that has a dot in it, or begins with a backquote, is in backquotes."""
    return ".".join(
        "`" + one.replace("`", "``") + "`" if "." in one or one[:1] == "`" else one
        for one in (database, table)
    )


@dataclass(frozen=True)
class Golden:
    """One golden log: ``path`` of the binlog; everything else is read on first use.

    Also serves any folder of the same layout as tests/data.
    """

    path: Path

    @property
    def base(self) -> str:
        return str(self.path.with_suffix(""))

    @property
    def name(self) -> str:
        """``server/scenario``."""
        return f"{self.path.parent.name}/{self.path.stem}"

    def __str__(self) -> str:
        return self.name

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def truth(self) -> list[dict[str, Any]]:
        """The row changes, in log order."""
        return _read_lines(Path(self.base + ".truth.jsonl.gz"))

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """SHOW BINLOG EVENTS."""
        return _read_lines(Path(self.base + ".events.jsonl.gz"))

    @cached_property
    def definitions(self) -> list[dict[str, Any]]:
        with gzip.open(self.base + ".schema.json.gz", "rt", encoding="utf-8") as text:
            found: list[dict[str, Any]] = json.load(text)
        return found

    @cached_property
    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(self.base + ".meta.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def known(self) -> int:
        """The least that the log says about its columns: KNOWN_NOTHING, KNOWN_MINIMAL or KNOWN_FULL."""
        settings = self.meta["settings"]
        said = [str(settings.get("binlog_row_metadata"))]
        said += [s for s in settings.get("session", []) if "row_metadata" in s]
        return min(
            KNOWN_FULL if "FULL" in s else KNOWN_MINIMAL if "MINIMAL" in s else KNOWN_NOTHING for s in said
        )

    @property
    def keys(self) -> str | None:
        """The key file of an encrypted log."""
        return next(
            (self.base + end for end in (".keyring", ".keys.txt") if Path(self.base + end).exists()), None
        )

    @property
    def open_arguments(self) -> dict[str, Any]:
        """What ``binlog_core.open`` needs besides the path."""
        arguments: dict[str, Any] = {"keys": self.keys} if self.keys else {}
        if self.needs_schema:
            arguments["schema"] = self.schema
        return arguments

    def columns_of(self, row: int) -> dict[str, dict[str, Any]]:
        """Columns, by name, of the table of change number ``row``, as they were then."""
        change = self.truth[row]
        found: list[dict[str, Any]] = []
        for definition in self.definitions:
            if (definition["db"], definition["table"]) == (change["db"], change["table"]) and definition[
                "from_row"
            ] <= row:
                found = definition["columns"]
        return {column["name"]: column for column in found}

    @cached_property
    def schema(self) -> dict[str, str] | None:
        """CREATE TABLE by ``db.table``; None if a table changed within the log."""
        texts = {full_name(d["db"], d["table"]): d["create"] for d in self.definitions}
        return texts if len(texts) == len(self.definitions) else None

    @cached_property
    def old_digits(self) -> dict[str, dict[int, int]]:
        """Columns of MariaDB's own fractional types, whose digits only the schema gives."""
        return {
            full_name(d["db"], d["table"]): {
                i: int(found[1])
                for i, column in enumerate(d["columns"])
                if (found := re.search(r"\((\d)\) /\* mariadb-5\.3", column["column_type"]))
            }
            for d in self.definitions
        }

    @property
    def needs_schema(self) -> bool:
        """Whether the log cannot be decoded without a schema."""
        return any(self.old_digits.values())

    @cached_property
    def row_positions(self) -> set[int]:
        """Positions of the events that can hold row changes."""
        return {
            event["pos"]
            for event in self.events
            if re.search(r"rows|payload", event["type"], re.IGNORECASE)
            and event["type"] not in ("Rows_query", "Annotate_rows")
        }

    @cached_property
    def gtids(self) -> list[tuple[int, str | None]]:
        """``(position, GTID as the server prints it)``; None for anonymous ones."""
        found: list[tuple[int, str | None]] = []
        for event in self.events:
            if event["type"] in ("Gtid", "Gtid_tagged_log_event"):
                match = re.search(r"GTID_NEXT= '([^']*)'|GTID (\d+-\d+-\d+)", event["info"] or "")
                assert match, event
                found.append((event["pos"], match[1] or match[2]))
            elif event["type"] == "Anonymous_Gtid":
                found.append((event["pos"], None))
        return found

    def gtid_at(self, position: int) -> str | None:
        """GTID of the transaction that the event at ``position`` belongs to."""
        last: str | None = None
        for at, gtid in self.gtids:
            if at > position:
                break
            last = gtid
        return last


def golden_logs(pattern: str = "*/*", folder: Path = DATA, max_bytes: int | None = None) -> list[Golden]:
    """The golden logs whose ``server/scenario`` matches the glob pattern, sorted by name.

    Raises ValueError if there is none: a test over no logs cannot fail.
    """
    logs = [
        Golden(path)
        for server in SERVERS
        for path in sorted((folder / server).glob("*.binlog"))
        if fnmatch.fnmatch(f"{server}/{path.stem}", pattern)
        and (max_bytes is None or path.stat().st_size <= max_bytes)
    ]
    if not logs:
        raise ValueError(f"no golden log matches {pattern!r} in {folder}")
    return logs


def old_logs() -> list[Path]:
    """Logs of older servers, without truth."""
    return sorted((DATA / "old").glob("*.binlog"))
