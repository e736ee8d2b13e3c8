"""Logs as one self-contained HTML page: no scripts, no network, light and dark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from ..hot_keys import HotKey
from ..summary import SIZES, FileSummary, LogSummary
from ..transactions import Transaction
from .charts import (
    NARROW,
    WIDE,
    Marks,
    TimelineChart,
    activity_chart,
    bar,
    short,
    strip_chart,
    throughput_chart,
    week_chart,
)
from .style import CSS

__all__ = ["report_page"]

_TABLES = 12
_EVENT_COLORS = 7
_STATEMENTS = 40
_MARKS = 60
_TABLES_OF_ONE = 3
_LARGE = 5  # transactions that the time line marks


def report_page(found: LogSummary, *, title: str | None = None, keys: Sequence[HotKey] = ()) -> str:
    """Show a summary as an HTML page.

    Parameters
    ----------
    found : LogSummary
        The summary, from `binlog_core.inspect.summarize.summarize`.
    title : str, optional
        The page's title; by default the names of the logs.
    keys : sequence of HotKey
        The rows that were changed most often, from `binlog_core.inspect.hot_keys.hot_keys`.

    Returns
    -------
    str
        The page, with everything that it needs.
    """
    names = [file.path.rpartition("/")[2] for file in found.files]
    heading = title or (names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}")
    parts = [_head(found, heading), _numbers(found)]
    if found.tables():
        parts += [_activity(found), _tables(found)]
        if keys:
            parts.append(_hot_keys(keys))
        parts.append(f'<div class="pair">{_sizes(found)}{_week(found)}</div>')
    parts.append(
        '<div class="pair">'
        + _transactions(
            "Largest transactions",
            "By bytes in the log.",
            found.largest(),
            "bytes",
        )
        + _events(found)
        + "</div>"
    )
    if found.longest():
        parts.append(
            _transactions(
                "Longest transactions",
                "From the first change to the commit.",
                found.longest(),
                "seconds",
            )
        )
    parts += [_statements(found), _files(found)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(heading)} · binlog report</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(parts)}<footer>Made by binlog_core. Times are UTC.</footer></main>"
        "</body></html>\n"
    )


# ---------------------------------------------------------------- sections


def _head(found: LogSummary, heading: str) -> str:
    servers = sorted({file.format.server_version for file in found.files})
    first, last = _range(found)
    span = f" · {_moment(first)} to {_moment(last)} ({_duration(last - first)})" if first else ""
    count = f"{len(found.files)} logs" if len(found.files) > 1 else "1 log"
    return f'<h1>{escape(heading)}</h1><p class="soft">{count} of {escape(", ".join(servers))}{span}</p>'


def _numbers(found: LogSummary) -> str:
    tables = found.tables()
    definitions = sum(file.definition_count for file in found.files)
    numbers = [
        (short_count(sum(t.rows for t in tables.values())), "changed rows"),
        (short_count(sum(found.transactions().values())), "transactions"),
        (short_count(len(tables)), "tables"),
        (short_count(sum(count for count, _ in found.events().values())), "events"),
        (_size(sum(file.end_position for file in found.files)), "of logs"),
        (short_count(definitions), "schema changes"),
    ]
    cards = (
        f'<div class="card"><div class="number">{value}</div><div class="label">{label}</div></div>'
        for value, label in numbers
    )
    return f'<div class="cards">{"".join(cards)}</div>'


def _activity(found: LogSummary) -> str:
    activity = found.activity()
    timeline = TimelineChart.over(activity)
    marks = Marks()
    definitions = [s for s in found.statements() if s.kind == "definition" and s.timestamp]
    inside = [s for s in definitions if timeline.first <= s.timestamp <= timeline.last]
    marks.moments = [(s.timestamp, f"{_moment(s.timestamp)}: {s.text}") for s in inside[:_MARKS]]
    marks.gaps = _gaps(found)
    marks.large = [
        (one.last_timestamp, _transaction_text(one)) for one in found.largest()[:_LARGE] if one.changes > 1
    ]
    legend = "".join(f'<span><i class="{op}"></i>{op}s</span>' for op in ("insert", "update", "delete"))
    if marks.moments:
        legend += '<span><i class="markhead"></i>schema changes</span>'
    if marks.gaps:
        legend += '<span><i class="gap"></i>logs missing</span>'
    if marks.large:
        legend += '<span><i class="large"></i>largest transactions</span>'
    counts = timeline.counts(activity)
    traffic = found.traffic()
    rates = timeline.amounts(traffic)
    seconds = max(1, timeline.bars * timeline.width)
    rate = f"{_size(sum(rates) / seconds)}/s on average, {_size(max(rates) / timeline.width)}/s at most."
    return (
        '<section class="card"><h2>Activity</h2>'
        f'<p class="hint">Changed rows per {_duration(timeline.width)}.</p>'
        f"{_both(lambda width: activity_chart(timeline, counts, marks, width))}"
        f'<div class="legend">{legend}</div>'
        f'<h2 class="below">Throughput</h2><p class="hint">Bytes of log per second, {rate}</p>'
        f"{_both(lambda width: throughput_chart(timeline, rates, width))}</section>"
    )


def _both(chart: Callable[[float], str]) -> str:
    """A chart for wide screens and for narrow ones."""
    return f'<div class="on-wide">{chart(WIDE)}</div><div class="on-narrow">{chart(NARROW)}</div>'


def _transaction_text(one: Transaction) -> str:
    tables = ", ".join(f"{name} {count:,}" for name, count in list(one.tables.items())[:_TABLES_OF_ONE])
    who = f", thread {one.thread_id}" if one.thread_id is not None else ""
    return f"{_moment(one.last_timestamp)}: {_size(one.bytes)}, {one.changes:,} changed rows{who}: {tables}"


def _sizes(found: LogSummary) -> str:
    sizes = found.sizes()
    most, every = int(sizes[:, 0].max()), max(1, int(sizes[:, 1].sum()))
    rows = []
    last = max(np.flatnonzero(sizes[:, 0]).tolist(), default=0)
    for i, (count, size) in enumerate(sizes[: last + 1].tolist()):
        first, end = SIZES[i], SIZES[i + 1] - 1 if i + 1 < len(SIZES) else 0
        name = f"{first:,}" if first == end else f"{first:,} to {end:,}" if end else f"{first:,} or more"
        text = f"{count:,} transactions, {_size(size)}"
        rows.append(
            f'<tr><td class="right">{name}</td>'
            f'<td class="fill">{bar([("var(--m0)", count, text)], most)}</td>'
            f'<td class="right">{short_count(count)}</td>'
            f'<td class="right soft">{100 * size / every:.0f} %</td></tr>'
        )
    return (
        '<section class="card"><h2>Sizes of transactions</h2>'
        '<p class="hint">Transactions by changed rows, and their share of the bytes.</p>'
        '<div class="scroll"><table><tr><th class="right">changed rows</th><th></th><th class="right">'
        f'transactions</th><th class="right">bytes</th></tr>{"".join(rows)}</table></div></section>'
    )


def _week(found: LogSummary) -> str:
    hours = found.hours().tolist()
    return (
        '<section class="card"><h2>Hours of the week</h2>'
        f'<p class="hint">Changed rows in UTC; the busiest hour has {short_count(max(hours))}.</p>'
        f"{week_chart(hours)}</section>"
    )


def _hot_keys(keys: Sequence[HotKey]) -> str:
    most = max(one.changes for one in keys)
    rows = "".join(
        f'<tr><td class="half">{escape(_printable(one.table))}'
        f" <code>{escape(_printable(one.key))}</code></td>"
        f"<td>{bar([('var(--m0)', one.changes, f'{one.changes:,} changes')], most)}</td>"
        f'<td class="right">{one.changes:,}</td></tr>'
        for one in keys
    )
    return (
        '<section class="card"><h2>Hot keys</h2><p class="hint">The rows that were changed most often, of the'
        " most changed tables with a primary key.</p>"
        '<div class="scroll"><table>'
        '<tr><th>row</th><th></th><th class="right">changes</th></tr>'
        f"{rows}</table></div></section>"
    )


def _gaps(found: LogSummary) -> list[tuple[float, float, str]]:
    """Times without logs: from the last change before missing logs to the first one after them."""
    missing = {(gap.base, gap.first - 1): gap for gap in found.gaps}
    gaps = []
    for before, after in pairwise(found.files):
        base, _, number = before.path.rpartition(".")
        gap = missing.get((base, int(number) if number.isdecimal() else -1))
        if gap is not None:
            many = f"{gap.first} to {gap.last}" if gap.first != gap.last else f"{gap.first}"
            last = max((t.last_timestamp for t in before.tables.values()), default=before.last_timestamp)
            first = min((t.first_timestamp for t in after.tables.values()), default=after.first_timestamp)
            gaps.append((float(last), float(first), f"log {many} is missing"))
    return gaps


def _tables(found: LogSummary) -> str:
    activity = found.activity()
    timeline = TimelineChart.over(activity)
    every = found.tables()
    most = max(table.rows for table in every.values())
    rows = []
    for name, table in list(every.items())[:_TABLES]:
        parts = [
            ("insert", table.inserts, f"{table.inserts:,} inserts"),
            ("update", table.updates, f"{table.updates:,} updates"),
            ("delete", table.deletes, f"{table.deletes:,} deletes"),
        ]
        rows.append(
            f'<tr><td class="name">{escape(name)}</td>'
            f'<td class="strip">{strip_chart(timeline, timeline.counts(activity, name))}</td>'
            f'<td title="{", ".join(text for _, count, text in parts if count)}">{bar(parts, most)}</td>'
            f'<td class="right">{table.rows:,}</td><td class="right soft">{_size(table.bytes)}</td></tr>'
        )
    hint = "The most changed first; each has its own scale over time."
    if len(every) > _TABLES:
        hint = f"The {_TABLES} most changed of {len(every):,}; each has its own scale over time."
    return (
        f'<section class="card"><h2>Tables</h2><p class="hint">{hint}</p><div class="scroll"><table>'
        '<tr><th>table</th><th class="strip">over time</th><th>by operation</th>'
        '<th class="right">changed rows</th>'
        f'<th class="right">bytes</th></tr>{"".join(rows)}</table></div></section>'
    )


def _transactions(title: str, hint: str, found: list[Transaction], by: str) -> str:
    if not found:
        hint = "There are none with row changes."
        return f'<section class="card"><h2>{title}</h2><p class="hint">{hint}</p></section>'
    most = max(getattr(one, by) for one in found) or 1
    rows = []
    for one in found[:8]:
        amount = _size(one.bytes) if by == "bytes" else _duration(one.seconds)
        place = f"{one.path.rpartition('/')[2]}:{one.begin_position}"  # as --start takes it
        origin = [f"{short_count(one.changes)} changed rows"]
        origin += [f"GTID {one.gtid}"] * bool(one.gtid) + [_moment(one.last_timestamp)]
        about = f"{one.path}, position {one.begin_position:,}, {_moment(one.last_timestamp)}, {one.outcome}"
        by_whom = [f"thread {one.thread_id}"] * (one.thread_id is not None) + [one.user] * bool(one.user)
        about = ", ".join([about, *map(str, by_whom)])
        what = ", ".join(f"{name} {count:,}" for name, count in list(one.tables.items())[:_TABLES_OF_ONE])
        what += ", …" * (len(one.tables) > _TABLES_OF_ONE)
        what = " · ".join(filter(None, (*origin, *by_whom, what, _printable(one.statement or ""))))
        rows.append(
            f'<tr title="{escape(about)}"><td class="where"><code>{escape(_cut(place))}</code></td>'
            f"<td class='fill'>{bar([('var(--m0)', getattr(one, by), about)], most)}</td>"
            f'<td class="right">{amount}</td></tr>'
            f'<tr><td class="soft what" colspan="3">{escape(what)}</td></tr>'
        )
    return (
        f'<section class="card"><h2>{title}</h2><p class="hint">{hint}</p>'
        f'<div class="scroll"><table>{"".join(rows)}</table></div></section>'
    )


def _events(found: LogSummary) -> str:
    every = list(found.events().items())
    total = sum(size for _, (_, size) in every) or 1
    shown, rest = every[:_EVENT_COLORS], every[_EVENT_COLORS:]
    if rest:
        shown.append(("others", (sum(c for _, (c, _) in rest), sum(s for _, (_, s) in rest))))
    parts = [(f"var(--m{i})", size, f"{name}: {_size(size)}") for i, (name, (_, size)) in enumerate(shown)]
    rows = "".join(
        f'<tr><td><span class="legend flush"><span><i style="background:var(--m{i})"></i>{escape(name)}'
        f'</span></span></td><td class="right">{count:,}</td><td class="right soft">{_size(size)}</td>'
        f'<td class="right soft">{100 * size / total:.1f} %</td></tr>'
        for i, (name, (count, size)) in enumerate(shown)
    )
    return (
        '<section class="card"><h2>Event mix</h2><p class="hint">Share of the bytes, by type of event.</p>'
        f'{bar(parts, total)}<div class="scroll below"><table>{rows}</table></div></section>'
    )


def _statements(found: LogSummary) -> str:
    every = [s for s in found.statements() if s.kind != "other"]
    if not every:
        return ""
    rows = "".join(
        f'<tr><td class="soft right" style="text-align:left">{_moment(s.timestamp)}</td>'
        f'<td><span class="tag {"ddl" if s.kind == "definition" else "bad"}">'
        f"{'schema' if s.kind == 'definition' else 'statement'}</span></td>"
        f"<td><code>{escape(_printable(s.text))}</code></td></tr>"
        for s in every[:_STATEMENTS]
    )
    more = f" The first {_STATEMENTS} of {len(every):,}." if len(every) > _STATEMENTS else ""
    return (
        '<section class="card"><h2>Statements</h2>'
        '<p class="hint">Schema changes, and changes of rows that were'
        f' logged as statements.{more}</p><div class="scroll"><table>{rows}</table></div></section>'
    )


def _files(found: LogSummary) -> str:
    rows = "".join(_file(file) for file in found.files)
    for gap in found.gaps:
        many = f"{gap.first} to {gap.last}" if gap.first != gap.last else f"{gap.first}"
        rows += f'<tr><td class="bad" colspan="6">missing: {escape(gap.base)} {many}</td></tr>'
    return (
        '<section class="card"><h2>Logs</h2><div class="scroll"><table><tr><th>log</th><th>server ids</th>'
        '<th>from, to</th><th class="right">events</th><th class="right">size</th><th></th></tr>'
        f"{rows}</table></div></section>"
    )


def _file(file: FileSummary) -> str:
    if file.tail is not None:
        state = f'<span class="tag bad" title="{escape(file.tail.reason)}">cut at {file.tail.offset:,}</span>'
    elif file.format.in_use:
        state = '<span class="tag ddl">in use</span>'
    else:
        state = '<span class="tag good">closed</span>'
    ids = ", ".join(str(server) for server, _ in file.servers.most_common(4))
    return (
        f'<tr><td class="name">{escape(file.path.rpartition("/")[2])}</td><td>{ids}</td>'
        f'<td class="soft">{_moment(file.first_timestamp)}<br>{_moment(file.last_timestamp)}</td>'
        f'<td class="right">{file.event_count:,}</td><td class="right">{_size(file.end_position)}</td>'
        f'<td class="right">{state}</td></tr>'
    )


# ---------------------------------------------------------------- texts


def _range(found: LogSummary) -> tuple[int, int]:
    firsts = [file.first_timestamp for file in found.files if file.first_timestamp]
    return (min(firsts), max(file.last_timestamp for file in found.files)) if firsts else (0, 0)


def short_count(number: int) -> str:
    """A count for people: with all digits up to a million."""
    return f"{number:,}" if number < 1_000_000 else short(number)


def _moment(timestamp: float) -> str:
    return dt.datetime.fromtimestamp(timestamp, dt.UTC).strftime("%Y-%m-%d %H:%M:%S") if timestamp else "?"


def _size(count: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def _duration(seconds: int) -> str:
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"


def _cut(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:8]}…{text[-21:]}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "·" for c in text)
