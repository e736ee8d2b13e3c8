"""Which transactions a pass has come by: the GTIDs of a `Position`.

Gathered cheaply, since every group has a position and few are asked for: the compiled loop notes runs of
numbers, and a set is made of them when somebody wants it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .gtids import Gtid, GtidSet, MariadbGtid, MariadbGtidSet, uuid_text

AnyGtidSet = GtidSet | MariadbGtidSet

_RUN = struct.Struct("<B16s32sIIQQ")  # twin of gtid_run_t (src/wire/gtid_runs.pxd)
_MYSQL = 1
_MOST_PARTS = 4096


class Snapshot(NamedTuple):
    """The GTIDs up to some place, made into a set when asked for.

    Parameters
    ----------
    base : GtidSet, MariadbGtidSet or None
        Before the first part; None: not known.
    parts : list of bytes
        Runs; of these only the first `count` belong to it.
    count : int
    open : Gtid, MariadbGtid or None
        Of a transaction that has begun and not ended: not among them.
    """

    base: AnyGtidSet | None
    parts: list[bytes]
    count: int
    open: Gtid | MariadbGtid | None

    def gtids(self) -> AnyGtidSet | None:
        """The set; on MariaDB the last GTID of each domain. None: what came before is not known."""
        if self.base is None:
            return None
        if isinstance(self.base, MariadbGtidSet):
            return self._domains(self.base)
        runs = [run for run in self._runs() if isinstance(run[0], tuple) and isinstance(run[0][0], str)]
        found = self.base | GtidSet(runs) if runs else self.base
        # The open one was not in the base: a server numbers each transaction once.
        return found - self.open if isinstance(self.open, Gtid) else found

    def _domains(self, base: MariadbGtidSet) -> MariadbGtidSet:
        last = {domain: (server, number) for (domain, server), (_, number) in _by_number(base)}
        for (domain, server), (first, number) in self._runs():
            if isinstance(domain, str):
                continue
            if self.open == MariadbGtid(domain, server, number):
                number -= 1
                if number < first:
                    continue  # the run is this one alone: what came before it stands
            last[domain] = (server, number)
        return MariadbGtidSet(((domain, server), (number, number)) for domain, (server, number) in last.items())

    def _runs(self) -> Iterator[tuple[tuple[str, str] | tuple[int, int], tuple[int, int]]]:
        for part in self.parts[: self.count]:
            for kind, uuid, tag, domain, server, first, last in _RUN.iter_unpack(part):
                if kind == _MYSQL:
                    yield (uuid_text(uuid), tag.rstrip(b"\0").decode("ascii", "replace")), (first, last)
                else:
                    yield (domain, server), (first, last)


def _by_number(base: MariadbGtidSet) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return sorted(base.intervals(), key=lambda interval: interval[1][1])


class Executed:
    """The GTIDs of the transactions that a pass has met, in order."""

    def __init__(self, base: AnyGtidSet | None = None) -> None:
        self._base = base
        self._parts: list[bytes] = []

    def add(self, runs: bytes) -> None:
        """Runs of transactions that have begun (gtid_run_t)."""
        if runs:
            self._parts.append(runs)
            if len(self._parts) > _MOST_PARTS:
                self._fold()

    def contain(self, before: AnyGtidSet) -> None:
        """All that came before is known: a log begins with it."""
        known = self.snapshot().gtids()
        if isinstance(before, GtidSet) and isinstance(known, GtidSet):
            before = known | before
        self._base, self._parts = before, []

    def snapshot(self, running: Gtid | MariadbGtid | None = None) -> Snapshot:
        """What is there now, without the transaction that is running."""
        return Snapshot(self._base, self._parts, len(self._parts), running)

    def _fold(self) -> None:
        """Fewer parts. Snapshots keep the list that they were made of."""
        folded = Snapshot(self._base, self._parts, len(self._parts), None).gtids()
        self._base, self._parts = folded, []


def last_of_domains(state: Iterable[MariadbGtid]) -> MariadbGtidSet:
    """Of a GTID_LIST, in which the latest GTID of a domain comes last, one for each domain."""
    last = {gtid.domain_id: gtid for gtid in state}
    return MariadbGtidSet(
        ((gtid.domain_id, gtid.server_id), (gtid.seq_no, gtid.seq_no)) for gtid in last.values()
    )
