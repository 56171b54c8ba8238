"""The table of schedulers: each is one file, and a new one is known everywhere at once."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from dlcontainer import schedulers
from dlcontainer.bench.job import rank_clock
from dlcontainer.errors import ConfigError
from dlcontainer.formats import job_head, reframe, texts
from dlcontainer.planning.launch import refused_variables
from dlcontainer.planning.plan import Plan
from dlcontainer.publish import modulefiles
from dlcontainer.publish.modulefiles import FallbackPrograms
from dlcontainer.schedulers import SCHEDULERS, directives, mpi_launchers, slurm, time_limits
from dlcontainer.schedulers.scheduler import (
    BatchSystem,
    JobVariables,
    Launcher,
    RankVariables,
    ReframeBackend,
    hosts_listed,
)
from dlcontainer.sites import facts
from tests import goldens
from tests.jobs import plan_at
from tests.unit.publish.test_modulefiles import RELEASE
from tests.values import ROOT, TEMPLATES

RANKS = RankVariables(rank="QUEUE_RANK", size="QUEUE_RANKS")
MADE_UP = BatchSystem(
    submit="queue",
    takes_words=False,
    variable_option="--with",
    read_time=time_limits.local,
    node_count=hosts_listed("QUEUE_HOSTS"),
    enter_folder='cd "$QUEUE_FOLDER"',
    job=JobVariables(
        number="QUEUE_JOB", element="QUEUE_ELEMENT", step="QUEUE_STEP", restart="QUEUE_AGAIN"
    ),
    variables=("QUEUE_*",),
    running="queues --mine",
    first_host=lambda environ: environ.get("QUEUE_FIRST"),
    launchers={
        "startranks": Launcher(counts=("-n", "{ranks}"), reframe="starter"),
        # Of this scheduler alone: elsewhere the name is an MPI's.
        "mpiexec": Launcher(counts=("-np", "{ranks}"), tells=(RANKS,), reframe="own"),
    },
    reframe=ReframeBackend(name="queue", written_options="-t"),
)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(SCHEDULERS, "made-up", MADE_UP)
    return "made-up"


def plan_for(kind: str, folder: Path, launcher: str = "startranks") -> Plan:
    """Settle a plan for a site of that scheduler; models know the names from the table's text."""
    form = {"summary": "a form", "launcher": [launcher, "-n{ranks}"], "ranks_per_node": 4}
    data = {"launcher": [launcher], "forms": {"first": form, "second": form}}
    plan = plan_at(folder, scheduler={**data, "directives": ["#QUEUE -a x", "#QUEUE -t 1"]})
    scheduler = plan.site.scheduler.model_copy(update={"kind": kind})
    return replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))


def test_a_new_scheduler_is_a_line_of_the_table(made_up: str, tmp_path: Path) -> None:
    plan = plan_for(made_up, tmp_path)
    lines = [line.strip() for line in texts.text(plan, "job", [TEMPLATES]).splitlines()]
    assert lines[1:3] == ["#QUEUE -a x", "#QUEUE -t 1"]
    assert "# Rendered by dlcontainer. To submit it: queue job.sh" in lines
    assert (
        "# Ways to place ranks: first, second. Another than first: "
        "queue --with DLCONTAINER_FORM=NAME job.sh"
    ) in lines
    assert any(line.startswith('cd "$QUEUE_FOLDER" || dlc_fail ') for line in lines)
    assert (
        "dlc_nodes=$(awk 'NF && !seen[$1]++ { n++ } END { print n + 0 }' "
        '"${QUEUE_HOSTS-/dev/null}" || :)'
    ) in lines
    assert "dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4))" in lines
    assert "dlc_number=${QUEUE_JOB-}${QUEUE_ELEMENT-}" in lines
    assert "dlc_again=${QUEUE_AGAIN:-0}" in lines
    settings = reframe.settings([plan.site], [TEMPLATES])
    assert '"scheduler": "queue"' in settings
    assert '"launcher": "starter"' in settings
    assert '"-a x"' in settings
    assert '"-t 1"' not in settings


def test_a_session_knows_a_new_scheduler(made_up: str) -> None:
    environ = {"QUEUE_JOB": "7", "QUEUE_FIRST": "n1"}
    assert schedulers.allocation(environ) == "QUEUE_JOB=7"
    assert schedulers.first_host(environ) == "n1"
    assert "QUEUE_*" in schedulers.variables()
    assert schedulers.launcher("startranks") == MADE_UP.launchers["startranks"]


def test_a_launcher_is_its_scheduler_s(made_up: str, tmp_path: Path) -> None:
    own, everybody_s = MADE_UP.launchers["mpiexec"], mpi_launchers.LAUNCHERS["mpiexec"]
    assert schedulers.launcher("/opt/queue/bin/mpiexec", made_up) == own
    assert schedulers.launcher("mpiexec", "pbs") == schedulers.launcher("mpiexec") == everybody_s
    assert schedulers.rank_variables("mpiexec", made_up) == (RANKS,)
    assert RANKS in schedulers.known_ranks()
    plan = plan_for(made_up, tmp_path, launcher="mpiexec")
    text = texts.text(plan, "job", [TEMPLATES])
    # What a launcher does not tell is worked out.
    assert """dlc_take "${QUEUE_RANK-}" "${QUEUE_RANKS-}" '' '' ||""" in text
    assert "PALS_RANKID" not in text
    assert '"launcher": "own"' in reframe.settings([plan.site], [TEMPLATES])


def test_scripts_know_a_new_scheduler_s_jobs(made_up: str, tmp_path: Path) -> None:
    """No template is changed for it: a job's script, its mount, a wrapper, a packed environment."""
    site = plan_at(tmp_path / "site").site
    resort = FallbackPrograms(engine=Path("/opt/apptainer"))
    wrappers = modulefiles.wrappers(RELEASE, site, resort, [TEMPLATES])
    scripts = [
        texts.text(plan_for(made_up, tmp_path / "job"), "job", [TEMPLATES]),
        *wrappers.values(),
    ]
    for script in scripts:
        assert '"${QUEUE_JOB-}"' in script
        assert '"${QUEUE_JOB:+${QUEUE_ELEMENT-}}" "${QUEUE_JOB:+${QUEUE_STEP-}}"' in script
    assert "${PMIX_RANK:-${SLURM_PROCID:-" in wrappers["python"]
    assert "${QUEUE_RANK:-0}" in wrappers["python"]
    packing = wrappers[modulefiles.VENV]
    assert "elif command -v queues >/dev/null; then" in packing
    assert "$(timeout 60 queues --mine 2>/dev/null)" in packing
    assert '"QUEUE_AGAIN",' in goldens.probe_names()


def test_a_site_config_takes_the_names_of_the_table() -> None:
    assert get_args(facts.SchedulerKind) == tuple(SCHEDULERS)


@pytest.mark.parametrize(
    ("name", "submit", "another"),
    [
        ("none", "bash job.sh WORD", "A=1 bash job.sh"),
        ("slurm", "sbatch job.sh WORD", "A=1 sbatch job.sh"),
        ("lsf", "bsub job.sh WORD", "A=1 bsub job.sh"),
        ("pbs", "qsub job.sh", "qsub -v A=1 job.sh"),
        ("cobalt", "qsub job.sh WORD", "qsub --env A=1 job.sh"),
        ("gridengine", "qsub job.sh WORD", "qsub -v A=1 job.sh"),
    ],
)
def test_how_a_script_is_submitted(name: str, submit: str, another: str) -> None:
    scheduler = SCHEDULERS[name]
    assert " ".join(scheduler.submit_argv("job.sh", words=["WORD"])) == submit
    assert " ".join(scheduler.submit_argv("job.sh", variable="A=1")) == another


def test_the_probe_knows_the_table() -> None:
    assert goldens.PROBE_NAMES.read_text() == goldens.probe_names(), "make golden"


def test_a_launcher_s_ranks_find_their_numbers() -> None:
    assert schedulers.rank_variables("srun") == (slurm.RANKS,)
    assert schedulers.rank_variables("/opt/bin/srun", "none") == (slurm.RANKS,)
    assert schedulers.rank_variables("startranks-of-a-site") == schedulers.known_ranks()


@pytest.mark.parametrize(
    ("kind", "lines", "asked"),
    [
        (
            "slurm",
            ["#SBATCH -A X --time=1:00 -n2", "# -N 3", "#SBATCH -N2 --ntasks-per-node=4"],
            ["#SBATCH -A me --time=01:30:00 -n32", "# -N 3", "#SBATCH -N8 --ntasks-per-node=4"],
        ),
        ("slurm", [], [f"#SBATCH --{word}" for word in ("account=me", "time=01:30:00", "nodes=8")]),
        (
            "lsf",
            ["#BSUB -G X", "#BSUB -nnodes 2", '#BSUB -alloc_flags "-W 3"'],
            ["#BSUB -G me", "#BSUB -nnodes 8", '#BSUB -alloc_flags "-W 3"', "#BSUB -W 1:30"],
        ),
        (
            "pbs",
            ["#PBS -l select=2:system=polaris,walltime=0:10:00", "#PBS -A X"],
            ["#PBS -l select=8:system=polaris,walltime=01:30:00", "#PBS -A me"],
        ),
        (
            "cobalt",
            ["#COBALT -t 30", "#COBALT -n 8 --attrs a=-A"],
            ["#COBALT -t 90", "#COBALT -n 8 --attrs a=-A", "#COBALT -A me"],
        ),
    ],
)
def test_what_a_job_asks_for_takes_its_place(kind: str, lines: list[str], asked: list[str]) -> None:
    wanted: dict[str, str | int] = {"account": "me", "time": "1:30:00", "nodes": 8}
    assert directives.settled(SCHEDULERS[kind], lines, wanted, 4) == tuple(asked)


def test_grid_engine_asks_for_slots(tmp_path: Path) -> None:
    form = {"summary": "f", "launcher": ["mpirun", "-n{ranks}"], "ranks_per_node": 2}
    scheduler: dict[str, Any] = {
        "kind": "gridengine",
        "directives": ["#$ -N x", "#$ -l gpu=1,h_rt=0:10:00"],
        "resources": {"nodes": 3, "time": "1:30:00", "account": "me"},
        "parallel_environment": {"name": "mpi-8", "slots_per_node": 8},
        "forms": {"two": form},
    }
    asked = ["#$ -N x", "#$ -l gpu=1,h_rt=01:30:00", "#$ -pe mpi-8 24", "#$ -A me"]
    plan = plan_at(tmp_path / "a", scheduler=scheduler)
    assert job_head.lines(plan.site) == ("#$ -S /bin/bash", *asked)
    # Nobody asks for more than a node, and the site has a line about the shell of its own.
    scheduler.update(directives=["#$ -S /bin/bash", "#$ -N x"], resources={}, forms={})
    bare = plan_at(tmp_path / "b", scheduler=scheduler)
    assert job_head.lines(bare.site) == (*scheduler["directives"], "#$ -pe mpi-8 8")


def test_the_clock_of_a_rank_reads_where_launchers_tell_its_cpus() -> None:
    launchers = [one for batch in SCHEDULERS.values() for one in batch.launchers.values()]
    asked = tuple(dict.fromkeys(one.cpus_asked for one in launchers if one.cpus_asked))
    assert asked == rank_clock.CPUS_ASKED


@pytest.mark.parametrize(
    ("words", "environ", "cpus"),
    [
        (["srun", "-n2"], {"SLURM_CPUS_PER_TASK": "4"}, 4),
        (["/opt/bin/srun", "-c2"], {"SLURM_CPUS_PER_TASK": "4"}, 2),
        (["srun", "--cpus-per-task=2"], {}, 2),
        (["srun", "-n2"], {}, None),
        (["srun"], {"SLURM_CPUS_PER_TASK": "many"}, None),
        (["mpirun", "-c2"], {"SLURM_CPUS_PER_TASK": "4"}, None),
        (["env", "srun"], {"SLURM_CPUS_PER_TASK": "4"}, None),
    ],
)
def test_the_cpus_of_a_rank(words: list[str], environ: dict[str, str], cpus: int | None) -> None:
    assert schedulers.cpus_each(words, environ) == cpus


def test_the_cpus_of_a_job_are_handed_to_the_launcher_that_does_not_take_them() -> None:
    environ = {"SLURM_CPUS_PER_TASK": "4"}
    assert schedulers.cpus_handed(["srun"], environ) == {"SRUN_CPUS_PER_TASK": "4"}
    assert schedulers.cpus_handed(["srun"], {"SLURM_CPUS_PER_TASK": ""}) == {}
    # Its own ranks are started by one srun with one process a node: not with a rank's CPUs.
    assert schedulers.cpus_handed(["mpirun"], environ) == {}


def test_the_cpus_of_a_task_are_those_of_a_process_in_one() -> None:
    assert schedulers.cpus_of_task({"SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "4"}) == 4
    # The shell of salloc is on a login node, and no task.
    assert schedulers.cpus_of_task({"SLURM_CPUS_PER_TASK": "4"}) is None


def test_wrappers_refuse_none_of_a_job_s_variables() -> None:
    rules = refused_variables.rules({})
    for name, scheduler in SCHEDULERS.items():
        given = [pattern.replace("*", "_JOB_ID") for pattern in scheduler.variables]
        given += scheduler.job.names if scheduler.job else ()
        assert [variable for variable in given if rules.refusal(variable)] == [], name


def test_only_the_table_names_a_job_s_variables() -> None:
    """A template or a module with a list of its own would not know the next scheduler's."""
    names = {job.number for job in schedulers.job_variables()} - {"JOB_ID"}
    files = [*TEMPLATES.rglob("*.j2"), *(ROOT / "dlcontainer").rglob("*.py")]
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        if any(name in path.read_text() for name in names)
    }
    tables = {path for path in naming if path.startswith("dlcontainer/schedulers/")}
    # What `make golden` writes of the table, for images.
    assert naming - tables == {"dlcontainer/probe/scheduler_names.py"}


def test_no_other_module_asks_for_a_scheduler_by_name() -> None:
    names = "|".join(name for name in SCHEDULERS if name != "none")
    literal = re.compile(rf"""["']({names})["']""")
    folder = ROOT / "dlcontainer"
    asking = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if literal.search(path.read_text())
    }
    # The table itself, and ReFrame's own words.
    assert asking == {
        *("schedulers/__init__.py", "schedulers/slurm.py", "schedulers/lsf.py"),
        "schedulers/pbs.py",
    }


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({"SLURM_JOB_ID": "7", "LSB_JOBID": ""}, "SLURM_JOB_ID=7"),
        ({"PBS_JOBID": "7.pbs"}, "PBS_JOBID=7.pbs"),
        ({"LSB_JOBID": "7"}, "LSB_JOBID=7"),
        ({"COBALT_JOBID": "7"}, "COBALT_JOBID=7"),
        ({"FLUX_JOB_ID": "f7", "JOB_ID": "1"}, "FLUX_JOB_ID=f7"),
        ({"DLC_HOSTS_JOB": "x7", "PBS_JOBID": "7"}, "DLC_HOSTS_JOB=x7"),
        ({"JOB_ID": "7", "SGE_TASK_ID": "undefined"}, "JOB_ID=7"),
        # Others call a number of theirs so too.
        ({"JOB_ID": "7"}, None),
        # Flux's batch script is in no job of its own.
        ({"FLUX_ENCLOSING_ID": "ƒM7Zq9"}, "FLUX_ENCLOSING_ID=ƒM7Zq9"),
        ({"PBS_JOBID": "7\n\x1b[2J\udcff"}, r"PBS_JOBID=7\n\x1b[2J\xff"),
        ({"SLURM_JOB_ID": "", "": "7"}, None),
    ],
)
def test_the_job_that_this_is_part_of(environ: dict[str, str], job: str | None) -> None:
    assert schedulers.allocation(environ) == job


@pytest.mark.parametrize(
    ("nodes", "host"), [("n1,n3", "n1"), ("nid[001-004,007]", "nid001"), ("login", "login")]
)
def test_the_first_node_of_slurms_list(nodes: str, host: str) -> None:
    assert slurm.first_host({"SLURM_JOB_NODELIST": nodes}) == host
    assert slurm.first_host({"SLURM_JOB_NODELIST": nodes, "SLURMD_NODENAME": "n1"}) is None
    assert schedulers.first_host({}) is None


def test_reframe_has_no_backend_for_cobalt(tmp_path: Path) -> None:
    plan = plan_for("cobalt", tmp_path)
    with pytest.raises(ConfigError, match="ReFrame cannot submit jobs to cobalt"):
        reframe.settings([plan.site], [TEMPLATES])
