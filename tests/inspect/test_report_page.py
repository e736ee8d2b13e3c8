"""The page of ``binlog-core report``: its content, that it loads nothing, and how a browser shows it."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.golden import DATA, Golden, full_name, golden_logs
from support.writer import Log, Table

import binlog_core
from binlog_core.inspect.hot_keys import HotKey, hot_keys
from binlog_core.inspect.report_page import report_page
from binlog_core.inspect.summarize import summarize
from binlog_core.inspect.summary import SIZES, LogSummary

GTID = next(g for g in golden_logs() if g.name == "mysql97/gtid")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def summary(*paths: Path) -> LogSummary:
    with binlog_core.open([str(path) for path in paths]) as log:
        return summarize(log)


class Page(HTMLParser):
    """Checks that tags are balanced; collects texts, and what a browser would fetch."""

    VOID = frozenset(("meta", "br"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("golden", [g for g in golden_logs() if not g.open_arguments], ids=str)
def test_every_golden_log(golden: Golden) -> None:
    Page(report_page(summary(golden.path)))


def test_it_tells_what_the_server_knows() -> None:
    text = report_page(summary(GTID.path))
    page = Page(text)
    for change in GTID.truth:
        assert full_name(change["db"], change["table"]) in page.texts
    assert f"{len(GTID.truth)}" in page.texts
    assert any("ALTER TABLE" in t.upper() for t in page.texts)
    inserts = sum(c["op"] == "insert" for c in GTID.truth)
    assert re.search(rf"<title>[^<]*UTC: {inserts} inserts", text), "they are all of one second"


def test_it_needs_nothing_else() -> None:
    text = report_page(summary(GTID.path))
    page = Page(text)
    assert page.links == []
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_names_are_escaped() -> None:
    found = summary(GTID.path)
    found.files[0].tables["a.<script>"] = next(iter(found.files[0].tables.values()))
    text = report_page(found, title="<b>")
    assert "<script>" not in text
    assert "<b>" not in re.sub(r"<b [^>]*>", "", text)


def test_a_missing_log_is_reported(tmp_path: Path) -> None:
    for number in (7, 9):
        (tmp_path / f"bin.00000{number}").write_bytes(GTID.data)
    texts = Page(report_page(summary(tmp_path / "bin.000007", tmp_path / "bin.000009"))).texts
    assert any(t.startswith("missing: ") and t.endswith("bin 8") for t in texts)
    assert "logs missing" in texts


def busy() -> bytes:
    """Transactions of 1, 1, 5 and 30 changed rows, on a Monday at 9, 9 and 10 h and on Tuesday at 0 h."""
    log, table = Log("8.0.36"), Table("shop", "orders", [("id", "INT")], primary_key=["id"])
    for moment, count in ((9, 1), (9.5, 1), (10, 5), (24, 30)):
        log.timestamp = MONDAY + int(moment * 3600)
        log.begin()
        log.insert(table, [{"id": i} for i in range(count)])
        log.commit()
    log.begin()
    log.update(table, [({"id": 3}, {"id": 300}), ({"id": 0}, {"id": 0})])
    log.commit()
    return log.getvalue()


MONDAY = int(dt.datetime(2026, 11, 16, tzinfo=dt.UTC).timestamp())


def test_sizes_hours_bytes_and_hot_keys() -> None:
    with binlog_core.open(busy()) as log:
        found = summarize(log)
        hot = hot_keys(log, found.tables(), most=2)
        headers = log.headers()
        text = report_page(found, keys=hot)
    counts = found.sizes()[:, 0].tolist()
    assert dict(zip(SIZES, counts, strict=True)) == dict.fromkeys(SIZES, 0) | {1: 2, 2: 2, 10: 1}
    hours = found.hours()
    assert {i: int(n) for i, n in enumerate(hours) if n} == {9: 2, 10: 5, 24: 32}
    wanted = {
        moment: int(headers["event_length"][headers["timestamp"] == moment].sum())
        for moment in set(headers["timestamp"].tolist())
    }
    traffic = found.traffic()
    if traffic.width == 1:
        assert dict(traffic.counts["", ""]) == wanted
    assert sum(traffic.counts["", ""].values()) == sum(wanted.values())
    # 0 was inserted four times and updated once, 3 twice; 1 and 2 twice
    assert hot[0] == HotKey("shop.orders", "id=0", 5)
    assert hot[1].changes == 3
    assert hot[1].key == "id=3"
    page = Page(text)
    for told in ("Hot keys", "Sizes of transactions", "Hours of the week", "Throughput"):
        assert told in page.texts, told
    assert 'title="Tue 00:00 UTC: 32 changed rows"' in text
    assert 'title="Mon 11:00 UTC: 0 changed rows"' in text
    assert re.search(r'class="large"[^>]*><title>2026-11-17 00:00:00: [^<]*30 changed rows', text)


# ------------------------------------------------------------ in a browser


def pixels(path: Path) -> tuple[int, int, Counter[tuple[int, ...]]]:
    """Width, height and colours of a PNG with 8 bits per channel and no interlacing."""
    data, chunks, at = path.read_bytes(), b"", 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", data, at + 8)
        elif kind == b"IDAT":
            chunks += data[at + 8 : at + 8 + length]
        at += 12 + length
    assert depth == 8
    channels = {2: 3, 6: 4}[colour]
    raw = zlib.decompress(chunks)
    stride = width * channels
    above, found = bytearray(stride), Counter[tuple[int, ...]]()
    for y in range(height):
        begin = y * (stride + 1)
        how, line = raw[begin], bytearray(raw[begin + 1 : begin + 1 + stride])
        for i in range(stride):
            left = line[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            line[i] = (line[i] + _predict(how, left, above[i], corner)) & 0xFF
        found.update(zip(*(line[c::channels] for c in range(3)), strict=True))
        above = line
    return width, height, found


def _predict(how: int, left: int, up: int, corner: int) -> int:
    """PNG's filters, by their numbers."""
    if how == 4:
        guess = left + up - corner
        near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
        return near[2]
    return (0, left, up, (left + up) // 2)[how]


def colour(name: str, text: str, *, dark: bool) -> tuple[int, ...]:
    """A custom property of the page."""
    values = re.findall(rf"--{name}: #([0-9a-f]{{6}})\b", text)
    return tuple(bytes.fromhex(values[1 if dark else 0]))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(dark: bool, tmp_path: Path) -> None:
    """Paper, cards and the operations are to be seen in the colours of the theme; the console is silent."""
    text = report_page(summary(DATA / "mysql97" / "dml_mixed.binlog"))
    page, shot = tmp_path / "report.html", tmp_path / "shot.png"
    page.write_text(text, encoding="utf-8")
    assert BROWSER is not None
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        "--force-device-scale-factor=1",
        "--enable-logging=stderr",
        "--window-size=800,800",
    ]
    if dark:
        flags.append("--blink-settings=preferredColorScheme=0")
    done = subprocess.run(
        [BROWSER, *flags, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}", page.as_uri()],
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert shot.exists(), done.stderr
    assert b"CONSOLE" not in done.stderr
    width, height, found = pixels(shot)
    assert (width, height) == (800, 800)
    assert found.most_common(1)[0][0] in (colour("card", text, dark=dark), colour("paper", text, dark=dark))
    for name in ("paper", "card", "insert", "update", "delete"):
        assert found[colour(name, text, dark=dark)] > 20, name


def test_a_large_transaction_is_named_whole() -> None:
    """By the place that --start takes, its GTID and its time, as SHOW BINLOG EVENTS has them."""
    golden = golden_logs("mysql97/gtid")[0]
    page = report_page(summary(golden.path))
    section = page.partition("<h2>Largest transactions</h2>")[2].partition("</section>")[0]
    [place, *_] = re.findall(r"<code>gtid\.binlog:(\d+)</code>", section)
    [event] = [one for one in golden.events if one["pos"] == int(place)]
    [gtid] = re.findall(r"SET @@SESSION\.GTID_NEXT= '(.+)'", event["info"])
    assert f"GTID {gtid}" in section
    assert re.search(r"· 2026-11-21 \d\d:\d\d:\d\d ", section)
