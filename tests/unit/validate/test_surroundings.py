"""Checks run with the site's flags, binds and variables; what this host has not is not tried."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import emulation
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError
from dlcontainer.validate import validate as validating
from tests.fakes import RecordingRunner, completed
from tests.unit.validate.inspecting import INSIDE, LABELS, answers, check, inspected, said
from tests.unit.validate.test_adopted import adopted


def test_every_check_that_runs_gets_them(image: Path, tmp_path: Path) -> None:
    bind = f"{tmp_path}:/data"
    jobs = {"binds": [bind], "flags": ["--workdir", "/w"], "inside": {"NCCL_CROSS_NIC": "1"}}
    runner = RecordingRunner([inspected(LABELS), completed("x"), *answers()[1:]], strict=True)
    checks = check(image, runner, jobs=jobs)
    assert checks["surroundings"].state == "ok"
    assert checks["surroundings"].detail == (
        f"flags --workdir /w; binds {bind}; variables NCCL_CROSS_NIC=1"
    )
    for argv in runner.argvs[1:]:
        assert argv[argv.index("--workdir") :][:4] == ("--workdir", "/w", "--bind", bind)
        assert "NCCL_CROSS_NIC=1" in argv
    # The probe is told which variable is not the host's.
    assert runner.argvs[2][-2:] == ("sh", "NCCL_CROSS_NIC")


def test_a_site_that_adds_nothing_has_no_such_check(image: Path) -> None:
    assert "surroundings" not in check(
        image, RecordingRunner(answers(), strict=True), arch="x86_64"
    )
    assert "surroundings" not in check(image, RecordingRunner(answers(), strict=True))


def test_a_bind_that_a_build_host_has_not_is_not_tried(image: Path) -> None:
    runner = RecordingRunner(answers(), strict=True)
    checks = check(image, runner, jobs={"binds": ["/no/such/folder"]})
    found = checks["surroundings"]
    assert (found.ok, found.state) == (False, "not tried")
    assert found.detail == (
        "left out: bind /no/such/folder: there is no /no/such/folder on this host"
    )
    assert not any("--bind" in argv for argv in runner.argvs)
    validating.require_ok(list(checks.values()))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (CommandFailedError(completed("x", code=1, stderr="FATAL: no --xyz\n")), "FATAL: no --xyz"),
        (CommandTimeoutError(completed("x"), 600), "x"),
    ],
)
def test_words_that_the_engine_refuses_here_are_left_out(
    image: Path, wrong: Exception, why: str
) -> None:
    runner = RecordingRunner([inspected(LABELS), wrong, *answers()[1:]], strict=True)
    checks = check(image, runner, jobs={"flags": ["--xyz"]})
    assert checks["surroundings"].state == "not tried"
    assert checks["surroundings"].detail.startswith("left out: --xyz: ")
    assert why in checks["surroundings"].detail
    assert checks["runs"].ok
    assert not any("--xyz" in argv for argv in runner.argvs[2:])


def test_an_emulated_image_is_not_at_its_site(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulation, "obstacle", lambda arch: None)
    inside = said({**INSIDE, "machine": "ppc64le"})
    runner = RecordingRunner(answers(inside=inside))
    checks = check(foreign, runner, arch="ppc64le", jobs={"flags": ["--workdir", "/w"]})
    assert checks["surroundings"].detail == "left out: the image is emulated"
    assert not any("--workdir" in argv for argv in runner.argvs)


def test_nothing_of_the_site_s_shows_in_an_image_that_nobody_trusts(
    image: Path, tmp_path: Path
) -> None:
    adopted(image)
    runner = RecordingRunner([inspected(LABELS), completed("x"), said(INSIDE)])
    checks = check(image, runner, jobs={"binds": [str(tmp_path)]})
    assert checks["surroundings"].state == "not tried"
    assert not any("--bind" in argv for argv in runner.argvs)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"leftovers": ["/mnt/nvme"]}, "no leftovers"),
        ({"leaks": ["LD_LIBRARY_PATH /opt/fabric/lib"]}, "host stays out"),
    ],
)
def test_what_the_site_shows_is_no_fault_of_the_image_s(
    image: Path, tmp_path: Path, change: dict[str, Any], name: str
) -> None:
    inside = {"LD_LIBRARY_PATH": "/opt/fabric/lib"}
    jobs = {"binds": [f"{tmp_path}:/mnt/nvme/scratch"], "inside": inside}
    given = answers(inside=said({**INSIDE, **change}))
    runner = RecordingRunner([given[0], completed("x"), *given[1:]])
    assert check(image, runner, jobs=jobs)[name].ok
    assert not check(image, RecordingRunner(given))[name].ok
