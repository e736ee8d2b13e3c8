"""GTIDs and sets of them: text as the servers print it, encoded forms, membership, errors."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_core.errors import BinlogError, DecodeError, GtidError
from binlog_core.gtids import (
    MOST_INTERVALS,
    MOST_SOURCES,
    Gtid,
    GtidSet,
    MariadbGtid,
    MariadbGtidSet,
    parse_gtid,
    parse_gtid_set,
)

A = "4c1f1d3c-aaaa-bbbb-cccc-e4f42d5491c6"
B = "cbecc49e-e55e-11f1-b91d-02fc00000001"

# As MySQL 9.7 prints it in SHOW BINLOG EVENTS.
TAGGED = (
    f"{A}:17:9223372036854775:my_tag:5,\n{B}:1-26:a:1-2:a_tag_of_thirty_two_characters_x:1-2:ddl:1:tagone:1-2"
)


def encoded(*sources: tuple[str, str | None, list[tuple[int, int]]]) -> bytes:
    """The form of PREVIOUS_GTIDS; a tag of None everywhere makes the form without tags."""
    tagged = any(tag is not None for _, tag, _ in sources)
    count = len(sources)
    out = struct.pack("<Q", 1 << 56 | count << 8 if tagged else count)
    for uuid, tag, intervals in sources:
        out += bytes.fromhex(uuid.replace("-", ""))
        if tagged:
            out += bytes([len(tag or "") * 2]) + (tag or "").encode()
        out += struct.pack("<Q", len(intervals))
        out += b"".join([struct.pack("<qq", first, last + 1) for first, last in intervals])
    return out


@pytest.mark.parametrize("text", ["", f"{B}:1-120", f"{A}:17:9223372036854775,\n{B}:1-21", TAGGED])
def test_mysql_sets_print_as_they_were_read(text: str) -> None:
    assert str(GtidSet.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (f"{B}:1-5:6-7", f"{B}:1-7"),
        (f"{B}:7:1-3:2-5", f"{B}:1-5:7"),
        (f" {B.upper()} : 3 , ,{A}:1", f"{A}:1,\n{B}:3"),
        (f"{B}:1:TAG:2, {B}:tag:3:1-9", f"{B}:1:tag:1-9"),
        (f"{B}:zz:1, {B}:2", f"{B}:2:zz:1"),
    ],
)
def test_mysql_sets_are_brought_into_order(text: str, printed: str) -> None:
    assert str(GtidSet.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:5-3",
        f"{A}:-3",
        f"{A}:1-",
        f"{A}:1:tag",
        f"{A}:tag:tag:1",
        f"{A}:1tag:1",
        f"{A}:{'t' * 33}:1",
        f"{A}:9223372036854775807",
        f"{A[:-1]}:1",
        f"{A}:1;{B}:1",
    ],
)
def test_text_that_is_not_a_mysql_set(text: str) -> None:
    with pytest.raises(GtidError) as caught:
        GtidSet.parse(text)
    assert isinstance(caught.value, BinlogError)
    with pytest.raises(GtidError):
        parse_gtid_set(text)


def test_mysql_membership() -> None:
    gtids = GtidSet.parse(f"{A}:1-5:9:tag:2-3")
    inside = [f"{A}:{n}" for n in (1, 3, 5, 9)] + [f"{A}:tag:2", f"{A.upper()}:TAG:3"]
    outside = [f"{A}:{n}" for n in (6, 8, 10)] + [f"{A}:tag:1", f"{A}:other:2", f"{B}:1"]
    assert all(gtid in gtids for gtid in inside)
    assert not any(gtid in gtids for gtid in outside)
    assert Gtid(A, "tag", 2) in gtids
    assert gtids.count() == 8
    assert not GtidSet() and gtids


def test_mysql_union_and_difference() -> None:
    a, b = GtidSet.parse(f"{A}:1-10:tag:1-4"), GtidSet.parse(f"{A}:3-4:8-20:tag:1-4,{B}:1")
    assert str(a | b) == f"{A}:1-20:tag:1-4,\n{B}:1"
    assert str(a - b) == f"{A}:1-2:5-7"
    assert str(b - a) == f"{A}:11-20,\n{B}:1"
    assert a - a == GtidSet()
    assert hash(a | b) == hash(b | a)
    assert pickle.loads(pickle.dumps(a)) == a


def plain(gtids: GtidSet | MariadbGtidSet) -> set[Gtid | MariadbGtid]:
    return set(gtids)


def texts(prefix: tuple[str, str, str], between: str, numbers: range) -> st.SearchStrategy[str]:
    """Sets of few numbers, so that they overlap."""
    ends = st.tuples(st.sampled_from(numbers), st.sampled_from(numbers))
    one = st.tuples(st.sampled_from(prefix), ends).map(
        lambda item: f"{item[0]}{min(item[1])}{between}{max(item[1])}"
    )
    return st.lists(one, max_size=8).map(",".join)


MYSQL = texts((f"{A}:", f"{A}:tag:", f"{B}:"), "-", range(1, 15)).map(GtidSet.parse)
MARIADB = texts(("0-1-", "0-2-", "1-1-"), ":", range(15)).map(MariadbGtidSet.parse)


def test_a_set_gives_its_gtids() -> None:
    assert list(map(str, GtidSet.parse(f"{A}:1-2:4:tag:9"))) == [f"{A}:1", f"{A}:2", f"{A}:4", f"{A}:tag:9"]
    assert list(MariadbGtidSet.parse("0-1-3:4")) == [MariadbGtid(0, 1, 3), MariadbGtid(0, 1, 4)]
    assert list(MariadbGtidSet.parse("0-1-3:4,0-1-9").intervals()) == [((0, 1), (3, 4)), ((0, 1), (9, 9))]


@given(st.one_of(st.tuples(MYSQL, MYSQL), st.tuples(MARIADB, MARIADB)))
def test_sets_are_as_those_of_python(pair: tuple[Any, Any]) -> None:
    a, b = pair
    x, y = plain(a), plain(b)
    assert (len(a), a.count(), bool(a)) == (len(x), len(x), bool(x))
    assert plain(a | b) == x | y
    assert plain(a & b) == x & y
    assert plain(a - b) == x - y
    assert plain(a ^ b) == x ^ y
    assert (a <= b, a < b, a >= b, a > b) == (x <= y, x < y, x >= y, x > y)
    assert a.isdisjoint(b) == x.isdisjoint(y)
    assert (a == b) == (x == y)
    for whole in (a | b, a & b, a - b):
        assert type(whole).parse(str(whole)) == whole  # merged and in order


def test_text_and_single_gtids_on_either_side() -> None:
    gtids = GtidSet.parse(f"{A}:1-5")
    assert gtids | f"{A}:6" == f"{A}:6" | gtids == gtids | Gtid(A, "", 6) == GtidSet.parse(f"{A}:1-6")
    assert gtids - f"{A}:2-9" == GtidSet.parse(f"{A}:1")
    assert f"{A}:2-9" - gtids == GtidSet.parse(f"{A}:6-9")
    assert gtids & f"{A}:5-9" == f"{A}:5-9" & gtids == GtidSet.parse(f"{A}:5")
    assert f"{A}:2" <= gtids <= f"{A}:1-5"
    assert f"{A}:2" < gtids and gtids >= "" and not gtids.isdisjoint(f"{A}:5")
    mariadb = MariadbGtidSet.parse("0-1-1:5")
    assert mariadb | "0-1-6" == MariadbGtid(0, 1, 6) | mariadb == MariadbGtidSet.parse("0-1-1:6")
    assert mariadb | "" == mariadb


@pytest.mark.parametrize(
    "operation",
    [
        "__or__",
        "__and__",
        "__sub__",
        "__xor__",
        "__rsub__",
        "__le__",
        "__lt__",
        "__ge__",
        "__gt__",
        "isdisjoint",
    ],
)
def test_sets_of_two_vendors_do_not_mix(operation: str) -> None:
    mysql, mariadb = GtidSet.parse(f"{A}:1"), MariadbGtidSet.parse("0-1-1")
    for one, other in ((mysql, mariadb), (mysql, "0-1-1"), (mariadb, mysql), (mariadb, Gtid(A, "", 1))):
        with pytest.raises(GtidError, match=r"MySQL.*MariaDB|MariaDB.*MySQL"):
            getattr(one, operation)(other)


def test_what_cannot_be_in_a_set() -> None:
    mysql, mariadb = GtidSet.parse(f"{A}:1"), MariadbGtidSet.parse("0-1-1")
    for gtid, gtids in ((MariadbGtid(0, 1, 1), mysql), ("0-1-1", mysql), (Gtid(A, "", 1), mariadb)):
        with pytest.raises(GtidError, match="combined"):
            gtid in gtids  # noqa: B015
    for gtids in (mysql, mariadb):
        with pytest.raises(TypeError, match="a GTID of"):
            42 in gtids  # type: ignore[operator] # noqa: B015
        with pytest.raises(TypeError):
            gtids | 42  # type: ignore[operator]
        with pytest.raises(TypeError, match="int"):
            gtids.isdisjoint(42)


def test_the_largest_sets() -> None:
    everything = GtidSet.parse(f"{A}:1-9223372036854775806")
    assert len(everything) == 2**63 - 2
    assert (everything | f"{B}:1-2").count() == 2**63
    with pytest.raises(OverflowError):
        len(everything | f"{B}:1-2")


def test_encoded_sets() -> None:
    assert GtidSet.from_bytes(bytes(8)) == GtidSet()
    assert (
        str(GtidSet.from_bytes(encoded((A, None, [(1, 5), (7, 7)]), (B, None, [(2, 3)]))))
        == f"{A}:1-5:7,\n{B}:2-3"
    )
    tagged = encoded((A, "", [(17, 17), (9223372036854775, 9223372036854775)]), (A, "my_tag", [(5, 5)]))
    assert str(GtidSet.from_bytes(tagged)) == f"{A}:17:9223372036854775:my_tag:5"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(7),
        struct.pack("<Q", 2 << 56),
        struct.pack("<Q", 2**40),
        encoded((A, None, [(1, 5)]))[:-1],
        encoded((A, None, [(1, 5)])) + b"\0",
        encoded((A, None, [(0, 5)])),
        encoded((A, None, [(6, 5)])),
        encoded((A, None, [(1, 5), (3, 7)])),
        encoded((A, None, [(1, 5), (6, 7)])),
        struct.pack("<Q", 1) + bytes(16) + struct.pack("<Q", 2**60),
        encoded((A, "t" * 33, [(1, 1)])),
    ],
)
def test_encoded_sets_that_cannot_be(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        GtidSet.from_bytes(raw)


def test_mariadb_sets() -> None:
    gtids = MariadbGtidSet.parse("1-2-5, 0-1-100,0-1-1:20,0-1-21,0-11-3")
    assert str(gtids) == "0-1-1:21,0-1-100,0-11-3,1-2-5"
    assert MariadbGtidSet.parse(str(gtids)) == gtids
    assert all(gtid in gtids for gtid in ("0-1-1", "0-1-21", "0-1-100", "1-2-5"))
    assert not any(gtid in gtids for gtid in ("0-1-22", "0-2-1", "1-1-5"))
    assert MariadbGtid(0, 11, 3) in gtids
    assert str(gtids - MariadbGtidSet.parse("0-1-5:99")) == "0-1-1:4,0-1-100,0-11-3,1-2-5"
    assert str(gtids | MariadbGtidSet.parse("0-1-22:99")) == "0-1-1:100,0-11-3,1-2-5"


@pytest.mark.parametrize(
    "text",
    ["0-1", "0-1-2-3", "0-1-5:3", "4294967296-1-1", "0-1-18446744073709551616", "0-1-1,x", "a-b-c", "0-1-1:"],
)
def test_text_that_is_not_a_mariadb_set(text: str) -> None:
    with pytest.raises(GtidError):
        MariadbGtidSet.parse(text)
    with pytest.raises(GtidError):
        parse_gtid_set(text)


def test_one_gtid() -> None:
    assert parse_gtid(f"{A}:5") == Gtid(A, "", 5)
    assert parse_gtid(f" {A.upper()}:Tag:5 ") == Gtid(A, "tag", 5)
    assert str(parse_gtid(f"{A}:tag:5")) == f"{A}:tag:5"
    assert parse_gtid("0-1-5") == MariadbGtid(0, 1, 5)
    for text in ("", "0-1-5:9", f"{A}:1-5", f"{A}:0", f"{A}:a:b:1", f"{A}::1x"):
        with pytest.raises(GtidError):
            parse_gtid(text)


def test_the_first_item_tells_the_vendor() -> None:
    assert isinstance(parse_gtid_set("0-1-1:5"), MariadbGtidSet)
    assert isinstance(parse_gtid_set(f"{A}:1"), GtidSet)
    assert parse_gtid_set("") == GtidSet()


# ---------------------------------------------------------------- limits


def _alternate(count: int) -> list[tuple[int, int]]:
    """Intervals of one number each, which cannot be joined."""
    return [(2 * i + 1, 2 * i + 1) for i in range(count)]


def test_a_set_holds_so_many_intervals() -> None:
    raw = encoded((A, None, _alternate(MOST_INTERVALS)))
    most = GtidSet.from_bytes(raw)
    assert most.count() == MOST_INTERVALS
    assert GtidSet.parse(str(most)) == most
    with pytest.raises(GtidError, match="a GTID set of 524289 intervals of 1 sources"):
        most | f"{A}:{2 * MOST_INTERVALS + 1}"
    with pytest.raises(DecodeError, match="a GTID set of 524289 intervals"):
        GtidSet.from_bytes(encoded((A, None, _alternate(MOST_INTERVALS + 1))))


def test_intervals_are_counted_when_they_are_joined() -> None:
    """Those of a busy log may come one number at a time, and out of order."""
    each = ((("0", ""), (number, number)) for number in reversed(range(1, 3 * MOST_INTERVALS)))
    assert list(GtidSet(each).intervals()) == [(("0", ""), (1, 3 * MOST_INTERVALS - 1))]


def test_a_set_holds_so_many_sources() -> None:
    with pytest.raises(GtidError, match="65537 sources"):
        MariadbGtidSet(((domain, 1), (1, 1)) for domain in range(MOST_SOURCES + 1))
    claimed = struct.pack("<Q", MOST_SOURCES + 1) + bytes(24 * (MOST_SOURCES + 1))
    with pytest.raises(DecodeError, match="65537 sources"):
        GtidSet.from_bytes(claimed)


@pytest.mark.parametrize("count, item", [(1 << 20, ":1"), (1 << 20, ",0-1-1"), ((32 << 20) + 1, " ")])
def test_the_text_of_a_set_is_limited(count: int, item: str) -> None:
    text = "0-1-1" + count * item
    with pytest.raises(GtidError, match=r"the text of a GTID set has \d+ characters"):
        parse_gtid_set(text)
