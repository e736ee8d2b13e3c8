"""Charts as SVG, styled by the page; what a mouse rests on tells its numbers."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ..summary import OPERATIONS, Activity

_WIDTH = 1072.0
_HEIGHT = 230.0
_LEFT, _TOP, _BOTTOM = 46.0, 16.0, 26.0
_STRIP_HEIGHT = 26.0
_MOST_BARS = 120
_MOST_TICKS = 9
_TICK_WIDTH = 62.0  # of a date
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400


@dataclass(slots=True)
class Timeline:
    """Time cut into bars of the same length.

    Parameters
    ----------
    first, last : int
        Seconds since 1970 UTC.
    width : int
        Of a bar, in seconds.
    """

    first: int
    last: int
    width: int

    @classmethod
    def over(cls, activity: Activity) -> Timeline:
        """As many bars as can be told apart."""
        first, last = activity.span()
        begin, end = first * activity.width, (last + 1) * activity.width
        width = next((s for s in _STEPS if s >= activity.width and (end - begin) / s <= _MOST_BARS), 0)
        if not width:
            width = _DAY * max(1, math.ceil((end - begin) / _DAY / _MOST_BARS))
        begin -= begin % width
        return cls(begin, max(end, begin + 1), width)

    @property
    def bars(self) -> int:
        """How many there are."""
        return max(1, math.ceil((self.last - self.first) / self.width))

    def counts(self, activity: Activity, table: str | None = None) -> dict[str, list[int]]:
        """Rows per bar by operation, of one table or of all."""
        found = {operation: [0] * self.bars for operation in OPERATIONS}
        for (name, operation), counts in activity.counts.items():
            if table is None or name == table:
                for moment, count in counts.items():
                    bar = min(self.bars - 1, max(0, (moment * activity.width - self.first) // self.width))
                    found[operation][bar] += count
        return found

    def place(self, timestamp: float) -> float:
        """Where a moment is, 0 to 1."""
        return min(1.0, max(0.0, (timestamp - self.first) / (self.bars * self.width)))

    def ticks(self) -> list[tuple[int, str]]:
        """Round moments, and how they are told: a day by its date, what is in between by its time."""
        length = self.bars * self.width
        steps = (*_STEPS, *(days * _DAY for days in (2, 7, 14, 30, 91, 182, 365)))
        step = next((s for s in steps if length / s <= _MOST_TICKS), math.ceil(length / _MOST_TICKS))
        found = []
        for moment in range(self.first + -self.first % step, self.first + length + 1, step):
            day = length > _DAY and moment % _DAY == 0
            form = (
                "%Y-%m-%d" if step > 14 * _DAY else "%b %d" if day else "%H:%M" if step >= 60 else "%H:%M:%S"
            )
            found.append((moment, dt.datetime.fromtimestamp(moment, dt.UTC).strftime(form)))
        return found


@dataclass(slots=True)
class Marks:
    """What the activity chart marks.

    Parameters
    ----------
    moments : list of (timestamp, text)
        Schema changes.
    gaps : list of (first, last timestamp, text)
        Times of which the logs are missing.
    """

    moments: list[tuple[float, str]] = field(default_factory=list)
    gaps: list[tuple[float, float, str]] = field(default_factory=list)


def activity_chart(timeline: Timeline, counts: dict[str, list[int]], marks: Marks) -> str:
    """Stacked bars of rows over time, with schema changes and gaps."""
    height, width = _HEIGHT - _TOP - _BOTTOM, _WIDTH - _LEFT
    top = _round_up(max(map(sum, zip(*counts.values(), strict=True))))
    out = [f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="Changed rows over time">']
    for i in range(5):
        y = _TOP + height * (1 - i / 4)
        out.append(f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{short(top * i / 4)}</text>')
    for first, last, text in marks.gaps:
        x0, x1 = (_LEFT + width * timeline.place(at) for at in (first, last))
        out.append(
            f'<rect class="gap" x="{x0:.1f}" y="{_TOP:g}" width="{max(2.0, x1 - x0):.1f}"'
            f' height="{height:g}">'
            f"<title>{escape(text)}</title></rect>"
        )
    step = width / timeline.bars
    thick = max(1.0, step - (1.5 if step > 4 else 0.4))
    for i in range(timeline.bars):
        rows = {operation: values[i] for operation, values in counts.items()}
        if not any(rows.values()):
            continue
        told = ", ".join(f"{count:,} {operation}s" for operation, count in rows.items() if count)
        begin = dt.datetime.fromtimestamp(timeline.first + i * timeline.width, dt.UTC)
        when = begin.strftime("%Y-%m-%d %H:%M:%S")
        out.append(f'<g class="bucket"><title>{when} UTC: {told}</title>')
        y = _TOP + height
        for operation, count in rows.items():
            if count:
                tall = height * count / top
                y -= tall
                out.append(
                    f'<rect class="{operation}" x="{_LEFT + i * step:.2f}" y="{y:.2f}"'
                    f' width="{thick:.2f}" height="{max(tall, 0.6):.2f}"/>'
                )
        out.append("</g>")
    for moment, text in marks.moments:
        x = _LEFT + width * timeline.place(moment)
        out.append(
            f'<g><title>{escape(text)}</title><line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4:g}"'
            f' y2="{_TOP + height:g}" stroke-dasharray="3 3"/>'
            f'<circle class="markhead" cx="{x:.1f}" cy="{_TOP - 6:g}" r="4"/></g>'
        )
    base = _TOP + height
    out.append(f'<line class="axis" x1="{_LEFT:g}" x2="{_WIDTH:g}" y1="{base:g}" y2="{base:g}"/>')
    for moment, text in timeline.ticks():
        x = _LEFT + width * timeline.place(moment)
        anchor = "end" if x > _WIDTH - _TICK_WIDTH / 2 else "middle"
        out.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base:g}" y2="{base + 4:g}"/>')
        out.append(f'<text x="{x:.1f}" y="{_HEIGHT - 6:g}" text-anchor="{anchor}">{text}</text>')
    return "".join((*out, "</svg>"))


def strip_chart(timeline: Timeline, counts: dict[str, list[int]]) -> str:
    """A table's rows over time as a small chart of its own scale."""
    width = 420.0
    totals = [sum(values) for values in zip(*counts.values(), strict=True)]
    top = max(totals) or 1
    step = width / timeline.bars
    out = [
        f'<svg viewBox="0 0 {width:g} {_STRIP_HEIGHT:g}" preserveAspectRatio="none"'
        f' height="{_STRIP_HEIGHT:g}"'
        f' role="img" aria-label="Changed rows over time, at most {top:,}">'
    ]
    for i in range(timeline.bars):
        y = _STRIP_HEIGHT - 1
        for operation, values in counts.items():
            if values[i]:
                tall = max(0.8, (_STRIP_HEIGHT - 2) * values[i] / top)
                y -= tall
                out.append(
                    f'<rect class="{operation}" x="{i * step:.2f}" y="{y:.2f}"'
                    f' width="{max(0.8, step * 0.85):.2f}"'
                    f' height="{tall:.2f}"/>'
                )
    end = _STRIP_HEIGHT - 0.5
    out.append(f'<line class="grid" x1="0" x2="{width:g}" y1="{end:g}" y2="{end:g}"/></svg>')
    return "".join(out)


def bar(parts: Sequence[tuple[str, float, str]], whole: float) -> str:
    """A horizontal bar of parts.

    Parameters
    ----------
    parts : sequence of (CSS background or class name, size, text)
    whole : float
        What the full width stands for.
    """
    cells = []
    for look, amount, text in parts:
        share = 100 * amount / whole if whole else 0
        style = f"background:{look};" if look.startswith("var(") else ""
        name = "" if style else f' class="{look}"'
        cells.append(f'<b{name} style="{style}width:{share:.3f}%" title="{escape(text)}"></b>')
    return f'<div class="bar">{"".join(cells)}</div>'


def short(number: float) -> str:
    """A count on an axis: ``12k``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _round_up(number: int) -> float:
    if number <= 4:
        return 4.0
    size = 10 ** math.floor(math.log10(number))
    return float(
        next(size * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if size * step >= number)
    )
