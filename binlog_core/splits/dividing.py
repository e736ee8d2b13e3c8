"""Long transactions in parts: what walks over headers tell of a transaction that fills whole splits.

Servers end a log at 1 GiB, but never inside a transaction: one of 100 GB is in one log, and most of its
splits have no anchor. Each split is walked from its first event up to its first anchor, on any worker, which
is a short way except inside such a transaction. The pieces are then put together: where a piece begins is
where the one before it ends, or the transaction stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .._decode.boundaries import last_boundary
from .._decode.savepoints import RowPlace, Savepoints
from .._format.event_types import GTID_EVENTS, ROWS_EVENTS, EventType
from .._format.statements import savepoint_of
from .._sources.log_files import LogFile
from .._sources.sources import Source
from .._walk.anchors import Head, anchor_behind, first_anchor, window_at
from .._walk.event_walk import Damage, EventRun, by_code, walk
from .._walk.track import Rules, Track
from .._walk.typed_events import bodies_in
from ..errors import BinlogError
from ..events import QueryEvent, parse_event
from ..report import Report
from .split import Split, Within

_FEWEST = 3  # splits of a log of which one can be inside a transaction that fills it
_MOST = 1000  # table maps that a part is told of, and statements about savepoints that decide what it undid
_MOST_TEXT = 1024  # bytes of such a statement: a name has 64 characters
_SHORT_ID, _ID = 4, 6  # bytes of a table id: twins of src/wire/rows.pxd
_STANDALONE = 1  # flag of MariaDB's GTID event: no transaction follows
_FLAGS_AT = 12  # in its body
_BEGIN = re.compile(rb"BEGIN|START TRANSACTION.*|XA (?:START|BEGIN).*", re.IGNORECASE | re.DOTALL)
_END = re.compile(rb"COMMIT|ROLLBACK.*|XA (?:PREPARE|COMMIT|ROLLBACK).*", re.IGNORECASE | re.DOTALL)
_ROLLBACK = re.compile(rb"(?:XA )?ROLLBACK", re.IGNORECASE)
_XA_END = re.compile(rb"XA END.*", re.IGNORECASE | re.DOTALL)
_STATEMENT = (EventType.TABLE_MAP, EventType.ROWS_QUERY, EventType.MARIADB_ANNOTATE_ROWS)
_IS_GTID = by_code(GTID_EVENTS)
_IS_CUT = by_code((*_STATEMENT, *ROWS_EVENTS))  # no series of fragments is open before it
_IS_ROWS = by_code((*_STATEMENT, *ROWS_EVENTS, EventType.MARIADB_ROWS_FRAGMENT))
_IS_ENDING = by_code((EventType.XID, EventType.XA_PREPARE))

Maps = dict[int, tuple[int, int]]  # where the latest table map of each table id begins and ends


@dataclass(slots=True)
class Piece:
    """What a walk from one event to another, or to the first anchor, has met.

    Parameters
    ----------
    first : int or None
        The first event; None: none begins there.

    Attributes
    ----------
    next : int
        Where the walk ended.
    anchor : bool
        Whether a transaction begins there.
    plain : bool
        Whether all events before `ending` are of kinds that any part of a transaction can do without.
    head_end : int or None
        Where the events end that only begin the transaction.
    cut : int or None
        The first event at which a part can begin.
    before_cut, maps : dict
        The table maps met before `cut`, and all.
    savepoints : list of (str, int)
        Statements about savepoints and their positions.
    ending : (int, int) or None
        The event that ends the transaction.
    rolled_back : bool
        Whether that is ROLLBACK.
    xid : int
        The number in it.
    """

    first: int | None
    next: int = 0
    anchor: bool = False
    plain: bool = True
    head_end: int | None = None
    cut: int | None = None
    before_cut: Maps = field(default_factory=dict)
    maps: Maps = field(default_factory=dict)
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    ending: tuple[int, int] | None = None
    rolled_back: bool = False
    xid: int = 0


@dataclass(frozen=True)
class PieceWalk:
    """Walks over the headers of a split.

    Parameters
    ----------
    split : Split
        The split.
    file : LogFile
        Its log.
    end_time : int or None
        Seconds since 1970 at which reading ends.
    last : bool
        Walk from the beginning of the transaction that is open at the split's end.
    """

    split: Split
    file: LogFile
    end_time: int | None = None
    last: bool = False

    def piece(self) -> Piece | None:
        """What was met; None: the log is not divided into parts, or is damaged here."""
        try:
            with self.file.open() as source:
                head = Head.of(source)
                if head is None or not head.splittable or source.finds_transactions:
                    return None
                first = self._open_transaction(source, head) if self.last else self._first(source, head)
                if first is None:
                    return Piece(None)
                source.seek(0)
                return self._walked(source, head, first)
        except BinlogError:  # its reader reports that
            return None

    def _first(self, source: Source, head: Head) -> int | None:
        start, end = self.split.start, self.split.end
        if source.size is not None and start >= source.size:
            return None
        window, base, offset = window_at(source, start)
        zeros = head.boundaries.zeros
        _, base, found = head.boundaries.next_event(source, window, base, offset, limit=end, zeros=zeros)
        return None if found is None else base + found

    def _open_transaction(self, source: Source, head: Head) -> int | None:
        split, end = self.split, self.split.end
        assert end is not None
        begin = split.anchor if split.trusted else first_anchor(source, head, split.start, end)
        if begin is None:
            return None
        boundary = last_boundary(source, begin, end, Report(warn=False))  # its reader warns
        source.seek(0)
        begin, whole = anchor_behind(source, head, boundary, boundary)
        return begin if whole and begin is not None and begin < end else None

    def _walked(self, source: Source, head: Head, first: int) -> Piece | None:
        piece = Piece(first, first)
        rules = Rules(Report(warn=False), verify_checksum=False)
        for run in walk(Track(source, rules, in_parts=True), first, self.split.end):
            if isinstance(run, Damage):
                return None
            if not self._note(piece, run, head):
                break
        return piece

    def _note(self, piece: Piece, run: EventRun, head: Head) -> bool:
        """Note the events of a run; False: the walk has ended."""
        headers, end = run.headers, self.split.end
        if end is not None:
            headers = headers[headers["position"] < end]
        kinds = headers["type_code"]
        queries = self._queries(run, headers)
        anchors = (
            np.flatnonzero(_IS_GTID[kinds])
            if head.has_gtids
            else np.array([i for i, text in queries.items() if _BEGIN.fullmatch(text)], np.intp)
        )
        anchors = anchors[headers["position"][anchors] > (piece.first or 0) if self.last else slice(None)]
        stop = int(anchors[0]) if len(anchors) else len(headers)
        if stop and piece.ending is None:
            self._note_all(piece, run, headers[:stop], queries, head)
        if stop < len(headers):
            piece.next, piece.anchor = int(headers["position"][stop]), True
            return False
        if len(headers):
            piece.next = int(headers["position"][-1] + headers["event_length"][-1])
        return True

    def _queries(self, run: EventRun, headers: NDArray[np.void]) -> dict[int, bytes]:
        found = np.flatnonzero(headers["type_code"] == EventType.QUERY)
        texts = {}
        for i, (fields, body) in zip(found.tolist(), bodies_in(run, headers[found]), strict=True):
            event = parse_event(fields, body, run.description, self.file.path)
            assert isinstance(event, QueryEvent)
            texts[i] = event.query_bytes
        return texts

    def _note_all(
        self, piece: Piece, run: EventRun, headers: NDArray[np.void], queries: dict[int, bytes], head: Head
    ) -> None:
        kinds, position = headers["type_code"], headers["position"]
        begins = 0
        if self.last and int(position[0]) == piece.first:
            begins = self._beginnings(piece, run, headers, queries, head)
            piece.head_end = int(position[begins - 1]) + int(headers["event_length"][begins - 1])
        endings = np.flatnonzero(_IS_ENDING[kinds]).tolist()
        endings += [i for i, text in queries.items() if i >= begins and _ends(text)]
        last = min(endings, default=len(headers))
        if last < len(headers):
            at = int(position[last])
            piece.ending = at, at + int(headers["event_length"][last])
            piece.rolled_back = _ROLLBACK.match(queries.get(last, b"")) is not None
            if kinds[last] == EventType.XID:
                ((_, body),) = bodies_in(run, headers[last : last + 1])
                piece.xid = int.from_bytes(body[:8], "little")
            headers, kinds, position = headers[: last + 1], kinds[: last + 1], position[: last + 1]
        own = slice(begins, last)
        others = set((np.flatnonzero(~_IS_ROWS[kinds[own]]) + begins).tolist())
        for i, text in queries.items():
            if not begins <= i < last or len(text) > _MOST_TEXT:
                continue
            if savepoint_of(text.decode("utf-8", "replace")) is not None:
                piece.savepoints.append((text.decode("utf-8", "replace"), int(position[i])))
                others.discard(i)
            elif _XA_END.fullmatch(text):
                others.discard(i)
        late = self.end_time is not None and bool((headers["timestamp"] >= self.end_time).any())
        if others or late or len(piece.savepoints) > _MOST:
            self._leave_whole(piece)
            return
        if piece.cut is None:
            cuts = np.flatnonzero(_IS_CUT[kinds[own]]) + begins
            before = int(cuts[0]) if len(cuts) else last
            self._note_maps(piece.maps, run, headers[:before])
            if len(cuts):
                piece.cut, piece.before_cut = int(position[before]), dict(piece.maps)
        self._note_maps(piece.maps, run, headers[:last])
        if len(piece.maps) > _MOST:
            self._leave_whole(piece)

    @staticmethod
    def _leave_whole(piece: Piece) -> None:
        piece.plain = False
        piece.maps, piece.before_cut, piece.savepoints = {}, {}, []

    def _beginnings(
        self,
        piece: Piece,
        run: EventRun,
        headers: NDArray[np.void],
        queries: dict[int, bytes],
        head: Head,
    ) -> int:
        """How many of the events only begin the transaction."""
        if not head.has_gtids:
            return 1
        if headers["type_code"][0] == EventType.MARIADB_GTID:
            ((_, body),) = bodies_in(run, headers[:1])
            piece.plain &= len(body) > _FLAGS_AT and not body[_FLAGS_AT] & _STANDALONE
            return 1
        if len(headers) < 2 or not _BEGIN.fullmatch(queries.get(1, b"")):
            piece.plain = False
            return 1
        return 2

    @staticmethod
    def _note_maps(maps: Maps, run: EventRun, headers: NDArray[np.void]) -> None:
        found = headers[headers["type_code"] == EventType.TABLE_MAP][::-1]
        lengths = run.description.core_arrays()[1]
        size = _SHORT_ID if 0 < int(lengths[EventType.TABLE_MAP]) < _ID + 2 else _ID
        header = run.description.header_length_of(EventType.TABLE_MAP)
        found = found[found["event_length"] >= header + size]
        if not len(found):
            return
        body = header - run.base
        window = np.frombuffer(run.window, np.uint8)
        digits = window[(found["position"].astype(np.int64) + body)[:, None] + np.arange(size)]
        ids = digits.astype(np.int64) @ (1 << 8 * np.arange(size, dtype=np.int64))
        for table_id, i in zip(*(one.tolist() for one in np.unique(ids, return_index=True)), strict=True):
            at = int(found["position"][i])
            maps[table_id] = at, at + int(found["event_length"][i])


def _ends(text: bytes) -> bool:
    return bool(_END.fullmatch(text)) and savepoint_of(text.decode("utf-8", "replace")) is None


def may_be_divided(splits: Sequence[Split]) -> bool:
    """Whether the splits of one log are so many that a transaction can fill one of them."""
    return len(splits) >= _FEWEST and all(split.within is None for split in splits)


def open_before(pieces: Sequence[Piece | None]) -> Iterator[tuple[int, int]]:
    """Where transactions fill whole splits: the split in which each begins, and the last that it reaches.

    Parameters
    ----------
    pieces : sequence of Piece or None
        Those of a log's splits; the first split's is never asked for.
    """
    at = 1
    while at < len(pieces):
        end = at
        while end < len(pieces) and (piece := pieces[end]) is not None and not piece.anchor:
            end += 1
        if end > at:
            yield at - 1, min(end, len(pieces) - 1)
        at = end + 1


def put_together(splits: Sequence[Split], begun: Piece, pieces: Sequence[Piece | None]) -> list[Split] | None:
    """A long transaction and what is around it as splits; None: it is left whole.

    Parameters
    ----------
    splits : sequence of Split
        Those from the one in which it begins to the last that it reaches.
    begun : Piece
        The piece of the first, from the transaction's beginning on.
    pieces : sequence of Piece or None
        Those of the others.

    Returns
    -------
    list of Split or None
        They cover what `splits` cover. In parts of the transaction `Within.images` is still 0.
    """
    if begun.first is None or begun.head_end is None:
        return None
    met: list[Piece] = []
    here: Piece = begun
    following: int | None = None
    for piece in (begun, *pieces):
        if piece is None:
            return None
        if piece is not begun:
            if piece.first is None:
                continue
            if piece.first != here.next or here.anchor:
                return None  # one of them began at a forged event
            here = piece
        if piece.anchor:
            following = piece.next
        if not met or met[-1].ending is None:
            met.append(piece)
    ending = met[-1].ending
    if ending is None or not all(piece.plain for piece in met):
        return None
    starts: list[int] = [begun.first]
    told: list[tuple[tuple[int, int], ...]] = [()]
    maps = dict(begun.maps)
    for piece in met[1:]:
        if piece.cut is not None:
            known = sorted((maps | piece.before_cut).values())
            if len(known) > _MOST:
                return None
            starts.append(piece.cut)
            told.append(((begun.first, begun.head_end), *known))
        maps |= piece.maps
    if len(starts) < 2 or sum(len(piece.savepoints) for piece in met) > _MOST:
        return None
    savepoints = Savepoints(begun.first)
    for text, position in (one for piece in met for one in piece.savepoints):
        savepoints.note(text, RowPlace(position, 0))
    within = Within(
        begun.first,
        rolled_back=met[-1].rolled_back,
        xid=met[-1].xid,
        undone=tuple(((*first,), (*last,)) for first, last in savepoints.undone),
    )
    return list(_covering(splits, within, list(zip(starts, told, strict=True)), ending, following))


def _covering(
    splits: Sequence[Split],
    within: Within,
    parts: list[tuple[int, tuple[tuple[int, int], ...]]],
    ending: tuple[int, int],
    following: int | None,
) -> Iterator[Split]:
    first, last = splits[0], splits[-1]
    if first.start < within.begin:
        yield replace(first, end=within.begin)
    end = last.end if following is None else following
    for i, (start, before) in enumerate(parts):
        more = i + 1 < len(parts)
        yield replace(
            last,
            start=start,
            end=parts[i + 1][0] if more else end,
            anchor=start,
            trusted=True,
            within=replace(within, before=before, ending=ending if more else None),
        )
    if following is not None and (last.end is None or following < last.end):
        yield replace(last, start=following, anchor=following, trusted=True)


def indexed(splits: Iterable[Split]) -> list[Split]:
    """The same splits, numbered in their order."""
    return [replace(split, index=i) for i, split in enumerate(splits)]
