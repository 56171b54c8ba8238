"""Job scripts run for real, on a machine whose programs note what reaches them."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.jobs import LSF, PROOF, SLURM, SWAP, Machine, plan_at


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.made(tmp_path / "a machine")


def test_lsf_both_forms_and_the_compiled_mpi(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **LSF)
    image = machine.image(plan)
    hosts = machine.folder / "hosts"
    hosts.write_text("batch3\nh41n08\nh41n08\nh41n09\nlogin1\n\nlaunch2\nh42n01\n")
    environ = {"LSB_DJOB_HOSTFILE": str(hosts), "MPI_ROOT": "/sw/spectrum mpi"}
    start = [
        *("apptainer", "exec", "--nv", "--bind", "/sw/spectrum mpi:/sw/spectrum mpi"),
        *("--bind", "/autofs/home:/ccs/home", image),
    ]
    ran = machine.job(plan, **environ)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("job: jsrun -n 3 ")
    node = ["jsrun", "-n", "3", "-r1", "-a6", "-bpacked:7"]
    assert ran.launched == [*node, *start, *PROOF]
    assert ran.modules == ["purge", "load DefApps", "load spectrum-mpi/10.4"]
    assert ran.environment["APPTAINERENV_PAMI_ENABLE_STRIPING"] == "1"
    gpu = ["jsrun", "-n", "18", "-r6", "-g1"]
    mine = ("python", "-c", "print('a b')", "")
    for given in ({"launch": "gpu"}, {"DLCONTAINER_FORM": "gpu"}):
        assert machine.job(plan, *mine, **environ, **given).launched == [*gpu, *start, *mine]
    unknown = machine.job(plan, DLCONTAINER_FORM="cpu", **environ)
    assert (unknown.code, "is no form of this site\n  next: one of: node, gpu" in unknown.err) == (
        3,
        True,
    )


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "job: $MPI_ROOT is empty or not set; the site config uses it\n  next: load the"),
        ({"MPI_ROOT": "/m"}, "job: can't tell the number of nodes: '0'\n  next: run this in a job"),
    ],
)
def test_what_is_missing_is_named(
    machine: Machine, tmp_path: Path, environ: dict[str, str], message: str
) -> None:
    plan = plan_at(tmp_path, **LSF)
    machine.image(plan)
    ran = machine.job(plan, **environ)
    assert (ran.code, message in ran.err) == (3, True), ran.err
    assert [call[0] for call in ran.calls if call[0] != "module"] == []


def test_a_module_that_fails_ends_the_job(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **LSF)
    machine.image(plan)
    ran = machine.job(plan, MPI_ROOT="/m", FAKE_FAILS="module")
    assert (ran.code, ran.calls) == (3, [["module", "purge"]])
    assert "a module command failed, see above\n  next: ask what the site has: module avail" in (
        ran.err
    )


def test_a_launcher_that_fails_fails_the_job(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, scheduler=SLURM)
    machine.image(plan)
    assert machine.job(plan, SLURM_NNODES="1", FAKE_FAILS="srun").code == 1


@pytest.mark.parametrize("entry", ["", "."])
def test_an_engine_in_the_current_folder_never_runs(
    machine: Machine, tmp_path: Path, entry: str
) -> None:
    plan = plan_at(tmp_path)
    machine.image(plan)
    trap = machine.here / "apptainer"
    trap.write_text("#!/bin/sh\ntouch caught\n")
    trap.chmod(0o755)
    ran = machine.job(plan, "true", PATH=f"{entry}:{machine.folder / 'bin'}:/usr/bin:/bin")
    assert (ran.code, ran.launched[0]) == (0, "apptainer")
    assert not (machine.here / "caught").exists()


@pytest.mark.parametrize("runtime", ["apptainer", "singularity"])
def test_the_hosts_mpi_takes_the_images_place(
    machine: Machine, tmp_path: Path, runtime: str
) -> None:
    engine = {"runtime": runtime, "module": "tools/1"}
    jobs = {"modules": ["reset"], "inside": {"LD_LIBRARY_PATH": "/from/jobs"}}
    own = {"environment": {"LD_LIBRARY_PATH": "/image/$$ORIGIN"}}
    plan = plan_at(tmp_path, recipe=own, scheduler=SLURM, mpi=SWAP, engine=engine, jobs=jobs)
    image = machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="2", CRAY="/opt/c`r$ay")
    assert ran.modules == ["reset", "load tools/1"]
    assert ran.launched == [
        *("srun", "-N2", "-n16", "--tasks-per-node=8", runtime, "exec"),
        *("--bind", "/opt/cray", image, *PROOF),
    ]
    # The site binds the folder that the job starts in: once is enough.
    here = str(machine.here)
    assert ran.started.count(here) == 2
    assert ["--bind", here, "--pwd", here, image] == [
        *ran.started[(at := ran.started.index(here)) - 1 : at + 4]
    ]
    name = runtime.upper()
    wanted = {
        "MPICH_GPU": "1",
        "ROOTS": "/opt/c`r$ay/lib",
        f"{name}_CONTAINLIBS": "/usr/lib64/libcxi.so.1,/opt/c`r$ay/lib/libnl.so",
        f"{name}ENV_NCCL_NET": "AWS Libfabric",
        # Escaped once: the runtime evaluates them.
        f"{name}ENV_LD_PRELOAD": "/opt/c\\`r\\$ay/gtl.so",
        f"{name}ENV_LD_LIBRARY_PATH": ":".join(
            [
                *("/opt/c\\`r\\$ay/gtl", "/opt/rocm/lib", "/opt/c\\`r\\$ay/lib/x"),
                *("/from/jobs", "/image/\\$ORIGIN"),
            ]
        ),
    }
    assert {key: ran.environment.get(key) for key in wanted} == wanted
    other = {"apptainer": "SINGULARITY", "singularity": "APPTAINER"}[runtime]
    assert not [key for key in ran.environment if key.startswith(other)]
    assert "LD_PRELOAD" not in ran.environment
    more = machine.job(plan, SLURM_NNODES="2", CRAY="/c", LD_LIBRARY_PATH="/usr/l")
    assert more.environment[f"{name}ENV_LD_LIBRARY_PATH"].startswith("/c/gtl:/opt/rocm/lib:/usr/l:")


def test_without_mpi_in_the_recipe_none_of_it_is_there(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, recipe={"stack": {}}, scheduler=SLURM, mpi=SWAP)
    image = machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="1")
    assert ran.launched[4:] == ["apptainer", "exec", image, *PROOF]
    assert not [key for key in ran.environment if key.startswith(("APPTAINER", "MPICH"))]


def test_a_script_of_the_site_is_read_after_the_modules(machine: Machine, tmp_path: Path) -> None:
    script = machine.folder / "it's required.source"
    script.write_text('export A="$UNSET x" ROOT=/r; false\n')
    mpi = {"family": "mpich", "mode": "swap", "name": "M", "scripts": [str(script)]}
    plan = plan_at(tmp_path, mpi={**mpi, "binds": ["$ROOT"]}, jobs={"environment": {"B": "$A"}})
    image = machine.image(plan)
    ran = machine.job(plan)
    assert ran.launched == ["apptainer", "exec", "--bind", "/r", image, *PROOF]
    assert ran.environment["B"] == " x"
    script.unlink()
    gone = machine.job(plan)
    assert (gone.code, f"can't read a script of the site: {script}" in gone.err) == (3, True)


def test_ibrun_with_memory_preferred(machine: Machine, tmp_path: Path) -> None:
    scheduler = {"kind": "slurm", "launcher": ["ibrun"]}
    jobs = {"prefix": ["numactl", "--preferred=1"], "modules": ["unload xalt"]}
    plan = plan_at(tmp_path, scheduler=scheduler, jobs=jobs, engine={"runtime": "singularity"})
    image = machine.image(plan)
    wanted = ["ibrun", "numactl", "--preferred=1", "singularity", "exec", image, *PROOF]
    assert machine.job(plan).launched == wanted


@pytest.mark.parametrize(
    ("kind", "word", "environ", "nodes"),
    [
        ("pbs", "mpiexec", {"PBS_NODEFILE": "HOSTS"}, "3"),
        ("cobalt", "aprun", {"COBALT_JOBSIZE": "8"}, "8"),
        ("slurm", "srun", {"SLURM_NNODES": "12"}, "12"),
        ("none", "mpiexec", {}, "1"),
    ],
)
def test_schedulers_tell_the_number_of_nodes(
    machine: Machine, tmp_path: Path, kind: str, word: str, environ: dict[str, str], nodes: str
) -> None:
    hosts = machine.folder / "it's hosts"
    hosts.write_text("x1\nx1\nx2\nbatch7\n")
    form = {"summary": "a", "launcher": [word, "-n", "{nodes}", "-f", "$LIST"], "ranks_per_node": 1}
    plan = plan_at(tmp_path, scheduler={"kind": kind, "forms": {"a": form}})
    image = machine.image(plan)
    given = {key: value.replace("HOSTS", str(hosts)) for key, value in environ.items()}
    ran = machine.job(plan, LIST="a list", **given)
    assert ran.launched == [word, "-n", nodes, "-f", "a list", "apptainer", "exec", image, *PROOF]


@pytest.mark.parametrize("count", ["", "0", "08", "a[$(touch X)]", "-1"])
def test_no_number_is_no_number(machine: Machine, tmp_path: Path, count: str) -> None:
    plan = plan_at(tmp_path, scheduler=SLURM)
    machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES=count)
    assert (ran.code, ran.calls) == (3, [])
    assert f"can't tell the number of nodes: '{count}'" in ran.err


def test_pbs_starts_elsewhere(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, scheduler={"kind": "pbs"})
    elsewhere = machine.folder / "else where"
    elsewhere.mkdir()
    (elsewhere / f"{plan.name}.sif").touch()
    ran = machine.job(plan, PBS_O_WORKDIR=str(elsewhere))
    assert ran.launched == ["apptainer", "exec", f"{elsewhere}/{plan.name}.sif", *PROOF]


def test_the_image_must_be_there(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path)
    ran = machine.job(plan)
    assert (ran.code, f"can't read {machine.here}/{plan.name}.sif" in ran.err) == (3, True)
    other = machine.folder / "my image.sif"
    other.touch()
    ran = machine.job(plan, DLCONTAINER_IMAGE=str(other))
    assert ran.launched == ["apptainer", "exec", str(other), *PROOF]


def checksum(number: str) -> str:
    """Give what scripts call a job whose number is no name of a file."""
    return f"sha256-{hashlib.sha256(os.fsencode(number) + bytes(1)).hexdigest()}"


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"SLURM_JOB_ID": "17"}, "proof-17"),
        ({"PBS_JOBID": "18.server"}, "proof-18.server"),
        ({"PBS_JOBID": "", "LSB_JOBID": "19"}, "proof-19"),
        ({"FLUX_JOB_ID": "", "FLUX_ENCLOSING_ID": "f7"}, "proof-f7"),
        ({"PBS_JOBID": ".."}, "proof-.."),
        *(
            ({"FLUX_JOB_ID": any_bytes}, f"proof-{checksum(any_bytes)}")
            for any_bytes in ("ƒM7Zq9", "../x", "a b\n", "$(id)", "x" * 300, "\udcff")
        ),
    ],
)
def test_a_job_without_a_command_proves_into_a_folder_of_its_own(
    machine: Machine, tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    plan = plan_at(tmp_path / "r", scheduler={"kind": "none"})
    machine.image(plan)
    ran = machine.job(plan, **environ)
    [argv] = ran.calls
    assert argv[-2:] == ["--out", str(machine.here / name)]
    assert (machine.here / name).is_dir()


SCHEDULED = {
    "pbs": ({}, "7.server"),
    "slurm": ({"SLURM_JOB_ID": "17"}, "17"),
    "gridengine": ({"SGE_TASK_ID": "undefined", "JOB_ID": "19", "PBS_JOBID": ""}, "19"),
    "lsf": ({"LSB_JOBID": "21", "PBS_JOBID": ""}, "21"),
}


@pytest.mark.parametrize(
    ("kind", "again", "names"),
    [
        ("slurm", ["", "1", "2"], ["", "-restart-1", "-restart-2"]),
        # The folder of the first time is gone, or was never made.
        ("slurm", ["2"], ["-restart-2"]),
        # A second proof in one job, and a count that is none.
        ("slurm", ["", "", "many"], ["", "-restart-1", "-restart-2"]),
        # They say that it began again, and not how often; PBS says nothing.
        ("gridengine", ["0", "1", "1"], ["", "-restart-1", "-restart-2"]),
        ("lsf", ["", "Y", "Y"], ["", "-restart-1", "-restart-2"]),
        ("pbs", ["", "", ""], ["", "-restart-1", "-restart-2"]),
    ],
)
def test_a_proof_of_each_time_that_a_job_begins(
    machine: Machine, tmp_path: Path, kind: str, again: list[str], names: list[str]
) -> None:
    plan = plan_at(tmp_path, scheduler={"kind": kind, "launcher": ["mpiexec"]})
    machine.image(plan)
    environ, number = SCHEDULED[kind]
    if kind == "slurm":
        environ = {**environ, "PBS_JOBID": ""}
    told = {"slurm": "SLURM_RESTART_COUNT", "gridengine": "RESTARTED", "lsf": "LSB_RESTART"}
    for count in again:
        more = {told[kind]: count} if kind in told else {}
        ran = machine.job(plan, **environ, **more, DLCONTAINER_MASTER_ADDR="n1")
        assert (ran.code, ran.launched[-5:]) == (0, list(PROOF))
    made = sorted(path.name for path in machine.here.glob("proof-*"))
    assert made == [f"proof-{number}{name}" for name in names]


def test_what_already_has_the_name_of_a_proof_stays(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, scheduler={"kind": "pbs", "launcher": ["mpiexec"]})
    machine.image(plan)
    given = {"DLCONTAINER_MASTER_ADDR": "n1"}
    (machine.here / "proof-7.server").write_text("a file\n")
    (machine.here / "proof-7.server-restart-1").symlink_to(tmp_path / "nothing")
    assert machine.job(plan, **given).code == 0
    assert (machine.here / "proof-7.server-restart-2").is_dir()
    assert not (tmp_path / "nothing").exists()
    # A folder that can't be made ends the job, whatever the reason.
    refusing = machine.folder / "bin" / "mkdir"
    refusing.write_text("#!/bin/sh\necho Read-only file system >&2\nexit 1\n")
    refusing.chmod(0o755)
    ran = machine.job(plan, **given, PBS_JOBID="8")
    assert (ran.code, ran.calls) == (3, [])
    assert "Read-only file system\n  next: submit this from a folder" in ran.err


@pytest.mark.parametrize(
    ("launcher", "environ", "gets"),
    [
        ("srun", {"SLURM_CPUS_PER_TASK": "8"}, "8"),
        # What another job left around this one does not hold.
        ("srun", {"SLURM_CPUS_PER_TASK": "8", "SRUN_CPUS_PER_TASK": "2"}, "8"),
        ("srun", {}, None),
        ("srun", {"SLURM_CPUS_PER_TASK": ""}, None),
        ("srun", {"SRUN_CPUS_PER_TASK": "2"}, "2"),
        # It starts its own daemons by an srun, one a node.
        ("mpiexec", {"SLURM_CPUS_PER_TASK": "8"}, None),
        ("ibrun", {"SLURM_CPUS_PER_TASK": "8"}, None),
    ],
)
def test_a_launcher_is_told_the_cpus_of_a_task(
    machine: Machine, tmp_path: Path, launcher: str, environ: dict[str, str], gets: str | None
) -> None:
    plan = plan_at(tmp_path, scheduler={"kind": "slurm", "launcher": [launcher]})
    machine.image(plan)
    ran = machine.job(plan, "true", **environ, DLCONTAINER_MASTER_ADDR="n1")
    assert ran.code == 0
    assert ran.environment.get("SRUN_CPUS_PER_TASK") == gets


@pytest.mark.parametrize(("form", "gets"), [("a", "8"), ("b", None)])
def test_of_several_launchers_each_is_told_as_it_takes_it(
    machine: Machine, tmp_path: Path, form: str, gets: str | None
) -> None:
    forms = {
        name: {"summary": "f", "launcher": [program], "ranks_per_node": 1}
        for name, program in (("a", "srun"), ("b", "mpiexec"))
    }
    plan = plan_at(tmp_path, scheduler={"kind": "slurm", "launcher": ["srun"], "forms": forms})
    machine.image(plan)
    environ = {"SLURM_CPUS_PER_TASK": "8", "SLURM_NNODES": "1", "DLCONTAINER_FORM": form}
    ran = machine.job(plan, "true", **environ, DLCONTAINER_MASTER_ADDR="n1")
    assert ran.code == 0
    assert ran.environment.get("SRUN_CPUS_PER_TASK") == gets
