"""Instructions per row image against the base commit: a change may cost at most 5 % more, or has to say why.

    python benchmarks/guard.py [--base COMMIT]

Six generated shapes, into arrays, Arrow and rows, counted by callgrind around the decode call alone. The
counts are the same in each run, whatever else the machine does; they are of the portable paths, because
callgrind knows only some of a processor's extensions. The base is built here, by its own setup.py, and both
decode the same logs. Three comparisons need only the change itself: logs with something that takes a slow
path may cost at most 20 % more than smooth ones (cliffs.py), two threads as much more than one, and
mmap=False than a mapped log.

The base is BINLOG_BASE (or --base) if given; the last commit, if the working tree differs from it; else where
the branch left origin/main, or on main itself the commit before. If no file of the decode path differs from
the base, or if there is no base, as in a shallow clone, nothing is counted, and the output says so.

A change that is slower with good reason says so in a trailer of a commit message: ``Slower: why``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OUT = ROOT / "build" / "guard"  # where pytest does not look for the base's own benchmarks
sys.path[:0] = [str(HERE), str(ROOT / "tests")]

from cliffs import MEGABYTES as CLIFF_MEGABYTES  # noqa: E402
from cliffs import SMOOTH  # noqa: E402
from logs import WORKLOADS, BenchLog, bench_log  # noqa: E402

MEGABYTES = 2
MOST = 1.05
MOST_CLIFF = 1.2
# 300 batches to a group, of 60 rows each: what a batch costs shows, in Arrow an import by pyarrow.
MOST_SHAPES = {"arrays": MOST_CLIFF, "arrow": 1.65}
# The decode path. The other parts of the package stand on it.
PATHS = [
    "setup.py",
    "src",
    "binlog_core",
    ":!binlog_core/spark",
    ":!binlog_core/lake",
    ":!binlog_core/mirror",
    ":!binlog_core/cli",
    ":!binlog_core/inspect/report_page",
]

Job = tuple[BenchLog, str]  # how it is decoded, see counted.py
Counts = dict[tuple[str, str], float]  # (workload, arrays, arrow or rows): instructions per row image


def git(*arguments: str) -> str | None:
    """What git says, or None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def find_base(asked: str) -> str | None:
    """The commit to compare with, or None if there is none.

    Raises
    ------
    SystemExit
        The name is not a commit of this clone.
    """
    if asked.strip("0"):
        commit = git("rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}")
        return commit or sys.exit(f"guard: {asked} is not a commit of this clone")
    if git("diff", "--quiet", "HEAD", "--", *PATHS) is None:
        return git("rev-parse", "HEAD")
    branched = git("merge-base", "HEAD", "origin/main")
    if branched and branched != git("rev-parse", "HEAD"):
        return branched
    return git("rev-parse", "--verify", "--quiet", "HEAD~1")


def built(base: str) -> Path:
    """The base's tree with its modules built in place; made once per commit."""
    tree = OUT / base
    done = tree / ".built"
    if not done.exists():
        shutil.rmtree(OUT, ignore_errors=True)
        tree.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", base], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        environment = {**os.environ, "PYTHONPATH": str(tree), "BINLOG_CORE_BUILD": ""}
        made = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if made.returncode:
            sys.exit(f"guard: the base does not build:\n{made.stderr[-3000:]}")
        done.touch()
    return tree


def job_of(log: str, how: str) -> str:
    """A job as counted.py takes and prints it."""
    return f"{log}+{how}" if how else log


def start_count(library: Path, jobs: list[Job], folder: Path, tree: Path | None) -> subprocess.Popen[str]:
    """Count with the package of a built tree, or (None) with the one that Python finds here."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if tree is not None:
        environment["PYTHONPATH"] = str(tree)
    return subprocess.Popen(
        [
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"),
            *(
                sys.executable,
                str(HERE / "counted.py"),
                str(library),
                *(job_of(str(log.path), how) for log, how in jobs),
            ),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def counts_of(process: subprocess.Popen[str], folder: Path, jobs: list[Job], who: str) -> Counts:
    """Instructions per row image, once the process has ended.

    Raises
    ------
    SystemExit
        It failed, did not count, or decoded another number of row images than the logs hold.
    """
    said, errors = process.communicate()
    if process.returncode:
        sys.exit(f"guard: {who} does not decode:\n{errors[-3000:]}")
    print(who, *re.findall(r"^from .*$", errors, re.MULTILINE))
    by_name = {job_of(log.path.stem, how): (log, how) for log, how in jobs}
    counts: Counts = {}
    for number, line in enumerate(said.splitlines(), 1):
        job, way, images, counted = line.split()
        log, how = by_name[job]
        if int(images) != log.answer.images:
            sys.exit(f"guard: {who} finds {images} row images in {log.name}, {log.answer.images} are there")
        dump = (folder / f"out.{number}").read_text()
        total = re.search(r"^totals: (\d+)$", dump, re.MULTILINE)
        if total is None or f"{job} {way}\n" not in dump or int(total[1]) < int(counted):
            sys.exit(f"guard: callgrind counted nothing of {log.name} in {who}")
        name = log.name if how in ("", "group") else f"{log.name} x {how}"
        counts[name, way] = int(total[1]) / int(counted)
    return counts


def count_all(base: Path) -> tuple[Counts, Counts, Counts]:
    """Counts of the base's tree and of the package that Python finds here, side by side; and the cliffs."""
    logs: list[Job] = [(bench_log(name, MEGABYTES), "") for name in WORKLOADS]
    rough: list[Job] = [
        (bench_log(name, CLIFF_MEGABYTES.get(name, 4)), "group")
        for name in dict.fromkeys([*SMOOTH.values(), *SMOOTH])
    ]
    rough += [(bench_log("single", CLIFF_MEGABYTES["single"]), how) for how in ("1", "2")]
    rough += [(bench_log("notes", 4), how) for how in ("1", "read")]
    with tempfile.TemporaryDirectory() as name:
        library = Path(name, "callgrind.so")
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "callgrind.c"], check=True)
        sides = []
        for who, tree, jobs in (("base", base, logs), ("change", None, logs), ("cliffs", None, rough)):
            folder = Path(name, who)
            folder.mkdir()
            sides.append((start_count(library, jobs, folder, tree), folder, jobs, who))
        before, after, cliffs = (counts_of(*side) for side in sides)
    return before, after, cliffs


def compare(title: str, pairs: Iterable[tuple[str, str]], before: Counts, now: Counts) -> list[str]:
    """Print a table of `pairs` (names in `now` and in `before`); return those that are too much worse."""
    print(f"{title:<13}{'into':<8}{'before':>10}{'now':>10}{'ratio':>8}")
    worse = []
    for name, other in pairs:
        for way in (way for found, way in now if found == name):
            most = MOST if name == other else MOST_SHAPES[way] if name == "shapes" else MOST_CLIFF
            count, expected = now[name, way], before.get((other, way), 0.0)
            ratio = count / expected if expected else 0.0
            worse += [f"{name} into {way}"] if ratio > most else []
            verdict = "  WORSE" if ratio > most else ""
            print(f"{name:<13}{way:<8}{expected:>10.0f}{count:>10.0f}{ratio:>8.3f}{verdict}")
    return worse


def main() -> int:
    """Print the tables; return 1 if something takes more than 5 or 20 % more and no commit says why."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default=os.environ.get("BINLOG_BASE", ""))
    base = find_base(parser.parse_args().base)
    if base is None:
        print("guard: NOTHING COUNTED: no base commit (the first one, or a shallow clone; see BINLOG_BASE)")
        return 0
    title = git("log", "-1", "--format=%h %s", base)
    if git("diff", "--quiet", base, "--", *PATHS) is not None:
        print(f"guard: nothing to count: the decode path is that of {title}")
        return 0
    if shutil.which("valgrind") is None:
        print("guard: NOTHING COUNTED: no valgrind on this machine (Debian: apt-get install valgrind)")
        return 0
    before, after, cliffs = count_all(built(base))
    print(f"instructions per row image; base: {title}")
    worse = compare("workload", zip(WORKLOADS, WORKLOADS, strict=True), before, after)
    print("cliffs, two threads, and mmap=False, before: the smooth log, one thread, and with mmap")
    pairs = [*SMOOTH.items(), ("single x 2", "single x 1"), ("notes x read", "notes x 1")]
    worse += compare("cliff", pairs, cliffs, cliffs)
    reasons = git("log", "--format=%(trailers:key=Slower,valueonly)", f"{base}..HEAD") or ""
    if not worse:
        print(f"guard: nothing takes more than 5 % more instructions than at {title}, or falls off a cliff")
        return 0
    if reasons.strip():
        print(f"guard: too slow: {', '.join(worse)}, and a commit says why: {reasons.strip()}")
        return 0
    print(f"guard: too slow: {', '.join(worse)}. If it must be, say why in a trailer: Slower: why")
    return 1


if __name__ == "__main__":
    sys.exit(main())
