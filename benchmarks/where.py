"""Where the time of decoding goes, per log: sampled by Linux perf, drawn as one picture.

    python benchmarks/where.py PICTURE.svg LOG [LOG …] [--way arrays|arrow] [--seconds 4]

CPU time of one process that decodes a log again and again, including the kernel's work for it, but not the
start of Python and the imports. Functions that the compiler inlined into others count as part of those.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

DECODE = """
import sys, time, binlog_core
path, seconds, way = sys.argv[1], float(sys.argv[2]), sys.argv[3]
begin = None
while begin is None or time.process_time() - begin < seconds:
    with binlog_core.open(path, verify_checksum=False) as log:
        for batch in log.batches():
            if way == "arrow":
                batch.to_arrow()
    if begin is None:  # one round to warm up
        print("ready", flush=True)
        sys.stdin.readline()
        begin = time.process_time()
"""


@dataclass(frozen=True)
class Part:
    name: str
    color: str
    where: str  # pattern of "library function"


# The first that matches counts.
PARTS = (
    Part("kernel: pages of the log and of arrays", "#8d99ae", r"^\[kernel|\[k\]|^\[guest"),
    Part(
        "events: headers, transactions, table maps",
        "#2a9d8f",
        r"_rows\S* (?!.*decode_rows$).*(walk|note_|map_table|_event)",
    ),
    Part(
        "numbers and copies of neighbours",
        "#e9c46a",
        r"_rows\S* .*(run_joined|run_number|run_float|stride|copy)",
    ),
    Part("dates and times", "#f4a261", r"_rows\S* .*(time|date|year)"),
    Part("DECIMAL", "#e76f51", r"_rows\S* .*decimal"),
    Part("texts and blobs", "#b56576", r"_rows\S* .*(span|text|char|blob)"),
    Part("rows: NULLs, places, the loop itself", "#457b9d", r"binlog_core/_rows|^_rows"),
    Part("columns", "#6d597a", r"^_(columns|capsules)"),
    Part("C library: copies, comparisons, memory", "#adb5bd", r"^libc"),
    Part("Python and NumPy: batches, definitions", "#7f5539", r""),
)


def sample(log: Path, way: str, seconds: float) -> Counter[str]:
    """Samples by "library function".

    Raises
    ------
    subprocess.CalledProcessError
        perf is not allowed to sample here.
    """
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder, "perf.data"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", DECODE, str(log), str(seconds), way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        command = [
            "perf",
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "-F",
            "4000",
            "-o",
            data,
            "-p",
            str(process.pid),
        ]
        perf = subprocess.Popen(command)
        process.stdin.write("go\n")
        process.stdin.flush()
        process.wait()
        perf.wait()
        report = subprocess.run(
            ["perf", "report", "-q", "-i", data, "--stdio", "-n", "-F", "sample,dso,sym", "-t", "|"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    found: Counter[str] = Counter()
    for line in report.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[0].isdigit():
            found[f"{fields[1]} {fields[2]}"] += int(fields[0])
    return found


def shares(found: Counter[str]) -> dict[str, float]:
    """Share of each part, which add up to one."""
    by_part: Counter[str] = Counter()
    for place, samples in found.items():
        by_part[next(part.name for part in PARTS if re.search(part.where, place))] += samples
    return {part.name: by_part[part.name] / found.total() for part in PARTS}


# ------------------------------------------------------------------ picture

WIDTH, LEFT, BAR, GAP, TOP = 860, 110, 26, 14, 16
STYLE = """
.card{fill:#ffffff;stroke:#d0d7de} text{font:13px system-ui,sans-serif;fill:#1f2328}
.in{font-size:11px;fill:#1f2328} .pale{fill:#ffffff}
@media (prefers-color-scheme:dark){
.card{fill:#161b22;stroke:#30363d} text{fill:#e6edf3} .in{fill:#1f2328} .pale{fill:#ffffff}}
"""
DARK = ("#457b9d", "#6d597a", "#7f5539", "#b56576")  # parts whose percentage is written in white


def picture(rows: dict[str, dict[str, float]]) -> str:
    """An SVG that is legible on light and on dark pages: it has its own background."""
    used = [part for part in PARTS if any(row[part.name] >= 0.005 for row in rows.values())]
    scale = WIDTH - LEFT - 24
    legend_top = TOP + len(rows) * (BAR + GAP) + 10
    height = legend_top + (len(used) + 1) // 2 * 22 + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>CPU time of decoding by part of the work: {', '.join(rows)}</title>",
        f"<style>{STYLE.strip()}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
    ]
    for i, (name, row) in enumerate(rows.items()):
        y, x = TOP + i * (BAR + GAP), float(LEFT)
        out.append(f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{name}</text>')
        for part in used:
            width = row[part.name] * scale
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{part.color}"/>')
            if width > 30:
                kind = "in pale" if part.color in DARK else "in"
                middle = x + width / 2
                out.append(
                    f'<text class="{kind}" x="{middle:.1f}" y="{y + 17}" text-anchor="middle">'
                    f"{row[part.name]:.0%}</text>"
                )
            x += width
    for i, part in enumerate(used):
        x, y = 20 + i % 2 * (WIDTH - 20) // 2, legend_top + i // 2 * 22
        out.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{part.color}"/>')
        out.append(f'<text x="{x + 22}" y="{y + 12}">{part.name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", type=Path)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--way", choices=("arrays", "arrow"), default="arrays")
    parser.add_argument("--seconds", type=float, default=4.0, help="of CPU time for each log")
    given = parser.parse_args()
    rows = {}
    for log in given.logs:
        found = sample(log, given.way, given.seconds)
        name = re.split(r"[-.]", log.name)[0]
        rows[name] = shares(found)
        print(f"\n{name}: {found.total()} samples")
        for part, share in rows[name].items():
            if share >= 0.005:
                print(f"{share:7.1%}  {part}")
        for place, samples in found.most_common(12):
            print(f"{samples / found.total():14.1%}  {place}")
    given.picture.write_text(picture(rows))


if __name__ == "__main__":
    main()
