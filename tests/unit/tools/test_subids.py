import os
import pwd
from pathlib import Path

import pytest

from tools.subids import ensure_ranges, free_start, parse_ranges


def test_lines_that_are_no_ranges_are_passed_over() -> None:
    text = "root:100000:65536\n\n# no\nann:x:1\nbob:5\n1000:165536:65536\n"
    assert parse_ranges(text) == [("root", 100000, 65536), ("1000", 165536, 65536)]


@pytest.mark.parametrize(
    ("taken", "start"),
    [
        ([], 100000),
        ([(100000, 65536)], 165536),
        ([(100000, 65536), (165536, 65536)], 231072),
        ([(165535, 1)], 165536),  # the last ID of the first range
        ([(165536, 65536)], 100000),
        ([(0, 100000)], 100000),
        ([(0, 100001)], 165536),
        ([(100000, 1_000_000)], 100000 + 16 * 65536),
    ],
)
def test_the_lowest_free_range(taken: list[tuple[int, int]], start: int) -> None:
    ranges = [("someone", begin, count) for begin, count in taken]
    assert free_start(ranges) == start
    assert all(start + 65536 <= begin or begin + count <= start for begin, count in taken)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "subuid", tmp_path / "subgid"


def pretend(monkeypatch: pytest.MonkeyPatch, uid: int, name: str) -> None:
    entry = pwd.struct_passwd((name, "x", uid, uid, "", "/nowhere", "/bin/sh"))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)


def test_root_gets_a_range_free_in_both_files(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, 0, "root")
    files[0].write_text("ann:100000:65536")  # without a line end
    files[1].write_text("ann:165536:65536\n")
    ensure_ranges(files)
    assert files[0].read_text() == "ann:100000:65536\nroot:231072:65536\n"
    assert files[1].read_text() == "ann:165536:65536\nroot:231072:65536\n"
    assert "fakeroot" in capsys.readouterr().out
    ensure_ranges(files)
    assert files[0].read_text().count("root") == 1
    assert capsys.readouterr().out == ""


def test_only_the_file_that_lacks_a_range_changes(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 0, "root")
    files[0].write_text("0:300000:65536\n")  # by number
    ensure_ranges(files)
    assert files[0].read_text() == "0:300000:65536\n"
    assert files[1].read_text() == "root:100000:65536\n"


def test_an_ordinary_user_reads_what_an_administrator_types(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, 1000, "ann")
    ensure_ranges(files)
    assert not files[0].exists()
    assert not files[1].exists()
    wanted = "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ann"
    assert wanted in capsys.readouterr().out
