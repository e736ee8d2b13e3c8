"""What all scenarios share: the checks that they make, and the logs that they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from support.faults import KINDS
from support.writer import Log, Table

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)")], primary_key=["id"])
WIDER = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)"), ("b", "INT")], primary_key=["id"])
U = Table("shop", "u", [("id", "INT")], primary_key=["id"])


class Wrong(Exception):
    """What a reader found that must not be there."""


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


def hidden(root: Path) -> list[str]:
    """Files and directories that only a crash leaves behind."""
    return [
        str(path.relative_to(root))
        for path in root.rglob(".*")
        if path.suffix != ".lock" and path.name != ".lock"
    ]


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
