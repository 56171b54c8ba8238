"""YAML to plain data with origins."""

import errno
import os
import re
import socket
from pathlib import Path

import pytest
import yaml

from dlcontainer.config import Document, dotted, flatten, load, parse, subtree
from dlcontainer.config.yaml_text import events
from dlcontainer.errors import ConfigError, Mark
from tests.skips import skip


@pytest.fixture(params=["C", "Python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run everything under both loaders: some machines have no libyaml."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        skip("PyYAML without libyaml")
    return str(request.param)


def read(text: str) -> Document:
    return parse(text, layer="recipe", display="r.yaml")


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def test_every_value_has_an_origin() -> None:
    document = read("# head\nname: x\nbase:\n  release: trixie\nsteps:\n  - run: a\n  - [1, 2]\n")
    assert document.data == {
        "name": "x",
        "base": {"release": "trixie"},
        "steps": [{"run": "a"}, [1, 2]],
    }
    places = {
        dotted(path): (origin.mark.line, origin.mark.column)
        for path, origin in document.origins.items()
        if origin.mark
    }
    assert places == {
        "": (2, 1),
        "name": (2, 1),
        "base": (3, 1),
        "base.release": (4, 3),
        "steps": (5, 1),
        "steps[0]": (6, 5),
        "steps[0].run": (6, 5),
        "steps[1]": (7, 5),
        "steps[1][0]": (7, 6),
        "steps[1][1]": (7, 9),
    }
    assert str(document.origins["base", "release"]) == "recipe (r.yaml:4)"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("yes", "yes"),
        ("NO", "NO"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("2024-11-15", "2024-11-15"),
        ("2024-11-15T10:00:00Z", "2024-11-15T10:00:00Z"),
        ("022", "022"),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0", 0),
        ("-5", -5),
        ("1.10", 1.1),
        ("1.", "1."),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1.2.3", "1.2.3"),
        ("9" * 19, "9" * 19),
        ("٣", "٣"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'1'", "1"),
        ("!!str 1.10", "1.10"),
        ("!!int 3", 3),
        ("!!seq [a]", ["a"]),
        ("'<<'", "<<"),
    ],
)
def test_plain_words(word: str, value: object) -> None:
    found = read(f"key: {word}\n").data["key"]
    assert found == value
    assert type(found) is type(value)


def test_a_number_keeps_how_it_was_written() -> None:
    assert read("version: 1.10").origins["version",].written == "1.10"
    assert read("version: '1.10'").origins["version",].written is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml: the file is empty: a mapping is expected"),
        ("# only this\n", "r.yaml: the file is empty: a mapping is expected"),
        ("---\n", "r.yaml:2:1: the file is empty: a mapping is expected"),
        ("- a", "r.yaml:1:1: expected a mapping (key: value) at the top, got a list"),
        ("word", "r.yaml:1:1: expected a mapping (key: value) at the top, got text"),
        ("a: 1\nb: 2\na: 3", "r.yaml:3:1: duplicate key 'a': on line 1 and here"),
        (
            "on: x",
            ('r.yaml:1:1: a key must be text, and this is true or false; quote it: "on"'),
        ),
        ("x:\n  1: x", 'r.yaml:2:3: a key must be text, and this is a number; quote it: "1"'),
        ("? [a]\n: b", "r.yaml:1:3: a key must be text, not a list"),
        ("? {a: b}\n: b", "r.yaml:1:3: a key must be text, not a mapping"),
        (
            "a: &x 1",
            "r.yaml:1:4: anchors (&x) are not supported: write the value out",
        ),
        ("a: *x", "r.yaml:1:4: aliases (*x) are not supported: write the value out"),
        ("<<: {a: 1}", "r.yaml:1:1: merge keys (<<) are not supported: write the keys out"),
        (
            "a: 1\n---\nb: 1",
            ("r.yaml:2:1: a second document starts here: a file must hold one document"),
        ),
        ('a: "\\0"', "r.yaml:1:4: character U+0000 is not allowed in a value"),
        ('a: "\\e[0m"', "r.yaml:1:4: character U+001B is not allowed in a value"),
        ('a: "x\\r"', "r.yaml:1:4: character U+000D is not allowed in a value"),
        ("a: 1\nb: \x00", "r.yaml:2:4: character U+0000 is not allowed in a file"),
        ("a: \x85", "r.yaml:1:4: character U+0085 is not allowed in a file"),
        ("a: \ud800", "r.yaml:1:4: character U+D800 is not allowed in a file"),
        ("? " + "k" * 2000 + "\n: 1", "r.yaml:1:3: a key has more than 1024 characters"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object:os.system",
        "!!python/name:os.system",
        "!foo",
        "!!binary",
        "!!set",
        "!!timestamp",
        "!!omap",
        "!!int",
        "!",
    ],
)
def test_tags(tag: str) -> None:
    expected = f"r.yaml:1:4: tag {tag} is not supported: write plain values"
    assert refusal(f"a: {tag} x") == expected


@pytest.mark.parametrize("unit", ["{", "? ", "? - "])
def test_deep_keys(unit: str) -> None:
    # The scanner of libyaml 0.2.6 reads so far ahead that it meets its own limit of depth first.
    said = refusal("a:\n " + unit * 100_000)
    assert "a key must be text" in said or "nested more than 50 levels deep" in said


@pytest.mark.parametrize("text", ["\ta: 1", "a:\n\tb: 1"])
def test_tabs_get_a_hint(text: str) -> None:
    assert "next: indent with spaces: YAML does not allow tabs there" in refusal(text)


@pytest.mark.parametrize("text", ["a: b: c", "a: 'x", "a: [", "a: }", "%YAML 3.0\n---\na: 1"])
def test_syntax_errors_have_a_place(text: str) -> None:
    assert refusal(text).startswith("r.yaml:")
    assert ": not valid YAML: " in refusal(text)


def test_an_escape_beyond_unicode() -> None:
    assert "not valid YAML" in refusal('a: "\\UFFFFFFFF"')
    assert "not valid YAML" in refusal('a: "\\U00110000"')


@pytest.mark.parametrize("unit", ["[", "{a: ", "- ", "[[{a: "])
def test_deep_nesting(unit: str) -> None:
    assert "nested more than 50 levels deep" in refusal("a:\n " + unit * 100_000)


def test_depth_has_a_limit_not_before() -> None:
    assert read("a: " + "[" * 49 + "]" * 49).data
    assert refusal("a: " + "[" * 50 + "]" * 50) == "r.yaml:1:53: nested more than 50 levels deep"


def test_value_count(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # PyYAML's own reader takes many times as long for as many: it counts to fewer.
    most = events.MAX_VALUES if loader == "C" else 2_000
    assert events.MAX_VALUES == 50_000
    monkeypatch.setattr(events, "MAX_VALUES", most)
    assert refusal("a: [" + "1," * most + "]").endswith(f"more than {most} values")


def test_alias_bomb() -> None:
    lines = ["a: &a [x, x]"] + [
        f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdef", "bcdefg", strict=True)
    ]
    assert refusal("\n".join(lines)).startswith("r.yaml:1:4: anchors (&a)")


def test_line_ends_and_bom(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 'x\r\n\r\n    y'\r\n")
    document = load(path, layer="recipe", display="r.yaml")
    assert document.data == {"a": 1, "b": {"c": "x\ny"}}
    assert document.origins["a",].mark == Mark(file="r.yaml", line=1, column=1)
    assert document.origins["b", "c"].mark == Mark(file="r.yaml", line=3, column=3)


def unloadable(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, layer="recipe", display="r.yaml")
    return str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert unloadable(tmp_path / "none") == "r.yaml: cannot be read: No such file or directory"
    # Since Python 3.13: "open: embedded null character in path".
    assert re.fullmatch(r"r\.yaml: cannot be read: .*embedded null .*", unloadable(Path("a\0b")))
    assert unloadable(tmp_path) == "r.yaml: cannot be read: not a regular file"
    os.mkfifo(tmp_path / "fifo")
    assert unloadable(tmp_path / "fifo") == "r.yaml: cannot be read: not a regular file"
    assert unloadable(Path("/dev/zero")) == "r.yaml: cannot be read: not a regular file"


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert unloadable(Path("s")).startswith("r.yaml: cannot be read: ")


def test_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not chmod 0: tests may run as root, who reads everything.
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert unloadable(Path("r.yaml")) == "r.yaml: cannot be read: Permission denied"


def test_big_files(tmp_path: Path) -> None:
    message = "r.yaml: the file has more than 1024 KiB, the limit for files of this kind"
    path = tmp_path / "r.yaml"
    path.write_bytes(b"a: 1\n" * 2_000_000)
    assert unloadable(path) == message
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    assert unloadable(path) == message
    assert refusal("#" * 2_000_000) == message


def test_a_file_that_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"#" * 2_000_000)
    (tmp_path / "small").touch()
    small = (tmp_path / "small").stat()
    monkeypatch.setattr(os, "fstat", lambda _: small)
    assert "more than 1024 KiB" in unloadable(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb: \xc3\xa9\xff", "r.yaml:2:5: not UTF-8: byte 0xff"),
        ("a: 1".encode("utf-16"), "r.yaml:1:1: not UTF-8: byte 0xff"),
        (b"a: \xed\xa0\x80", "r.yaml:1:4: not UTF-8: byte 0xed"),
    ],
)
def test_bad_bytes(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(data)
    assert unloadable(path) == f"{message}\n  next: save the file as UTF-8"


def test_the_path_is_the_name_without_another(tmp_path: Path) -> None:
    path = tmp_path / "a'; echo x.yaml"
    path.write_text("a: 1\n")
    origin = load(path, layer="site").origins["a",]
    assert str(origin) == f"site ({path}:1)"


def test_flatten() -> None:
    document = read('a: {b: 1, "c.d": [x, {y: null}], "e\\"": []}\nf: {}')
    assert [(key, value) for key, value, _ in flatten(document)] == [
        ("a.b", 1),
        ('a."c.d"[0]', "x"),
        ('a."c.d"[1].y', None),
        ('a."e\\""', []),
        ("f", {}),
    ]
    assert str(flatten(document)[-1][2]) == "recipe (r.yaml:2)"


def test_a_part_of_a_part_has_the_origins_of_the_whole() -> None:
    whole = parse("a:\n  b:\n    c: 1\n    d: [x, y]\n  e: 2\n", layer="file", display="f")
    outer = subtree(whole, ("a",))
    assert outer is not None
    inner = subtree(outer, ("b",))
    assert inner is not None
    assert inner == subtree(whole, ("a", "b"))
    assert inner.origin(("c",)) == whole.origin(("a", "b", "c"))
    assert set(inner.origins) == {(), ("c",), ("d",), ("d", 0), ("d", 1)}
    assert len(inner.origins) == 5
    assert ("e",) not in inner.origins
    assert subtree(whole, ("a", "b", "c")) is None
