"""Character sets: from a collation id or name to text.

A log names a collation by number; the character set follows from it. Python's codecs do
most of the decoding; if a server's own tables differ from the codec, the server is right,
since it wrote the text.

Source: ``information_schema.COLLATIONS`` of MySQL and MariaDB, and the text that the
servers give for each code of each set; MySQL manual, "Supported Character Sets and
Collations"; MariaDB knowledge base of the same name.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

BINARY_COLLATION = 63

_REPLACEMENT = "\ufffd"
_UNDEFINED = "\ufffe"  # marks a byte without a character in the tables of codecs.charmap_decode


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Charset:
    """One character set of the servers.

    Parameters
    ----------
    name : str
        MySQL's name, such as "latin1" or "utf8mb4".
    codec : str or None
        The Python codec nearest to it; None if there is none. `decode` knows where they differ.
    min_char_len, max_char_len : int
        Fewest and most bytes of one character. CHAR values in the log have lost their trailing
        spaces of `min_char_len` bytes.
    decodable : bool
        False: values can only be given as bytes.
    table : tuple of (str or None) or None
        For sets of one-byte characters: the character of each of the 256 bytes, None if
        there is none. None for all other sets.
    """

    name: str
    codec: str | None
    min_char_len: int
    max_char_len: int
    decodable: bool
    table: tuple[str | None, ...] | None
    _decode: Callable[[bytes], str] | None

    @property
    def space(self) -> bytes:
        """The encoded space, with which CHAR is padded."""
        if self.codec is not None and self.min_char_len > 1:
            return " ".encode(self.codec)
        return b" "

    def decode(self, data: bytes) -> str:
        """Text of bytes in this character set.

        Parameters
        ----------
        data : bytes

        Returns
        -------
        str
            The text, as the server converts it to utf8mb4.

        Raises
        ------
        UnicodeDecodeError
            The bytes hold a code that the character set does not have.
        LookupError
            The set is not `decodable`.
        """
        if self._decode is None:
            raise LookupError(f"text in {self.name} cannot be decoded, only returned as bytes")
        return self._decode(data)

    def replaced(self, data: bytes) -> str:
        """The same, with U+FFFD for what is not text in this character set."""
        if self.table is not None:
            return "".join(self.table[byte] or _REPLACEMENT for byte in data)
        try:
            return self.decode(data)
        except UnicodeDecodeError:
            return data.decode(self.codec or "ascii", "replace")


def charset_of(collation_id: int) -> str | None:
    """Name of the character set of a collation id of MySQL or MariaDB; None: no such id."""
    return _CHARSET_OF_ID.get(collation_id)


def default_collation(charset: str) -> int | None:
    """The collation id used for a character set that is given by name only.

    It is the set's default collation in every server, except that MySQL 8.0 changed the
    default of utf8mb4, which makes no difference to the text.
    """
    return _DEFAULT_COLLATION.get(canonical_name(charset))


def charset_of_collation_name(collation: str) -> str | None:
    """Name of the character set of a collation's name, such as ``latin1_bin``.

    None if the name does not say: MariaDB's ``uca1400_…`` serve every Unicode set.
    """
    name = canonical_name(collation.partition("_")[0])
    return name if name in _DEFAULT_COLLATION else None


def canonical_name(charset: str) -> str:
    """Today's name of a character set: lower case, and utf8mb3 for utf8."""
    lowered = charset.lower()
    return "utf8mb3" if lowered == "utf8" else lowered


def is_text(name: str) -> bool:
    """Whether a name is that of a character set whose values can be returned as text."""
    known = get(name)
    return known is not None and known.decodable and known.name != "binary"


def get(name: str) -> Charset | None:
    """The character set with a name; None: no server has it."""
    return _charset(canonical_name(name))


# ---------------------------------------------------------------------------------------
# Collation ids. The first id of a row is the default collation of its set.

_COLLATION_IDS: dict[str, tuple[int | range, ...]] = {
    "big5": (1, 84, 1025, 1108),
    "latin2": (9, 2, 21, 27, 77, 1033, 1101),
    "dec8": (3, 69, 1027, 1093),
    "cp850": (4, 80, 1028, 1104),
    "latin1": (8, 5, 15, 31, range(47, 50), 94, 1032, 1071),
    "hp8": (6, 72, 1030, 1096),
    "koi8r": (7, 74, 1031, 1098),
    "swe7": (10, 82, 1034, 1106),
    "ascii": (11, 65, 1035, 1089),
    "ujis": (12, 91, 1036, 1115),
    "sjis": (13, 88, 1037, 1112),
    "cp1251": (51, 14, 23, 50, 52, 1074, 1075),
    "hebrew": (16, 71, 1040, 1095),
    "tis620": (18, 89, 1042, 1113),
    "euckr": (19, 85, 1043, 1109),
    "latin7": (41, 20, 42, 79, 1065, 1103),
    "koi8u": (22, 75, 1046, 1099),
    "gb2312": (24, 86, 1048, 1110),
    "greek": (25, 70, 1049, 1094),
    "cp1250": (26, 34, 44, 66, 99, 1050, 1090),
    "gbk": (28, 87, 1052, 1111),
    "cp1257": (59, 29, 58, 1082, 1083),
    "latin5": (30, 78, 1054, 1102),
    "armscii8": (32, 64, 1056, 1088),
    "utf8mb3": (33, 76, 83, range(192, 224), range(576, 580), 1057, 1107, 1216, 1238, range(2048, 2304)),
    "utf8mb4": (
        *(45, 46, range(224, 248), range(255, 324), range(608, 612)),
        *(1069, 1070, 1248, 1270, range(2304, 2560)),
    ),
    "ucs2": (35, 90, range(128, 160), range(640, 643), 1059, 1114, 1152, 1174, range(2560, 2816)),
    "utf16": (54, 55, range(101, 125), range(672, 675), 1078, 1079, 1125, 1147, range(2816, 3072)),
    "utf16le": (56, 62, 1080, 1086),
    "utf32": (60, 61, range(160, 184), range(736, 739), 1084, 1085, 1184, 1206, range(3072, 3328)),
    "cp866": (36, 68, 1060, 1092),
    "keybcs2": (37, 73, 1061, 1097),
    "macce": (38, 43, 1062, 1067),
    "macroman": (39, 53, 1063, 1077),
    "cp852": (40, 81, 1064, 1105),
    "cp1256": (57, 67, 1081, 1091),
    "binary": (BINARY_COLLATION,),
    "geostd8": (92, 93, 1116, 1117),
    "cp932": (95, 96, 1119, 1120),
    "eucjpms": (97, 98, 1121, 1122),
    "gb18030": (248, 249, 250),
}


def _ids(rows: tuple[int | range, ...]) -> list[int]:
    return [i for row in rows for i in ((row,) if isinstance(row, int) else row)]


_CHARSET_OF_ID = {i: name for name, rows in _COLLATION_IDS.items() for i in _ids(rows)}
_DEFAULT_COLLATION = {name: _ids(rows)[0] for name, rows in _COLLATION_IDS.items()}


# ---------------------------------------------------------------------------------------
# Sets of one-byte characters: codec, and the bytes that the servers read differently.

_LATIN1 = {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
_DEC8 = {0xA8: "\u00a4", 0xD7: "\u0152", 0xDD: "\u0178", 0xF7: "\u0153", 0xFD: "\u00ff"} | dict.fromkeys(
    (0xA4, 0xA6, 0xAC, 0xAD, 0xAE, 0xAF, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF), _UNDEFINED
)
_TIS620 = dict.fromkeys((0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100)), "\ufffd")


def _from(byte: int, characters: str) -> dict[int, str]:
    return dict(enumerate(characters, byte))


_SWE7 = (
    _from(0x40, "\u00c9")
    | _from(0x5B, "\u00c4\u00d6\u00c5\u00dc")
    | _from(0x60, "\u00e9")
    | _from(0x7B, "\u00e4\u00f6\u00e5\u00fc")
    | {0x7F: _UNDEFINED}
)
_ARMSCII8 = (
    _from(0xA1, "\u2741\u00a7\u0589)(\u00bb\u00ab\u2014.\u055d,-\u055f\u2026\u055c\u055b\u055e")
    # The 38 capital letters, each followed by its small one.
    | _from(0xB2, "".join(chr(0x531 + i) + chr(0x561 + i) for i in range(38)))
    | _from(0xFE, "\u2019'")
)
_GEOSTD8 = (
    dict.fromkeys((0x83, 0x88, 0x8A, 0x8C, 0x8E, 0x98, 0x99, 0x9A, 0x9C, 0x9E, 0x9F), _UNDEFINED)
    # In the order of the old alphabet; Unicode has five of these letters after all others.
    | _from(0xC0, "\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8\u10d9\u10da\u10db\u10dc")
    | _from(0xCE, "\u10f2\u10dd\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8")
    | _from(0xDC, "\u10e9\u10ea\u10eb\u10ec\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5")
    | dict.fromkeys(range(0xE6, 0x100), _UNDEFINED)
    | {0xFD: "\u2116"}
)
# The brothers Kamenicky code page: 437 with Czech and Slovak letters.
_KEYBCS2 = (
    _from(0x80, "\u010c\u00fc\u00e9\u010f\u00e4\u010e\u0164\u010d\u011b\u011a\u0139\u00cd\u013e\u013a\u00c4")
    | _from(0x8F, "\u00c1\u00c9\u017e\u017d\u00f4\u00f6\u00d3\u016f\u00da\u00fd\u00d6\u00dc\u0160\u013d")
    | _from(
        0x9D, "\u00dd\u0158\u0165\u00e1\u00ed\u00f3\u00fa\u0148\u0147\u016e\u00d4\u0161\u0159\u0155\u0154"
    )
)

_ONE_BYTE: dict[str, tuple[str, dict[int, str]]] = {
    "latin2": ("iso8859_2", {}),
    "dec8": ("latin_1", _DEC8),
    "cp850": ("cp850", {}),
    "latin1": ("cp1252", _LATIN1),
    "hp8": ("hp_roman8", {}),
    "koi8r": ("koi8_r", {}),
    "ascii": ("ascii", {}),
    "cp1251": ("cp1251", {}),
    "hebrew": ("iso8859_8", {0xAF: "\u203e"}),
    "tis620": ("tis_620", _TIS620),
    "latin7": ("iso8859_13", {}),
    "koi8u": ("koi8_u", {0x95: "\u2022"}),
    "greek": ("iso8859_7", {0xA1: "\u02bd", 0xA2: "\u02bc"}),
    "cp1250": ("cp1250", {}),
    "cp1257": ("cp1257", {}),
    "latin5": ("iso8859_9", {}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\u00b2"}),
    "macce": ("mac_latin2", {}),
    "macroman": ("mac_roman", {}),
    "cp852": ("cp852", {}),
    "cp1256": ("cp1256", {}),
    "swe7": ("ascii", _SWE7),
    "armscii8": ("latin_1", _ARMSCII8),
    "geostd8": ("cp1252", _GEOSTD8),
    "keybcs2": ("cp437", _KEYBCS2),
}


def _one_byte(name: str, codec: str, differences: dict[int, str]) -> Charset:
    characters = "".join(
        differences.get(byte) or bytes([byte]).decode(codec, errors="ignore") or _UNDEFINED
        for byte in range(256)
    )

    def decode(data: bytes) -> str:
        return codecs.charmap_decode(data, "strict", characters)[0]

    table = tuple(None if c == _UNDEFINED else c for c in characters)
    return Charset(name, codec, 1, 1, True, table, decode)


# ---------------------------------------------------------------------------------------
# Sets of several bytes. The codec decodes a whole value; only a value that it refuses, or
# that has a code which the servers read differently, is decoded character by character.

_TOKENS_2 = rb"[\x80-\xff].|."
_TOKENS_SJIS = rb"[\x81-\x9f\xe0-\xfc].|."
_TOKENS_EUC = rb"\x8f..|[\x80-\xff].|."
_TOKENS_GB18030 = rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]|[\x80-\xff].|."

_EUC_USER_ROWS = 0xF5  # lead byte of the first row of user-defined characters


def _big5(character: bytes) -> str | None:
    return _BIG5.get(character)


_BIG5 = dict.fromkeys(
    (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"), "\ufffd"
) | {bytes((0xF9, 0xD6 + i)): c for i, c in enumerate("\u7881\u92b9\u88cf\u58bb\u6052\u7ca7\u5afa")}


def _euc_user_defined(character: bytes) -> str | None:
    """A user-defined code: ten rows of 94 from U+E000, ten more after them behind 8F."""
    first = 0xE3AC if character[0] == 0x8F else 0xE000
    row, cell = character[-2] - _EUC_USER_ROWS, character[-1] - 0xA1
    return chr(first + 94 * row + cell) if row >= 0 and 0 <= cell < 94 else None


def _ujis(character: bytes) -> str | None:
    if character == b"\xa1\xc0":
        return "\\"
    return _euc_user_defined(character) if len(character) > 1 else None


_EUCJPMS = {
    bytes.fromhex(code): c
    for code, c in (
        ("A1C1", "\uff5e"),
        ("A1C2", "\u2225"),
        ("A1DD", "\uff0d"),
        ("A1F1", "\uffe0"),
        ("A1F2", "\uffe1"),
        ("A2CC", "\uffe2"),
        ("8FA2B7", "\uff5e"),
        ("8FA2C3", "\uffe4"),
    )
}
# IBM's extension: 106 codes from 8FF3F3 on.
_EUCJPMS_IBM = (
    "\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u2160\u2161\u2162\u2163\u2164\u2165"
    "\u2166\u2167\u2168\u2169\uff07\uff02\u3231\u2116\u2121\u70bb\u4efc\u50f4\u51ec\u5307\u5324\ufa0e"
    "\u548a\u5759\ufa0f\ufa10\u589e\u5bec\u5cf5\u5d53\ufa11\u5fb7\u6085\u6120\u654e\u663b\u6665\ufa12"
    "\uf929\u6801\ufa13\ufa14\u6a6b\u6ae2\u6df8\u6df2\u7028\ufa15\ufa16\u7501\u7682\u769e\ufa17\u7930"
    "\ufa18\ufa19\ufa1a\ufa1b\u7ae7\ufa1c\ufa1d\u7da0\u7dd6\ufa1e\u8362\ufa1f\u85b0\ufa20\ufa21\u8807"
    "\ufa22\u8b7f\u8cf4\u8d76\ufa23\ufa24\ufa25\u90de\ufa26\u9115\ufa27\ufa28\u9592\uf9dc\ufa29\u973b"
    "\u974d\u9751\ufa2a\ufa2b\ufa2c\u999e\u9ad9\u9b72\ufa2d\u9ed1"
)


def _eucjpms(character: bytes) -> str | None:
    if character in _EUCJPMS:
        return _EUCJPMS[character]
    if len(character) == 3 and b"\x8f\xf3\xf3" <= character <= b"\x8f\xf4\xfe" and character[2] >= 0xA1:
        return _EUCJPMS_IBM[94 * (character[1] - 0xF3) + character[2] - 0xF3]
    if len(character) == 2 and character[0] == 0xAD and character[1] >= 0xA1:
        # NEC's row 13: the same cells as 8740 … in cp932.
        cell = character[1] - 0xA1
        return bytes((0x87, 0x40 + cell + (cell >= 63))).decode("cp932", errors="ignore") or None
    return _euc_user_defined(character) if len(character) > 1 else None


def _sjis(character: bytes) -> str | None:
    return "\\" if character == b"\x81\x5f" else None


def _gb18030(character: bytes) -> str | None:
    # GB 18030-2000 had these two swapped, and so has the codec.
    if character == b"\xa8\xbc":
        return "\u1e3f"
    return "\ue7c7" if character == b"\x81\x35\xf4\x37" else None


class _Differences(NamedTuple):
    """Codes that a server reads differently from the codec."""

    tokens: bytes  # of regular expressions
    hint: bytes  # found in every value that holds a differing code
    character: Callable[[bytes], str | None]


_DIFFERENCES = {
    "big5": _Differences(_TOKENS_2, rb"[\xa1\xa2\xf9]", _big5),
    "ujis": _Differences(_TOKENS_EUC, rb"\xa1\xc0|[\xf5-\xfe]", _ujis),
    "sjis": _Differences(_TOKENS_SJIS, rb"\x81\x5f", _sjis),
    "eucjpms": _Differences(_TOKENS_EUC, rb"[\xa1\xa2\xad\xf3-\xfe]", _eucjpms),
    "gb18030": _Differences(_TOKENS_GB18030, rb"\xa8\xbc|\x81\x35\xf4\x37", _gb18030),
}

_MULTI_BYTE: dict[str, tuple[str, int, int]] = {
    "big5": ("big5", 1, 2),
    "ujis": ("euc_jp", 1, 3),
    "sjis": ("shift_jis", 1, 2),
    # The servers accept all of cp949's Hangul; the codec euc_kr has only a part.
    "euckr": ("cp949", 1, 2),
    "gb2312": ("gb2312", 1, 2),
    "gbk": ("gbk", 1, 2),
    "utf8mb3": ("utf_8", 1, 3),
    "utf8mb4": ("utf_8", 1, 4),
    "ucs2": ("utf_16_be", 2, 2),
    "utf16": ("utf_16_be", 2, 4),
    "utf16le": ("utf_16_le", 2, 4),
    "utf32": ("utf_32_be", 4, 4),
    "cp932": ("cp932", 1, 2),
    "eucjpms": ("euc_jp", 1, 3),
    "gb18030": ("gb18030", 1, 4),
}


def _multi_byte(name: str, codec: str, min_len: int, max_len: int) -> Charset:
    def decode(data: bytes) -> str:
        return codecs.decode(data, codec)

    if (differences := _DIFFERENCES.get(name)) is None:
        return Charset(name, codec, min_len, max_len, True, None, decode)
    tokens, hint = re.compile(differences.tokens, re.DOTALL), re.compile(differences.hint)
    differing = differences.character

    def decode_differing(data: bytes) -> str:
        if hint.search(data) is None:
            return codecs.decode(data, codec)
        characters = []
        for token in tokens.finditer(data):
            character = differing(token.group())
            if character is None:
                try:
                    character = token.group().decode(codec)
                except UnicodeDecodeError as error:
                    raise UnicodeDecodeError(codec, data, token.start(), token.end(), error.reason) from None
            characters.append(character)
        return "".join(characters)

    return Charset(name, codec, min_len, max_len, True, None, decode_differing)


@cache
def _charset(name: str) -> Charset | None:
    # Made on demand: a log has few of the sets, and making the tables of all takes a while.
    if name in _ONE_BYTE:
        return _one_byte(name, *_ONE_BYTE[name])
    if name in _MULTI_BYTE:
        return _multi_byte(name, *_MULTI_BYTE[name])
    if name == "binary":
        return Charset(name, None, 1, 1, False, None, None)
    return None
