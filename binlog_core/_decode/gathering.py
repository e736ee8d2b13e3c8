"""The groups of a log: takes over what the loop has gathered, and completes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .._format.compression import inflate_columns
from ..batch.change_batch import ChangeBatch
from ..batch.subsets import only, whole_changes
from ..errors import DecompressionError, DivergedError
from ..gtids import MariadbGtid, gtid_of
from ..position import Checkpoint
from .asides import Asides
from .executed import Snapshot
from .group import Group
from .merge import without_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .context import Context
    from .log_plans import LogPlans


class Gathering:
    """Takes the groups of one source from the loop.

    Parameters
    ----------
    context : Context
    plans : LogPlans

    Attributes
    ----------
    asides : Asides
    done_records : int
        Row images that are still to be dropped, because a resuming reader has them already.
    """

    def __init__(self, context: Context, plans: LogPlans) -> None:
        track, loop, selection = context.track, context.loop, context.selection
        source = track.source
        self.asides = Asides(loop, selection)
        self.done_records = selection.done_records or source.done_records
        self._done_gtid = None if selection.done_records else source.done_gtid
        self._source, self._loop, self._plans, self._executed = source, loop, plans, context.executed
        self._path, self._limits, self._report = track.path, track.limits, track.report
        self._skip_errors = track.skip_errors
        self._resume_position = max(selection.start_position or 0, source.begin)  # of the last group
        self._resume_records = 0

    @property
    def has_rows(self) -> bool:
        """Whether rows have been gathered since the last group."""
        return bool(self._loop.records)

    @property
    def has_to_tell(self) -> bool:
        """Whether anything has been gathered that the pass's user waits for."""
        if self.has_rows or self._source.awaited:
            return True
        return bool(self.asides.wanted and (self.asides or self._loop.has_news))

    def make_room(self) -> Iterator[Group]:
        """Drop all plans if there is no room for another; the group, which needs them, is taken before."""
        if not self._plans.has_room():
            if self.has_rows:
                yield from self.take()
            self._plans.clear()

    def take_some(self) -> Iterator[Group]:
        """The group, unless it has only transactions whose rows events were empty."""
        awaited = self._source.awaited
        for group in self.take():
            if group.batches or self.asides.wanted or awaited:
                yield group
        self._source.check_size()

    def take(self) -> Iterator[Group]:
        """What was gathered.

        Raises
        ------
        DecompressionError
            A value of a compressed column is damaged; everything before its event has been yielded.
        """
        self._plans.count_silence()
        self._source.awaited = False
        batches, special, transactions = self._loop.take_group(ChangeBatch, self._path)
        transactions.flags.writeable = (
            False  # of all batches of the group, and of columns already made of them
        )
        self._executed.add(self._loop.take_gtids())
        if dropped := self.done_records:
            gathered = batches
            batches, self.done_records = without_first(batches, dropped, self._done_gtid)
            if self.done_records:
                self._check_not_lost(gathered)
        broken: DecompressionError | None = None
        for index in special:
            batch = batches[index]
            failed = self._inflated(batch)
            self._count_values("invalid_dates", batch, batch.invalid)
            self._count_values("lost_documents", batch, batch.lost_documents)
            if failed and self._skip_errors:
                batches[index] = self._without(batch, failed)
            elif failed:
                error = failed[min(failed)]
                if broken is None or (error.offset or 0) < (broken.offset or 0):
                    broken = error
        end_position = int(self._loop.position)
        if broken is not None:
            end_position = broken.offset or 0
            batches = [only(batch, batch.array["image"]["position"] < end_position) for batch in batches]
            batches = [batch for batch in batches if len(batch)]
            self._resume_records += sum(map(len, batches))
        else:
            self._resume_position = int(self._loop.resume_position)
            if not self._loop.in_transaction:
                self._resume_position = max(self._resume_position, self._source.withheld_to)
            self._resume_records = self._loop.open_records + self.done_records
            if dropped:
                batches = [batch for batch in batches if len(batch)]
        batches = self._plans.matching(batches)
        asides = self.asides.take(end_position)
        if broken is None or batches or asides:
            progress = self._progress(), self._resume_records, self._source.server
            yield Group(
                batches, transactions, self._path, end_position, self._resume_position, asides, *progress
            )
        if broken is not None:
            raise broken

    def _inflated(self, batch: ChangeBatch) -> dict[int, DecompressionError]:
        """Unpack compressed columns in place; return the records with a value that cannot be unpacked."""
        failed: dict[int, DecompressionError] = {}
        if any(column.compressed for column in batch.columns):  # not by its plan, which a part of it has not
            batch.buffer = inflate_columns(
                batch.array,
                batch.columns,
                batch.buffer,
                limit=self._limits.decompressed_bytes,
                path=self._path,
                table=batch.table.full_name,
                failed=failed,
            )
        return failed

    def _count_values(self, kind: str, batch: ChangeBatch, places: NDArray[np.void]) -> None:
        """Count values by their places: arrays with the fields record and column."""
        if not len(places):
            return
        first = places[0]
        self._report.add(
            kind,
            path=self._path,
            offset=batch.position_of(first["record"]),
            table=batch.table.full_name,
            column=batch.table.columns[first["column"]].name,
            count=len(places),
        )

    def checkpoint(self) -> Checkpoint:
        """Which of the transactions read so far have ended, and which has not."""
        self._executed.add(self._loop.take_gtids())
        progress, records = self._progress(), int(self._loop.open_records)
        if not (self.done_records and self._done_gtid):
            return Checkpoint(progress.gtids(), progress.running, records)
        if progress.running != self._done_gtid:
            records = 0
        return Checkpoint(progress.gtids(), self._done_gtid, self.done_records + records, True)

    def _check_not_lost(self, batches: list[ChangeBatch]) -> None:
        """Rows of a transaction are still to come again: no later one of its domain may come before them.

        MariaDB servers give only the last GTID of a domain: another transaction may have its number.
        """
        done = self._done_gtid
        if not isinstance(done, MariadbGtid):
            return
        for batch in batches:
            its = batch.transactions[batch.transactions["domain_id"] == done.domain_id]
            others = (its["sequence_number"] > done.seq_no) | (
                (its["sequence_number"] == done.seq_no) & (its["server_id"] != done.server_id)
            )
            if len(batch) and others.any():
                raise DivergedError(
                    f"rows of transaction {done} were read from a server that failed, which lost the"
                    " transaction: copy the data again",
                    path=self._path,
                )

    def _progress(self) -> Snapshot:
        running = gtid_of(self._loop.gtid()) if self._loop.in_transaction else None
        if running is None and self.done_records:
            running = self._done_gtid  # it has not come again yet
        return self._executed.snapshot(running)

    def _without(self, batch: ChangeBatch, failed: dict[int, DecompressionError]) -> ChangeBatch:
        """The batch without the changes of some records, which are reported."""
        kept, changes = whole_changes(batch, failed)
        for record in changes:
            error = failed[record]
            self._report.add(
                "skipped_changes",
                path=self._path,
                offset=error.offset,
                table=error.table,
                column=error.column,
                detail=error.message,
            )
            row = int(batch.array["image"]["row"][record])
            self.asides.lose(error.offset or 0, f"a change of {error.table}: {error.message}", row)
        return only(batch, kept)
