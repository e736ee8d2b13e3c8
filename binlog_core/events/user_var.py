"""What a statement depends on: INTVAR, RAND and USER_VAR, logged before it.

Source: MySQL server documentation, "Intvar_event", "Rand_event", "User_var_event".
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._format.cursor import Cursor
from .._format.format_description import FormatDescription
from ..errors import DecodeError
from .base import Event, EventHeader

_STRING_RESULT, _REAL_RESULT, _INT_RESULT, _DECIMAL_RESULT = 0, 1, 2, 4
_CHUNK_SIGNED, _CHUNK_UNSIGNED, _CHUNK_TYPE_NAME = 0, 1, 2

_DIGITS_PER_GROUP = 9
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # by number of digits
_MOST_DIGITS = 81


@dataclass(frozen=True, slots=True)
class IntvarEvent(Event):
    """LAST_INSERT_ID or INSERT_ID of the statement that follows.

    Parameters
    ----------
    type : int
        Which variable: 1 LAST_INSERT_ID, 2 INSERT_ID.
    val : int
        Its value.
    """

    type: int
    val: int

    @property
    def variable(self) -> str:
        """The variable's name; "INVALID_INT" for an unknown type."""
        return {1: "LAST_INSERT_ID", 2: "INSERT_ID"}.get(self.type, "INVALID_INT")


@dataclass(frozen=True, slots=True)
class RandEvent(Event):
    """Seeds of RAND() in the statement that follows.

    Parameters
    ----------
    seed1, seed2 : int
        The two seeds.
    """

    seed1: int
    seed2: int


@dataclass(frozen=True, slots=True)
class UserVarEvent(Event):
    """A user variable that the next statement reads.

    Parameters
    ----------
    variable : str
        Its name without the @.
    value : int, float, Decimal, bytes or None
        Its value; a string is bytes in the character set of `collation`.
    type : int or None
        Its type: 0 string, 1 real, 2 integer, 4 decimal; None for NULL.
    collation : int or None
        The id of its collation.
    unsigned : bool
        Whether an integer is unsigned.
    type_name : str or None
        MariaDB's name of the data type, if it is not one of those.
    """

    variable: str
    value: int | float | Decimal | bytes | None
    type: int | None = None
    collation: int | None = None
    unsigned: bool = False
    type_name: str | None = None


def decode_intvar(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> IntvarEvent:
    """INTVAR."""
    return IntvarEvent(*header, cur.take_u8(), cur.take_u64())


def decode_rand(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> RandEvent:
    """RAND."""
    return RandEvent(*header, cur.take_u64(), cur.take_u64())


def decode_user_var(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> UserVarEvent:
    """USER_VAR."""
    variable = cur.take_text(cur.take_u32())
    if cur.take_u8():
        return UserVarEvent(*header, variable, None)
    type_, collation = cur.take_u8(), cur.take_u32()
    raw = cur.take(cur.take_u32())
    unsigned, type_name = _take_attributes(cur, description)
    return UserVarEvent(
        *header, variable, _value(type_, raw, unsigned), type_, collation, unsigned, type_name
    )


def _take_attributes(cur: Cursor, description: FormatDescription) -> tuple[bool, str | None]:
    if not description.is_mariadb:
        # MySQL 5.6 and later; only after an integer.
        return bool(cur.remaining and cur.take_u8() & 1), None
    unsigned, type_name = False, None
    while cur.remaining:
        chunk = cur.take_u8()
        if chunk == _CHUNK_TYPE_NAME:
            type_name = cur.take_text_u8()
        elif chunk in (_CHUNK_SIGNED, _CHUNK_UNSIGNED):
            unsigned = chunk == _CHUNK_UNSIGNED
        else:
            break  # unknown, and so is its length
    return unsigned, type_name


def _value(type_: int, raw: bytes, unsigned: bool) -> int | float | Decimal | bytes:
    if type_ in (_REAL_RESULT, _INT_RESULT) and len(raw) != 8:
        raise DecodeError(f"a user variable of type {type_} has 8 bytes, found {len(raw)}")
    if type_ == _REAL_RESULT:
        return Cursor(raw).take_f64()
    if type_ == _INT_RESULT:
        return int.from_bytes(raw, "little", signed=not unsigned)
    if type_ == _DECIMAL_RESULT:
        cur = Cursor(raw)
        return decode_decimal(cur, cur.take_u8(), cur.take_u8())
    if type_ == _STRING_RESULT:
        return raw
    raise DecodeError(f"a user variable has type 0, 1, 2 or 4, found {type_}")


def decode_decimal(cur: Cursor, precision: int, scale: int) -> Decimal:
    """A NEWDECIMAL value with all digits of its scale."""
    if not 0 < precision <= _MOST_DIGITS or scale > precision:
        raise DecodeError(
            f"a decimal has 1 to {_MOST_DIGITS} digits, found precision {precision}, scale {scale}"
        )
    whole_groups, whole_rest = divmod(precision - scale, _DIGITS_PER_GROUP)
    part_groups, part_rest = divmod(scale, _DIGITS_PER_GROUP)
    # Digits are grouped by nine outward from the point: the remaining ones are at both ends.
    sizes = [whole_rest] + [_DIGITS_PER_GROUP] * (whole_groups + part_groups) + [part_rest]
    raw = bytearray(cur.take(sum(_GROUP_BYTES[digits] for digits in sizes)))
    negative = not raw[0] & 0x80
    if negative:
        raw = bytearray(byte ^ 0xFF for byte in raw)
    raw[0] ^= 0x80
    groups, unscaled = Cursor(bytes(raw)), 0
    for digits in sizes:
        group = int.from_bytes(groups.take(_GROUP_BYTES[digits]), "big")
        if group >= 10**digits:
            raise DecodeError(f"{digits} digits of a decimal are {group}")
        unscaled = unscaled * 10**digits + group
    # From text: arithmetic would round to the context's precision.
    return Decimal(f"{'-' if negative else ''}{unscaled}E-{scale}")
