"""Options and the closing table of the benches. BINLOG_BENCH_MB sets the size of each log (64)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "tests"):  # the generators, and the writer that tests use too
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from measure import FLOORS, LINES, MEMORY, RESULTS  # noqa: E402


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Rates over that of zlib.crc32 on the same bytes, alternated in this process; and memory."""
    if RESULTS:
        _write_rates(terminalreporter)
    if MEMORY:
        _write_memory(terminalreporter)
    for subject, lines in LINES.items():
        terminalreporter.section(subject)
        for line in lines:
            terminalreporter.write_line(line)


def _write_memory(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("peak anonymous memory of decoding into arrays, in a process of its own")
    terminalreporter.write_line(
        f"{'workload':<10}{'log MB':>8}{'before MB':>11}{'peak MB':>9}{'taken MB':>10}"
    )
    for m in MEMORY:
        terminalreporter.write_line(
            f"{m.workload:<10}{m.size / 1e6:>8.1f}{m.before / 1e6:>11.1f}"
            f"{m.peak / 1e6:>9.1f}{m.taken / 1e6:>10.1f}"
        )


def _write_rates(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("decode rate over zlib.crc32 of the same bytes")
    terminalreporter.write_line(
        f"{'workload':<10}{'into':<18}{'MB':>7}{'rows':>12}{'rows/s':>14}"
        f"{'MB/s':>9}{'crc32 MB/s':>12}{'ratio':>9}  floor"
    )
    for r in RESULTS:
        floor = FLOORS.get((r.workload, r.what))
        verdict = "" if floor is None else f"{floor:.2f} {'PASS' if r.ratio >= floor else 'BELOW'}"
        terminalreporter.write_line(
            f"{r.workload:<10}{r.what:<18}{r.size / 1e6:>7.1f}{r.rows:>12,}{r.rows / r.seconds:>14,.0f}"
            f"{r.size / r.seconds / 1e6:>9.0f}{r.size / r.crc_seconds / 1e6:>12.0f}{r.ratio:>9.3f}  {verdict}"
        )
