"""From collation ids to text."""

from __future__ import annotations

_IDS = {
    "big5": "1 84 1025 1108",
    "iso8859_2": "2 9 21 27 77 1033 1101",
    "cp850": "4 80 1028 1104",
    "cp1252": "5 8 15 31 47-49 94 1032 1071",
    "hp_roman8": "6 72 1030 1096",
    "koi8_r": "7 74 1031 1098",
    "ascii": "11 65 1035 1089",
    "euc_jp": "12 91 1036 1115",
    "shift_jis": "13 88 1037 1112",
    "cp1251": "14 23 50-52 1074-1075",
    "iso8859_8": "16 71 1040 1095",
    "tis_620": "18 89 1042 1113",
    "cp949": "19 85 1043 1109",
    "iso8859_13": "20 41-42 79 1065 1103",
    "koi8_u": "22 75 1046 1099",
    "gb2312": "24 86 1048 1110",
    "iso8859_7": "25 70 1049 1094",
    "cp1250": "26 34 44 66 99 1050 1090",
    "gbk": "28 87 1052 1111",
    "cp1257": "29 58-59 1082-1083",
    "iso8859_9": "30 78 1054 1102",
    "utf_8": "33 76 83 192-223 576-579 1057 1107 1216 1238 2048-2303 "
    "45-46 224-247 255-323 608-611 1069-1070 1248 1270 2304-2559",
    "utf_16_be": "35 90 128-159 640-642 1059 1114 1152 1174 2560-2815 "
    "54-55 101-124 672-674 1078-1079 1125 1147 2816-3071",
    "utf_16_le": "56 62 1080 1086",
    "utf_32_be": "60-61 160-183 736-738 1084-1085 1184 1206 3072-3327",
    "cp866": "36 68 1060 1092",
    "mac_latin2": "38 43 1062 1067",
    "mac_roman": "39 53 1063 1077",
    "cp852": "40 81 1064 1105",
    "cp1256": "57 67 1081 1091",
    "cp932": "95-96 1119-1120",
    "gb18030": "248-250",
}
# Codes in which the server and Python's codec differ: bytes to the server's text.
_OWN: dict[str, dict[bytes, str]] = {
    "cp1252": {bytes((b,)): chr(b) for b in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "iso8859_8": {b"\xaf": "\u203e"},
    "koi8_u": {b"\x95": "\u2022"},
    "iso8859_7": {b"\xa1": "\u02bd", b"\xa2": "\u02bc"},
    "cp866": {b"\xfc": "\u207f", b"\xfd": "\u00b2"},
    "shift_jis": {b"\x81\x5f": "\\"},
    "euc_jp": {b"\xa1\xc0": "\\"},
}
BINARY = 63


def _expand(text: str) -> list[int]:
    out: list[int] = []
    for part in text.split():
        low, _, high = part.partition("-")
        out += range(int(low), int(high or low) + 1)
    return out


CODECS = {number: codec for codec, ids in _IDS.items() for number in _expand(ids)}


def decode_text(raw: bytes, collation: int | None) -> str | bytes:
    """The text, or the bytes where the character set is unknown, binary, or does not have them."""
    codec = CODECS.get(collation) if collation is not None else None
    if codec is None:
        return raw
    try:
        own = _OWN.get(codec)
        return _with_own(raw, codec, own) if own else raw.decode(codec)
    except UnicodeDecodeError:
        return raw


def _with_own(raw: bytes, codec: str, own: dict[bytes, str]) -> str:
    """Decode character by character, asking the server's own codes first."""
    out, at = "", 0
    while at < len(raw):
        for size in (1, 2, 3):
            piece = raw[at : at + size]
            if piece in own:
                out += own[piece]
                break
            try:
                out += piece.decode(codec)
                break
            except UnicodeDecodeError:
                if size == 3:
                    raise
        at += len(piece)
    return out
