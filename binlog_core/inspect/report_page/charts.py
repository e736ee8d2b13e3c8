"""Charts as SVG, styled by the page; numbers are shown under the mouse pointer."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from ..summary import OPERATIONS, Activity

WIDE, NARROW = 1072.0, 340.0  # of a chart; the page shows one of the two
_HEIGHT = 230.0
_FLAT = 120.0  # height of the throughput
_LEFT, _TOP, _BOTTOM = 46.0, 16.0, 26.0
_STRIP_HEIGHT = 26.0
_MOST_BARS = 120
_MOST_TICKS, _FEW_TICKS = 9, 5
_TICK_WIDTH = 62.0  # of a date
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400


@dataclass(slots=True)
class TimelineChart:
    """Time cut into bars of the same length.

    Parameters
    ----------
    first, last : int
        Seconds since 1970 UTC.
    width : int
        Width of a bar, in seconds.
    """

    first: int
    last: int
    width: int

    @classmethod
    def over(cls, activity: Activity) -> TimelineChart:
        """The time of all changes, in as many bars as can be distinguished."""
        first, last = activity.span()
        begin, end = first * activity.width, (last + 1) * activity.width
        width = next((s for s in _STEPS if s >= activity.width and (end - begin) / s <= _MOST_BARS), 0)
        if not width:
            width = _DAY * max(1, math.ceil((end - begin) / _DAY / _MOST_BARS))
        begin -= begin % width
        return cls(begin, max(end, begin + 1), width)

    @property
    def bars(self) -> int:
        """The number of bars."""
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

    def amounts(self, activity: Activity) -> list[int]:
        """The amounts in each bar, over all tables and operations; what is outside is left out."""
        found = [0] * self.bars
        for counts in activity.counts.values():
            for moment, count in counts.items():
                bar = (moment * activity.width - self.first) // self.width
                if 0 <= bar < self.bars:
                    found[bar] += count
        return found

    def place(self, timestamp: float) -> float:
        """The place of a moment, from 0 to 1."""
        return min(1.0, max(0.0, (timestamp - self.first) / (self.bars * self.width)))

    def begin(self, i: int) -> str:
        """The time when a bar begins, as text."""
        begin = dt.datetime.fromtimestamp(self.first + i * self.width, dt.UTC)
        return begin.strftime("%Y-%m-%d %H:%M:%S")

    def ticks(self, most: int = _MOST_TICKS) -> list[tuple[int, str]]:
        """Round moments and their labels: a day by its date, others by their time."""
        length = self.bars * self.width
        steps = (*_STEPS, *(days * _DAY for days in (2, 7, 14, 30, 91, 182, 365)))
        step = next((s for s in steps if length / s <= most), math.ceil(length / most))
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
    """Marks of the activity chart.

    Parameters
    ----------
    moments, large : list of (timestamp, text)
        Schema changes; large transactions.
    gaps : list of (first, last timestamp, text)
        Times whose logs are missing.
    """

    moments: list[tuple[float, str]] = field(default_factory=list)
    large: list[tuple[float, str]] = field(default_factory=list)
    gaps: list[tuple[float, float, str]] = field(default_factory=list)


def activity_chart(
    timeline: TimelineChart, counts: dict[str, list[int]], marks: Marks, width: float = WIDE
) -> str:
    """Stacked bars of rows over time, with schema changes, large transactions and gaps."""
    frame = _Frame(timeline, width, _HEIGHT, _round_up(max(map(sum, zip(*counts.values(), strict=True)))))
    out = [frame.begin("Changed rows over time", short)]
    for first, last, text in marks.gaps:
        x0, x1 = (frame.x(at) for at in (first, last))
        out.append(
            f'<rect class="gap" x="{x0:.1f}" y="{_TOP:g}" width="{max(2.0, x1 - x0):.1f}"'
            f' height="{frame.height:g}">'
            f"<title>{escape(text)}</title></rect>"
        )
    for i in range(timeline.bars):
        rows = {operation: values[i] for operation, values in counts.items()}
        if not any(rows.values()):
            continue
        text = ", ".join(f"{count:,} {operation}s" for operation, count in rows.items() if count)
        out.append(f'<g class="bucket"><title>{timeline.begin(i)} UTC: {text}</title>')
        y = frame.base
        for operation, count in rows.items():
            if count:
                out.append(frame.bar(operation, i, y, count))
                y -= frame.height * count / frame.top
        out.append("</g>")
    base = _TOP + frame.height
    for moment, text in marks.moments:
        x = frame.x(moment)
        out.append(
            f'<g><title>{escape(text)}</title><line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4:g}"'
            f' y2="{base:g}" stroke-dasharray="3 3"/>'
            f'<circle class="markhead" cx="{x:.1f}" cy="{_TOP - 6:g}" r="4"/></g>'
        )
    for moment, text in marks.large:
        x = frame.x(moment)
        out.append(
            f'<path class="large" d="M{x:.1f} {base - 9:.1f}l6 9h-12z"><title>{escape(text)}</title></path>'
        )
    return "".join((*out, frame.end()))


def throughput_chart(timeline: TimelineChart, amounts: list[int], width: float = WIDE) -> str:
    """Bytes of log per second over time."""
    rates = [amount / timeline.width for amount in amounts]
    frame = _Frame(timeline, width, _FLAT, _round_up(max(rates)), lines=2)
    out = [frame.begin("Bytes of log per second over time", lambda rate: f"{short(rate)}B/s")]
    for i, rate in enumerate(rates):
        if rate:
            title = f"<title>{timeline.begin(i)} UTC: {short(rate)}B/s</title>"
            out.append(f'<g class="bucket">{title}{frame.bar("traffic", i, frame.base, rate)}</g>')
    return "".join((*out, frame.end()))


class _Frame:
    """Axes of a chart over time."""

    def __init__(
        self, timeline: TimelineChart, width: float, height: float, top: float, lines: int = 4
    ) -> None:
        self.timeline, self.top, self._whole, self._lines = timeline, top, height, lines
        self.height, self._width, self._right = height - _TOP - _BOTTOM, width - _LEFT, width
        self.base = _TOP + self.height
        self._step = self._width / timeline.bars

    def x(self, timestamp: float) -> float:
        return _LEFT + self._width * self.timeline.place(timestamp)

    def bar(self, look: str, i: int, bottom: float, amount: float) -> str:
        tall = self.height * amount / self.top
        thick = max(1.0, self._step - (1.5 if self._step > 4 else 0.4))
        return (
            f'<rect class="{look}" x="{_LEFT + i * self._step:.2f}" y="{bottom - tall:.2f}"'
            f' width="{thick:.2f}" height="{max(tall, 0.6):.2f}"/>'
        )

    def begin(self, label: str, scale: Callable[[float], str]) -> str:
        size = f"{self._right:g} {self._whole:g}"
        out = [f'<svg viewBox="0 0 {size}" role="img" aria-label="{label}">']
        for i in range(self._lines + 1):
            y = _TOP + self.height * (1 - i / self._lines)
            out.append(f'<line class="grid" x1="{_LEFT:g}" x2="{self._right:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
            text = scale(self.top * i / self._lines)
            out.append(f'<text x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        return "".join(out)

    def end(self) -> str:
        base = self.base
        out = [f'<line class="axis" x1="{_LEFT:g}" x2="{self._right:g}" y1="{base:g}" y2="{base:g}"/>']
        for moment, text in self.timeline.ticks(_MOST_TICKS if self._right == WIDE else _FEW_TICKS):
            x = self.x(moment)
            anchor = "end" if x > self._right - _TICK_WIDTH / 2 else "middle"
            out.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base:g}" y2="{base + 4:g}"/>')
            out.append(f'<text x="{x:.1f}" y="{self._whole - 6:g}" text-anchor="{anchor}">{text}</text>')
        return "".join((*out, "</svg>"))


def week_chart(hours: Sequence[int]) -> str:
    """Changed rows by day of the week and hour, as cells."""
    most = max(hours) or 1
    out = ['<div class="week"><i></i>']
    out += [f'<span class="hour">{hour:02}</span>' for hour in range(0, 24, 3)]
    for day, name in enumerate(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")):
        out.append(f"<span>{name}</span>")
        for hour, count in enumerate(hours[24 * day : 24 * day + 24]):
            share = 0 if not count else max(8, round(100 * math.sqrt(count / most)))
            look = f' style="--share:{share}%"' if share else ""
            out.append(f'<b{look} title="{name} {hour:02}:00 UTC: {count:,} changed rows"></b>')
    return "".join((*out, "</div>"))


def strip_chart(timeline: TimelineChart, counts: dict[str, list[int]]) -> str:
    """A table's rows over time as a small chart with its own scale."""
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
        The amount for the full width.
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


def _round_up(number: float) -> float:
    if number <= 4:
        return 4.0
    size = 10 ** math.floor(math.log10(number))
    return float(
        next(size * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if size * step >= number)
    )
