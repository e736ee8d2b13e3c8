"""Random ALTERs of mirrored tables: afterwards the lake must have the rows of the server's own SELECT.

    python soak/alters.py --count 2000                       # the machine's mariadbd
    python soak/alters.py --count 2000 --port 3306 --seed 7  # a server that runs, root has no password

Types, session modes, generated columns and statements vary together (tests/support/alters.py). Each round has
its own seed and replaces the server's database "refused".
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from server import port_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.alters import DATABASE, compared
from support.server import connect

_ROUND = 200  # tables at a time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="tables in all (default: 2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default: 1)")
    parser.add_argument("--port", type=int, help="of a server on 127.0.0.1 (default: start mariadbd)")
    given = parser.parse_args()
    ways: Counter[str] = Counter()
    failed = 0
    with port_of(given.port) as port:
        url = f"mysql://root@127.0.0.1:{port}"
        for number in range(-(-given.count // _ROUND)):
            seed = given.seed + number
            with tempfile.TemporaryDirectory() as lake, connect(url) as connection:

                def sql(statement: str, connection: Any = connection) -> Any:
                    with connection.cursor() as cursor:
                        cursor.execute(statement)
                        return cursor.fetchall()

                for statement in ("DROP DATABASE IF EXISTS", "CREATE DATABASE", "USE"):
                    sql(f"{statement} {DATABASE}")
                count = min(_ROUND, given.count - number * _ROUND)
                found, wrong = compared(sql, url, Path(lake), seed, count)
            ways += found
            failed += len(wrong)
            print(f"seed {seed}: {dict(found)}, {len(wrong)} wrong", *wrong, sep="\n", flush=True)
    print(f"total: {dict(ways)}, {failed} wrong")
    return 1 if failed or not ways["applied"] else 0


if __name__ == "__main__":
    sys.exit(main())
