"""`setup engine`: root's changes are asked for, each error has its code, the result is JSON too."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from dlcontainer.cli import main
from dlcontainer.engine_setup import programs, set_up
from dlcontainer.engine_setup.set_up import SetupPlan, UsableEngine

Typed = Callable[..., tuple[int, str, str]]
CHANGES = ("apt-get install mmdebstrap uidmap", "append 'root:100000:65536' to /etc/subuid")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", ())
    return tmp_path / "home"


@pytest.fixture
def typed(home: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    def typed(*words: str) -> tuple[int, str, str]:
        code = main._run(["setup", "engine", *words], as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return typed


@pytest.fixture
def plans(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[SetupPlan]:
    """Let root's set-up have changes to make, and keep the plan that it comes to."""
    plans: list[SetupPlan] = []

    def ensure_engine(plan: SetupPlan) -> UsableEngine:
        plans.append(plan)
        return UsableEngine(program=Path("/usr/bin/apptainer"), version="1.4.5", private=False)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(set_up, "system_changes", lambda _: list(CHANGES))
    monkeypatch.setattr(set_up, "ensure_engine", ensure_engine)
    return plans


def test_without_a_terminal_and_consent_nothing_is_done(
    typed: Typed, plans: list[SetupPlan], home: Path
) -> None:
    code, out, err = typed()
    assert (code, out, plans) == (2, "", [])
    for words in (*CHANGES, "--yes", "--no"):
        assert words in err
    assert not home.exists()


@pytest.mark.parametrize(("option", "root"), [("--yes", []), ("--no", None)])
def test_consent_is_given_by_an_option(
    typed: Typed, plans: list[SetupPlan], option: str, root: object
) -> None:
    code, out, _ = typed(option, "--json")
    assert code == 0
    assert [plan.as_root() for plan in plans] == [root]
    body = json.loads(out)
    assert body["schema"] == "dlcontainer/setup-engine/1"
    assert body["system_changes"] == (list(CHANGES) if root == [] else [])
    assert (body["program"], body["prefix"]) == ("/usr/bin/apptainer", None)


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_it_asks(
    typed: Typed, plans: list[SetupPlan], monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    questions: list[str] = []

    def confirm(text: str, *, err: bool) -> bool:
        questions.append(text)
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", confirm)
    assert typed()[0] == 0
    assert [plan.as_root() for plan in plans] == [[] if answer else None]
    assert all(change in questions[0] for change in CHANGES)


def test_an_ordinary_user_is_asked_nothing(
    typed: Typed, plans: list[SetupPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert typed()[0] == 0
    assert [plan.as_root() for plan in plans] == [None]


def test_a_host_without_apt_is_told_its_ways(
    typed: Typed, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(set_up, "os_release", lambda: {"ID": "rocky", "ID_LIKE": "rhel fedora"})
    monkeypatch.setattr(set_up, "missing_range", lambda: None)
    code, _, err = typed()
    assert code == 4
    for way in ("dnf install -y apptainer", "module load apptainer", "conda-forge", "https://"):
        assert way in err
    assert not (home / ".local/share/dlcontainer/engine").exists()


def test_remove_says_what_it_removed(typed: Typed, home: Path) -> None:
    assert typed("--remove")[1].startswith("no engine is set up in ")
    code, out, _ = typed("--remove", "--json")
    assert (code, json.loads(out)["removed"]) == (0, False)
    assert typed("--remove", "--yes")[0] == 2


def test_an_error_is_json_too(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "full/of").mkdir(parents=True)
    code, out, _ = typed("--no", "--json", "--prefix", str(tmp_path / "full"))
    assert code == 4
    body = json.loads(out)
    assert "holds something else" in body["what"]
    assert "--prefix" in body["next"]
