"""An export that continues where the last one stopped: a file records what it has done and is doing.

A run is planned up to the last transaction boundary in the logs. The plan is saved, then the run is written,
and then it is saved as done. A run that was killed is repeated with the same plan under the same name, and an
output takes a run of one name only once.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..._base.own_files import locks, open_itself
from ..._decode.boundaries import last_checkpoint
from ..._format.event_header import FIRST_EVENT
from ..._sources.log_names import name_within
from ..._sources.object_stores import load_json
from ..._sources.places import is_url
from ..._tables.full_names import full_name
from ...archive.files import Files, put
from ...errors import BinlogError
from ...gtids import parse_gtid_set
from ...splits import Split, SplitResult
from ...splits.split import whole_logs
from ..access import Access
from ..plan.parts import check_numbers, index_of
from .destination import open_filesystem
from .results import ExportState, TableResult, WrittenSplit

_FORMAT = 1


@contextlib.contextmanager
def alone_with(path: str) -> Iterator[None]:
    """Hold off other exports of this machine with the same state; a store has no locks.

    Of two that plan at the same time, one would take what the other commits for its own rows.

    Raises
    ------
    BinlogError
        Another one works with it.
    """
    if is_url(path):
        yield
        return
    folder, name = os.path.split(os.path.abspath(path))
    with _saving(path):
        os.makedirs(folder, exist_ok=True)
        lock = open_itself(f"{folder}/.{name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        if locks(lock) is False:
            raise BinlogError("another export is working with this state: wait for its end", path=path)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def _saving(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BinlogError(f"the state cannot be written: {error}", path=path) from error


class Resuming:
    """The state of an export in its file.

    Parameters
    ----------
    path : str
        The path or URL of the file.
    output : str
        The directory or URL of the export.
    access : Access
        How the logs are opened.
    storage_options : dict or None
        Options for the store of `path`.

    Raises
    ------
    BinlogError
        The file belongs to another output, or was not written by an export.
    """

    def __init__(
        self, path: str, output: str, access: Access, storage_options: dict[str, Any] | None = None
    ) -> None:
        self._name = path
        self._filesystem, self._path = open_filesystem(path, storage_options if is_url(path) else None)
        self._access = access
        self.state = self._load() or ExportState(output)
        if self.state.output != output:
            raise BinlogError(
                f"the state belongs to an export to {self.state.output}, not to {output}", path=path
            )

    def _load(self) -> ExportState | None:
        from pyarrow.fs import FileType

        try:
            if self._filesystem.get_file_info(self._path).type is FileType.NotFound:
                return None
            found = load_json(self._filesystem, self._path)
            if found.pop("format") != _FORMAT:
                raise ValueError("another format")
            return ExportState(**found)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BinlogError(f"not a state of an export: {error}", path=self._name) from error

    def _save(self) -> None:
        """Write the file; if this is killed, it is either the old or the new one."""
        self.state.updated = time.time()
        data = json.dumps({"format": _FORMAT, **asdict(self.state)}, indent=1).encode()
        with _saving(self._name):
            if is_url(self._name):  # an object appears whole
                with self._filesystem.open_output_stream(self._path) as sink:
                    sink.write(data)
            else:
                put(Files(), self._path, data)

    def begin(self, splits: Sequence[Split]) -> tuple[list[Split], frozenset[int]]:
        """The splits of the next run, and which of them are read between exact positions.

        Parameters
        ----------
        splits : sequence of Split
            The splits of all present logs.

        Raises
        ------
        BinlogError
            A log is missing.
        """
        state, logs = self.state, whole_logs(splits)
        first = 0 if state.file is None else index_of(logs, state.file)
        check_numbers(logs[first:], "going on")
        if state.next_file is None:
            last, end, gtids = self._end(logs, first)
            if (last, end) == (first, state.position):
                return [], frozenset()
            state.next_file, state.next_position = name_within(logs[last].path), end
            state.next_gtids = gtids
            self._save()
        return self._between(splits, logs, first, index_of(logs, state.next_file))

    def _between(
        self, splits: Sequence[Split], logs: list[Split], first: int, last: int
    ) -> tuple[list[Split], frozenset[int]]:
        state = self.state
        numbers = {log.path: i for i, log in enumerate(logs)}
        found: list[Split] = []
        exact: set[int] = set()
        for split in splits:
            log = numbers[split.path]
            if not first <= log <= last:
                continue
            start, end = split.start, split.end
            begins = log == first and state.position > FIRST_EVENT
            if begins:
                start = max(start, state.position)
            if log == last:
                end = state.next_position if end is None else min(end, state.next_position)
            if end is not None and start >= end:
                continue
            taken = replace(split, start=start, end=end, index=len(found))
            if begins and start == state.position:  # if anything begins there, it is a transaction
                taken = replace(taken, anchor=start, trusted=True)
            if not taken.whole and split.whole and not self._splittable(split):
                exact.add(taken.index)
            found.append(taken)
        return found, frozenset(exact)

    def done(self, splits: Sequence[Split]) -> list[SplitResult]:
        """The result of earlier runs for the log in which a run's splits begin."""
        if not splits or splits[0].start <= FIRST_EVENT:
            return []
        before = replace(splits[0], start=0, end=splits[0].start, anchor=None, trusted=False)
        return [SplitResult(before, FIRST_EVENT, splits[0].start)]

    def _splittable(self, split: Split) -> bool:
        with self._access.file(split.path).open() as source:
            return source.splittable

    def _end(self, logs: list[Split], first: int) -> tuple[int, int, str | None]:
        """The last transaction boundary in the logs: log, position and GTIDs."""
        for i in range(len(logs) - 1, first - 1, -1):
            start = self.state.position if i == first else 0
            with self._access.file(logs[i].path).open() as source:
                if source.size is not None and source.size < start:
                    raise BinlogError(
                        f"the log has {source.size} bytes, but {start} were exported: it is"
                        " not the log that was read before",
                        path=logs[i].path,
                    )
                before = self.state.gtids if start else None
                known = None if before is None else parse_gtid_set(before)
                # Not of what was written since the splits were planned: they do not contain it.
                end, gtids = last_checkpoint(source, start, known, logs[i].end)
            if end > max(start, FIRST_EVENT):
                return i, end, None if gtids is None else str(gtids)
        return first, self.state.position, self.state.gtids

    def finish(self, tables: Sequence[TableResult], splits: Sequence[WrittenSplit]) -> None:
        """Save that the run is done."""
        state = self.state
        for table in tables:
            known = state.rows.setdefault(full_name(table.database, table.table), {})
            for kind, count in table.rows.items():
                known[kind] = known.get(kind, 0) + count
        state.timestamp = max([state.timestamp, *(split.last_time for split in splits)])
        state.file, state.position, state.gtids = state.next_file, state.next_position, state.next_gtids
        state.next_file, state.next_position, state.next_gtids = None, 0, None
        state.runs += 1
        self._save()

    def measure(self, splits: Sequence[Split]) -> ExportState:
        """Measure the part that is not exported yet."""
        state, logs = self.state, whole_logs(splits)
        first = 0 if state.file is None else index_of(logs, state.file)
        state.bytes_behind = 0
        for i, log in enumerate(logs[first:], first):
            with self._access.file(log.path).open() as source:
                start = state.position if i == first else FIRST_EVENT
                state.bytes_behind += max((source.size or 0) - start, 0)
        last, end, gtids = self._end(logs, first)
        behind = (last, end) != (first, state.position)
        state.transactions_behind = gtids_behind(gtids, state.gtids) if behind else 0
        state.seconds_behind = max(time.time() - state.timestamp / 1e6, 0.0) if behind else 0.0
        self._save()
        return state


def gtids_behind(there: str | None, done: str | None) -> int | None:
    """How many transactions are not yet exported; None if the logs have no GTIDs."""
    if there is None:
        return None
    more: Any = parse_gtid_set(there)
    return int((more - parse_gtid_set(done)).count() if done is not None else more.count())
