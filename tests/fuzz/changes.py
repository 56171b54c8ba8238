"""How bytes are changed: bits, cuts, counts, pieces of themselves and of hostile text."""

import struct

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

PIECES = (
    *(b"", b"\0", b"\n", b"\r", b"\xff\xfe", b"\x1b]0;x\x07", "\u202e".encode(), b'"', b"'"),
    *(b"[" * 70, b'{"a":' * 70, b"]" * 3, b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"-1"),
    *(
        b"null",
        b"true",
        b"{}",
        b"[]",
        rb'"\ud800"',
        b"../../../etc/passwd",
        b"/dev/zero",
        b"{{ 7 }}",
    ),
    *(b"x" * 5000, b"\n" * 300, b"\n\n", b": ", b" -> ", b"&a *a", b"!!python/object:os.system"),
    *(struct.pack("<q", number) for number in (2**63 - 1, -1, -(2**63), 2**31, 585, 4096)),
)


@st.composite
def changed(draw: st.DrawFn, seed: bytes) -> bytes:
    """Change a file in one to four ways."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(("bit", "cut", "piece", "count", "splice", "gone"))):
            case "bit" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at:]
            case "piece":
                data[at:at] = draw(st.sampled_from(PIECES))
            case "count":
                size = draw(st.sampled_from((1, 4, 8)))
                data[at : at + size] = draw(st.sampled_from(PIECES))[:size]
            case "splice":
                start = draw(st.integers(0, max(0, len(data) - 1)))
                length = draw(st.integers(0, 200))
                data[at:at] = data[start : start + length]
            case "gone":
                del data[at : at + draw(st.integers(1, 100))]
    return bytes(data)


def whole() -> SearchStrategy[bytes]:
    """Give files of anything."""
    return st.one_of(
        st.binary(max_size=300),
        st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join),
        st.text(max_size=100).map(lambda text: text.encode(errors="replace")),
    )


def bombs() -> dict[str, bytes]:
    """Give small files that want much memory or time, by what they are."""
    return {
        "brackets": b"[" * 100_000,
        "objects": b'{"a":' * 100_000,
        "brackets that close": b"[" * 50_000 + b"]" * 50_000,
        "empty objects": b"[" + b"{}," * 1_300_000 + b"0]",
        "one digit": b"1" * 2_000_000,
        "one word": b'"' + b"x" * 3_000_000 + b'"',
        "one key": b"k" * 3_000_000 + b": v",
        "line feeds": b"\n" * 3_000_000,
        "carriage returns": b"\r" * 3_000_000,
        "fields": b"a:\n" * 1_000_000,
        "paragraphs": b"Package: a\nVersion: 1\n\n" * 100_000,
        "lines that go on": b"Package: a\nVersion: 1\nDepends: a\n" + b" b\n" * 800_000,
        "rows": b"a,sha256=b,1\n" * 200_000,
        "spaces": b" " * 3_000_000,
        "NUL": bytes(3_000_000),
        "no UTF-8": b"\xff" * 1_000_000,
        "list of YAML": b"a: [" + b"[],".join([b""] * 60_000) + b"]",
        "keys of YAML": b"".join(b"k%d: 1\n" % number for number in range(80_000)),
        "anchors": b"a: &a [x]\nb: &b [*a, *a]\n",
    }
