"""Names of numbered logs (``mysql-bin.000042``): their order, gaps between them, and doubtful ones."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

_NUMBERED = re.compile(r"(?P<base>.*)\.(?P<digits>[0-9]{1,19})(?P<packed>\.(?:gz|zst|xz))?", re.DOTALL)
_IN_INNODB = re.compile(r"(?P<base>.*-)(?P<digits>[0-9]{1,19})\.ibb", re.DOTALL)

INDEX_NAME = "binlog-core-index"  # our index of a folder's logs, beside them
OLD_INDEX_NAME = "binlog-core-index.parquet"  # of versions before 0.2.0
SEGMENT = re.compile(r"timeline-[0-9]+")  # of an archive

_LONGEST_NAME = 512


def is_servers_name(name: str) -> bool:
    """Whether a server's name for a log can be shown and given to a command: printable, no option or path."""
    plain = name.isprintable() and not {"/", "\\"} & set(name)
    return 0 < len(name) <= _LONGEST_NAME and plain and name[0] != "-"


class LogName(NamedTuple):
    """A log's path or URL, split into its parts.

    Parameters
    ----------
    base : str
        Everything before the number, including the folder.
    number : int
    digits : str
        The number as it is written.
    packed : str
        How the file is compressed: ".gz", ".zst", ".xz" or nothing.
    """

    base: str
    number: int
    digits: str
    packed: str

    @classmethod
    def of(cls, path: str) -> LogName | None:
        """The name in a path or URL; None if it has no number."""
        found = _NUMBERED.fullmatch(path)
        if found is None:
            found = _IN_INNODB.fullmatch(path)
            return None if found is None else cls(found["base"], int(found["digits"]), found["digits"], "")
        return cls(found["base"], int(found["digits"]), found["digits"], found["packed"] or "")

    @property
    def doubt(self) -> tuple[bool, bool]:
        """Greater the less likely it is the server's own name: six digits, more if needed; not compressed."""
        return self.digits != f"{self.number:06}", bool(self.packed)


def numbered_like(path: str, number: int) -> str | None:
    """The path of the log with another number beside an .ibb file; None for other paths."""
    found = _IN_INNODB.fullmatch(path)
    return f"{found['base']}{number:0{len(found['digits'])}}.ibb" if found else None


def name_within(path: str) -> str:
    """The name that is unique in its archive: with the folder of a later segment."""
    *_, folder, name = ["", *re.split(r"[/\\]", path)]
    return f"{folder}/{name}" if SEGMENT.fullmatch(folder) else name


def archive_of(folder: str) -> str:
    """Of a folder of logs, the archive's own, which may be reached by links: that above a segment's."""
    above, name = os.path.split(folder)
    return above if SEGMENT.fullmatch(name) else folder


def unpacked(path: str) -> str:
    """A log's path or name, without the suffix of its compression."""
    return re.sub(r"\.(gz|zst|xz)$", "", path)


def name_key(path: str) -> tuple[str, int, str]:
    """The sort key of logs: base name and number."""
    name = LogName.of(path)
    return (name.base, name.number, path) if name else (path, -1, path)


class Gap(NamedTuple):
    """Numbers that are missing between the logs of a directory or index file.

    Parameters
    ----------
    base : str
        The logs' name without the number.
    first, last : int
        The missing numbers, both included.
    """

    base: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.base} {self.first}" + (f" to {self.last}" if self.first != self.last else "")


class LeftOut(NamedTuple):
    """A file of a directory that is not read, because another has the same number.

    Parameters
    ----------
    path : str
    kept : str
        The file that is read.
    """

    path: str
    kept: str


class Ordered(NamedTuple):
    """The logs of a directory.

    Parameters
    ----------
    logs : list of str
        The logs, by base name and number.
    gaps : list of Gap
    left_out : list of LeftOut
    """

    logs: list[str]
    gaps: list[Gap]
    left_out: list[LeftOut]


def order_logs(paths: Iterable[str], logs: Collection[str]) -> Ordered:
    """The logs among the files of a directory.

    Parameters
    ----------
    paths : iterable of str
        All files; hidden ones, such as those that an archiver writes first, do not count as logs.
    logs : collection of str
        Those that are logs, judged by their first bytes.
    """
    by_number: dict[tuple[str, int, str], list[str]] = {}
    others: list[str] = []
    for path in sorted(paths):
        if re.split(r"[/\\]", path)[-1].startswith("."):
            continue
        name = LogName.of(path)
        if path in logs:
            by_number.setdefault((name.base, name.number, "") if name else (path, -1, path), []).append(path)
        elif name:
            others.append(path)
    kept, left_out = [], []
    for key in sorted(by_number):
        best, *rest = sorted(by_number[key], key=_doubt)
        kept.append(best)
        left_out += [LeftOut(path, best) for path in rest]
    bases = {base for base, number, _ in by_number if number >= 0}
    # A numbered file that is not a log has the place of a log: its number counts as missing.
    lost = [path for path in others if (name := LogName.of(path)) and name.base in bases]
    return Ordered(kept, find_gaps(kept, lost), left_out)


def _doubt(path: str) -> tuple[tuple[bool, bool], str]:
    name = LogName.of(path)
    return name.doubt if name else (False, False), path


def find_gaps(logs: Iterable[str], lost: Iterable[str] = ()) -> list[Gap]:
    """Numbers that are missing between logs with the same base name, or that only `lost` files have."""
    numbers: dict[str, set[int]] = {}
    missing: dict[str, set[int]] = {}
    for target, paths in ((numbers, logs), (missing, lost)):
        for path in paths:
            if name := LogName.of(path):
                target.setdefault(name.base, set()).add(name.number)
    gaps = []
    for base, have in sorted(numbers.items()):
        edges = sorted(have)
        found = [Gap(base, a + 1, b - 1) for a, b in pairwise(edges) if b > a + 1]
        outside = missing.get(base, set()) - have
        found += [Gap(base, n, n) for n in outside if not edges[0] < n < edges[-1]]
        gaps += sorted(found)
    return gaps
