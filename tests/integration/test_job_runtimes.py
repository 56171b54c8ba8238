"""Job and build scripts run for real, for the runtimes that are no Apptainer."""

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from dlcontainer.formats import edf as edf_format
from dlcontainer.formats import texts
from dlcontainer.formats.host_environment import OF_RANKS, WAYS
from dlcontainer.formats.runtimes import HANDED
from dlcontainer.sites.engine import Runtime
from tests.jobs import LSF, PROOF, PROOF_FOLDER, SLURM, SWAP, Machine, Ran, plan_at
from tests.values import RECIPE, TEMPLATES


def named(ran: Ran) -> list[str]:
    """Name the variables of the job's own environment that podman-hpc is handed by name."""
    words = ran.launched[: ran.launched.index(OF_RANKS[0]) - 1]
    at = words.index("-w") + 2
    assert set(words[at::2]) <= {"-e"}
    return words[at + 1 :: 2]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.made(tmp_path / "a machine")


def test_podman_hpc(machine: Machine, tmp_path: Path) -> None:
    jobs = {"flags": ["--gpu"], "binds": ["$SCRATCH", "/a:/b"], "inside": {"NET": "AWS Libfabric"}}
    mpi = {**SWAP, "libraries": (), "flags": ["--mpi"], "environment": {}, "binds": ()}
    mpi["library_path"] = ["$CRAY/gtl", "$LD_LIBRARY_PATH"]
    plan = plan_at(
        tmp_path,
        scheduler=SLURM,
        jobs=jobs,
        mpi={key: value for key, value in mpi.items() if value},
        engine={"runtime": "podman-hpc"},
    )
    ran = machine.job(plan, SLURM_NNODES="1", SCRATCH="/s c", CRAY="/c$(touch X)")
    assert ran.launched[4:] == [
        *("podman-hpc", "run", "--rm", "--gpu", "--mpi", "-v", "/s c:/s c", "-v", "/a:/b"),
        *("-v", f"{machine.here}:{machine.here}", "-w", str(machine.here)),
        # All that Slurm sets: the proof knows its job and node by that.
        *(word for name in (*named(ran), *OF_RANKS, *HANDED, "SLURM*") for word in ("-e", name)),
        *("-e", "NET=AWS Libfabric", "-e", "NCCL_NET=AWS Libfabric"),
        *("-e", "LD_PRELOAD=/c$(touch X)/gtl.so", "-e", "LD_LIBRARY_PATH=/c$(touch X)/gtl"),
        *("demo:1.0-demo", *PROOF),
    ]


def test_podman_is_told_of_a_folder_once(machine: Machine, tmp_path: Path) -> None:
    jobs, engine = {"binds": ["/a:/b", "$SCRATCH"]}, {"runtime": "podman-hpc"}
    plan = plan_at(tmp_path, scheduler=SLURM, jobs=jobs, engine=engine)
    ran = machine.job(plan, "mine", SLURM_NNODES="1", SCRATCH=str(machine.here))
    shown = f"{machine.here}:{machine.here}"
    assert [word for word in ran.launched if shown in word] == [shown]
    assert ran.launched[ran.launched.index("-w") + 1] == str(machine.here)


def test_shifter(machine: Machine, tmp_path: Path) -> None:
    jobs = {"flags": ["--module=gpu,mpich"], "binds": ["/a"], "inside": {"A": "b c"}}
    plan = plan_at(tmp_path, scheduler=SLURM, jobs=jobs, engine={"runtime": "shifter"})
    ran = machine.job(plan, SLURM_NNODES="1")
    assert (ran.code, "job: which image?\n  next: Shifter takes images from a" in ran.err) == (
        3,
        True,
    )
    ran = machine.job(plan, SLURM_NNODES="1", DLCONTAINER_IMAGE="docker:me/it:1")
    assert ran.launched[4:] == [
        *("shifter", "--image=docker:me/it:1", "--module=gpu,mpich", "--volume=/a:/a"),
        *(f"--volume={PROOF_FOLDER}:{PROOF_FOLDER}", "--env", "A=b c", *PROOF),
    ]
    own = machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_IMAGE="docker:me/it:1")
    assert not [word for word in own.launched if "proof-" in word]


def test_the_container_engine(machine: Machine, tmp_path: Path) -> None:
    jobs = {"binds": ["$SCRATCH"], "flags": ["com.hooks.cxi.enabled=true"]}
    plan = plan_at(tmp_path, scheduler=SLURM, jobs=jobs, engine={"runtime": "container-engine"})
    environ = {"SLURM_NNODES": "1", "SCRATCH": "/s"}
    ran = machine.job(plan, **environ)
    assert (ran.code, "the EDF is written beside this script" in ran.err) == (3, True)
    edf = machine.image(plan, ".toml")
    wanted = ["srun", "-N1", "-n8", "--tasks-per-node=8", f"--environment={edf}"]
    assert machine.job(plan, **environ).launched == [*wanted, *PROOF]
    # The engine shows mounts alone: the folder of the proof, and the user's program, are in one.
    written = tomllib.loads(edf_format.text(plan))
    assert written["mounts"] == ["${SCRATCH}:${SCRATCH}", "${PWD}:${PWD}"]
    assert written["workdir"] == "${PWD}"
    # What the EDF names must be there too.
    assert "$SCRATCH is empty" in machine.job(plan, SLURM_NNODES="1").err


def test_the_documented_way_to_build(machine: Machine, tmp_path: Path) -> None:
    engine = {"route": ["podman", "docker-archive", "apptainer"]}
    plan = plan_at(tmp_path, engine=engine, mpi=LSF["mpi"], jobs=LSF["jobs"])
    text = texts.text(plan, "route", [TEMPLATES])
    ran = machine.run(text, MPI_ROOT="/sw/spectrum mpi")
    assert (ran.code, ran.calls) == (3, [])
    assert "route: no Dockerfile here\n  next: dlcontainer render --format route" in ran.err
    (machine.folder / "Dockerfile").touch()
    unset = machine.run(text)
    assert (unset.code, "route: $MPI_ROOT is not set" in unset.err) == (3, True)
    ran = machine.run(text, MPI_ROOT="/sw/spectrum mpi")
    assert ran.modules == ["purge", "load DefApps", "load spectrum-mpi/10.4"]
    bind = "/sw/spectrum mpi:/sw/spectrum mpi"
    assert [call for call in ran.calls if call[0] != "module"] == [
        [
            *("podman", "build", "--net=host", "-v", bind),
            *("--build-arg", "MPI_ROOT=/sw/spectrum mpi"),
            *("-f", "Dockerfile", "-t", "demo:1.0-demo", "."),
        ],
        ["podman", "save", "-o", "demo-1.0-demo.tar", "localhost/demo:1.0-demo"],
        [
            *("apptainer", "build", "--disable-cache", "demo-1.0-demo.sif"),
            "docker-archive://demo-1.0-demo.tar",
        ],
    ]
    failed = machine.run(text, MPI_ROOT="/m", FAKE_FAILS="podman")
    assert (failed.code, len(failed.calls)) == (1, 4)


@pytest.mark.parametrize(
    ("route", "commands"),
    [
        (
            ["podman-hpc", "migrate"],
            ["podman-hpc build -f Dockerfile -t DEMO .", "podman-hpc migrate DEMO"],
        ),
        (
            ["podman", "enroot"],
            [
                "podman build --net=host -f Dockerfile -t DEMO .",
                "enroot import -x mount -o demo-1.0-demo.sqsh podman://localhost/DEMO",
            ],
        ),
    ],
)
def test_other_ways_to_build(
    machine: Machine, tmp_path: Path, route: list[str], commands: list[str]
) -> None:
    plan = plan_at(tmp_path, engine={"route": route}, recipe={"base": RECIPE["base"]})
    (machine.folder / "Dockerfile").touch()
    text = texts.text(plan, "route", [TEMPLATES])
    without = machine.run(text)
    assert (without.code, "no rootfs.tar here" in without.err) == (3, True)
    (machine.folder / "rootfs.tar").touch()
    ran = machine.run(text)
    wanted = [command.replace("DEMO", "demo:1.0-demo") for command in commands]
    assert [" ".join(call) for call in ran.calls] == wanted


# What a user types before `sbatch job.sh`, and what other modules and shells left there.
USERS = {
    "HF_HOME": "/models/it's mine",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "16",
    "LR": "a\nb=c $x",
    "SECRET_TOKEN": "never on a command line",
}
OTHERS = {
    "CC": "gcc-1",
    "CONDA_PREFIX": "/c",
    "CPATH": "/c",
    "CUDA_HOME": "/c",
    "LANG": "de_DE",
    "LOADEDMODULES": "a",
    "PERL5LIB": "/p",
    "PYTHONPATH": "/leak",
    "SITE_OWN": "/p",
    "VIRTUAL_ENV": "/v",
}
IMAGES = {"OMP_NUM_THREADS": "8", "SITE_OWN": "/opt/demo/own", "NET": "image"}


# Without a launcher nothing starts the Container Engine.
@pytest.mark.parametrize(
    ("runtime", "launched"),
    [
        *((runtime, True) for runtime in get_args(Runtime)),
        *((runtime, False) for runtime in get_args(Runtime) if runtime != "container-engine"),
    ],
)
def test_a_users_variables_reach_the_runtime_and_the_hosts_do_not(
    machine: Machine, tmp_path: Path, runtime: Runtime, *, launched: bool
) -> None:
    """One list for all runtimes: what is taken by itself is what stands in the environment."""
    jobs = {"environment": {"SITE_SAYS": "1", "CPP": "the site's"}, "inside": {"NET": "site's"}}
    plan = plan_at(
        tmp_path,
        recipe={"environment": IMAGES},
        scheduler=SLURM if launched else {"kind": "slurm"},
        jobs=jobs,
        modules={"pass_environment": ["PERL5LIB"]},
        engine={"runtime": runtime},
    )
    suffix = ".toml" if runtime == "container-engine" else ".sif"
    image = machine.image(plan, suffix) if runtime != "shifter" else "docker:a/b"
    given = {"SLURM_NNODES": "1", "DLCONTAINER_IMAGE": image, **USERS, **OTHERS}
    ran = machine.job(plan, "mine", DLCONTAINER_PASS="CC", **given)
    assert ran.code == 0, ran.err
    seen = as_started(ran, runtime, launched=launched)
    let_in = {"CC", "PERL5LIB", "SITE_SAYS", "CPP"}
    assert set(USERS) | let_in <= seen
    assert not (set(OTHERS) - let_in) & seen
    assert not [word for call in ran.calls for word in call if "never on" in word]
    # Without them there is nothing to hand in, and nothing fails.
    assert machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_IMAGE=image).code == 0


def as_started(ran: Ran, runtime: Runtime, *, launched: bool) -> set[str]:
    """Name what the runtime takes: of its own environment, or what it is handed by name."""
    if WAYS[runtime].enters == "named":
        return set(named(ran))
    if not launched or WAYS[runtime].kept_out == "job":
        return set(ran.environment)
    # The launcher is a stand-in that starts nothing: its rank's shell is run for a look.
    environ = {**ran.environment, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    done = ran.as_rank("env", "-0", **environ)
    assert done.returncode == 0, done.stderr
    return {entry.split("=", 1)[0] for entry in done.stdout.split("\0") if entry}


@pytest.mark.parametrize("runtime", ["apptainer", "singularity"])
def test_a_users_value_wins_over_the_images(
    machine: Machine, tmp_path: Path, runtime: Runtime
) -> None:
    """Apptainer's image would set its own again, after what it lets in."""
    environment = {**IMAGES, "QUOTED": "x"}
    jobs = {"inside": {"NET": "site's"}}
    plan = plan_at(
        tmp_path,
        recipe={"environment": environment},
        scheduler=SLURM,
        jobs=jobs,
        engine={"runtime": runtime},
    )
    image = machine.image(plan)
    name = f"{runtime.upper()}ENV_"
    given = {"OMP_NUM_THREADS": "16", "QUOTED": "a `b` $c\nd", "SITE_OWN": "/host", "NET": "mine"}
    ran = machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_IMAGE=image, **given)
    handed = {k.removeprefix(name): v for k, v in ran.environment.items() if k.startswith(name)}
    # Escaped once: the runtime evaluates them. Folders in the image stay the image's.
    assert handed == {"OMP_NUM_THREADS": "16", "QUOTED": "a \\`b\\` \\$c\nd", "NET": "site's"}
    # On the rank too, though a name may end as a refused one does.
    environ = {**ran.environment, f"{name}LD_PRELOAD": "/x", f"{name}LD_LIBRARY_PATH": "/y"}
    rank = ran.as_rank("env", **environ, SLURM_PROCID="0", SLURM_NTASKS="1", SLURM_LOCALID="0")
    assert {f"{name}LD_PRELOAD=/x", f"{name}LD_LIBRARY_PATH=/y"} <= set(rank.stdout.splitlines())
    none = machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_IMAGE=image)
    assert [k for k in none.environment if k.startswith(name)] == [f"{name}NET"]


def test_a_way_is_known_for_each_runtime() -> None:
    assert set(WAYS) == set(get_args(Runtime))
