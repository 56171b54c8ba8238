"""Files of somebody else: pipes, devices, sizes, depth."""

import os
import socket
from pathlib import Path

import pytest

from dlcontainer.system import foreign_files


@pytest.mark.timeout(60)
def test_what_is_no_regular_file(tmp_path: Path) -> None:
    pipe, link, plug = tmp_path / "pipe", tmp_path / "link", tmp_path / "plug"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "file")
    (tmp_path / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(plug))
        for path, says in (
            (pipe, "it is not a regular file"),
            (Path("/dev/zero"), "it is not a regular file"),
            (tmp_path, "Is a directory"),
            (plug, "No such device or address"),
            (tmp_path / "none", "No such file or directory"),
        ):
            with pytest.raises(OSError, match=says) as caught:
                foreign_files.opened(path)
            assert caught.value.filename == str(path)
    assert foreign_files.read(link, 1) == b"x"
    with pytest.raises(OSError, match="it is a symbolic link"):
        foreign_files.opened(link, follow=False)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match=r"."):
            foreign_files.opened(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_most_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="it has 1099512 MB; the limit is 16 MB"):
        foreign_files.read(path, 16_000_000)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 65 + "]" * 65])
def test_json_that_is_too_deep(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested too deeply|Expecting value"):
        foreign_files.loads(text)


def test_json(tmp_path: Path) -> None:
    deep = "[" * 60 + '{"a": 1}' + "]" * 60
    assert str(foreign_files.loads(deep)).count("[") == 60
    assert foreign_files.loads(b'{"a": "\xc3\xa9"}') == {"a": "é"}
    for text in (b"\xff\xfe", b"{", "1" * 5000):
        with pytest.raises(ValueError, match=r"."):
            foreign_files.loads(text)


def test_the_content_is_all_of_it_wherever_the_file_was_read_to(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"all of it")
    with foreign_files.opened(path) as file:
        assert file.read(4) == b"all "
        for handle in (file, file.fileno()):
            assert foreign_files.content(handle, 9) == b"all of it"
        assert file.read() == b"of it"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "duplicate key 'a'"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        (r'["\ud800"]', "surrogates not allowed"),
        ("[" + "{}," * 4_000_000 + "0]", "more than 4000000 values"),
        ("1" * 5000, "integer string conversion"),
        ('{"a\0": 1}', "control character"),
        (b'["\xed\xa0\x80"]', "can't decode"),
    ],
    ids=["twice", "nan", "infinity", "half", "values", "long number", "NUL", "UTF-8"],
)
def test_json_with_two_meanings_or_too_much(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        foreign_files.loads(text)


def test_what_a_probe_measured_may_be_no_number() -> None:
    assert str(foreign_files.loads("[NaN, -Infinity]", nan=True)) == "[nan, -inf]"
    assert foreign_files.loads(r'["\ud83d\ude00"]') == ["\U0001f600"]
