from pathlib import Path

import pytest

from dlcontainer.engine_setup import aptget
from dlcontainer.errors import EngineError
from tools import binfmt, setup_tests


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(setup_tests, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(setup_tests, "WANTED", {"chromium": "chromium", "/no/such": "lmod"})
    monkeypatch.setattr(aptget, "available", lambda: True)
    monkeypatch.setattr(setup_tests, "ensure_registry", lambda prefix, bin_folder: None)
    monkeypatch.setattr(binfmt, "missing", list)


@pytest.mark.usefixtures("bare")
def test_without_root_the_line_to_type_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_tests, "root_argv", lambda: None)
    monkeypatch.setattr(binfmt, "missing", lambda: [binfmt.MOUNT])
    assert setup_tests.main([]) == 0
    said = capsys.readouterr().out
    assert "sudo apt-get install chromium lmod" in said
    assert "sudo mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc" in said


@pytest.mark.usefixtures("bare")
def test_root_installs_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(setup_tests, "root_argv", list)
    monkeypatch.setattr(aptget, "install", lambda root, names: asked.append(names))
    assert (setup_tests.main([]), asked) == (0, [["chromium", "lmod"]])


@pytest.mark.usefixtures("bare")
def test_what_apt_refuses_ends_the_set_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(root: list[str], names: list[str]) -> None:
        raise EngineError("not installing lmod", why="it would remove environment-modules")

    monkeypatch.setattr(setup_tests, "root_argv", list)
    monkeypatch.setattr(aptget, "install", refuse)
    assert setup_tests.main([]) == 1
    assert "it would remove environment-modules" in capsys.readouterr().err


@pytest.mark.usefixtures("bare")
def test_root_has_qemu_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(setup_tests, "root_argv", lambda: ["sudo", "-n"])
    monkeypatch.setattr(aptget, "install", lambda root, names: ran.append(["install", *names]))
    monkeypatch.setattr(binfmt, "missing", lambda: [binfmt.MOUNT, binfmt.ENABLE])
    monkeypatch.setattr(binfmt, "run", ran.append)
    assert setup_tests.main([]) == 0
    folder = "/proc/sys/fs/binfmt_misc"
    assert ran == [
        ["install", "chromium", "lmod"],
        ["sudo", "-n", "mount", "-t", "binfmt_misc", "binfmt_misc", folder],
        ["sudo", "-n", "update-binfmts", "--enable"],
    ]


@pytest.mark.usefixtures("bare")
def test_a_kernel_that_refuses_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(argv: list[str]) -> None:
        raise EngineError("failed (32): mount")

    monkeypatch.setattr(setup_tests, "root_argv", list)
    monkeypatch.setattr(setup_tests, "WANTED", {"/": "base-files"})
    monkeypatch.setattr(binfmt, "missing", lambda: [binfmt.MOUNT])
    monkeypatch.setattr(binfmt, "run", refuse)
    assert setup_tests.main([]) == 0
    assert "failed (32): mount" in capsys.readouterr().out


def test_what_is_still_to_be_registered(tmp_path: Path) -> None:
    assert binfmt.missing(tmp_path) == [binfmt.MOUNT, binfmt.ENABLE]
    (tmp_path / "status").write_text("enabled\n")
    assert binfmt.missing(tmp_path) == [binfmt.ENABLE]
    for name in binfmt.ENTRIES:
        (tmp_path / name).write_text("enabled\n")
    assert binfmt.missing(tmp_path) == []


def test_nothing_is_asked_where_all_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_tests, "WANTED", {"/": "base-files"})
    monkeypatch.setattr(setup_tests, "ensure_registry", lambda prefix, bin_folder: None)
    monkeypatch.setattr(binfmt, "missing", list)
    assert setup_tests.main([]) == 0
    assert "found" in capsys.readouterr().out


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """No registry here; one that is fetched is an empty file."""
    trees: list[Path] = []

    def fetch(tree: Path) -> None:
        trees.append(tree)
        (tree / "usr" / "bin").mkdir(parents=True)
        (tree / "usr" / "bin" / setup_tests.REGISTRY).touch(mode=0o755)

    monkeypatch.setattr(setup_tests, "search_path", lambda *first: ":".join(map(str, first)))
    monkeypatch.setattr(aptget, "available", lambda: True)
    monkeypatch.setattr(setup_tests, "_fetch_registry", fetch)
    return trees


def test_the_registry_is_only_unpacked(fetched: list[Path], tmp_path: Path) -> None:
    places = ["--bin", str(tmp_path / "bin"), "--prefix", str(tmp_path / "tools")]
    for _ in range(2):
        assert setup_tests.main([*places, setup_tests.REGISTRY]) == 0
    assert len(fetched) == 1
    assert (tmp_path / "bin" / setup_tests.REGISTRY).resolve().is_relative_to(fetched[0])


def test_a_registry_that_cannot_be_fetched_is_a_note(
    fetched: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(tree: Path) -> None:
        raise EngineError("no such package")

    monkeypatch.setattr(setup_tests, "_fetch_registry", refuse)
    places = ["--bin", str(tmp_path / "bin"), "--prefix", str(tmp_path / "tools")]
    assert setup_tests.main([*places, setup_tests.REGISTRY]) == 0
    assert "docker-registry will be skipped: no such package" in capsys.readouterr().out
    assert not list((tmp_path / "tools").iterdir())
