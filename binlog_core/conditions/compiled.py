"""Bound conditions as the decoding loop runs them: tests, a program that combines them, a pool of values.

Conditions that the loop cannot run (GTIDs, text in rare character sets, compressed columns) are left to
`conditions`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core._rows import CONDITION_CODES
from .._tables import charsets
from .._tables.column_types import KINDS, Kind
from .._tables.tables import Column, Table, record_dtype
from .bound import BoundCondition, BoundNode, Joined, Negated
from .predicates import (
    ChangedTest,
    ColumnTest,
    Constant,
    MetaTest,
    NullTest,
    NumberTest,
    OpTest,
    TableTest,
    Test,
    TextColumnTest,
)
from .values import Fields, Pattern, Span

_TEST = struct.Struct("<BBBBIIIIIqqQQ")  # twin of test_t in src/decode/condition_words.pxd
_HAS_LOW, _HAS_HIGH, _OPEN_LOW, _OPEN_HIGH, _UTF8 = 1, 2, 4, 8, 16
_NOT, _AND, _OR, _TESTS = 0, 1, 2, 3  # bytes of a program
_TESTS_MOST = 250
_STATES_MOST = 24
_SPANS_MOST = 16  # that become a test each
_SIDES = {"": 0, "before": 1, "after": 2}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """A condition for the loop.

    Parameters
    ----------
    columns : tuple of Column
        The columns whose values it compares.
    dtype : numpy.dtype
        The dtype of records with only these columns.
    tests, program, pool : bytes
        See src/decode/condition_words.pxd.
    """

    columns: tuple[Column, ...]
    dtype: np.dtype
    tests: bytes
    program: bytes
    pool: bytes


class _NotForTheLoop(Exception):
    pass


def compile_condition(bound: BoundCondition, table: Table) -> CompiledCondition | None:
    """A bound condition for the loop; None if the loop cannot run it.

    Parameters
    ----------
    bound : BoundCondition
    table : Table
        The table that it is bound to.
    """
    if table.undecodable is not None:
        return None
    looked_at = {test.column.name for test in _tests_of(bound.root) if _looks_at_values(test)}
    columns = tuple(column for column in table.columns if column.name in looked_at)
    dtype = record_dtype(len(table.columns), columns)
    try:
        compiler = _Compiler(dtype)
        compiler.add(bound.root)
    except (_NotForTheLoop, UnicodeEncodeError):
        return None
    program = bytes(compiler.program)
    if len(compiler.tests) > _TESTS_MOST or compiler.deepest > _STATES_MOST:
        return None
    return CompiledCondition(columns, dtype, b"".join(compiler.tests), program, bytes(compiler.pool))


def _tests_of(node: BoundNode) -> Iterator[ColumnTest | ChangedTest]:
    if isinstance(node, Joined):
        for part in node.parts:
            yield from _tests_of(part)
    elif isinstance(node, Negated):
        yield from _tests_of(node.part)
    elif isinstance(node, ColumnTest | ChangedTest):
        yield node


def _looks_at_values(test: ColumnTest | ChangedTest) -> bool:
    return not isinstance(test, NullTest)


class _Compiler:
    def __init__(self, dtype: np.dtype) -> None:
        row: np.dtype = dtype["row"]
        self._row: Mapping[str, Any] = row.fields or {}
        self._at = dtype.itemsize - row.itemsize
        self.tests: list[bytes] = []
        self.program = bytearray()
        self.pool = bytearray()
        self._depth = 0
        self.deepest = 0

    def add(self, node: BoundNode) -> None:
        if isinstance(node, Joined):
            self._join(node.every, node.parts)
        elif isinstance(node, Negated):
            self.add(node.part)
            self.program.append(_NOT)
        else:
            self._add_test(node)

    def _join(self, every: bool, parts: Iterable[BoundNode]) -> None:
        for i, part in enumerate(parts):
            self.add(part)
            if i:
                self.program.append(_AND if every else _OR)
                self._depth -= 1

    def _add_test(self, test: Test) -> None:
        if isinstance(test, NumberTest):
            self._add_number(test)
        elif isinstance(test, TextColumnTest):
            self._add_text(test)
        elif isinstance(test, TableTest):
            self._put("STATES", test, pool=test.table, count=len(test.table))
        elif isinstance(test, NullTest):
            self._put("NULL", test, form="NONE")
        elif isinstance(test, ChangedTest):
            if test.column.kind in (Kind.JSON, Kind.VECTOR):  # equal values can differ in bytes
                raise _NotForTheLoop
            self._put("CHANGED", test)
        elif isinstance(test, OpTest):
            self._put("OP", test, pool=test.table)
        elif isinstance(test, Constant):
            self._put("CONSTANT", test, low=test.state)
        elif isinstance(test, MetaTest):
            code = {"_server_id": "SERVER", "_thread_id": "THREAD"}.get(test.name, "COMMIT")
            self._each(test.spans, lambda span: self._put(code, test, **_ends(span)))
        else:
            raise _NotForTheLoop

    def _each(self, spans: tuple[Span, ...], put: Callable[[Span], None]) -> None:
        """A test for each span; one of them must hold."""
        if len(spans) > _SPANS_MOST:
            raise _NotForTheLoop
        for i, span in enumerate(spans):
            put(span)
            if i:
                self.program.append(_OR)
                self._depth -= 1

    def _add_number(self, test: NumberTest) -> None:
        column, spans = test.column, test.spans
        form = _form_of(column)
        if form.startswith("LIMBS"):
            self._each(spans, lambda span: self._put("WIDE", test, **_wide(span)))
        elif form == "DATE":
            self._each(spans, lambda span: self._put("RANGE", test, **_ends(span), **_field_ends(span)))
        elif len(spans) == 1 and (ends := _ends(spans[0], form))["low"] <= ends["high"]:
            self._put("RANGE", test, **ends)
        else:
            shift = 1 << 63 if form == "U8" else 0
            exact = {s.low - shift for s in spans if s.low is not None and s.low == s.high}
            keys = sorted(key for key in exact if _LEAST <= key <= _MOST)
            self._put("SET", test, pool=struct.pack(f"<{len(keys)}q", *keys), count=len(keys))

    def _add_text(self, test: TextColumnTest) -> None:
        column = test.column
        if KINDS[column.kind].compared == "members":
            raise _NotForTheLoop
        encode, ordered, utf8 = _encoder(column)
        flags = _UTF8 if utf8 else 0
        accepted = test.test
        values = test.values
        if isinstance(accepted, Pattern):
            if column.pad_to:
                raise _NotForTheLoop
            texts = [(kind, encode(character)) for kind, character in accepted.tokens]
            if any(text is None for _, text in texts):
                values = frozenset()
            else:
                pattern = b"".join(text or b"" for _, text in texts)
                kinds = bytes(kind for kind, text in texts for _ in text or b"")
                self._put("LIKE", test, pool=pattern + kinds, count=len(pattern), flags=flags)
                return
        elif values is None and accepted.low is not None and accepted.low == accepted.high:
            values = frozenset((accepted.low,))
        if values is not None:
            known = sorted(text for text in map(encode, values) if text is not None)
            ends = [0]
            for text in known:
                ends.append(ends[-1] + len(text))
            pool = struct.pack(f"<{len(ends)}I", *ends) + b"".join(known)
            self._put("TEXTS", test, pool=pool, count=len(known))
            return
        assert not isinstance(accepted, Pattern)
        if not ordered:
            raise _NotForTheLoop
        low = b"" if accepted.low is None else encode(accepted.low) or b""
        high = b"" if accepted.high is None else encode(accepted.high) or b""
        flags |= (accepted.low is not None) * _HAS_LOW | (accepted.high is not None) * _HAS_HIGH
        flags |= accepted.open_low * _OPEN_LOW | accepted.open_high * _OPEN_HIGH
        self._put("TEXT", test, pool=low + high, count=len(low), count2=len(high), flags=flags)

    def _put(
        self,
        code: str,
        test: Test,
        *,
        form: str | None = None,
        pool: bytes = b"",
        flags: int = 0,
        count: int = 0,
        count2: int = 0,
        low: int = 0,
        high: int = 0,
        fields_low: int = 0,
        fields_high: int = (1 << 64) - 1,
    ) -> None:
        index = out = 0
        if isinstance(test, ColumnTest | ChangedTest):
            column, index = test.column, test.column.index
            form = form or _form_of(column)
            if form != "NONE":
                if column.compressed:
                    raise _NotForTheLoop
                out = self._at + self._row[column.name][1]
        packed = _TEST.pack(
            CONDITION_CODES[code],
            _SIDES[test.side],
            CONDITION_CODES[f"FORM_{form or 'NONE'}"],
            flags,
            index,
            out,
            len(self.pool),
            count,
            count2,
            low,
            high,
            fields_low,
            fields_high,
        )
        self.pool += pool
        self.program.append(min(_TESTS + len(self.tests), 255))
        self.tests.append(packed)
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)


def _form_of(column: Column) -> str:
    facts = KINDS[column.kind]
    if facts.compared == "moment":
        return "DATE"
    if facts.stored == "decimal":
        return {8: "I8", 16: "LIMBS2", 32: "LIMBS4"}[column.dtype.itemsize]
    if facts.stored == "span":
        return "PADDED" if column.pad_to else "SPAN"
    return "I8" if facts.stored == "moment" else column.dtype.str[1:].upper()


def _ends(span: Span, form: str = "") -> dict[str, Any]:
    shift = 1 << 63 if form == "U8" else 0
    low = _LEAST if span.low is None else span.low - shift
    high = _MOST if span.high is None else span.high - shift
    if low > _MOST or high < _LEAST:
        return {"low": 1, "high": 0}
    return {"low": max(low, _LEAST), "high": min(high, _MOST)}


def _field_ends(span: Span) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    if span.fields_low is not None:
        ends["fields_low"] = _packed_fields(span.fields_low)
    if span.fields_high is not None:
        ends["fields_high"] = _packed_fields(span.fields_high)
    return ends


def _packed_fields(fields: Fields) -> int:
    year, month, day, hour, minute, second, microsecond = fields
    packed = ((((year << 4 | month) << 5 | day) << 5 | hour) << 6 | minute) << 6 | second
    return (packed << 21) + microsecond + 1


def _wide(span: Span) -> dict[str, Any]:
    bounds = bytearray()
    for end in (span.low, span.high):
        clamped = max(min(end or 0, (1 << 255) - 1), -(1 << 255))
        bounds += clamped.to_bytes(32, "little", signed=True)
    has = (span.low is not None) * _HAS_LOW | (span.high is not None) * _HAS_HIGH
    return {"pool": bytes(bounds), "flags": has}


def stored_text(value: Any, column: Column) -> list[bytes] | None:
    """How text or bytes are stored; an empty list if they cannot be; None: in more than one way."""
    try:
        found = _encoder(column)[0](value)
    except (_NotForTheLoop, UnicodeEncodeError):
        return None
    return [] if found is None else [found]


def _encoder(column: Column) -> tuple[Callable[[Any], bytes | None], bool, bool]:
    """How text is stored: a function, which gives None for text outside the column's character set; whether
    bytes are in the order of the text; whether a character may have several bytes.
    """
    if KINDS[column.kind].compared == "bytes":
        length = column.pad_to

        def stripped(value: bytes) -> bytes:
            if length and len(value) != length:
                raise _NotForTheLoop
            return value.rstrip(b"\0") if length else value

        return stripped, True, False
    if column.charset in ("utf8mb4", "utf8mb3", "utf8", "ascii"):
        return (lambda text: text.encode()), True, True
    charset = charsets.get(column.charset or "")
    if charset is None or charset.table is None:
        raise _NotForTheLoop
    codes = {character: code for code, character in enumerate(charset.table) if character is not None}
    if len(codes) != sum(character is not None for character in charset.table):
        raise _NotForTheLoop

    def encoded(text: str) -> bytes | None:
        found = [codes.get(character) for character in text]
        return None if None in found else bytes(code for code in found if code is not None)

    return encoded, False, False
