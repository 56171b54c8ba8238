"""Models and data go off the home by default: in a module's commands, in jobs of each runtime."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from dlcontainer.planning.launch.model_folders import FOLDERS
from dlcontainer.sites.engine import Runtime
from tests.integration.accounts import NOBODY
from tests.integration.publish.test_wrapper_modes import Fake, fake
from tests.integration.test_job_runtimes import as_started
from tests.integration.world import missing
from tests.jobs import SLURM, Machine, plan_at

NAMES = {*FOLDERS, "HF_TOKEN_PATH"}
HAND = "APPTAINERENV_"
ENV = '#!/bin/sh\n{ printf \'<%s>\' "$@"; echo; } >> "$0.calls"\nenv\n'


def site_with(folder: str, shown: Path) -> dict[str, Any]:
    system = {"kind": "lustre", "purpose": "scratch", "user_folder": folder}
    return {"filesystems": [{"path": str(shown), **system}]}


def defaults(folder: Path, home: str) -> dict[str, str]:
    made = {name: f"{folder}/.cache/{place}" for name, place in FOLDERS.items()}
    return {**made, "HF_TOKEN_PATH": f"{home}/.cache/huggingface/token"}


def in_image(there: Fake, **variables: str) -> dict[str, str]:
    """Give the variables of models that a wrapper hands into the image."""
    there.program.write_text(ENV)
    changes: dict[str, Any] = {"DLCONTAINER_RUN_MODE": "plain", **variables}
    done = there.shelf.run(there.shelf.python, **changes)
    assert done.stderr == ""
    pairs = (line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    handed = {name: value for name, value in pairs if name.startswith(HAND)}
    found = {name.removeprefix(HAND): value for name, value in handed.items()}
    return {name: value for name, value in found.items() if name in NAMES}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch/it's ada's"
    folder.mkdir(parents=True)
    return folder


def test_a_wrapper_names_the_users_own_folder_and_shows_it(tmp_path: Path) -> None:
    there = fake(
        tmp_path,
        **site_with("$SCRATCH", Path("/not/on/this/node")),
        modules={"bind_home": False},
    )
    # Not below /tmp, which the engine shows by itself.
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix="dlcontainer-test-") as name:
        scratch = Path(name).resolve()
        found = in_image(there, SCRATCH=str(scratch))
        assert found == defaults(scratch, str(there.shelf.environ["HOME"]))
        assert f"<--bind><{scratch}>" in there.calls()[-1]
        # Nothing is made: frameworks do that when they need it.
        assert not list(scratch.iterdir())


def test_what_the_user_says_wins(tmp_path: Path, scratch: Path) -> None:
    there = fake(tmp_path, **site_with("$SCRATCH", tmp_path))
    usual = defaults(scratch, str(there.shelf.environ["HOME"]))
    found = in_image(there, SCRATCH=str(scratch), HF_HOME="/my models", TFDS_DATA_DIR="")
    del usual["HF_TOKEN_PATH"]  # it lies in what the user named
    assert found == {**usual, "HF_HOME": "/my models"}
    # Of these the usual place is in XDG_CACHE_HOME, so the user has chosen one.
    found = in_image(there, SCRATCH=str(scratch), XDG_CACHE_HOME="/my/cache")
    assert set(found) == {"MXNET_HOME", "TFDS_DATA_DIR"}


@pytest.mark.parametrize("how", ["not set", "empty", "relative", "absent", "a file", "another's"])
def test_without_such_a_folder_the_frameworks_own_places_hold(
    tmp_path: Path, scratch: Path, how: str
) -> None:
    there = fake(tmp_path, **site_with("$SCRATCH", tmp_path))
    given = {"SCRATCH": str(scratch)}
    if how == "not set":
        given = {}
    elif how == "empty":
        given = {"SCRATCH": ""}
    elif how == "relative":
        given = {"SCRATCH": os.path.relpath(scratch, there.shelf.environ["HOME"])}
    elif how == "absent":
        scratch.rmdir()
    elif how == "a file":
        scratch.rmdir()
        scratch.write_text("")
    elif os.getuid() == 0:
        # Whoever was first with the name in a folder that all may write to.
        scratch.chmod(0o777)
        os.chown(scratch, NOBODY.uid, NOBODY.gid)
    else:
        missing("root, which makes another user's folder for the test")
    assert in_image(there, **given) == {}


def test_a_site_can_say_otherwise_for_its_jobs(tmp_path: Path, scratch: Path) -> None:
    inside = {"inside": {"HF_HOME": "/projects/models"}}
    there = fake(tmp_path, **site_with("$SCRATCH", tmp_path), jobs=inside)
    found = in_image(there, SCRATCH=str(scratch))
    assert found["HF_HOME"] == "/projects/models"
    assert found["TORCH_HOME"] == f"{scratch}/.cache/torch"
    assert "HF_TOKEN_PATH" not in found


@pytest.mark.parametrize("runtime", get_args(Runtime))
def test_jobs_of_each_runtime(tmp_path: Path, scratch: Path, runtime: Runtime) -> None:
    machine = Machine.made(tmp_path / "m")
    ran = _job(machine, tmp_path, runtime, {"binds": ["$SCRATCH"]}, SCRATCH=str(scratch))
    wanted = defaults(scratch, str(machine.folder))
    assert {name: ran.environment.get(name) for name in NAMES} == wanted
    assert as_started(ran, runtime, launched=True) >= NAMES
    own = _job(machine, tmp_path, runtime, {}, SCRATCH=str(scratch), HF_HOME="/mine")
    assert own.environment["HF_HOME"] == "/mine"
    assert "HF_TOKEN_PATH" not in own.environment


def test_a_job_names_no_folder_that_its_image_would_not_show(tmp_path: Path, scratch: Path) -> None:
    machine = Machine.made(tmp_path / "m")
    with_folder: Mapping[str, Any] = {"binds": [], "shown": scratch.parent}
    ran = _job(machine, tmp_path, "apptainer", with_folder, SCRATCH=str(scratch))
    assert ran.environment["HF_HOME"] == f"{scratch}/.cache/huggingface"
    # tmp_path is below /tmp as a rule, which the engine shows by itself.
    ran = _job(machine, tmp_path, "apptainer", {}, SCRATCH="/var/lib")
    assert not NAMES & set(ran.environment)
    site_says = {"environment": {"TORCH_HOME": "/site/torch"}, "binds": ["$SCRATCH"]}
    ran = _job(machine, tmp_path, "apptainer", site_says, SCRATCH=str(scratch))
    assert ran.environment["TORCH_HOME"] == "/site/torch"


def _job(
    machine: Machine, folder: Path, runtime: Runtime, jobs: Mapping[str, Any], **environ: str
) -> Any:
    jobs = dict(jobs)
    plan = plan_at(
        folder,
        scheduler=SLURM,
        engine={"runtime": runtime},
        **site_with("$SCRATCH", jobs.pop("shown", Path("/nowhere"))),
        jobs=jobs,
    )
    suffix = ".toml" if runtime == "container-engine" else ".sif"
    image = machine.image(plan, suffix) if runtime != "shifter" else "docker:a/b"
    ran = machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_IMAGE=image, **environ)
    assert ran.code == 0, ran.err
    return ran
