"""Run histories: new seeds for some seconds, or given ones."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from .archives import keeper
from .folders import exporter, stream
from .mirrors import mirrorer
from .readers import reader

KINDS: dict[str, Callable[[int], Any]] = {
    "reader": reader,
    "archive": keeper,
    "stream": stream,
    "export": exporter,
    "mirror": mirrorer,
}
_SHRUNK = ("faults", "resumes", "cuts", "visits", "asks", "statements", "steps")
_SHARES = {"reader": 5, "archive": 5, "stream": 1, "export": 1, "mirror": 3}  # of the time
_AT_ONCE, _AT_ONCE_OF_MIRRORS = 20, 2


def failure(history: Any) -> BaseException | None:
    """Why a history fails; None: it does not."""
    try:
        history.run()
    except Exception as error:
        return error
    return None


def shrunk(history: Any, error: BaseException) -> Any:
    """The shortest history found that fails in the same way: without what does not matter."""
    for name in _SHRUNK:
        size = max(1, len(getattr(history, name, ())) // 2)
        while size:
            at = 0
            while at < len(getattr(history, name, ())):
                kept = getattr(history, name)
                shorter = replace(history, **{name: kept[:at] + kept[at + size :]})
                if _said(failure(shorter)) == _said(error):
                    history = shorter
                else:
                    at += size
            size //= 2
    return history


def _said(error: BaseException | None) -> str:
    """An error without the numbers that another history may change."""
    return re.sub(r"\d+", "", f"{type(error).__name__} {error}")[:60]


def report(kind: str, seed: int) -> bool:
    """Print why a history fails, and the shortest that fails in the same way; whether it does."""
    history = KINDS[kind](seed)
    if (error := failure(history)) is None:
        print(f"{kind} {seed}: right")  # also said where it failed before: then it is not repeatable
        return False
    print(f"{kind} {seed}: {type(error).__name__}: {error}")
    least = shrunk(history, error)
    shown = {name: value for name, value in vars(least).items() if name not in ("seed", "steps")}
    print("  " + ", ".join(f"{name}={value}" for name, value in shown.items()))
    for step in least.steps:
        what = step.transaction
        print(f"  {step.at:8.2f} s {step.what}" + (f" {what.number}, rows {what.events}" if what else ""))
    if (last := failure(least)) is not None:
        traceback.print_exception(last, limit=-4)
    return True


def at_once(kind: str) -> int:
    """How many histories a process runs before it is asked again."""
    return _AT_ONCE_OF_MIRRORS if kind == "mirror" else _AT_ONCE


def failing(kind: str, first: int) -> list[int]:
    """Seeds of some histories that fail."""
    seeds = range(first, first + at_once(kind))
    return [seed for seed in seeds if failure(KINDS[kind](seed)) is not None]


def search(kind: str, first: int, seconds: float, most: int, jobs: int) -> list[int]:
    """Run histories in several processes; the seeds of those that fail."""
    began, done, found = time.monotonic(), 0, list[int]()
    with ProcessPoolExecutor(jobs) as pool:
        seeds: Iterator[int] = count(first, at_once(kind))
        while time.monotonic() - began < seconds and len(found) < most:
            firsts = [next(seeds) for _ in range(jobs)]
            for failed in pool.map(failing, [kind] * len(firsts), firsts):
                done += at_once(kind)
                found += failed
    spent = time.monotonic() - began
    rate = 60 * done / spent / jobs
    print(
        f"{kind}: {done} histories from seed {first}, {rate:.0f} a minute and process: {len(found)} wrong",
        flush=True,
    )
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="world", description=__doc__)
    known = f"of {', '.join(KINDS)}; by default all"
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=known)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all")
    parser.add_argument("--seed", type=int, help="only this history")
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000, help="the first seed")
    parser.add_argument("--failures", type=int, default=1, help="end after so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    kinds = arguments.kinds or list(KINDS)
    whole, wrong = sum(_SHARES[kind] for kind in kinds), False
    for kind in kinds:
        seeds = [arguments.seed]
        if arguments.seed is None:
            each = arguments.seconds * _SHARES[kind] / whole
            seeds = search(kind, arguments.first, each, arguments.failures, arguments.jobs)
            wrong |= bool(seeds)
        for seed in seeds[: arguments.failures]:
            wrong |= report(kind, seed)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
