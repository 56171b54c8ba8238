"""Wheels that come while the base is made: which, how, and that a build works without them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import prefetch
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.context import BuildContext, BuildFolders, BuildRun
from dlcontainer.packages.pip import kept_wheels
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.system.background import BackgroundWork
from dlcontainer.system.process import CommandFailedError
from dlcontainer.system.progress import StepProgress
from tests.fakes import Quiet, RecordingRunner, completed
from tests.values import execution_of, folder_of, plan_of, site_of

STEPS = [
    {"name": "system", "os_packages": ["python3", "python3-venv"]},
    {"name": "wheels", "python_packages": {"packages": ["a==1.0", "b==2.0"]}},
]
USUAL = "[global]\nindex-url = https://index.example/simple\n"


def step(name: str) -> BuildStep:
    return BuildStep(name=name, number=2, total=2, script="", files=(), inputs={}, key="k")


def plan_with(tmp_path: Path, **changes: Any) -> Plan:
    site = site_of(routing={"pip": {"index": "https://index.example/simple"}})
    return plan_of(folder_of(tmp_path, **{"steps": STEPS, **changes}), site=site)


@pytest.fixture
def routed(tmp_path: Path) -> PreparedRouting:
    folder = tmp_path / "routing"
    folder.mkdir()
    (folder / "pip.conf").write_text(USUAL)
    proxy = {"https_proxy": "http://proxy.example:1"}
    return replace(PreparedRouting.nothing(folder), environment=proxy, ca=tmp_path / "ca.crt")


@pytest.fixture
def runner() -> RecordingRunner:
    return RecordingRunner()


def begin(plan: Plan, routed: PreparedRouting, runner: RecordingRunner, tmp_path: Path) -> Any:
    context = BuildContext(execution=execution_of(tmp_path, runner), templates=())
    folders = BuildFolders(output=tmp_path, staging=tmp_path, work=tmp_path)
    run = BuildRun(
        folders=folders, steps=StepProgress(Quiet()), background=BackgroundWork(runner=runner)
    )
    supplies = prefetch.begin(plan, context, routed, run, fresh=False)
    run.background.join()
    return supplies


def test_a_step_finds_its_wheels_and_looks_nowhere_else(
    routed: PreparedRouting, runner: RecordingRunner, tmp_path: Path
) -> None:
    supplies = begin(plan_with(tmp_path), routed, runner, tmp_path)
    (call,) = runner.calls
    folder = routed.folder / "wheels/wheels"
    assert call.argv[-2:] == ("a==1.0", "b==2.0")
    assert f" download --dest {folder} " in " ".join(call.argv)
    assert {"--no-deps", "--only-binary=:all:", "3.11"} <= set(call.argv)
    assert call.env is not None
    assert call.env["PIP_INDEX_URL"] == "https://index.example/simple"
    assert call.env["PIP_CACHE_DIR"] == str(tmp_path / "cache/pip")
    assert call.env["HTTPS_PROXY"] == call.env["https_proxy"] == "http://proxy.example:1"
    assert call.env["PIP_CERT"] == str(tmp_path / "ca.crt")
    config = routed.folder / "pip.conf"
    with supplies.handed(step("system")):
        assert config.read_text() == USUAL
    with supplies.handed(step("wheels")):
        assert "no-index = true" in config.read_text()
        assert "find-links = /mnt/wheels/wheels\n" in config.read_text()
    assert config.read_text() == USUAL
    assert not folder.exists()
    assert (tmp_path / "build.log").read_text() == "wheels of 'wheels', fetched in advance: \n"


def test_a_step_whose_wheels_did_not_come_fetches_them_itself(
    routed: PreparedRouting, runner: RecordingRunner, tmp_path: Path
) -> None:
    runner.answers = [CommandFailedError(completed("pip", code=1, stdout="HTTP error 500"))]
    supplies = begin(plan_with(tmp_path), routed, runner, tmp_path)
    with supplies.handed(step("wheels")):
        assert (routed.folder / "pip.conf").read_text() == USUAL
    assert not (routed.folder / "wheels/wheels").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": STEPS[:1]},
        # Another Python than the distribution's may take other wheels.
        {"interpreter": "/opt/python/bin/python3"},
        {"base": {"image": "docker://docker.io/library/python:3.11@sha256:" + "ab" * 32}},
    ],
)
def test_what_is_left_to_the_step(
    routed: PreparedRouting, runner: RecordingRunner, tmp_path: Path, changes: dict[str, Any]
) -> None:
    if "base" in changes:
        changes = {**changes, "steps": STEPS[1:]}
    supplies = begin(plan_with(tmp_path, **changes), routed, runner, tmp_path)
    assert (runner.calls, supplies.coming) == ([], {})


def test_what_was_kept_longest_ago_goes(tmp_path: Path) -> None:
    import os

    for number, name in enumerate(("old", "new")):
        path = tmp_path / "deep" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 10)
        os.utime(path, (1000 + number, 1000 + number))
    # As if another build removed it between two looks.
    (tmp_path / "deep/gone").symlink_to(tmp_path / "nowhere")
    kept_wheels.make_room(tmp_path, 10)
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["gone", "new"]
    kept_wheels.make_room(tmp_path / "not there")
