"""Which transactions a pass has read: the GTIDs of a `Position`.

They are gathered cheaply, since every group has a position but few are used: the compiled loop notes runs of
numbers, and a set is made of them on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from .._tables.side_dtypes import GTID_RUN_DTYPE
from ..errors import GtidError
from ..gtids import AnyGtidSet, Gtid, GtidSet, MariadbGtid, MariadbGtidSet, uuid_text

_Run = tuple[int, bytes, bytes, int, int, int, int]
_MYSQL, _MARIADB = 1, 2
_MOST_PARTS = 4096
_STEP = 4096  # runs that are Python values at the same time
_MOST_BYTES = 16 << 20  # of parts: runs of numbers are few, but a log may give each transaction another UUID


class GtidsBefore(NamedTuple):
    """The GTIDs before some place: all of them, or with those known so far (`added`); None: not known."""

    before: AnyGtidSet | None
    added: bool = False


class Snapshot(NamedTuple):
    """The GTIDs up to some place, made into a set when needed.

    Parameters
    ----------
    base : GtidSet, MariadbGtidSet or None
        GTIDs of the transactions before the first part; None: not known.
    parts : list of bytes
        Runs, of which only the first `many` belong to it.
    many : int
    running : Gtid, MariadbGtid or None
        The transaction that has not ended, which is not part of the set.
    done : GtidSet, MariadbGtidSet or None
        What the base has although it comes later in the log: a domain's last GTID stays.
    """

    base: AnyGtidSet | None
    parts: list[bytes]
    many: int
    running: Gtid | MariadbGtid | None
    done: AnyGtidSet | None = None

    def gtids(self) -> AnyGtidSet | None:
        """The set; on MariaDB the last GTID of each domain.

        Returns
        -------
        GtidSet, MariadbGtidSet or None
            None: earlier GTIDs are not known, there are no transactions, or some have no GTID.
        """
        return self.known() or None

    def known(self) -> AnyGtidSet | None:
        """The same, but an empty set where it is known that there are no transactions."""
        if self.base is None:
            return None
        parts = [np.frombuffer(part, GTID_RUN_DTYPE) for part in self.parts[: self.many]]
        kinds = {kind for part in parts for kind in np.unique(part["kind"]).tolist()}
        runs: Iterator[_Run] = (
            run
            for part in parts
            for at in range(0, len(part), _STEP)
            for run in part[at : at + _STEP].tolist()
        )
        if isinstance(self.base, MariadbGtidSet):
            return self._domains(self.base, runs) if kinds <= {_MARIADB} else None
        if not kinds <= {_MYSQL}:
            return None
        found = self.base | GtidSet(
            ((uuid_text(uuid), tag.rstrip(b"\0").decode("ascii", "replace")), (first, last))
            for _, uuid, tag, _, _, first, last in runs
        )
        if isinstance(self.running, Gtid):  # the base cannot have it: a server numbers each transaction once
            found = found - self.running
        return found

    def _domains(self, base: MariadbGtidSet, runs: Iterator[_Run]) -> MariadbGtidSet:
        last = {domain: (server, number) for (domain, server), (_, number) in base.intervals()}
        done = self.done if isinstance(self.done, MariadbGtidSet) else None
        running = None
        if isinstance(self.running, MariadbGtid):
            running = self.running.domain_id, self.running.server_id, self.running.seq_no
        for _, _, _, domain, server, first, number in runs:
            if running == (domain, server, number):
                number -= 1
                if number < first:
                    continue  # the run is only this transaction: earlier ones stay
            if done is not None and MariadbGtid(domain, server, number) in done:
                continue
            last[domain] = (server, number)
        return MariadbGtidSet(((domain, place[0]), (place[1], place[1])) for domain, place in last.items())


class Executed:
    """The GTIDs of the transactions that a pass has read, in order."""

    def __init__(self, base: AnyGtidSet | None = None, done: AnyGtidSet | None = None) -> None:
        self._base, self._done = base, done
        self._parts: list[bytes] = []
        self._size = 0  # bytes of the parts

    def add(self, runs: bytes) -> None:
        """Add runs of transactions that have begun (gtid_run_t)."""
        if runs and self._base is not None:
            self._parts.append(runs)
            self._size += len(runs)
            if len(self._parts) > _MOST_PARTS or self._size > _MOST_BYTES:
                self._fold()

    def begin(self, before: AnyGtidSet) -> None:
        """Note the GTIDs before the place where reading begins; a failed server may have sent a later one."""
        self._base, self._parts, self._size = before, [], 0

    def contain(self, before: AnyGtidSet) -> None:
        """Note that all earlier GTIDs are known: a log begins with them."""
        known = self.snapshot().known()
        if known is None:
            known = self._done  # of later logs; what was forgotten is before this one
        if isinstance(before, GtidSet) and isinstance(known, GtidSet):
            before = known | before
        elif isinstance(before, MariadbGtidSet) and isinstance(known, MariadbGtidSet):
            if isinstance(self._done, MariadbGtidSet):
                # `start` lies behind these, even where a domain's numbers go back.
                before = before - self._done
            before = latest(before, known)  # reading may have begun after a GTID inside the log
        self.begin(before)

    def forget(self) -> None:
        """Note that earlier GTIDs are not known any more."""
        self._base, self._parts, self._size = None, [], 0

    def renew(self) -> None:
        """Note that another history begins: a GTID before and one behind this are of two transactions."""
        self._done = None
        self.forget()

    @property
    def done(self) -> AnyGtidSet | None:
        """Of the transactions to come, those that `start=` leaves out."""
        return self._done

    def follow(self, steps: Iterable[bytes | GtidsBefore]) -> None:
        """Take over what a thread has read: runs, and what was known in between."""
        for step in steps:
            if isinstance(step, bytes):
                self.add(step)
            elif step.before is None:
                self.forget()
            elif step.added:
                self.contain(step.before)
            else:
                self.begin(step.before)

    def snapshot(self, running: Gtid | MariadbGtid | None = None) -> Snapshot:
        """The present state, without the running transaction."""
        return Snapshot(self._base, self._parts, len(self._parts), running, self._done)

    def _fold(self) -> None:
        """Merge the parts but the last. Snapshots keep the list that they were made from."""
        # The last part may end with a transaction that still runs: only there a snapshot can leave it out.
        try:
            folded = Snapshot(self._base, self._parts, len(self._parts) - 1, None, self._done).known()
        except GtidError:  # more than a set holds
            folded = None
        self._base, self._parts = folded, self._parts[-1:]
        self._size = len(self._parts[-1])


def latest(*gtids: MariadbGtidSet) -> MariadbGtidSet:
    """Of each domain in some sets the GTID with the highest number."""
    last: dict[int, tuple[int, int]] = {}
    for (domain, server), (_, number) in chain.from_iterable(one.intervals() for one in gtids):
        last[domain] = max(last.get(domain, (0, 0)), (number, server))
    return MariadbGtidSet(((domain, server), (number, number)) for domain, (number, server) in last.items())


def last_of_domains(state: Iterable[MariadbGtid]) -> MariadbGtidSet:
    """One GTID for each domain of a GTID_LIST, in which a domain's latest GTID comes last."""
    last = {gtid.domain_id: gtid for gtid in state}
    return MariadbGtidSet(
        ((gtid.domain_id, gtid.server_id), (gtid.seq_no, gtid.seq_no)) for gtid in last.values()
    )
