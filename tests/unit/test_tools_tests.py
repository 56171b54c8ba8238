from pathlib import Path

import pytest

from tools import aptget, setup_tests
from tools.console import SetupError


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(setup_tests, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(setup_tests, "WANTED", {"chromium": "chromium", "/no/such": "lmod"})
    monkeypatch.setattr(aptget, "available", lambda: True)


@pytest.mark.usefixtures("bare")
def test_without_root_the_line_to_type_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_tests, "root_argv", lambda: None)
    assert setup_tests.main() == 0
    assert "sudo apt-get install chromium lmod" in capsys.readouterr().out


@pytest.mark.usefixtures("bare")
def test_root_installs_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(setup_tests, "root_argv", list)
    monkeypatch.setattr(aptget, "install", lambda root, names: asked.append(names))
    assert (setup_tests.main(), asked) == (0, [["chromium", "lmod"]])


@pytest.mark.usefixtures("bare")
def test_what_apt_refuses_ends_the_set_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(root: list[str], names: list[str]) -> None:
        raise SetupError("not installing lmod", why="it would remove environment-modules")

    monkeypatch.setattr(setup_tests, "root_argv", list)
    monkeypatch.setattr(aptget, "install", refuse)
    assert setup_tests.main() == 1
    assert "it would remove environment-modules" in capsys.readouterr().err


def test_nothing_is_asked_where_all_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_tests, "WANTED", {"/": "base-files"})
    assert setup_tests.main() == 0
    assert "found" in capsys.readouterr().out
