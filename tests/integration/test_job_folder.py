"""The folder that a job's program runs in: the one that it was submitted from, or exit 3."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.formats import texts
from tests.integration import folders
from tests.integration.folders import LOOK, WAYS, Place
from tests.integration.test_bench import environment_with
from tests.integration.world import Built, World
from tests.jobs import BASH, SLURM, Machine, Ran, plan_at
from tests.skips import skip
from tests.values import TEMPLATES

PODMAN: dict[str, Any] = {"engine": {"runtime": "podman-hpc"}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with folders.placed(tmp_path_factory.mktemp("folders")) as made:
        yield made


@pytest.fixture(scope="module")
def script(tried: EngineCapabilities, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a job script of a site without a scheduler."""
    folder = tmp_path_factory.mktemp("script")
    plan = plan_at(folder, engine={"run_mode": tried.run_mode})
    (folder / "job.sh").write_text(texts.text(plan, "job", [TEMPLATES]))
    return folder / "job.sh"


def submitted(
    world: World, script: Path, argv: list[str], folder: Path, **variables: str
) -> "subprocess.CompletedProcess[str]":
    given = {**world.environ, "APPTAINER_USERNS": "1", "PWD": str(folder), **variables}
    cwd = "/" if argv[0] == "unshare" else folder
    return subprocess.run(
        argv, env=given, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_job_runs_where_it_was_submitted(
    world: World, tiny_image: Built, script: Path, place: Place, way: str
) -> None:
    if "automount" in way and os.getuid() != 0:
        skip("an automount is made by root", elsewhere="a run as root")
    (place.run / "ckpt").unlink(missing_ok=True)
    named = place.name(way)
    program = ("/opt/tiny/bin/python", "-c", LOOK, str(named), str(place.real(way)))
    argv = place.argv(way, BASH, str(script), *program)
    given = {"DLCONTAINER_IMAGE": str(tiny_image.image), "HOME": str(place.home)}
    done = submitted(world, script, argv, named, **given)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert json.loads(done.stdout)[2] == [True, True]
    assert [path.name for path in place.run.iterdir()] == ["ckpt"]


def test_bench_job_runs_both_arms_in_the_users_folder(
    world: World, tiny_image: Built, tiny: Path, place: Place, engine: Apptainer, tmp_path: Path
) -> None:
    folder = place.home / "scratch/run"
    site = tmp_path / "lab.yaml"
    site.write_text("schema: 1\nname: local\nsummary: s\nfacts: host\ndefault_recipe: tiny\n")
    path = f"{engine.program.parent}:{world.environ['PATH']}"
    user = world.having(PATH=path, APPTAINER_USERNS="1", HOME=place.home, PWD=folder)
    text = "import os; open('arms', 'a').write(os.getcwd() + '\\n')"
    words: list[str | Path] = ["bench", "job", "--image", tiny_image.image]
    words += ["--recipe", tiny, "--site", site]
    words += ["--native", environment_with(tmp_path / "native"), "--pairs", "1"]
    words += ["-o", tmp_path / "j.jsonl", "--", "python", "-c", text]
    user.run(*words, cwd=folder)
    lines = (place.run / "arms").read_text().splitlines()
    assert len(lines) >= 4
    assert set(lines) == {str(place.run)}
    (place.run / "arms").unlink()


def from_link(
    machine: Machine, folder: Path, flags: Sequence[str] = (), **site: Any
) -> tuple[Ran, str, Path]:
    """Submit a job from a folder by the name of a link in a home that the site binds."""
    home = machine.folder / "home"
    home.mkdir(exist_ok=True)
    (home / "scratch").symlink_to(machine.here)
    plan = plan_at(folder, scheduler=SLURM, jobs={"binds": [str(home)], "flags": [*flags]}, **site)
    image = machine.image(plan)
    ran = machine.job(plan, "mine", SLURM_NNODES="1", PWD=str(home / "scratch"))
    assert ran.code == 0, ran.err
    return ran, image, home


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.made(tmp_path / "a machine")


def test_a_link_that_shows_needs_its_target(machine: Machine, tmp_path: Path) -> None:
    # Else the engine shows /tmp by itself, where all of this lies.
    ran, image, home = from_link(machine, tmp_path, flags=["--no-mount", "tmp"])
    start = ran.started.index("apptainer")
    assert ran.started[start:] == [
        *("apptainer", "exec", "--no-mount", "tmp"),
        *("--bind", str(home), "--bind", str(machine.here)),
        *("--pwd", str(home / "scratch"), image, "mine"),
    ]


@pytest.mark.parametrize(("links", "named"), [(1, True), (2, False)])
def test_a_folder_behind_several_links_is_named_without_them(
    machine: Machine, tmp_path: Path, links: int, named: bool
) -> None:
    """The engine may show a home by itself, and with it the first link alone."""
    name = machine.here
    for number in range(links):
        link = machine.folder / f"link {number}"
        link.symlink_to(name)
        name = link
    plan = plan_at(tmp_path, scheduler=SLURM, jobs={"flags": ["--no-mount", "tmp"]})
    image, here = machine.image(plan), str(machine.here)
    ran = machine.job(plan, "mine", SLURM_NNODES="1", PWD=str(name))
    assert ran.code == 0, ran.err
    binds = ["--bind", str(name)] if named else []
    shown = [*binds, "--bind", here, "--pwd", str(name) if named else here]
    start = ran.started.index("apptainer")
    assert ran.started[start + 4 :] == [*shown, image, "mine"]


def test_podman_hpc_is_told_both_names(machine: Machine, tmp_path: Path) -> None:
    here = str(machine.here)
    ran, _, home = from_link(machine, tmp_path, **PODMAN)
    at = ran.started.index("-v")
    assert ran.started[at : at + 6] == [
        *("-v", f"{home}:{home}", "-v", f"{here}:{here}", "-w", str(home / "scratch"))
    ]
    link = machine.folder / "link"
    link.symlink_to(machine.here)
    plan = plan_at(tmp_path / "more", scheduler=SLURM, **PODMAN)
    more = machine.job(plan, "mine", SLURM_NNODES="1", PWD=str(link)).started
    at = more.index("-v")
    assert more[at : at + 6] == [*("-v", f"{link}:{link}", "-v", f"{here}:{here}", "-w", str(link))]


def test_podman_hpc_takes_no_colon(machine: Machine, tmp_path: Path) -> None:
    link = machine.folder / "a:b"
    link.mkdir()
    plan = plan_at(tmp_path, scheduler={"kind": "pbs"}, **PODMAN)
    ran = machine.job(plan, "mine", PBS_O_WORKDIR=str(link))
    assert (ran.code, ran.calls) == (3, [])
    assert f"can't show the job's folder: {link}\n  why: podman-hpc takes no" in ran.err


@pytest.mark.parametrize("runtime", ["container-engine", "shifter"])
def test_those_that_take_the_folder_of_their_process(
    machine: Machine, tmp_path: Path, runtime: str
) -> None:
    link = machine.folder / "link"
    link.symlink_to(machine.here)
    plan = plan_at(tmp_path, scheduler=SLURM, engine={"runtime": runtime})
    image = machine.image(plan, ".toml")
    given = {"DLCONTAINER_IMAGE": "docker:me/it:1" if runtime == "shifter" else image}
    ran = machine.job(plan, "mine", SLURM_NNODES="1", PWD=str(link), **given)
    assert (ran.code, ran.environment["PWD"]) == (0, str(machine.here))


def test_a_folder_that_cannot_be_shown(machine: Machine, tmp_path: Path) -> None:
    for number, engine in enumerate(("apptainer", "podman-hpc", "container-engine")):
        plan = plan_at(
            tmp_path / str(number), scheduler={"kind": "pbs"}, engine={"runtime": engine}
        )
        image = machine.image(plan)
        for folder, why in (("/usr", "the image has its own"), ("/no such", "can't enter")):
            if engine == "container-engine" and folder == "/usr":
                continue
            given = {"PBS_O_WORKDIR": folder, "DLCONTAINER_IMAGE": image}
            ran = machine.job(plan, "mine", **given)
            assert (ran.code, ran.calls) == (3, []), ran.err
            assert why in ran.err
            assert "next: " in ran.err


@pytest.mark.parametrize("odd", ["a b", 'q"q', "two\nlines", "$(touch x)", "c,o:n", "back\\slash"])
def test_odd_names(machine: Machine, tmp_path: Path, odd: str) -> None:
    folder = machine.folder / odd
    folder.mkdir()
    plan = plan_at(tmp_path, scheduler={"kind": "pbs"})
    image = machine.image(plan)
    ran = machine.job(plan, "mine", PBS_O_WORKDIR=str(folder), DLCONTAINER_IMAGE=image)
    assert ran.code == 0, ran.err
    assert ran.started[-4:] == ["--pwd", str(folder), image, "mine"]
    assert not list(machine.folder.rglob("x"))
