"""Names that a store may handle wrongly. All are legal names of topics and of subscribers."""

from typing import Final

from hedwig.names import NAME_BYTES_MAX

__all__ = ["AWKWARD", "LONGEST", "MOST_COMPONENTS", "looks_like"]

_CONTROL: Final = [bytes([code]) for code in (*range(1, 0x20), 0x7F)]

_UNICODE: Final = [
    text.encode()
    for text in (
        "\x80",
        "\x9f",
        "\xa0",
        "é",
        "e\u0301",
        "\u200b",
        "\u2028",
        "\ud7ff",
        "\ue000",
        "\uf8ff",
        "\ufeff",
        "\ufff0",
        "\ufffd",
        "\ufffe",
        "\uffff",
        "\U00010000",
        "\U0001f4e8",
        "\U0010fffe",
        "\U0010ffff",
    )
]

_NOT_UTF8: Final = [
    b"\x80",
    b"\xbf\xbf",
    b"\xc3",
    b"\xc0\xaf",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5",
    b"\xfe",
    b"\xff",
    b"\xff\xff",
    b"\xff\x00",
    b"a\xff",
    b"a\xffb",
    b"a/\xff",
    b"\xff/a",
]

_SLASHES: Final = [
    b"/",
    b"//",
    b"///",
    b"/a",
    b"a/",
    b"a//",
    b"//a",
    b"a//b",
    b"a/b",
    b"a/b/c",
    b"a/b/c/d/e/f/g",
    b"/a/b/",
    b"a/\x00",
    b"a/\x00/b",
    b"\x00/a",
]

_DOTS: Final = [
    b".",
    b"..",
    b"...",
    b"./a",
    b"../a",
    b"a/.",
    b"a/..",
    b"a/./b",
    b"a/../b",
    b"./.",
    b"../..",
    b".a",
    b"a.",
    b"a..b",
]

_RESERVED: Final = [
    pattern % component
    for component in (b"hub", b"ledgers", b"subscribers", b"topics", b"hosts", b"managers", b"zookeeper", b"LAYOUT")
    for pattern in (b"%s", b"a/%s", b"%s/a", b"a/%s/b", b"%s/s", b"a/%s/s", b"/%s", b"%s/", b"%s-", b"_%s")
]

_PREFIXES: Final = [
    b"a",
    b"aa",
    b"ab",
    b"abc",
    b"a\x00",
    b"a\x00\x00",
    b"a\x00b",
    b"a\x00\xff",
    b"a\x01",
    b"a\x01\x00",
    b"a\x02",
    b"a ",
    b"a\n",
    b"\x00",
    b"\x00\x00",
    b"\x00\x01",
    b"\x00\xff",
    b"\x00a",
]

_LIKE_ESCAPES: Final = [
    b"%",
    b"%%",
    b"%00",
    b"%2F",
    b"%2f",
    b"a%2Fb",
    b"%252F",
    b"\\",
    b"\\\\",
    b"\\x00",
    b"\\xff",
    b"\\x2f",
    b"=",
    b"=2F",
    b"=00",
    b"~",
    b"~2F",
    b"~0",
    b"!",
    b"!2F",
    b"!00",
    b"$",
    b"$2F",
    b"_",
    b"_2F",
    b"@",
    b":",
    b"&#0;",
    b"?",
    b"*",
    b"'",
    b'"',
    b"' OR 1=1 --",
    b"a;b",
    b"{}",
    b"[0]",
    b"^",
    b"|",
    b" ",
    b"  ",
    b" a",
    b"YQ==",
    b"61",
    b"0000",
    b"ffff",
    b"dead" + b"a\x00\x01",
    b"dead" + b"a\x00\x00",
]

AWKWARD: Final[tuple[bytes, ...]] = tuple(
    dict.fromkeys(
        [*_CONTROL, *_UNICODE, *_NOT_UTF8, *_SLASHES, *_DOTS, *_RESERVED, *_PREFIXES, *_LIKE_ESCAPES]
        + [b"x" + name for name in (*_CONTROL, *_UNICODE)]
    )
)
"""All awkward names, without duplicates."""

LONGEST: Final[dict[str, bytes]] = {
    "letters": b"a" * NAME_BYTES_MAX,
    "zero bytes": bytes(NAME_BYTES_MAX),
    "0xFF": b"\xff" * NAME_BYTES_MAX,
    "slashes": b"/" * NAME_BYTES_MAX,
    "escapes": b"%" * NAME_BYTES_MAX,
    "three-byte characters": "例".encode() * (NAME_BYTES_MAX // 3) + b"ab",
}
"""Names of the greatest length, keyed by their content."""

MOST_COMPONENTS: Final = b"a/" * (NAME_BYTES_MAX // 2 - 1) + b"ab"
"""A name of the greatest length with the most components that a name can have."""

assert all(len(name) == NAME_BYTES_MAX for name in (*LONGEST.values(), MOST_COMPONENTS))


def looks_like(stored: bytes) -> list[bytes]:
    """Return names that a careless store may confuse with a name that it stored as `stored`."""
    similar = [stored, stored + b"a", b"a" + stored, stored[:-1], stored[1:], stored + stored, stored.swapcase()]
    return [name for name in similar if 1 <= len(name) <= NAME_BYTES_MAX]
