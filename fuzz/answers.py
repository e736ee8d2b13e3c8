"""Mutated answers, logins and streams of a server through the whole client: only our own errors come out.

    python fuzz/answers.py RUNS [SEED]

Each run is one thing that a client does with a server, of which one answer, one packet of the login or one
dump is hostile (tests/support/hostile_answers.py); a run that does not come that far is not counted. Server
and client share a thread, and time is the simulated world's: nothing waits, so TOGETHER runs in more than
DEADLINE seconds are a hang, which ends it with a traceback. For every ten runs one mutated result goes
through the compiled reader alone. Prints how many there were and how they ended; another error than ours ends
it with its traceback and seed.

Under the sanitizers: ``make fuzz-answers``.
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

DEADLINE, TOGETHER = 300, 100
SHOWN = 10_000
SLOW = ("read with the server's definitions", "undo")  # they take ten times as long


def main(runs: int, seed: int) -> None:
    print("client:", Path(binlog_core.__file__).parent, flush=True)
    questions = {}
    for name in SCENARIOS:
        for mariadb in (False, True):
            usual = asked(mariadb=mariadb)
            SCENARIOS[name](usual.client, had(mariadb=mariadb))
            questions[name, mariadb] = len(usual.noted)
    weights = [0.1 if name in SLOW else 1 for name, _ in questions]
    ended: collections.Counter[str] = collections.Counter()
    chance, begun, results = random.Random(seed), time.monotonic(), 0
    while ended.total() < runs:
        ((name, mariadb),) = chance.choices(list(questions), weights)
        at = chance.randrange(questions[name, mariadb])
        one = chance.randrange(1 << 48)
        if ended.total() % TOGETHER == 0:
            faulthandler.dump_traceback_later(DEADLINE, exit=True)
        try:
            how = hostile_run(name, mariadb=mariadb, at=at, seed=one)
        except BaseException:
            print(f"{name}, mariadb={mariadb}, at={at}, seed={one}", flush=True)
            raise
        if how is None:
            continue
        ended[how] += 1
        if ended.total() % 10 == 0:
            hostile_rows(chance.randrange(1 << 48))
            results += 1
        if ended.total() % SHOWN == 0 or ended.total() == runs:
            all_ends = ", ".join(f"{how} {n:,}" for how, n in ended.most_common())
            print(
                f"{ended.total():,} runs of a client in {time.monotonic() - begun:.0f} s: {all_ends};"
                f" {results:,} results in the compiled reader",
                flush=True,
            )
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
