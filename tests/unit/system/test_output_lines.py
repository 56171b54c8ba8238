import io

import pytest

from dlcontainer.system import output_lines


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("text", "shown", "kept"),
    [
        (b"", [], []),
        (b"a\nb", ["a", "b"], ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"], ["a", "b"]),
        (b"1%\r2%\rdone\n\n", ["1%", "2%", "done", ""], ["done", ""]),
        (b"a\n\r1%\r2%\n", ["a", "", "1%", "2%"], ["a", "2%"]),
        (b"\r\n\r\n", ["", ""], ["", ""]),
        (b"a\r\r\nb", ["a", "", "b"], ["", "b"]),
        (b"a\r", ["a"], []),
        ("ü\u2028\x0b\x85\n".encode(), ["ü\u2028\x0b\x85"], ["ü\u2028\x0b\x85"]),
        (b"\xff\n\xc3", ["\ufffd", "\ufffd"], ["\ufffd", "\ufffd"]),
    ],
)
def test_line_ends(text: bytes, shown: list[str], kept: list[str], size: int) -> None:
    seen: list[str] = []
    log = io.StringIO()
    stream = output_lines.OutputLines(seen.append, log)
    for at in range(0, len(text), size):
        stream.sinks()[0](text[at : at + size])
    whole = "".join(f"{line}\n" for line in kept)
    assert stream.texts() == (whole, "")
    assert seen == shown
    assert log.getvalue() == whole


@pytest.mark.parametrize("size", [1000, 65_536, 10_000_000])
def test_a_very_long_line_comes_in_pieces(size: int) -> None:
    seen: list[str] = []
    stream = output_lines.OutputLines(seen.append, None)
    text = b"x" * (3 * output_lines.LONGEST_LINE) + b"\n" + b"y" * (output_lines.LONGEST_LINE + 1)
    for at in range(0, len(text), size):
        stream.sinks()[0](text[at : at + size])
    stream.texts()
    assert [(piece[0], len(piece)) for piece in seen] == [
        *[("x", output_lines.LONGEST_LINE)] * 3,
        ("y", output_lines.LONGEST_LINE),
        ("y", 1),
    ]


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_lines, "MOST_CAPTURED", 10)
    capture = output_lines.Capture()
    out, err = capture.sinks()
    out(b"12345")
    err(b"12345")
    with pytest.raises(output_lines.TooMuchOutputError, match="it printed more than"):
        out(b"6")
    assert capture.texts() == ("12345", "12345")
