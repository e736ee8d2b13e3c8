"""Every call that writes, renames or syncs fails once. Nothing lost, doubled or half-named.

    python soak/faults.py                        # everything; the mirror on the machine's mariadbd
    python soak/faults.py apply export_delta     # these alone
    python soak/faults.py --most 20 index        # twenty faults of each kind at most, spread over the calls
    python soak/faults.py --first 61 --last 90 mirror    # from the 61st call to the 90th: a part of a walk

A first run counts the calls that change something: tests/support/faults.py has the list. Then, for each call
and each kind of fault, a run begins from the same files and fails there. A reader checks the result so far;
the command runs again without a fault, and must give the result of a run without any. Only data files that no
commit names may remain of a killed run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from server import port_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from scenarios.apply import Apply
from scenarios.archive import Archive, Index, Stored
from scenarios.export import Export, RowsFile
from scenarios.mirror import Mirror, MirrorKept
from scenarios.scenario import Scenario, Wrong
from support.faults import KILLED, KINDS, Faults

from binlog_core import BinlogError


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
    name: str, scenario: Scenario, kinds: Iterable[str], asked: range, most: int, verbose: bool
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
        chosen = range(asked.start, min(asked.stop, len(calls) + 1))
        if most and chosen:
            chosen = chosen[:: -(-len(chosen) // most)]
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
    import pyarrow.dataset  # noqa: F401
    import pyspark.sql.streaming.datasource  # noqa: F401
    import zstandard  # noqa: F401

    import binlog_core.cli.app
    import binlog_core.lake.apply.batch
    import binlog_core.lake.tables.tables
    import binlog_core.mirror.mirroring
    import binlog_core.spark.export  # noqa: F401


def scenarios_of(names: Iterable[str], port: int | None) -> Iterator[tuple[str, Scenario]]:
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
    parser.add_argument("--last", type=int, default=sys.maxsize - 1, help="the last call that fails")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--port", type=int)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    warm()
    failed = False
    asked = range(arguments.first, arguments.last + 1)
    for name, scenario in scenarios_of(arguments.names, arguments.port):
        began = time.monotonic()
        count, wrong = walk(name, scenario, arguments.kinds, asked, arguments.most, arguments.verbose)
        seconds = time.monotonic() - began
        print(f"{name}: {count} faults, {len(wrong)} wrong, {seconds:.0f} s", *wrong, sep="\n  ", flush=True)
        failed |= bool(wrong) or not count
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
