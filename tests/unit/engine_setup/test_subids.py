import os
import pwd
from pathlib import Path

import pytest

from dlcontainer.engine_setup import set_up
from dlcontainer.engine_setup.set_up import SetupPlan
from dlcontainer.engine_setup.subids import free_start, missing_range, parse_ranges
from tests.setup_scripts import Told


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


def ensure(files: tuple[Path, Path], *, consents: bool = True) -> None:
    plan = SetupPlan(prefix=files[0], bin=files[0], as_root=list if consents else set_up.nobody)
    set_up.ensure_ids(missing_range(files), plan)


def test_root_gets_a_range_free_in_both_files(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    pretend(monkeypatch, 0, "root")
    files[0].write_text("ann:100000:65536")  # without a line end
    files[1].write_text("ann:165536:65536\n")
    ensure(files)
    assert files[0].read_text() == "ann:100000:65536\nroot:231072:65536\n"
    assert files[1].read_text() == "ann:165536:65536\nroot:231072:65536\n"
    assert "fakeroot" in told.take()
    ensure(files)
    assert files[0].read_text().count("root") == 1
    assert told.take() == ""


def test_only_the_file_that_lacks_a_range_changes(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 0, "root")
    files[0].write_text("0:300000:65536\n")  # by number
    ensure(files)
    assert files[0].read_text() == "0:300000:65536\n"
    assert files[1].read_text() == "root:100000:65536\n"


def test_an_ordinary_user_reads_what_an_administrator_types(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    pretend(monkeypatch, 1000, "ann")
    ensure(files)
    assert not files[0].exists()
    assert not files[1].exists()
    wanted = "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ann"
    assert wanted in told.take()


def test_root_who_did_not_agree_keeps_the_files(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    pretend(monkeypatch, 0, "root")
    missing = missing_range(files)
    assert missing is not None
    assert missing.change == f"append 'root:100000:65536' to {files[0]} and {files[1]}"
    ensure(files, consents=False)
    assert not files[0].exists()
    assert "usermod --add-subuids 100000-165535" in told.take()
