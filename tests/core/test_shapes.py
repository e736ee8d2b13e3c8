"""Logs that no available server writes: odd post-headers, old headers, mixed descriptors, reused table ids.

The writer makes them; both decoders must give back what went in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import read_log
from support.guarded import exact, guarded
from support.writer import Log, Table, post_header_lengths
from support.writer.numbering import IGNORABLE, INTVAR, QUERY, START_V3, TABLE_MAP, XID
from support.writer.table import JsonDiffs

import binlog_core
from binlog_core._core._headers import HEADER_DTYPE, walk_headers
from binlog_core._core._resync import find_anchor, find_event
from binlog_core._core._rows import Decoder

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

SMALL = [("id", "INT"), ("name", "VARCHAR(20)")]
ROWS: list[dict[str, Any]] = [{"id": 1, "name": "one"}, {"id": -2, "name": None}]


def fast(data: bytes, **options: Any) -> list[Any]:
    with binlog_core.open(exact(data), **options) as log:
        return list(log.rows())


def slow(data: bytes) -> list[Any]:
    return list(read_log(data).changes)


@pytest.mark.parametrize("options", [{"no_such": 1}, {"group_rows": -1}, {"wishes": 5}])
def test_a_decoder_that_was_refused_leaves_nothing_behind(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        Decoder(**options)


both = pytest.mark.parametrize("read", [fast, slow], ids=["binlog_core", "reference"])
Read = Callable[[bytes], list[Any]]


def inserted(read: Read, log: Log) -> list[dict[str, Any]]:
    return [change.after for change in read(log.getvalue())]


def with_lengths(server: str, **changed: int) -> bytes:
    """A server's post-header lengths, with some types' changed: ``t19=6``."""
    lengths = bytearray(post_header_lengths(server))
    for name, length in changed.items():
        lengths[int(name[1:]) - 1] = length
    return bytes(lengths)


@both
@pytest.mark.parametrize(
    ("server", "lengths"),
    [
        ("5.5.62", with_lengths("5.5.62", t19=6, t23=6, t24=6, t25=6)),
        ("5.5.62", post_header_lengths("5.5.62")[:18]),  # lists none of the types of rows
        ("8.4.0", with_lengths("8.4.0", t23=0, t24=0, t25=0)),
        ("8.0.36", with_lengths("8.0.36", t30=13, t31=13, t32=13)),
        ("8.0.36", post_header_lengths("8.0.36") + bytes(40)),  # types of the future
    ],
    ids=["six bytes", "missing", "zero", "longer", "more types"],
)
def test_post_header_lengths(read: Read, server: str, lengths: bytes) -> None:
    if len(lengths) >= 15:
        lengths = lengths[:14] + bytes(((57 + len(lengths)) % 256,)) + lengths[15:]
    log = Log(server, post_headers=lengths, rows_version=2 if server == "8.0.36" else 1)
    table = Table("d", "t", SMALL)
    log.insert(table, ROWS)
    log.update(table, [(ROWS[0], ROWS[1])])
    log.delete(table, ROWS)
    changes = read(log.getvalue())
    assert [c.op for c in changes] == ["insert", "insert", "update", "delete", "delete"]
    assert (changes[0].after, changes[1].after) == (ROWS[0], ROWS[1])
    assert (changes[2].before, changes[2].after) == (ROWS[0], ROWS[1])
    assert (changes[3].before, changes[4].before) == (ROWS[0], ROWS[1])


@both
@pytest.mark.parametrize("extra", [b"\0\x03\x00\xaa", b"\1\x05\x00", b"\x63" + bytes(300)])
def test_extra_row_data_are_stepped_over(read: Read, extra: bytes) -> None:
    log = Log("8.0.36")
    log.insert(Table("d", "t", SMALL), ROWS, extra=extra)
    assert inserted(read, log) == ROWS


@both
@pytest.mark.parametrize("header_length", [20, 23, 27, 31, 64])
def test_longer_event_headers(read: Read, header_length: int) -> None:
    log = Log("5.5.62", header_length=header_length)
    log.begin()
    log.insert(Table("d", "t", SMALL), ROWS)
    log.commit()
    assert inserted(read, log) == ROWS


@both
def test_descriptor_in_mid_log(read: Read) -> None:
    """A relay log: the replica's descriptor, then the source's, with other checksums and lengths."""
    log = Log("8.0.36")
    table = Table("d", "t", SMALL)
    log.insert(table, ROWS)
    log.rotate()
    log.checksum, log.rows_version, log.header_length = False, 1, 27
    log.post_headers, log.server = post_header_lengths("5.6.24"), "5.6.24-log"
    log.start()
    log.insert(table, ROWS)
    assert inserted(read, log) == ROWS * 2


@both
def test_table_ids_are_reused(read: Read) -> None:
    first, second = Table("d", "a", SMALL), Table("d", "b", [("x", "BIGINT UNSIGNED")])
    log = Log("8.0.36")
    for table, row in ((first, ROWS[0]), (second, {"x": 1 << 63}), (first, ROWS[1])):
        log.table_map(table, 77)
        log.insert(table, [row], mapped=True)
    assert [(c.table, c.after) for c in read(log.getvalue())] == [
        ("a", ROWS[0]),
        ("b", {"x": 1 << 63}),
        ("a", ROWS[1]),
    ]


@both
def test_statement_over_several_tables_and_events(read: Read) -> None:
    """All maps first, then rows events in turn: each finds its own map."""
    tables = [Table("d", f"t{i}", [("id", "INT"), *[(f"c{k}", "INT") for k in range(i)]]) for i in range(12)]
    log = Log("10.11.6-MariaDB")
    for table in tables:
        log.table_map(table)
    want = []
    for turn in range(3):
        for i, table in enumerate(tables):
            row = {column.name: turn * 100 + i for column in table.columns}
            log.insert(table, [row], mapped=True)
            want.append((f"t{i}", row))
    assert [(c.table, c.after) for c in read(log.getvalue())] == want


@both
def test_definition_changes_under_one_name(read: Read) -> None:
    log = Log("8.0.36")
    log.insert(Table("d", "t", [("a", "INT")]), [{"a": 1}])
    log.insert(Table("d", "t", [("a", "INT"), ("b", "DATE")]), [{"a": 2, "b": "0000-00-00"}])
    log.insert(Table("d", "t", [("a", "VARCHAR(9)")]), [{"a": "three"}])
    assert inserted(read, log) == [{"a": 1}, {"a": 2, "b": "0000-00-00"}, {"a": "three"}]


@both
def test_gtids(read: Read) -> None:
    source = "00112233-4455-6677-8899-aabbccddeeff"
    table = Table("d", "t", SMALL)
    log = Log("9.7.4")
    log.previous_gtids()
    for kind in ({"number": 5}, {"number": (1 << 62) + 1, "tag": "abc"}, {"number": 0, "anonymous": True}):
        log.gtid(source, **kind)
        log.begin()
        log.insert(table, ROWS[:1])
        log.commit()
    assert [c.gtid for c in read(log.getvalue())] == [f"{source}:5", f"{source}:abc:{(1 << 62) + 1}", None]

    log = Log("10.11.6-MariaDB", server_id=9)
    log.gtid_list([(0, 9, 6)])
    log.maria_gtid(7, domain=3, commit_id=44)
    log.insert(table, ROWS[:1])
    log.commit()
    assert [c.gtid for c in read(log.getvalue())] == ["3-9-7"]


@both
def test_partial_json(read: Read) -> None:
    table = Table("d", "t", [("id", "INT"), ("doc", "JSON")])
    before = {"id": 1, "doc": {"a": [1, 2, 3], "k": "v"}}
    diffs = JsonDiffs(
        [
            ("replace", "$.a[1]", "two"),
            ("insert", "$.b", {"x": 1.5}),
            ("remove", "$.a[0]", None),
            ("remove", "$.k", None),
        ]
    )
    log = Log("8.0.36")
    log.update(table, [(before, {"id": 2, "doc": diffs}), (before, {"id": 3, "doc": [True]})], partial=True)
    log.update(
        table,
        [(before, {"id": 2, "doc": diffs})],
        before_columns=["id"],
        after_columns=["doc"],
        partial=True,
    )
    whole, full, lone = (change.after for change in read(log.getvalue()))
    assert whole == {"id": 2, "doc": '{"a": ["two", 3], "b": {"x": 1.5}}'}
    assert full == {"id": 3, "doc": "[true]"}
    assert [tuple(diff) for diff in lone["doc"]] == [
        ("replace", "$.a[1]", '"two"'),
        ("insert", "$.b", '{"x": 1.5}'),
        ("remove", "$.a[0]", None),
        ("remove", "$.k", None),
    ]


@both
def test_ignorable_events_do_not_disturb(read: Read) -> None:
    """Whatever their code."""
    log = Log("8.0.36")
    log.event(100, b"*" * 7, flags=0x80)
    log.insert(Table("d", "t", SMALL), ROWS)
    log.event(59, b"", flags=0x80)
    log.event(IGNORABLE, b"x", flags=0x80)
    assert inserted(read, log) == ROWS


@pytest.mark.parametrize("code", [0, 43, 59, 150, 159, 173, 255])
def test_unknown_events_may_hold_rows(code: int) -> None:
    """Unless they are marked as ignorable, passing over them is no different from losing rows."""
    log = Log("8.0.36")
    log.insert(Table("d", "t", SMALL), ROWS)
    start = log.event(code, b"*" * 7)
    end = log.position
    log.insert(Table("d", "t", SMALL), ROWS[:1])
    data = log.getvalue()
    for threads in (1, 2):
        got = []
        with binlog_core.open(exact(data), threads=threads) as opened:
            with pytest.raises(binlog_core.DecodeError, match=f"unknown type {code}") as caught:
                got.extend(change.after for change in opened.rows())
            assert (caught.value.offset, caught.value.type_code) == (start, code)
    with binlog_core.open(exact(data), on_error="skip") as opened:
        assert [change.after for change in opened.rows()] == [*ROWS, *ROWS[:1]]
        assert opened.report.skipped_events == 1
        assert [lost[1:] for lost in opened.report.lost_ranges] == [(start, end)]
    with binlog_core.open(exact(data)) as opened:
        assert [event.type_code for event in opened.events()].count(code) == 1


@both
def test_wide_and_long(read: Read) -> None:
    """4096 columns, and a value of a megabyte."""
    columns = [(f"c{i}", "TINYINT") for i in range(4095)]
    table = Table("d", "wide", [*columns, ("blob", "LONGBLOB")])
    row = {name: None if i % 3 else i % 100 for i, (name, _) in enumerate(columns)} | {"blob": bytes(1 << 20)}
    log = Log("8.0.36")
    log.insert(table, [row])
    assert inserted(read, log) == [row]


@both
def test_empty_update_image(read: Read) -> None:
    """An after-image without any column has no bytes at all: one row, and no value."""
    log = Log("8.0.36")
    table = Table("d", "t", SMALL)
    log.update(table, [(ROWS[0], ROWS[1])], after_columns=[])
    (change,) = read(log.getvalue())
    assert (change.before, change.after) == (ROWS[0], {})


@pytest.mark.parametrize(("version", "server", "code_at"), [(1, "3.23.58-log", 69), (3, "4.1.22-log", 75)])
def test_headers_before_version_4(version: int, server: str, code_at: int) -> None:
    log = Log(server, binlog_version=version)
    log.query("CREATE TABLE t (a INT)", "test")
    log.event(INTVAR, b"\2" + (5).to_bytes(8, "little"))
    log.query("INSERT INTO t VALUES (1)", "test")
    log.rotate("binlog.2")
    data = log.getvalue()
    want = read_log(data).headers
    assert [h.type_code for h in want] == [START_V3, QUERY, INTVAR, QUERY, 4]
    assert want[1].position == 4 + code_at
    with binlog_core.open(exact(data)) as opened:
        assert opened.format.binlog_version == version
        assert opened.format.server_version == server
        headers = opened.headers()
        assert headers["position"].tolist() == [h.position for h in want]
        assert headers["type_code"].tolist() == [h.type_code for h in want]
        assert headers["flags"].tolist() == [h.flags for h in want]
        assert list(opened.rows()) == []


def test_rows_at_the_end_of_a_part_of_a_buffer() -> None:
    """Whole words may be loaded from after the part; nothing of that comes with the rows."""
    log = Log("8.0.36")
    log.begin()
    log.insert(Table("d", "t", SMALL), ROWS)
    data = log.getvalue()
    want = fast(data)
    assert [change.after for change in want] == ROWS
    for room in (0, 1, 3, 47, 48, 200):
        behind = bytearray(data + b"\xff" * room)
        with binlog_core.open(memoryview(behind)[: len(data)]) as opened:
            assert list(opened.rows()) == want
        copied = memoryview(bytearray(b"\xff" * 5 + data + b"\xff" * room))[5 : 5 + len(data)]
        with binlog_core.open(copied) as opened:
            assert list(opened.rows()) == want


def test_renumbered_types_come_in_todays_numbering() -> None:
    log = Log("5.1.5-a_drop5p20-log")
    table = Table("test", "t", [("a", "INT")], metadata=None)
    log.table_map(table, with_metadata=False)
    log.xid(7)
    with binlog_core.open(exact(log.getvalue())) as opened:
        assert opened.headers()["type_code"].tolist() == [15, TABLE_MAP, XID]


@both
def test_wrong_checksum(read: Read) -> None:
    log = Log("8.0.36")
    at = log.insert(Table("d", "t", SMALL), ROWS)
    data = bytearray(log.getvalue())
    data[at + 32] ^= 1  # in the first value
    with pytest.raises(Exception, match=r"(?i)checksum") as caught:
        read(bytes(data))
    if read is fast:
        assert isinstance(caught.value, binlog_core.ChecksumError)
        assert caught.value.offset == at
        assert len(fast(bytes(data), verify_checksum=False)) == 2


@pytest.mark.parametrize("header_length", [19, 57, 58, 59, 64, 100, 255])
def test_a_cut_log_of_many_tables_is_not_read_behind_its_end(header_length: int) -> None:
    """Nor is one whose last table map lacks its end, or its header's."""
    log = Log("5.5.62", header_length=header_length, checksum=False)
    tables = [Table("d", f"t{i}", SMALL) for i in range(520)]
    log.begin()
    for table in tables:
        log.table_map(table)
    for table in tables[:3]:
        log.insert(table, ROWS)
    whole = log.position
    data = log.getvalue()
    log.table_map(tables[3])
    table_map = log.getvalue()[whole:]
    for length in {0, 5, 19, 60, 63, 64, 65, header_length, header_length + 5, header_length + 6}:
        part = table_map[: min(length, len(table_map) - 1)]
        with guarded(data + part) as view, binlog_core.open(view) as cut:
            assert [change.after for change in cut.rows()] == 3 * ROWS


def test_rows_of_many_tables_are_their_own() -> None:
    """Over the ends of groups, too, and where an id means another table than before."""
    tables = [Table("d", f"t{i}", SMALL) for i in range(700)]
    log = Log("8.0.36")
    order = [(i * 271 + i // 700) % 700 for i in range(4 * 700)]
    for first, second in zip(order[::2], order[1::2], strict=True):
        log.begin()
        for i in (first, second):
            log.table_map(tables[i])
        for i in (first, second):
            log.insert(tables[i], ROWS)
        log.commit()
    for options in ({}, {"limits": binlog_core.Limits(group_rows=100)}):
        with binlog_core.open(log.getvalue(), **options) as source:
            got = [(change.table, change.after) for change in source.rows()]
        assert got == [(f"t{i}", row) for i in order for row in ROWS]


@pytest.mark.parametrize("length", [0, 12, 14, 18, 256])
def test_no_header_has_such_a_length(length: int) -> None:
    """There is no layout between 13 bytes (version 1) and 19: the core refuses such lengths."""
    lengths = canonical = np.arange(256, dtype=np.uint8)
    options: dict[str, Any] = {"base": 0, "header_length": length, "canonical": canonical, "checksum": False}
    with pytest.raises(ValueError, match="header_length"):
        Decoder().set_format(length, lengths, canonical, False)
    with pytest.raises(ValueError, match="header_length"):
        walk_headers(bytes(100), 0, np.empty(4, HEADER_DTYPE), verify=False, **options)
    with pytest.raises(ValueError, match="header_length"):
        find_event(bytes(100), 0, 100, more=False, lengths=lengths, rule=0, zeros=False, **options)
    with pytest.raises(ValueError, match="header_length"):
        find_anchor(bytes(100), 0, 0, 100, lengths=lengths, anchors=1, **options)
