"""GTIDs and sets of them: MySQL's UUID sets with tags, MariaDB's domain-server-sequence lists.

MySQL prints ``uuid:1-5:7:tag:1-3`` (a tag applies to the intervals after it; UUIDs are separated by a comma
and a line break). MariaDB has no text for a set, only lists such as ``0-1-100,1-2-5``. To select
transactions, an item may also be a range of sequence numbers, ``0-1-5:100``, including both ends.

Source: MySQL server documentation, "GTID Format and Storage"; MariaDB, "Global Transaction ID".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Self, TypeVar

from ._format.cursor import Cursor
from .errors import DecodeError, GtidError

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TAG = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,31}")
_NUMBER = re.compile(r"[0-9]{1,20}")
_INTERVAL = re.compile(r"([0-9]{1,20})(?:\s*-\s*([0-9]{1,20}))?")
_MARIADB_ITEM = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})(?::([0-9]{1,20}))?")
_LAST_GNO = 2**63 - 2
_TAG_LENGTH = 32
MOST_INTERVALS = 1 << 19  # of a set: about 150 bytes each; sets of servers have some thousands
MOST_SOURCES = 1 << 16
_MOST_TEXT = 32 << 20  # characters


def uuid_text(raw: bytes) -> str:
    """16 bytes as ``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, in lower case as the servers print it."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """One MySQL GTID.

    Parameters
    ----------
    uuid : str
        The source's UUID in lower case.
    tag : str
        The tag (MySQL 8.3 and later); "" if there is none.
    gno : int
        The transaction's number, from 1.
    """

    uuid: str
    tag: str
    gno: int

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Read ``uuid:number`` or ``uuid:tag:number``; anything else raises a `GtidError`."""
        parts = text.strip().split(":")
        if len(parts) == 2:
            parts.insert(1, "")
        if len(parts) != 3 or not _NUMBER.fullmatch(parts[2]) or (parts[1] and not _TAG.fullmatch(parts[1])):
            raise _no_gtid(text)
        return cls(_parse_uuid(parts[0], text), parts[1].lower(), _gno(parts[2], text))

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}:{self.gno}" if self.tag else f"{self.uuid}:{self.gno}"


@dataclass(frozen=True, slots=True, order=True)
class MariadbGtid:
    """One MariaDB GTID: ``domain-server-sequence``.

    Parameters
    ----------
    domain_id, server_id : int
        The ids of the domain and of the server, 32 bits each.
    seq_no : int
        The sequence number, 64 bits.
    """

    domain_id: int
    server_id: int
    seq_no: int

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """Read ``domain-server-sequence``; anything else raises a `GtidError`."""
        found = _MARIADB_ITEM.fullmatch(text.strip())
        if found is None or found[4]:
            raise _no_gtid(text)
        return cls(*_mariadb_numbers(found, text)[:3])

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.seq_no}"


Source = TypeVar("Source", tuple[str, str], tuple[int, int])
Interval = tuple[int, int]


class _IntervalSet(Generic[Source]):
    """Per source of transactions, the intervals of their numbers: sorted, apart, both ends included.

    A set of the other vendor is a `GtidError` wherever two are brought together, and so are more than
    `MOST_INTERVALS` or `MOST_SOURCES`. One side may also be text, or a single GTID.
    """

    __slots__ = ("_intervals",)

    def __init__(self, intervals: Iterable[tuple[Source, Interval]] = ()) -> None:
        gathered: dict[Source, list[Interval]] = {}
        held = 0
        for source, interval in intervals:
            gathered.setdefault(source, []).append(interval)
            held += 1
            if held > 2 * MOST_INTERVALS or len(gathered) > MOST_SOURCES:
                gathered = {source: list(_merged(each)) for source, each in gathered.items()}
                held = _checked(gathered)
        self._intervals: dict[Source, tuple[Interval, ...]] = {
            source: _merged(gathered[source]) for source in sorted(gathered)
        }
        _checked(self._intervals)

    def intervals(self) -> Iterator[tuple[Source, Interval]]:
        """Every (source, (first, last)) in order, both ends included."""
        for source, intervals in self._intervals.items():
            for interval in intervals:
                yield source, interval

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __len__(self) -> int:
        """As `count`, where it is below 2**63; OverflowError from there on."""
        return self.count()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(tuple(self._intervals.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"

    def count(self) -> int:
        """How many GTIDs are in the set."""
        return sum(last - first + 1 for _, (first, last) in self.intervals())

    # --- Algebra -------------------------------------------------------------------------------

    def __or__(self, other: object) -> Self:
        there: Self | None = self._same(other)
        return NotImplemented if there is None else type(self)(chain(self.intervals(), there.intervals()))

    def __and__(self, other: object) -> Self:
        there = self._same(other)
        return NotImplemented if there is None else type(self)(self._both(there))

    def __sub__(self, other: object) -> Self:
        there = self._same(other)
        return NotImplemented if there is None else type(self)(self._without(there))

    def __xor__(self, other: object) -> Self:
        there = self._same(other)
        return NotImplemented if there is None else (self - there) | (there - self)

    def __rsub__(self, other: object) -> Self:
        there = self._same(other)
        return NotImplemented if there is None else there - self

    __ror__, __rand__, __rxor__ = __or__, __and__, __xor__

    def __le__(self, other: object) -> bool:
        there = self._same(other)
        return NotImplemented if there is None else next(self._without(there), None) is None

    def __ge__(self, other: object) -> bool:
        there = self._same(other)
        return NotImplemented if there is None else there <= self

    def __lt__(self, other: object) -> bool:
        there = self._same(other)
        return NotImplemented if there is None else self != there and self <= there

    def __gt__(self, other: object) -> bool:
        there = self._same(other)
        return NotImplemented if there is None else there < self

    def isdisjoint(self, other: object) -> bool:
        """Whether no GTID is in both.

        Parameters
        ----------
        other : set, GTID or text of either
            What to compare with.
        """
        there = self._same(other)
        if there is None:
            raise TypeError(f"expected a GTID set or its text, not {type(other).__name__}")
        return next(self._both(there), None) is None

    def _same(self, other: object) -> Self | None:
        """The other operand as a set of this vendor; None if it is not one.

        Raises
        ------
        GtidError
            It is of the other vendor, or text that is not a GTID set.
        """
        if isinstance(other, type(self)):
            return other
        if isinstance(other, str):
            other = parse_gtid_set(other) if other.strip(" \t\r\n,") else type(self)()
        elif isinstance(other, Gtid | MariadbGtid):
            other = set_of_one(other)
        if isinstance(other, type(self)):
            return other
        if isinstance(other, _IntervalSet):
            raise _other_vendor(self, other)
        return None

    def _has(self, source: Source, number: int) -> bool:
        intervals = self._intervals.get(source)
        if not intervals:
            return False
        place = bisect_right(intervals, number, key=lambda interval: interval[0]) - 1
        return place >= 0 and number <= intervals[place][1]

    def _without(self, other: _IntervalSet[Source]) -> Iterator[tuple[Source, Interval]]:
        for source, intervals in self._intervals.items():
            cuts = iter(other._intervals.get(source, ()))
            cut = next(cuts, None)
            for first, last in intervals:
                while cut is not None and cut[0] <= last:
                    if cut[1] >= first:
                        if cut[0] > first:
                            yield source, (first, cut[0] - 1)
                        first = cut[1] + 1
                    if cut[1] > last:
                        break  # it may reach into the next interval too
                    cut = next(cuts, None)
                if first <= last:
                    yield source, (first, last)

    def _both(self, other: _IntervalSet[Source]) -> Iterator[tuple[Source, Interval]]:
        for source, intervals in self._intervals.items():
            others = iter(other._intervals.get(source, ()))
            there = next(others, None)
            for first, last in intervals:
                while there is not None and there[0] <= last:
                    if there[1] >= first:
                        yield source, (max(first, there[0]), min(last, there[1]))
                    if there[1] > last:
                        break
                    there = next(others, None)


class GtidSet(_IntervalSet[tuple[str, str]]):
    """A set of MySQL GTIDs; immutable. Sources are ``(uuid, tag)``.

    It works like a Python set: ``gtid in gtids`` takes a `Gtid` or its text; ``a | b``, ``a & b``, ``a - b``,
    ``a ^ b`` and ``a <= b`` take a set, a `Gtid` or text on either side; ``len(gtids)`` counts; a loop gives
    the GTIDs. A MariaDB set raises a `GtidError`. ``str(gtids)`` is the text that the server prints.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read a set as the server prints or accepts it.

        Parameters
        ----------
        text : str
            The set as ``uuid:interval[:interval…][:tag:interval…][, uuid…]``, where an interval is ``n`` or
            ``first-last``. White space does not matter, and the empty text is the empty set.

        Raises
        ------
        GtidError
            The text is not a set, or an interval is empty or beyond the server's largest number.
        """
        return cls(_parse_mysql(text))

    @classmethod
    def from_bytes(cls, encoded: bytes | memoryview) -> GtidSet:
        """Read the binary form in PREVIOUS_GTIDS events and snapshots; `DecodeError` if it is not valid."""
        return cls(_decode_mysql(Cursor(encoded)))

    def __iter__(self) -> Iterator[Gtid]:
        for (uuid, tag), (first, last) in self.intervals():
            for gno in range(first, last + 1):
                yield Gtid(uuid, tag, gno)

    def __contains__(self, gtid: Gtid | str) -> bool:
        one = parse_gtid(gtid) if isinstance(gtid, str) else gtid
        if not isinstance(one, Gtid):
            raise _not_one_of(self, one)
        return self._has((one.uuid, one.tag), one.gno)

    def __str__(self) -> str:
        by_uuid: dict[str, list[str]] = {}
        for (uuid, tag), intervals in self._intervals.items():
            parts = by_uuid.setdefault(uuid, [uuid])
            if tag:
                parts.append(tag)
            parts += (_interval_text(first, last, "-") for first, last in intervals)
        return ",\n".join(":".join(parts) for parts in by_uuid.values())


class MariadbGtidSet(_IntervalSet[tuple[int, int]]):
    """A set of MariaDB GTIDs; immutable. Sources are ``(domain_id, server_id)``.

    An item stands for exactly the transactions that it names: ``0-1-100`` is that one, ``0-1-1:100`` is all
    from 1 to 100. (In a replication position, ``0-1-100`` also stands for all of the domain before it: that
    is something else.) It has the operations of `GtidSet`.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> MariadbGtidSet:
        """Read ``domain-server-number`` or ``domain-server-first:last`` items, separated by commas.

        Raises
        ------
        GtidError
            The text is not a set, or a range is empty.
        """
        return cls(_parse_mariadb(text))

    def __iter__(self) -> Iterator[MariadbGtid]:
        for (domain_id, server_id), (first, last) in self.intervals():
            for seq_no in range(first, last + 1):
                yield MariadbGtid(domain_id, server_id, seq_no)

    def __contains__(self, gtid: MariadbGtid | str) -> bool:
        one = parse_gtid(gtid) if isinstance(gtid, str) else gtid
        if not isinstance(one, MariadbGtid):
            raise _not_one_of(self, one)
        return self._has((one.domain_id, one.server_id), one.seq_no)

    def __str__(self) -> str:
        return ",".join(
            f"{domain_id}-{server_id}-{_interval_text(first, last, ':')}"
            for (domain_id, server_id), (first, last) in self.intervals()
        )


AnyGtid = Gtid | MariadbGtid
AnyGtidSet = GtidSet | MariadbGtidSet


def set_of_one(gtid: AnyGtid) -> AnyGtidSet:
    """The set of one GTID."""
    if isinstance(gtid, Gtid):
        return GtidSet([((gtid.uuid, gtid.tag), (gtid.gno, gtid.gno))])
    return MariadbGtidSet([((gtid.domain_id, gtid.server_id), (gtid.seq_no, gtid.seq_no))])


def parse_gtid(text: str) -> AnyGtid:
    """One GTID of either vendor; `GtidError` if the text is not one."""
    return MariadbGtid.parse(text) if _is_mariadb(text) else Gtid.parse(text)


def parse_gtid_set(text: str) -> AnyGtidSet:
    """A set of either vendor, whichever the first item belongs to; `GtidError` if the text is not one."""
    return MariadbGtidSet.parse(text) if _is_mariadb(text) else GtidSet.parse(text)


def _is_mariadb(text: str) -> bool:
    return _MARIADB_ITEM.fullmatch(text.split(",", 1)[0].strip()) is not None


def _interval_text(first: int, last: int, between: str) -> str:
    return str(first) if first == last else f"{first}{between}{last}"


def _merged(intervals: list[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _no_gtid(text: str) -> GtidError:
    return GtidError(
        f"{_shown(text)} is not a GTID: expected uuid:number or uuid:tag:number (MySQL),"
        " or domain-server-number (MariaDB)"
    )


def _no_gtid_set(item: str, why: str) -> GtidError:
    return GtidError(f"{_shown(item)} is not a GTID set: {why}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _vendor(gtids: object) -> str:
    return "MySQL" if isinstance(gtids, GtidSet | Gtid) else "MariaDB"


def _other_vendor(one: object, other: object) -> GtidError:
    return GtidError(f"GTIDs of {_vendor(one)} and of {_vendor(other)} cannot be combined")


def _not_one_of(gtids: object, one: object) -> Exception:
    """The error of what is looked for in a set that cannot hold it."""
    if isinstance(one, Gtid | MariadbGtid):
        return _other_vendor(gtids, one)
    return TypeError(f"expected a GTID of {_vendor(gtids)} or its text, not {type(one).__name__}")


def _parse_uuid(text: str, whole: str) -> str:
    if not _UUID.fullmatch(text):
        raise _no_gtid(whole)
    return text.lower()


def _gno(text: str, whole: str) -> int:
    gno = int(text)
    if not 1 <= gno <= _LAST_GNO:
        raise GtidError(f"{whole!r}: expected GTID numbers from 1 to {_LAST_GNO}")
    return gno


def _checked(intervals: Mapping[Any, Sequence[Interval]]) -> int:
    """How many intervals a set has; GtidError if they are more than one holds."""
    count = sum(map(len, intervals.values()))
    if count > MOST_INTERVALS or len(intervals) > MOST_SOURCES:
        raise GtidError(_too_many(count, len(intervals)))
    return count


def _too_many(intervals: int, sources: int) -> str:
    return (
        f"a GTID set of {intervals} intervals of {sources} sources or more:"
        f" expected at most {MOST_INTERVALS} of {MOST_SOURCES}"
    )


def _items(text: str) -> list[str]:
    """The items of a set's text, which is first checked for its size."""
    intervals, items = text.count(":"), text.count(",")
    if len(text) > _MOST_TEXT or intervals + items > MOST_INTERVALS + 2 * MOST_SOURCES:
        raise GtidError(f"the text of a GTID set has {len(text)} characters and {intervals + items} items")
    return text.split(",")


def _parse_mysql(text: str) -> Iterator[tuple[tuple[str, str], Interval]]:
    for item in _items(text):
        item = item.strip()
        if not item:
            continue  # the server takes empty items too: "" is the empty set
        uuid, *parts = (part.strip() for part in item.split(":"))
        if not _UUID.fullmatch(uuid):
            raise _no_gtid_set(item, "expected uuid:interval (MySQL) or domain-server-number (MariaDB)")
        tag, intervals = "", 0
        for part in parts:
            interval = _INTERVAL.fullmatch(part)
            if interval:
                first = _gno(interval[1], item)
                last = _gno(interval[2], item) if interval[2] else first
                if last < first:
                    raise _no_gtid_set(item, f"the interval {part} is empty")
                yield (uuid.lower(), tag), (first, last)
                intervals += 1
            elif _TAG.fullmatch(part) and (intervals or not tag):
                tag, intervals = part.lower(), 0
            else:
                raise _no_gtid_set(item, f"{part!r} is neither an interval nor a tag")
        if not intervals:
            raise _no_gtid_set(item, "an interval is missing")


def _decode_mysql(cur: Cursor) -> Iterator[tuple[tuple[str, str], Interval]]:
    head = cur.take_u64()
    form = head >> 56
    if form > 1:
        raise DecodeError(f"encoded GTID set: expected form 0 or 1, found {form}")
    tagged = form == 1
    # With tags the count sits between two bytes of form.
    sources = (head >> 8) & 0xFFFF_FFFF_FFFF if tagged else head
    if cur.check_count(sources, 16 + tagged + 8) > MOST_SOURCES:
        raise DecodeError(_too_many(0, sources))
    total = 0
    for _ in range(sources):
        uuid = uuid_text(cur.take(16))
        tag = ""
        if tagged:
            length = cur.take_varint()
            if length > _TAG_LENGTH:
                raise DecodeError(f"encoded GTID set: a tag has up to {_TAG_LENGTH} bytes, found {length}")
            tag = cur.take_text(length).lower()  # as servers write it
            if tag and not _TAG.fullmatch(tag):
                raise DecodeError("encoded GTID set: expected a tag of letters, digits and _")
        intervals = cur.check_count(cur.take_u64(), 16)
        total += intervals
        if total > MOST_INTERVALS:
            raise DecodeError(_too_many(total, sources))
        before = 0
        for _ in range(intervals):
            first, end = cur.take_i64(), cur.take_i64()  # end is the first number that is not in it
            if not before < first < end:
                raise DecodeError(
                    f"encoded GTID set: interval {first} to {end} follows one that ends at {before}"
                )
            before = end
            yield (uuid, tag), (first, end - 1)
    if cur.remaining:
        raise DecodeError(f"encoded GTID set: {cur.remaining} bytes are left over")


def _mariadb_numbers(found: re.Match[str], text: str) -> tuple[int, int, int, int]:
    domain_id, server_id, first = int(found[1]), int(found[2]), int(found[3])
    last = int(found[4]) if found[4] else first
    if domain_id >= 2**32 or server_id >= 2**32 or max(first, last) >= 2**64:
        raise GtidError(f"{text!r}: expected a domain and server of 32 bits, and a sequence number of 64")
    return domain_id, server_id, first, last


def _parse_mariadb(text: str) -> Iterator[tuple[tuple[int, int], Interval]]:
    for item in _items(text):
        item = item.strip()
        if not item:
            continue
        found = _MARIADB_ITEM.fullmatch(item)
        if found is None:
            raise _no_gtid_set(item, "expected domain-server-number or domain-server-first:last")
        domain_id, server_id, first, last = _mariadb_numbers(found, item)
        if last < first:
            raise _no_gtid_set(item, "the range is empty")
        yield (domain_id, server_id), (first, last)


def gtid_of(fields: tuple[int, bytes, bytes, int, int, int]) -> Gtid | MariadbGtid | None:
    """The GTID in the fields of a transaction; None if it is anonymous.

    Parameters
    ----------
    fields : (gtid_kind, uuid, tag, domain_id, server_id, sequence_number)
    """
    kind, uuid, tag, domain_id, server_id, number = fields
    if kind == 1:
        digits = uuid.hex()
        text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return Gtid(text, tag.rstrip(b"\0").decode("ascii", "replace"), number)
    return MariadbGtid(domain_id, server_id, number) if kind == 2 else None


def gtid_text(transaction: Any) -> str | None:
    """The GTID of a record of TRANSACTION_DTYPE; None if it has none."""
    gtid = gtid_of(
        (
            int(transaction["gtid_kind"]),
            transaction["uuid"].tobytes(),
            bytes(transaction["tag"]),
            int(transaction["domain_id"]),
            int(transaction["server_id"]),
            int(transaction["sequence_number"]),
        )
    )
    return str(gtid) if gtid is not None else None
