"""Random tables and rows through the writer: both decoders must give back what went in."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from reference import EventHeader, read_log
from support.arrays import array_changes
from support.guarded import exact
from support.writer import Log, Table, Unsigned

import binlog_core

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]
common = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

UTC = dt.UTC
MICROSECOND = dt.timedelta(microseconds=1)
SERVERS = (
    "5.6.24-log",
    "5.7.44",
    "8.0.36",
    "9.7.4",
    "5.5.62-MariaDB",
    "10.11.6-MariaDB-log",
    "11.8.6-MariaDB",
)


@dataclass
class Typed:
    """A column type and its values; ``out`` is what the log gives back of a value."""

    declared: str
    values: st.SearchStrategy[Any]
    options: dict[str, Any]
    mysql: bool = True
    mariadb: bool = True

    def out(self, value: Any) -> Any:
        if self.declared.startswith("BINARY") and value is not None:
            return value.ljust(int(self.declared[7:-1]), b"\0")
        return value


def _fraction(fsp: int) -> st.SearchStrategy[int]:
    return st.integers(0, 10**fsp - 1).map(lambda n: n * 10 ** (6 - fsp))


def _zeros(fsp: int) -> str:
    return "." + "0" * fsp if fsp else ""


@st.composite
def integers(draw: st.DrawFn) -> Typed:
    name, bits = draw(
        st.sampled_from((("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)))
    )
    if draw(st.booleans()):
        return Typed(f"{name} UNSIGNED", st.integers(0, (1 << bits) - 1), {})
    return Typed(name, st.integers(-(1 << bits - 1), (1 << bits - 1) - 1), {})


@st.composite
def decimals(draw: st.DrawFn) -> Typed:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(30, precision)))
    limit = 10**precision - 1

    def scaled(n: int) -> Decimal:
        return Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))

    return Typed(f"DECIMAL({precision},{scale})", st.integers(-limit, limit).map(scaled), {})


@st.composite
def temporals(draw: st.DrawFn) -> Typed:
    fsp = draw(st.integers(0, 6))
    kind = draw(
        st.sampled_from(
            ("DATE", "TIME", "DATETIME", "TIMESTAMP", "OLD TIME", "OLD DATETIME", "OLD TIMESTAMP")
        )
    )
    old = kind.startswith("OLD")
    fsp = 0 if old else fsp
    declared = kind if old or kind == "DATE" else f"{kind}({fsp})"
    zero = "0000-00-00 00:00:00" + _zeros(fsp)
    if kind == "DATE":
        none = st.sampled_from(("0000-00-00", "2023-05-00", "2023-00-00", "2023-02-30", "0000-01-01"))
        return Typed(declared, st.dates() | none, {})
    if kind.endswith("DATETIME"):
        real = st.builds(
            lambda day, second, us: (
                dt.datetime.combine(day, dt.time()) + dt.timedelta(seconds=second, microseconds=us)
            ),
            st.dates(),
            st.integers(0, 86399),
            _fraction(fsp),
        )
        none = st.sampled_from(
            (zero, "2023-05-00 10:11:12" + _zeros(fsp), "0000-12-31 23:59:59" + _zeros(fsp))
        )
        return Typed(declared, real | none, {})
    if kind.endswith("TIMESTAMP"):
        real = st.builds(
            lambda second, us: (
                dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=second, microseconds=us)
            ),
            st.integers(0, (1 << 32) - 1),
            _fraction(fsp),
        ).filter(lambda moment: moment.timestamp() != 0)  # which is the zero date
        return Typed(declared, real | st.just(zero), {})
    seconds = st.integers(0, 838 * 3600 + 59 * 60 + 58)
    sign = st.sampled_from((1, -1))
    span = st.builds(
        lambda x, s, us: x * dt.timedelta(seconds=s, microseconds=us), sign, seconds, _fraction(fsp)
    )
    return Typed(declared, span, {})


ALPHABETS = {
    45: st.characters(codec="utf-8"),
    33: st.characters(codec="utf-8", max_codepoint=0xFFFF),
    8: st.characters(codec="cp1252", exclude_categories=["Cc"]),
    51: st.characters(codec="cp1251", exclude_categories=["Cc"]),
    54: st.characters(codec="utf-16-be"),
    60: st.characters(codec="utf-32-be"),
}


@st.composite
def texts(draw: st.DrawFn) -> Typed:
    collation = draw(st.sampled_from(list(ALPHABETS)))
    kind = draw(st.sampled_from(("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "LONGTEXT")))
    most = draw(st.sampled_from((1, 10, 60, 63, 64, 200, 255)))
    length = min(most, 63) if kind == "TINYTEXT" else most
    values = st.text(ALPHABETS[collation], max_size=length)
    if kind == "CHAR":
        values = values.map(lambda text: text.rstrip(" "))
    return Typed(f"{kind}({most})" if kind.endswith("CHAR") else kind, values, {"collation": collation})


@st.composite
def binaries(draw: st.DrawFn) -> Typed:
    kind = draw(st.sampled_from(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")))
    most = draw(st.sampled_from((1, 16, 255) if kind == "BINARY" else (1, 255, 256, 1000)))
    length = min(most, 255) if kind == "TINYBLOB" else most
    return Typed(f"{kind}({most})" if kind.endswith("BINARY") else kind, st.binary(max_size=length), {})


@st.composite
def members(draw: st.DrawFn) -> Typed:
    count = draw(st.sampled_from((1, 2, 8, 9, 24, 33, 64)))
    names = tuple(f"m{i}é" for i in range(count))
    if draw(st.booleans()):
        return Typed("ENUM()", st.sampled_from(("", *names)), {"members": names})
    mask = st.integers(0, (1 << count) - 1)
    return Typed(
        "SET()", mask.map(lambda m: [n for i, n in enumerate(names) if m >> i & 1]), {"members": names}
    )


json_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(0, (1 << 64) - 1).map(Unsigned)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=12,
)

column_types: st.SearchStrategy[Typed] = st.one_of(
    integers(),
    decimals(),
    temporals(),
    texts(),
    binaries(),
    members(),
    st.just(Typed("FLOAT", st.floats(width=32, allow_nan=False, allow_infinity=False), {})),
    st.just(Typed("DOUBLE", st.floats(allow_nan=False, allow_infinity=False), {})),
    st.integers(1, 64).map(lambda n: Typed(f"BIT({n})", st.integers(0, (1 << n) - 1), {})),
    st.just(Typed("YEAR", st.just(0) | st.integers(1901, 2155), {})),
    st.just(Typed("POINT", st.binary(min_size=4, max_size=40), {})),
    st.just(Typed("JSON", json_values, {}, mariadb=False)),
    st.just(
        Typed(
            "VECTOR(3)",
            st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3),
            {},
            mariadb=False,
        )
    ),
    st.just(
        Typed("VARCHAR(300) COMPRESSED", st.text(st.characters(codec="utf-8"), max_size=300), {}, mysql=False)
    ),
    st.just(Typed("BLOB COMPRESSED", st.binary(max_size=400) | st.just(b"z" * 5000), {}, mysql=False)),
)


@dataclass
class Case:
    data: bytes
    changes: list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]
    types: dict[str, Typed]


@st.composite
def cases(draw: st.DrawFn, metadata: str | None = "FULL") -> Case:
    """A log of one table and a few statements, and the changes in it."""
    server = draw(st.sampled_from(SERVERS))
    mariadb = "Maria" in server
    fitting = column_types.filter(lambda t: t.mariadb if mariadb else t.mysql)
    types = draw(st.lists(fitting, min_size=1, max_size=draw(st.sampled_from((3, 9, 20)))))
    named = {f"col {i} ü": t for i, t in enumerate(types)}
    table = Table(
        "db",
        "täble",
        [(name, t.declared, t.options) for name, t in named.items()],
        metadata=metadata,
        default_charset=draw(st.booleans()),
        primary_key=draw(st.sampled_from(([], ["col 0 ü"], [("col 0 ü", 3)]))),
    )
    row = st.fixed_dictionaries({name: st.none() | t.values for name, t in named.items()})
    modern = server.startswith(("8", "9"))
    log = Log(
        server,
        checksum=None if draw(st.booleans()) else False,
        header_length=draw(st.sampled_from((19, 19, 23, 27, 31))),
        rows_version=1 if mariadb or server.startswith("5.7") else None,
        next_positions=draw(st.booleans()),
    )
    changes = []
    for _ in range(draw(st.integers(1, 3))):
        packed = modern and draw(st.booleans())
        squeezed = server.startswith("1") and draw(st.booleans())
        extra = draw(st.sampled_from((b"", b"\x01\x05\x00"))) if log.rows_version == 2 else b""
        log.begin()
        if packed:
            with log.compressed_transaction(zstd=draw(st.booleans())) as inner:
                changes += draw(statements(inner, table, row, list(named), extra, False))
        else:
            changes += draw(statements(log, table, row, list(named), extra, squeezed))
            log.commit()
    return Case(log.getvalue(), changes, named)


@st.composite
def statements(
    draw: st.DrawFn, log: Log, table: Table, row: Any, names: list[str], extra: bytes, compress: bool
) -> list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]:
    kind = draw(st.sampled_from(("insert", "update", "delete")))
    more: dict[str, Any] = {"extra": extra, "compress": compress}
    images = st.lists(st.sampled_from(names), min_size=1, unique=True)
    first = draw(st.just(names) | images)
    if kind == "update":
        second = draw(st.just(names) | images)
        pairs = draw(st.lists(st.tuples(row, row), min_size=1, max_size=5))
        log.update(table, pairs, before_columns=first, after_columns=second, **more)
        return [(kind, kept(old, first), kept(new, second)) for old, new in pairs]
    rows = draw(st.lists(row, min_size=1, max_size=5))
    getattr(log, kind)(table, rows, columns=first, **more)
    return [(kind, None, kept(r, first)) if kind == "insert" else (kind, kept(r, first), None) for r in rows]


def kept(row: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}


def strict(value: Any) -> Any:
    """Equal only to what has the same digits: Decimal("1.0") is not Decimal("1.00") here."""
    return str(value) if isinstance(value, Decimal) else value


def seen(image: dict[str, Any] | None, case: Case) -> list[tuple[str, Any]] | None:
    """What reading an image must give, in the table's order."""
    if image is None:
        return None
    return [(name, strict(t.out(image[name]))) for name, t in case.types.items() if name in image]


def parsed(image: dict[str, Any] | None, case: Case) -> list[tuple[str, Any]] | None:
    """An image as read, with JSON text parsed."""
    if image is None:
        return None
    return [
        (
            name,
            json.loads(value) if case.types[name].declared == "JSON" and value is not None else strict(value),
        )
        for name, value in image.items()
    ]


def check(changes: Any, case: Case) -> None:
    got = [(c.op, parsed(c.before, case), parsed(c.after, case)) for c in changes]
    assert got == [(op, seen(before, case), seen(after, case)) for op, before, after in case.changes]


@common
@given(cases())
def test_the_written_values_are_read_back(case: Case) -> None:
    """By the reference, as rows, and as arrays; the headers too."""
    want = read_log(case.data)
    check(want.changes, case)
    with binlog_core.open(exact(case.data)) as log:
        check(log.rows(), case)
    with binlog_core.open(exact(case.data)) as log:
        check(array_changes(log.batches()), case)
    with binlog_core.open(exact(case.data)) as log:
        got = [tuple(int(h[name]) for name in EventHeader._fields) for h in log.headers()]
    assert got == [tuple(h) for h in want.headers]


@common
@given(st.sampled_from((None, "MINIMAL")).flatmap(lambda metadata: cases(metadata=metadata)))
def test_decoders_agree_where_the_log_lacks_metadata(case: Case) -> None:
    """Without names, signs, character sets and members both must give the same."""
    want = [(c.op, c.before, c.after, c.position, c.timestamp) for c in read_log(case.data).changes]
    with binlog_core.open(exact(case.data)) as log:
        assert [(c.op, c.before, c.after, c.position, c.timestamp) for c in log.rows()] == want
