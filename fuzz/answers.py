"""Mutated answers and streams of a server through the whole client, by a seed: only our own errors come out.

    python fuzz/answers.py SECONDS [SEED]

Half of the time goes to what a client does with a server, with one hostile answer or stream in each run
(tests/support/hostile_answers.py), the other to mutated results in the compiled reader. Prints how many there
were and how they ended; another error than ours ends it with its traceback and seed. Nothing waits longer
than the timeouts of the connection, so a run of more than DEADLINE seconds is a hang, and ends it, too.

Under the sanitizers: as `make sanitize` sets them, with PYTHONPATH=build/sanitize/lib.
"""

from __future__ import annotations

import collections
import faulthandler
import random
import sys
import time
from pathlib import Path

import binlog_core

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.hostile_answers import SCENARIOS, asked, had, hostile_rows, hostile_run

DEADLINE = 60


def main(seconds: float, seed: int) -> None:
    print("client:", Path(binlog_core.__file__).parent, flush=True)
    places = []
    for name in SCENARIOS:
        for mariadb in (False, True):
            with asked(mariadb=mariadb) as (url, statements):
                SCENARIOS[name](url, had(mariadb=mariadb))
            places += [(name, mariadb, at) for at in range(len(statements))]
    ended: collections.Counter[str] = collections.Counter()
    chance, end = random.Random(seed), time.monotonic() + seconds / 2
    while time.monotonic() < end:
        name, mariadb, at = chance.choice(places)
        one = chance.randrange(1 << 48)
        faulthandler.dump_traceback_later(DEADLINE, exit=True)
        try:
            ended[hostile_run(name, mariadb=mariadb, at=at, seed=one) or "an end"] += 1
        except BaseException:
            print(f"{name}, mariadb={mariadb}, at={at}, seed={one}", flush=True)
            raise
    faulthandler.cancel_dump_traceback_later()
    rows, end = 0, time.monotonic() + seconds / 2
    while time.monotonic() < end:
        for _ in range(100):
            hostile_rows(chance.randrange(1 << 48))
        rows += 100
    print(
        f"{ended.total():,} runs of a client: {', '.join(f'{how} {n:,}' for how, n in ended.most_common())}"
    )
    print(f"{rows:,} results in the compiled reader")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
