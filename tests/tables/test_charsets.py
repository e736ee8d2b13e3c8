"""Character sets: texts and bytes are what MySQL and MariaDB servers gave."""

from __future__ import annotations

import pytest

from binlog_core._tables import charsets

pytestmark = pytest.mark.sanitize_long

# Bytes in the set, and the text that SELECT gave for them (MySQL 5.6, 9.7, MariaDB 10.11, 11.8).
SERVER_TEXTS = [
    ("cp1251", "cff0e8e2e5f220ece8f020f1fab8eceae0", "Привет мир съёмка"),
    ("greek", "cae1ebe7ecddf1e120eafcf3ece5", "Καλημέρα κόσμε"),
    ("sjis", "93fa967b8cea208abf8e9a20938c8b9e9373", "日本語 漢字 東京都"),
    ("ucs2", "65e5672c8a9e00206f225b57002067714eac90fd", "日本語 漢字 東京都"),
    ("gbk", "b2e263cec430206359bcf230cad439203162cec4", "测c文0 cY简0试9 1b文"),
    ("latin1", "6e73c6636261f16261726162f131202061656e206e61df", "nsÆcbañbarabñ1  aen naß"),
    ("utf16", "d83dde00d83cdf89d83ddc69200dd83ddc69200dd83ddc67", "😀🎉👩\u200d👩\u200d👧"),
    ("utf16", "6771677100318a9e6f22", "東東1語漢"),
]

# Codes that the servers read otherwise than the nearest Python codec.
SERVER_DIFFERENCES = [
    ("latin1", "80818d8f909d9f", "€\x81\x8d\x8f\x90\x9dŸ"),
    ("dec8", "41a8d7ddf7fde4", "A¤ŒŸœÿä"),
    ("hebrew", "afe0", "\u203eא"),
    ("tis620", "a0dbdcdddefcfdfeffa1", "\ufffd" * 9 + "ก"),
    ("koi8u", "95a4", "•є"),
    ("greek", "a1a2e1", "\u02bd\u02bcα"),
    ("cp866", "fcfd80", "ⁿ²А"),
    ("big5", "f9d6f9d7f9d8f9d9f9daf9dbf9dc", "碁銹裏墻恒粧嫺"),
    ("big5", "a15aa1c3a1c5a1fea240a2cca2ce", "\ufffd" * 7),
    ("big5", "a4a15aa441", "丑Z乙"),  # A1 5A, but the A1 is a trail byte
    ("ujis", "5ca1c0", "\\\\"),
    ("ujis", "f5a1f5a2f6a1fefe", "\ue000\ue001\ue05e\ue3ab"),
    ("ujis", "c6fccbdc8eb1", "日本ｱ"),
    ("sjis", "5c815f", "\\\\"),
    ("sjis", "83815f", "メ_"),  # 81 5F, but the 81 is a trail byte
    ("eucjpms", "a1c0a1c1a1c2a1dda1f1a1f2a2cc", "＼～∥－￠￡￢"),
    ("eucjpms", "ada1adb5", "①Ⅰ"),
    ("eucjpms", "f5a18ff5a1c6fc", "\ue000\ue3ac日"),
    ("gb18030", "a8bc8135f437d6d0", "\u1e3f\ue7c7中"),
    ("eucjpms", "8fa2b78fa2c3a5a2", "～￤ア"),
    ("eucjpms", "8ff3f38ff3fe8ff4a18ff4ac8ff4feb0a1", "ⅰⅡⅢ№黑亜"),  # IBM's extension
    ("euckr", "8141b0a1", "갂가"),  # 8141: cp949 only
]


@pytest.mark.parametrize(("name", "data", "text"), SERVER_TEXTS + SERVER_DIFFERENCES)
def test_text_is_the_server_s(name: str, data: str, text: str) -> None:
    charset = charsets.get(name)
    assert charset is not None
    assert charset.decode(bytes.fromhex(data)) == text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("ascii", "80"),
        ("dec8", "a4"),
        ("dec8", "ff"),
        ("utf8mb4", "c3"),
        ("utf8mb4", "eda080"),
        ("big5", "a1"),
        ("big5", "a440a1ff"),
        ("sjis", "815f81"),
        ("ujis", "f5a1f5"),
        ("eucjpms", "8ff5a1ff"),
        ("gb18030", "a8bcff"),
        ("utf16", "00"),
        ("utf32", "00110000"),
    ],
)
def test_bytes_without_a_character_are_an_error(name: str, data: str) -> None:
    charset = charsets.get(name)
    assert charset is not None
    with pytest.raises(UnicodeDecodeError):
        charset.decode(bytes.fromhex(data))


def test_the_error_tells_the_place() -> None:
    charset = charsets.get("big5")
    assert charset is not None
    with pytest.raises(UnicodeDecodeError) as raised:
        charset.decode(bytes.fromhex("a440f9d6a1ff"))
    assert (raised.value.start, raised.value.object) == (4, bytes.fromhex("a440f9d6a1ff"))


@pytest.mark.parametrize(
    ("collation", "name"),
    [
        (1, "big5"),
        (8, "latin1"),
        (33, "utf8mb3"),
        (45, "utf8mb4"),
        (63, "binary"),
        (83, "utf8mb3"),
        (192, "utf8mb3"),
        (223, "utf8mb3"),
        (224, "utf8mb4"),
        (247, "utf8mb4"),
        (248, "gb18030"),
        (250, "gb18030"),
        (255, "utf8mb4"),
        (323, "utf8mb4"),
        (576, "utf8mb3"),
        (611, "utf8mb4"),
        (1032, "latin1"),
        (2048, "utf8mb3"),
        (2304, "utf8mb4"),
        (2560, "ucs2"),
        (3071, "utf16"),
        (3327, "utf32"),
        (0, None),
        (251, None),
        (324, None),
        (3328, None),
    ],
)
def test_charset_of_collation_id(collation: int, name: str | None) -> None:
    assert charsets.charset_of(collation) == name


def test_names() -> None:
    assert charsets.get("utf8") is charsets.get("UTF8MB3")
    assert charsets.get("klingon") is None
    assert charsets.charset_of_collation_name("latin1_bin") == "latin1"
    assert charsets.charset_of_collation_name("utf8_general_ci") == "utf8mb3"
    assert charsets.charset_of_collation_name("binary") == "binary"
    assert charsets.charset_of_collation_name("uca1400_ai_ci") is None
    assert charsets.default_collation("latin1") == 8
    assert charsets.default_collation("utf8") == 33
    assert charsets.default_collation("binary") == 63
    assert charsets.default_collation("klingon") is None


def test_every_collation_has_a_charset_and_the_default_is_one_of_its_own() -> None:
    names = {charsets.charset_of(i) for i in range(4096)} - {None}
    assert len(names) == 41
    for name in names:
        assert name is not None
        default = charsets.default_collation(name)
        assert default is not None
        assert charsets.charset_of(default) == name
        charset = charsets.get(name)
        assert charset is not None
        assert charset.name == name


# All bytes that are not ASCII, as the four servers convert them; "?" where there is no character.
WITHOUT_A_CODEC = {
    "armscii8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէ"
        "ԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշ"
        "ՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
    ),
    "geostd8": (
        "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????"
        "\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
        "ჭხჴჯჰჵ???????????????????????№??"
    ),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘť"
        "áíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
        "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
    ),
    "swe7": "?" * 128,
}


@pytest.mark.parametrize("name", WITHOUT_A_CODEC)
def test_sets_that_python_has_no_codec_for(name: str) -> None:
    charset = charsets.get(name)
    assert charset is not None
    assert charset.table is not None
    want = dict(zip(range(128), map(chr, range(128)), strict=True)) | dict(
        enumerate(WITHOUT_A_CODEC[name], 128)
    )
    if name == "swe7":
        want |= dict(zip(b"@[\\]^`{|}~\x7f", "ÉÄÖÅÜéäöåü?", strict=True))
    got = {byte: c or "?" for byte, c in enumerate(charset.table)}
    assert got == want
    valid = bytes(byte for byte, c in want.items() if c != "?")
    assert charset.decode(valid) == "".join(want[byte] for byte in valid)


def test_binary_gives_no_text() -> None:
    charset = charsets.get("binary")
    assert charset is not None
    assert not charset.decodable
    with pytest.raises(LookupError):
        charset.decode(b"a")


def test_tables_of_one_byte_sets() -> None:
    latin1, dec8, utf8 = charsets.get("latin1"), charsets.get("dec8"), charsets.get("utf8mb4")
    assert latin1 is not None and dec8 is not None and utf8 is not None
    assert utf8.table is None
    assert latin1.table is not None and dec8.table is not None
    assert len(latin1.table) == 256
    assert latin1.table[0x80] == "€"
    assert None not in latin1.table
    assert [byte for byte, c in enumerate(dec8.table) if c is None] == [
        *(0xA4, 0xA6, 0xAC, 0xAD, 0xAE, 0xAF, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF)
    ]


@pytest.mark.parametrize(
    ("name", "space"),
    [("latin1", "20"), ("utf8mb4", "20"), ("ucs2", "0020"), ("utf16le", "2000"), ("utf32", "00000020")],
)
def test_space(name: str, space: str) -> None:
    charset = charsets.get(name)
    assert charset is not None
    assert charset.space.hex() == space
    assert charset.min_char_len == len(charset.space)
