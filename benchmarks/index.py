"""What an index costs and saves: making it against decoding arrays, its size, how much a history decodes.

    python benchmarks/index.py LOG [LOG …] [--table DB.TABLE --key COLUMN=VALUE]

CPU time of this process, the best of five alternating rounds; the index is made beside links to the logs, in
a temporary directory. With a key: how much of the logs its history decodes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core._decode.log_decoder import LogDecoder
from binlog_core.index.making import NAME, index
from binlog_core.inspect.history import history

ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def arrays(folder: Path) -> None:
    with binlog_core.open(folder) as log:
        for batch in log.batches():
            del batch


class Decoded:
    """Bytes of the logs that are decoded."""

    def __init__(self) -> None:
        self.bytes = 0
        part, groups = LogDecoder.part, LogDecoder.groups

        def counted_part(decoder: LogDecoder, start: int | None, *more: Any) -> Iterator[Any]:
            yield from part(decoder, start, *more)
            self.bytes += decoder.position - (start or 4)

        def counted_groups(decoder: LogDecoder) -> Iterator[Any]:
            yield from groups(decoder)
            self.bytes += decoder.position

        LogDecoder.part, LogDecoder.groups = counted_part, counted_groups  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--table")
    parser.add_argument("--key", action="append", default=[])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for i, log in enumerate(given.logs):
            os.symlink(log.resolve(), folder / f"bin.{i + 1:06}")
        size = sum(log.stat().st_size for log in given.logs)
        rounds = [
            (seconds(lambda: arrays(folder)), seconds(lambda: index(folder, anew=True)))
            for _ in range(ROUNDS)
        ]
        decoding, making = (min(one) for one in zip(*rounds, strict=True))
        held = (folder / NAME).stat().st_size
        print(f"{size / 1e6:,.0f} MB of logs: arrays {size / decoding / 1e6:,.0f} MB/s", end=", ")
        print(f"index {size / making / 1e6:,.0f} MB/s, ratio {decoding / making:.2f}", end=", ")
        print(f"index {held:,} bytes, {held / size:.3%} of the logs")
        if given.table:
            key = dict(one.partition("=")[::2] for one in given.key)
            decoded = Decoded()
            found = history(folder, given.table, key)
            part = decoded.bytes / size
            print(f"history of {given.key}: {len(found)} changes, {part:.3%} of the logs decoded")


if __name__ == "__main__":
    main()
