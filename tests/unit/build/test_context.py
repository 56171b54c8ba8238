"""Who builds: the engine's modes, and what goes before a step's command."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.build import dry_run
from dlcontainer.build.context import Workshop
from dlcontainer.engines import base_modes
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.system import machine
from tests.fakes import Quiet, RecordingRunner
from tests.values import TRIAL, folder_of, host, plan_of


def workshop(folder: Path, mode: str, *programs: str, uid: int = 1000) -> Workshop:
    """Give the workshop of a user on whose PATH these programs are, and no others."""
    bin_folder = folder / "it's bin"
    bin_folder.mkdir()
    for name in ("mmdebstrap", *programs):
        (bin_folder / name).write_text("#!/bin/sh\n")
        (bin_folder / name).chmod(0o755)
    return Workshop(
        engine=Apptainer(program=Path("/bin/apptainer")),
        trial=replace(TRIAL, build_mode=mode),
        host=host(uid=uid, environ={"PATH": str(bin_folder)}),
        runner=RecordingRunner(strict=True),
        cache=folder / "cache",
        templates=(),
        progress=Quiet(),
    )


@pytest.fixture(autouse=True)
def subordinate_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    monkeypatch.setattr(machine, "without_subordinate_ids", lambda _: [])


@pytest.mark.parametrize(
    ("uid", "mode", "step_mode"),
    [
        (0, "plain", "plain"),
        (0, "fakeroot", "fakeroot"),
        (1000, "plain", "fakeroot"),
        (1000, "fakeroot", "fakeroot"),
        (1000, "root-mapped", "root-mapped"),
    ],
)
def test_the_mode_of_steps(tmp_path: Path, uid: int, mode: str, step_mode: str) -> None:
    assert workshop(tmp_path, mode, uid=uid).step_mode == step_mode


@pytest.mark.parametrize(
    ("uid", "programs", "filtered"),
    [
        (0, (), True),
        (1000, (), True),
        (1000, ("newuidmap",), True),
        # The two are there, and did not work.
        (1000, ("newuidmap", "newgidmap"), True),
        # Apptainer works with it.
        (1000, ("fakeroot",), False),
    ],
)
def test_steps_whose_owners_can_not_be_changed(
    tmp_path: Path, uid: int, programs: tuple[str, ...], filtered: bool
) -> None:
    shop = workshop(tmp_path, "root-mapped", *programs, uid=uid)
    assert shop.step_prefix == (base_modes.fake_ids() if filtered else ())
    plan = plan_of(folder_of(tmp_path / "r"))
    commands = dry_run.planned_commands(plan, shop, tmp_path / "out", tmp_path / "scratch")
    step, *_ = [argv for argv in commands if "exec" in argv]
    assert (Path(step[3]).name == "fake_ids.py") is filtered
    assert "--ignore-subuid" in step


@pytest.mark.parametrize("uid", [0, 1000])
def test_steps_whose_owners_can_be_changed(tmp_path: Path, uid: int) -> None:
    shop = workshop(tmp_path, "plain", "newuidmap", "newgidmap", uid=uid)
    assert shop.step_prefix == ()


def test_a_user_without_subordinate_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "without_subordinate_ids", lambda _: ["/etc/subuid"])
    shop = workshop(tmp_path, "plain", "newuidmap", "newgidmap")
    assert (shop.step_mode, shop.step_prefix) == ("fakeroot", base_modes.fake_ids())
