"""Who builds: the engine's modes, and what goes before a step's command."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.build import dry_run
from dlcontainer.build.context import BuildContext
from dlcontainer.cli import build_context
from dlcontainer.engines import base_modes
from dlcontainer.engines.engine import EngineKind
from dlcontainer.errors import UsageError
from dlcontainer.system import machine
from tests.fakes import RecordingRunner
from tests.values import TRIAL, execution_of, folder_of, host, plan_of


def context_of(folder: Path, mode: str, *programs: str, uid: int = 1000) -> BuildContext:
    """Give the context of a user on whose PATH these programs are, and no others."""
    bin_folder = folder / "it's bin"
    bin_folder.mkdir()
    for name in ("mmdebstrap", *programs):
        (bin_folder / name).write_text("#!/bin/sh\n")
        (bin_folder / name).chmod(0o755)
    return BuildContext(
        execution=execution_of(
            folder,
            RecordingRunner(strict=True),
            capabilities=replace(TRIAL, build_mode=mode),
            host=host(uid=uid, environ={"PATH": str(bin_folder)}),
        ),
        templates=(),
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
    assert context_of(tmp_path, mode, uid=uid).step_mode == step_mode


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
    context = context_of(tmp_path, "root-mapped", *programs, uid=uid)
    assert context.step_prefix == (base_modes.fake_ids() if filtered else ())
    plan = plan_of(folder_of(tmp_path / "r"))
    commands = dry_run.planned_commands(plan, context, tmp_path / "out", tmp_path / "scratch")
    step, *_ = [argv for argv in commands if "exec" in argv]
    assert (Path(step[3]).name == "fake_ids.py") is filtered
    assert "--ignore-subuid" in step


@pytest.mark.parametrize("uid", [0, 1000])
def test_steps_whose_owners_can_be_changed(tmp_path: Path, uid: int) -> None:
    context = context_of(tmp_path, "plain", "newuidmap", "newgidmap", uid=uid)
    assert context.step_prefix == ()


def test_a_user_without_subordinate_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "without_subordinate_ids", lambda _: ["/etc/subuid"])
    context = context_of(tmp_path, "plain", "newuidmap", "newgidmap")
    assert (context.step_mode, context.step_prefix) == ("fakeroot", base_modes.fake_ids())


def test_the_settings_of_the_image_s_file(tmp_path: Path) -> None:
    context = replace(context_of(tmp_path, "plain"), level=7)
    for compression, words in (
        ("zstd", ("-comp", "zstd", "-Xcompression-level", "7", "-b", "512K")),
        ("lz4", ("-comp", "lz4", "-Xhc", "-b", "512K")),
    ):
        plan = plan_of(folder_of(tmp_path / compression, image={"compression": compression}))
        assert context.squash(plan) == words


def wanted(engine: EngineKind, level: int) -> build_context.BuildRequest:
    return build_context.BuildRequest(
        engine=engine,
        outcome="sif",
        registry=None,
        locked=None,
        offline=None,
        base=None,
        level=level,
        order_from=None,
        dry_run=False,
    )


def test_a_compression_that_does_not_fit_the_command_is_refused() -> None:
    check = build_context.check_compression
    with pytest.raises(UsageError, match="--level 15 applies to zstd"):
        check(wanted("apptainer", 15), "lz4")
    with pytest.raises(UsageError, match="raw-libraries works with --engine apptainer only"):
        check(wanted("docker", 5), "raw-libraries")
    check(wanted("podman", 5), "lz4")
    check(wanted("apptainer", 15), "raw-libraries")
    check(wanted("docker", 15), "zstd")
