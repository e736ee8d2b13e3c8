"""Proof that the world sees: known defects are put back, one at a time, into a copy of the package.

make world-proof                       # all, each until it is found or WORLD_SECONDS are over
make world-proof DEFECTS="start acknowledged"
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Defect:
    """A defect as text that takes another's place.

    Parameters
    ----------
    name : str
    kind : str
        Of the histories that must show it.
    module : str
        A file of the package.
    right, wrong : str
        The text there, which occurs once, and what takes its place.
    """

    name: str
    kind: str
    module: str
    right: str
    wrong: str


DEFECTS = [
    Defect(  # a line that is lost before the first event: reading goes on at the oldest log
        "start",
        "reader",
        "server/stream.py",
        "self.file, self.position = begin.begin.file, begin.begin.position",
        'self.file, self.position = "", FIRST_EVENT',
    ),
    Defect(  # a position inside a MariaDB transaction, when later transactions are in the same group
        "inside",
        "reader",
        "_decode/gathering.py",
        "            if self.done_records:\n                self._check_not_lost(gathered)",
        "            self._check_not_lost(gathered)",
    ),
    Defect(  # start=datetime begins with the log that began in this second, not with the one before
        "second",
        "reader",
        "server/start.py",
        "_begin_of(connection, facts, logs[middle][0]) < wanted",
        "_begin_of(connection, facts, logs[middle][0]) <= wanted",
    ),
    Defect(  # a position tells of rows that its group does not have yet
        "position",
        "reader",
        "_decode/gathering.py",
        "self._resume_records = self._loop.open_records + self.done_records",
        "self._resume_records = self._loop.open_records + self.done_records + 1",
    ),
    Defect(  # the state of an export says that a run is done before it is written
        "checkpoint",
        "export",
        "lake/tables/resuming.py",
        "        return self._between(splits, logs, first, index_of(logs, state.next_file))\n",
        "        found = self._between(splits, logs, first, index_of(logs, state.next_file))\n"
        "        state.file, state.position = state.next_file, state.next_position\n"
        "        state.gtids = state.next_gtids\n"
        "        self._save()\n"
        "        return found\n",
    ),
    Defect(  # a batch of a stream ends where the log ends, inside a transaction
        "offset",
        "stream",
        "lake/plan/ranges.py",
        "        return last_boundary(source, start, None if most is None else max(most, start))",
        "        return source.size or 0",
    ),
    Defect(
        "acknowledged",
        "archive",
        "archive/archiver.py",
        "            self._settle()\n            if self._owed:\n"
        "                feed.acknowledge(log.name, log.synced)\n                self._owed = False\n",
        "            if self._owed:\n                feed.acknowledge(log.name, log.size)\n"
        "                self._owed = False\n            self._settle()\n",
    ),
    Defect(  # the name of a new log may be lost
        "folder",
        "archive",
        "archive/growing.py",
        '                files.sync_directory(os.path.dirname(path) or ".")',
        "                pass",
    ),
    Defect(  # the name of a new timeline may be lost
        "timeline",
        "archive",
        "archive/files.py",
        "    if durable:\n        files.sync_directory(folder)",
        "",
    ),
    Defect(
        "bytes",
        "archive",
        "archive/growing.py",
        '        with as_archive_error(self.path, "write to the disk"):\n'
        "            self._files.sync(self._descriptor)\n        self.synced = self.size",
        "        self.synced = self.size",
    ),
    Defect(  # a commit of a lake table without its place
        "place",
        "mirror",
        "mirror/applying.py",
        "app=App(app_id, batch.below),",
        "app=None,",
    ),
    Defect(  # a merge reads the table's list of files after a concurrent compaction
        "files",
        "mirror",
        "lake/apply/file_target.py",
        "            removed = [one for one in files if one.name not in stay]\n",
        "            self._table = self._table.reopened()\n"
        "            removed = [one for one in self._table.files() if one.name not in stay]\n",
    ),
    Defect(  # the parts of a log go from the store before the finished log is there
        "parts",
        "archive",
        "archive/store.py",
        "                self.store.write(name, source, os.fstat(source.fileno()).st_size)\n"
        "            self._finished.add(_bare(path))\n",
        "                for part in self._parts(_bare(name), chained=False):\n"
        "                    self.store.remove(part.path)\n"
        "                self.store.write(name, source, os.fstat(source.fileno()).st_size)\n"
        "            self._finished.add(_bare(path))\n",
    ),
    Defect(  # a log's beginning is in the store before the end of the log before it
        "order",
        "archive",
        "archive/store.py",
        "if self._has_other(path):",
        "if False:",
    ),
    Defect(  # logs are removed before they are as old as they are to be kept
        "young",
        "archive",
        "archive/keeper.py",
        "limit = self._world.time() - self._keep",
        "limit = self._world.time()",
    ),
    # What the world itself has found.
    Defect(  # a position behind withheld transactions has their GTIDs and the place before them
        "withheld",
        "reader",
        "_decode/gathering.py",
        "self._resume_position = max(self._resume_position, self._source.withheld_to)",
        "pass",
    ),
    Defect(  # a transaction that ends without XID comes again after a failover
        "again",
        "reader",
        "server/stream.py",
        "        if self._told:",
        "        if False:",
    ),
    Defect(  # resumed inside a transaction with small groups, the first positions go back
        "records",
        "reader",
        "_decode/gathering.py",
        "self._resume_records = self._loop.open_records + self.done_records",
        "self._resume_records = self._loop.open_records",
    ),
    Defect(  # a reader of MariaDB by GTIDs does not notice a log that a crash has cut
        "cut",
        "reader",
        "server/stream.py",
        "                        self._check_not_cut(connection)\n",
        "",
    ),
    Defect(  # nor an archiver that its server has lost transactions
        "lost",
        "archive",
        "archive/archiver.py",
        "self._log.compared = min(known, position)",
        "pass",
    ),
    Defect(  # half an event stays in the log of a server that is left
        "torn",
        "archive",
        "archive/archiver.py",
        "self._log.leave()",
        "self._log.sync()",
    ),
    Defect(  # a server that answered and is then down counts as a wrong address
        "answered",
        "archive",
        "archive/archiver.py",
        "or not answered:",
        "or not (self._identity or error.lost):",
    ),
    Defect(  # a mirror counts a server that answered, and is then down, as a wrong address
        "waits",
        "mirror",
        "mirror/mirroring.py",
        "if not self._answered or",
        "if not (self.server or error.lost) or",
    ),
    Defect(  # and goes on behind a gap in its archive, over which nothing is replayed
        "gap",
        "mirror",
        "mirror/__init__.py",
        "begins = begins and not place_at(state.archive, place.storage_options).exists(\n"
        "            f\"{state.archive.rstrip('/')}/{NAME}\"\n"
        "        )\n",
        "begins = begins and bool(place_at and NAME)\n",
    ),
    Defect(  # what the server that takes over logged before is executed again: a lake is emptied
        "repeated",
        "mirror",
        "_decode/selection.py",
        "replace(self, repeated=repeated).without(",
        "self.without(",
    ),
    Defect(  # and its GTIDs are those of the place in its log, without those of the server before
        "earlier",
        "mirror",
        "mirror/changes.py",
        "if (earlier := log.before) is not None:",
        "if (earlier := log.before) is not None and not earlier:",
    ),
    Defect(  # a part of a log in a store is merged after it was opened: its reader ends
        "merged",
        "archive",
        "_sources/tails.py",
        "if part is None or not tries_left or self._is_listed(part.path):",
        "if True:",
    ),
    Defect(  # a timeline in a store is replaced between its length and its bytes
        "grown",
        "archive",
        "_sources/archives.py",
        "range(1 if isinstance(place, LocalFiles) else _TRIES)",
        "range(1)",
    ),
    Defect(  # a store that fails once stops an archiver that begins
        "length",
        "archive",
        "archive/store.py",
        'return self._tried(told, "say the size of", name)',
        "return told()",
    ),
    Defect(  # a reader of MariaDB by GTIDs waits for a log that a restored server does not have
        "older",
        "reader",
        "server/dump.py",
        "if self._behind is not None and self._begin.gtids is not None and not self._inside:",
        "if self._behind is None and self._inside is None:",
    ),
    Defect(  # an archive goes on with another history's log, of which it has nothing that is compared
        "next",
        "archive",
        "archive/archiver.py",
        "if not self._tracker.follows:",
        "if False:",
    ),
    Defect(  # a clock that is set back stops the status
        "status",
        "archive",
        "archive/__init__.py",
        "if 0 <= since < _STATUS_INTERVAL and",
        "if since < _STATUS_INTERVAL and",
    ),
]


def put_back(defect: Defect, package: Path, folder: Path) -> None:
    """A copy of the package with a defect, in a folder.

    Raises
    ------
    ValueError
        The text is not there once: say the defect anew.
    """
    made = shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    module = made / defect.module
    text = module.read_text()
    if text.count(defect.right) != 1:
        raise ValueError(
            f"{defect.module} has the text of {defect.name} {text.count(defect.right)} times: expected once"
        )
    module.write_text(text.replace(defect.right, defect.wrong))


def looked_for(kind: str, first: int, seconds: float) -> str:
    """Run histories one after the other until one fails; how many, and what it says."""
    from .__main__ import KINDS, failure

    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end:
        if (error := failure(KINDS[kind](seed))) is not None:
            return f"found by history {seed - first + 1}: {type(error).__name__}: {error}"
        seed += 1
    return f"NOT FOUND in {seed - first} histories"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="world.proof", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="DEFECT", help=", ".join(one.name for one in DEFECTS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--within", metavar="KIND", help=argparse.SUPPRESS)  # where the package has a defect
    arguments = parser.parse_args()
    if arguments.within:
        print(looked_for(arguments.within, arguments.first, arguments.seconds))
        return 0
    found = find_spec("binlog_core")
    assert found is not None and found.origin is not None
    missed = 0
    for defect in DEFECTS:
        if arguments.names and defect.name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory(prefix="proof-") as folder:
            put_back(defect, Path(found.origin).parent, Path(folder))
            paths = os.pathsep.join([folder, str(Path(__file__).resolve().parents[1])])
            command = [sys.executable, "-m", "world.proof", "--within", defect.kind]
            command += ["--seconds", str(arguments.seconds), "--first", str(arguments.first)]
            done = subprocess.run(
                command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True, check=True
            )
        missed += "NOT FOUND" in done.stdout
        print(f"{defect.name} ({defect.kind}): {done.stdout.strip()}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
