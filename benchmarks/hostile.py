"""Peak memory over hostile inputs, answers and streams, each in a process of its own, as Markdown tables.

    python benchmarks/hostile.py [WORD…]      # those whose kind has one of the words

Exits with 1 if an input takes more than its bound.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import binlog_core

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support import hostile_served
from support.hostile import INPUTS, MEBI, cost

PACKAGE = Path(binlog_core.__file__).parent.parent


def main(words: list[str]) -> int:
    over = 0
    print("| input | MiB | peak, MiB | bound | by | ended |\n|---|---|---|---|---|---|")
    for hostile in INPUTS:
        if words and not any(word in hostile.kind for word in words):
            continue
        with tempfile.TemporaryDirectory() as name:
            found = cost(hostile, Path(name), PACKAGE)
        made = hostile.make()
        size = sum(map(len, made)) if isinstance(made, list) else len(made)
        taken = found.taken / MEBI
        over += taken > hostile.bound
        ended = ", ".join(f"{how}{f' {n}' if n > 1 else ''}" for how, n in found.ended.items())
        cells = (hostile.kind, f"{size / MEBI:.2g}", f"{taken:.0f}", str(hostile.bound), hostile.why, ended)
        print("|", " | ".join(cells), "|", flush=True)
    return 1 if over + served(words) else 0


def served(words: list[str]) -> int:
    """The same for what a server answers and sends; how many took more than their bound."""
    over = 0
    print("\n| answer or stream | peak, MiB | bound | by | seconds | ended |\n|---|---|---|---|---|---|")
    for one in hostile_served.SERVED:
        if words and not any(word in one.kind for word in words):
            continue
        found = hostile_served.cost(one, PACKAGE)
        taken = found.taken / MEBI
        over += taken > one.bound
        cells = (one.kind, f"{taken:.0f}", str(one.bound), one.why, f"{found.seconds:.1f}", found.ended)
        print("|", " | ".join(cells), "|", flush=True)
    return over


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
