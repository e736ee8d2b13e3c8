"""Transactions that fill whole splits, divided among several readers; see `splits.dividing`.

Row images are numbered within their transaction, so that those of a part can be numbered only if those in the
parts before are counted: another pass over them, which decodes no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from ..._sources.log_files import LogFile
from ..._sources.places import is_url
from ...splits import Split
from ...splits.dividing import Piece, PieceWalk, indexed, may_be_divided, open_before, put_together
from ..rows.prepared import Prepared
from ..rows.read_options import ReadOptions
from ..rows.reader import SplitRows
from ..runner import HERE, Runner
from .parts import TaskPart

_LOG_END = 1 << 30  # servers end a log here (max_binlog_size), unless a transaction goes on
_TOGETHER = 16  # splits that are walked in one task


def divide_transactions(splits: Sequence[Split], options: ReadOptions, run: Runner = HERE) -> list[Split]:
    """The same splits, with each transaction that fills a split or more in parts.

    A transaction stays whole if it is compressed as a whole, has statements that are not rows, is damaged,
    has not ended, or goes on past `ReadOptions.end_time`; so does one in a store's log of at most 1 GiB, of
    which nothing is read here.

    Parameters
    ----------
    splits : sequence of Split
        All splits, in order.
    options : ReadOptions
        How they are read.
    run : Runner
        Walks over headers, and counts rows.

    Returns
    -------
    list of Split
        The splits, numbered in their order; `splits` themselves if nothing is divided.
    """
    logs = [list(group) for _, group in groupby(splits, lambda split: split.path)]
    asked = [log for log in logs if _is_asked(log)]
    if not asked:
        return list(splits)
    walk = _Walk(options)
    flat = [split for log in asked for split in log[1:]]
    chunks = [flat[at : at + _TOGETHER] for at in range(0, len(flat), _TOGETHER)]
    found = iter([piece for chunk in run.light.map(walk.pieces, chunks) for piece in chunk])
    pieces = {log[0].path: [None, *(next(found) for _ in log[1:])] for log in asked}
    places = [(log, *place) for log in asked for place in open_before(pieces[log[0].path])]
    if not places:
        return list(splits)
    begun = run.light.map(walk.begun, [log[first] for log, first, _ in places])
    changed: dict[tuple[str, int], tuple[int, list[Split]]] = {}
    for (log, first, last), piece in zip(places, begun, strict=True):
        path = log[0].path
        if piece is not None:
            made = put_together(log[first : last + 1], piece, pieces[path][first + 1 : last + 1])
            if made is not None:
                changed[path, first] = last, made
    changed = _counted(changed, options, run)
    return indexed(split for log in logs for split in _replaced(log, changed)) if changed else list(splits)


def divide_parts(parts: Sequence[TaskPart], options: ReadOptions, run: Runner = HERE) -> list[TaskPart]:
    """The same for the parts of a query; those between exact places come first, and are not divided."""
    exact, own = [part for part in parts if part.exact], [part for part in parts if not part.exact]
    splits = divide_transactions([part.split for part in own], options, run)
    if all(split.within is None for split in splits):
        return list(parts)
    prepared: dict[str, list[Prepared]] = {}
    for part in own:
        prepared.setdefault(part.split.path, []).extend(part.prepared)
    return [
        *exact,
        *(
            TaskPart(split, prepared=tuple(one for one in prepared[split.path] if split.may_have(one.begin)))
            for split in splits
        ),
    ]


def _is_asked(log: Sequence[Split]) -> bool:
    if not may_be_divided(log):
        return False
    # Whether a longer one is in a store or not, it has a transaction that makes it so long.
    return not is_url(log[0].path) or (log[-1].end or log[-1].start) > _LOG_END


@dataclass(frozen=True)
class _Walk:
    options: ReadOptions

    def pieces(self, splits: list[Split]) -> list[Piece | None]:
        return [self._of(split, last=False) for split in splits]

    def begun(self, split: Split) -> Piece | None:
        return self._of(split, last=True)

    def _of(self, split: Split, *, last: bool) -> Piece | None:
        access = self.options.access
        # Mapped, so that of the bytes of a local log only those of headers are touched.
        file = LogFile(split.path, keys=access.keys, storage_options=access.storage_options)
        return PieceWalk(split, file, self.options.end_time, last).piece()


def _counted(
    changed: dict[tuple[str, int], tuple[int, list[Split]]], options: ReadOptions, run: Runner
) -> dict[tuple[str, int], tuple[int, list[Split]]]:
    """Those of which the rows before each part could be counted, with the counts."""
    parts = {place: [one for one in made if one.within is not None] for place, (_, made) in changed.items()}
    counts = iter(run.map(_Count(options), [one for own in parts.values() for one in own[:-1]]))
    done = {}
    for place, own in parts.items():
        images = [next(counts) for _ in own[:-1]]
        if None in images:
            continue
        before = {
            part.start: number
            for part, number in zip(own, accumulate((0, *(one or 0 for one in images))), strict=True)
        }
        last, made = changed[place]
        done[place] = (
            last,
            [
                one
                if one.within is None
                else replace(one, within=replace(one.within, images=before[one.start]))
                for one in made
            ],
        )
    return done


@dataclass(frozen=True)
class _Count:
    options: ReadOptions

    def __call__(self, split: Split) -> int | None:
        return SplitRows(split, self.options).count()


def _replaced(log: Sequence[Split], changed: dict[tuple[str, int], tuple[int, list[Split]]]) -> list[Split]:
    """The splits of a log; where one transaction ends, in the same split another one may begin."""
    out: list[Split] = []
    rest: Split | None = None  # of the split, behind the end of a transaction
    at = 0
    while at < len(log):
        last, made = changed.get((log[at].path, at), (at + 1, []))
        if not made:
            out.append(rest or log[at])
            rest, at = None, last
            continue
        if rest is not None and made[0].within is None:
            begin = made[1].start
            made = made[1:] if rest.start == begin else [replace(rest, end=begin), *made[1:]]
        rest, at = None, last + 1
        if made[-1].within is None:
            rest, at = made[-1], last
            made = made[:-1]
        out += made
    return out
