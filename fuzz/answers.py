"""Mutated answers, logins and streams of a server through the whole client: only our own errors come out.

    python fuzz/answers.py COUNT [SEED]

Each run is one thing that a client does with a server, of which one answer, one packet of the login or one
dump is hostile (tests/support/hostile_answers.py); a run that does not come that far is not counted. Server
and client share a thread, and time is the simulated world's: nothing waits, so TOGETHER runs in more than
DEADLINE seconds are a hang, which ends it with a traceback. With each run EACH mutated results and streams go
through the compiled readers alone, which takes less time. COUNT is of all together. Prints how many there
were and how they ended; another error than ours ends it with its traceback and seed.

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

from support.hostile_answers import SCENARIOS, asked, had, hostile_packets, hostile_rows, hostile_run

DEADLINE, TOGETHER = 600, 100
EACH, SHOWN = 5, 1000
SLOW = ("read with the server's definitions", "undo")  # they take ten times as long


def main(count: int, seed: int) -> None:
    print("client:", Path(binlog_core.__file__).parent, flush=True)
    questions = {}
    for name in SCENARIOS:
        for mariadb in (False, True):
            usual = asked(mariadb=mariadb)
            SCENARIOS[name](usual.client, had(mariadb=mariadb))
            questions[name, mariadb] = len(usual.noted)
    weights = [0.1 if name in SLOW else 1 for name, _ in questions]
    ended: collections.Counter[str] = collections.Counter()
    chance, begun, alone, shown = random.Random(seed), time.monotonic(), 0, 0
    while ended.total() + 2 * alone < count:
        ((name, mariadb),) = chance.choices(list(questions), weights)
        at = chance.randrange(questions[name, mariadb])
        one = chance.randrange(1 << 48)
        if ended.total() % TOGETHER == 0:
            faulthandler.dump_traceback_later(DEADLINE, exit=True)
        try:
            how = hostile_run(name, mariadb=mariadb, at=at, seed=one)
            if how is not None:
                ended[how] += 1
            for other in range(one, one + EACH):
                hostile_rows(other)
                hostile_packets(other)
        except BaseException:
            print(f"{name}, mariadb={mariadb}, at={at}, seed={one}", flush=True)
            raise
        alone += EACH
        if ended.total() // SHOWN > shown:
            shown = ended.total() // SHOWN
            tell(ended, alone, begun)
    faulthandler.cancel_dump_traceback_later()
    tell(ended, alone, begun)


def tell(ended: collections.Counter[str], alone: int, begun: float) -> None:
    runs, seconds = ended.total(), time.monotonic() - begun
    how = ", ".join(f"{how} {n:,}" for how, n in ended.most_common())
    print(
        f"{runs + 2 * alone:,} in {seconds:.0f} s: {runs:,} runs of a client ({how}), {alone:,} results and"
        f" {alone:,} streams in the compiled readers",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
