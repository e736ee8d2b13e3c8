"""Lines and branches of the core that a run of the tests reached, by .pyx and .pxd file.

    python fuzz/coverage.py FOLDER [--missing]

FOLDER holds what BINLOG_CORE_BUILD=coverage built and the tests left (.gcno and .gcda). The C that Cython
makes names the lines that it was made of, so gcov counts ours. A line counts if C was made of it in any
module, and as reached if it was reached in one. Branches are those of C. In the .pyx files most of them are
Cython's own, for errors of Python; those of the .pxd files, which run without Python, are ours.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS = {path.name: path for path in (ROOT / "src").rglob("*") if path.suffix in (".pyx", ".pxd", ".h")}


def reports(folder: Path) -> Iterator[dict[str, Any]]:
    """gcov's report of each object file."""
    for notes in sorted(folder.rglob("*.gcno")):
        with tempfile.TemporaryDirectory() as place:
            command = ["gcov", "--branch-probabilities", "--json-format", str(notes.resolve())]
            subprocess.run(command, cwd=place, check=True, capture_output=True)
            for path in Path(place).glob("*.gcov.json.gz"):
                yield json.loads(gzip.decompress(path.read_bytes()))


def main() -> None:
    lines: dict[str, dict[int, bool]] = defaultdict(dict)
    branches: dict[str, dict[tuple[int, int, int], bool]] = defaultdict(dict)
    for report in reports(Path(sys.argv[1])):
        for file in report["files"]:
            name = Path(file["file"]).name
            if name not in OURS:
                continue
            code = lines_of_code(OURS[name])
            for line in file["lines"]:
                number = line["line_number"]
                if number not in code:  # of Cython's own C, behind ours
                    continue
                lines[name][number] = lines[name].get(number, False) or line["count"] > 0
                for i, branch in enumerate(line["branches"]):
                    place = number, i, len(line["branches"])
                    branches[name][place] = branches[name].get(place, False) or branch["count"] > 0
    totals, loops = [0, 0, 0, 0], [0, 0, 0, 0]
    print(f"{'file':24} {'lines':>14} {'branches':>16}")
    for name in sorted(lines):
        counts = (
            sum(lines[name].values()),
            len(lines[name]),
            sum(branches[name].values()),
            len(branches[name]),
        )
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        if not name.endswith(".pyx"):
            loops = [a + b for a, b in zip(loops, counts, strict=True)]
        print(f"{name:24} {told(*counts[:2]):>14} {told(*counts[2:]):>16}")
        if "--missing" in sys.argv:
            print("    ", " ".join(str(n) for n, reached in sorted(lines[name].items()) if not reached))
    print(f"{'.pxd and .h':24} {told(*loops[:2]):>14} {told(*loops[2:]):>16}")
    print(f"{'all':24} {told(*totals[:2]):>14} {told(*totals[2:]):>16}")


def lines_of_code(path: Path) -> set[int]:
    """Numbers of the lines that are neither empty nor a comment."""
    text = path.read_text(encoding="utf-8").splitlines()
    return {
        n for n, line in enumerate(text, 1) if line.strip() and not line.lstrip().startswith(("#", "*", "/*"))
    }


def told(reached: int, count: int) -> str:
    return f"{reached}/{count} {100 * reached / count:.1f}%" if count else "-"


if __name__ == "__main__":
    main()
