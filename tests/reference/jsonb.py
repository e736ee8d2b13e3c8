"""MySQL's binary JSON: to a tree, to the server's text, and a partial update's diffs."""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass

from .cursor import Cursor, Malformed
from .temporal import packed_time_to_text, packed_to_text

LITERALS = {0: "null", 1: "true", 2: "false"}
INTEGERS = {5: (2, True), 6: (2, False), 7: (4, True), 8: (4, False), 9: (8, True), 10: (8, False)}
OPERATIONS = {0: "replace", 1: "insert", 2: "remove"}
MAX_DEPTH = 100


@dataclass
class Object:
    members: list[tuple[str, Node]]


@dataclass
class Array:
    cells: list[Node]


Node = Object | Array | str  # a scalar is its text


def parse_document(raw: bytes) -> Node:
    """A whole value; no bytes at all mean JSON null."""
    return parse(raw[0], raw[1:], 0) if raw else "null"


def document_text(raw: bytes) -> str:
    return to_text(parse_document(raw))


def parse(kind: int, raw: bytes, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise Malformed("JSON deeper than 100 levels")
    if kind in (0, 1, 2, 3):
        return _container(raw, is_object=kind < 2, width=4 if kind & 1 else 2, depth=depth)
    cur = Cursor(raw)
    if kind == 4:
        value = cur.little(1)
        if value not in LITERALS:
            raise Malformed(f"JSON literal {value}")
        return LITERALS[value]
    if kind in INTEGERS:
        size, signed = INTEGERS[kind]
        return str(cur.little(size, signed))
    if kind == 11:
        return double_text(struct.unpack("<d", cur.take(8))[0])
    if kind == 12:
        return quote(cur.take(_length(cur)).decode())
    if kind == 15:
        field_type = cur.little(1)
        return opaque_text(field_type, cur.take(_length(cur)))
    raise Malformed(f"JSON value of type {kind}")


def _length(cur: Cursor) -> int:
    """Seven bits a byte, low ones first."""
    size = 0
    for i in range(5):
        byte = cur.little(1)
        size |= (byte & 127) << 7 * i
        if byte < 128:
            return size
    raise Malformed("JSON length of more than five bytes")


def _container(raw: bytes, is_object: bool, width: int, depth: int) -> Node:
    cur = Cursor(raw)
    count, size = cur.little(width), cur.little(width)
    if size > len(raw):
        raise Malformed(f"JSON container of {size} bytes, {len(raw)} left")
    if count * (width + 1 + (width + 2) * is_object) > cur.left:
        raise Malformed(f"JSON container of {count} values, {cur.left} bytes left")
    keys = []
    for _ in range(count if is_object else 0):
        at, length = cur.little(width), cur.little(2)
        if at + length > size:
            raise Malformed("JSON key outside its object")
        keys.append(raw[at : at + length].decode())
    values: list[Node] = []
    for _ in range(count):
        kind, inline = cur.little(1), cur.take(width)
        if kind in (4, 5, 6) or (width == 4 and kind in (7, 8)):
            values.append(parse(kind, inline, depth + 1))
            continue
        at = int.from_bytes(inline, "little")
        if at >= size:
            raise Malformed("JSON value outside its container")
        values.append(parse(kind, raw[at:size], depth + 1))
    return Object(list(zip(keys, values, strict=True))) if is_object else Array(values)


# ---------------------------------------------------------------------- text


def to_text(node: Node) -> str:
    if isinstance(node, Object):
        return "{" + ", ".join(f"{quote(key)}: {to_text(value)}" for key, value in node.members) + "}"
    if isinstance(node, Array):
        return "[" + ", ".join(map(to_text, node.cells)) + "]"
    return node


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def double_text(value: float) -> str:
    """Shortest digits that read back; fixed notation for 0.d1d2… x 10**p with -14 <= p <= 15."""
    mantissa, _, exponent = f"{value!r}".lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    sign = "-" if str(value).startswith("-") else ""
    if not digits:
        return sign + "0.0"
    if not -14 <= point <= 15:
        head = digits[0] + ("." + digits[1:] if digits[1:] else "")
        return f"{sign}{head}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def opaque_text(field_type: int, raw: bytes) -> str:
    if field_type == 246:
        from .values import decode_decimal

        precision, scale = raw[0], raw[1]
        return format(decode_decimal(Cursor(raw[2:]), precision, scale), "f")
    if field_type in (7, 10, 12):
        return quote(packed_to_text(int.from_bytes(raw, "little", signed=True), date_only=field_type == 10))
    if field_type == 11:
        return quote(packed_time_to_text(int.from_bytes(raw, "little", signed=True)))
    text = base64.b64encode(raw).decode()
    return quote(
        f"base64:type{field_type}:" + "\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    )


# --------------------------------------------------------------------- diffs

Diff = tuple[str, str, str | None]
_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*")|\.([^.\["]+)|\[(\d+)\]|\[last(?:-(\d+))?\]')


def parse_diffs(raw: bytes) -> list[tuple[str, str, Node | None]]:
    cur, out = Cursor(raw), []
    while cur.left:
        operation = cur.little(1)
        if operation not in OPERATIONS:
            raise Malformed(f"JSON diff operation {operation}")
        path = cur.lenenc_bytes().decode()
        out.append(
            (OPERATIONS[operation], path, None if operation == 2 else parse_document(cur.lenenc_bytes()))
        )
    return out


def diffs_as_text(raw: bytes) -> list[Diff]:
    return [(op, path, None if node is None else to_text(node)) for op, path, node in parse_diffs(raw)]


def apply_diffs(document: bytes, diffs: bytes) -> str:
    """The text of the document after the diffs, each applied to the result of the one before."""
    root = Array([parse_document(document)])
    for operation, path, value in parse_diffs(diffs):
        holder: Node = root
        leg: str | int = 0
        for quoted, name, cell, from_last in _LEG.findall(path):
            holder = _child(holder, leg)
            if quoted or name:
                leg = _unquote(quoted) if quoted else name
            elif cell:
                leg = int(cell)
            else:
                assert isinstance(holder, Array)
                leg = len(holder.cells) - 1 - int(from_last or 0)
        _change(holder, leg, operation, value)
    return to_text(root.cells[0])


def _unquote(text: str) -> str:
    import json

    return str(json.loads(text))


def _child(node: Node, leg: str | int) -> Node:
    if isinstance(node, Array) and isinstance(leg, int):
        return node.cells[leg]
    if isinstance(node, Object):
        for key, value in node.members:
            if key == leg:
                return value
    raise Malformed("JSON diff of a path that is not there")


def _change(holder: Node, leg: str | int, operation: str, value: Node | None) -> None:
    if isinstance(holder, Array) and isinstance(leg, int):
        if operation == "remove":
            del holder.cells[leg]
        elif operation == "insert":
            holder.cells.insert(leg, value or "null")
        else:
            holder.cells[leg] = value or "null"
        return
    if not isinstance(holder, Object):
        raise Malformed("JSON diff of a scalar's member")
    members = [(k, v) for k, v in holder.members if k != leg]
    if operation == "replace":
        members = [(k, value if k == leg and value is not None else v) for k, v in holder.members]
    elif operation == "insert" and value is not None:
        members.append((str(leg), value))
        members.sort(key=lambda member: (len(member[0].encode()), member[0].encode()))
    holder.members[:] = members
