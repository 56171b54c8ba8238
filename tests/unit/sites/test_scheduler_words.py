"""A site file in the words of two schedulers, and what its jobs may ask for."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from tests.unit.sites.test_loading import load
from tests.values import SITE, write_yaml

FORM = {"summary": "f", "ranks_per_node": 1}
FACTS = ["summary", "launcher", "ranks_per_node"]
ANY = {"remembered": ["kind", "launcher", "directives", "resources", "parallel_environment"]}


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (
            {"kind": "lsf", "directives": ["#BSUB -P A", "#SBATCH -N 2"]},
            ("'#SBATCH -N 2' is an option of slurm, but this site's scheduler is lsf"),
        ),
        (
            {"kind": "slurm", "launcher": ["jsrun", "-n1"]},
            "jsrun is an option of lsf, but this site's scheduler is slurm",
        ),
        (
            {"kind": "pbs", "forms": {"a": {**FORM, "launcher": ["srun"], "remembered": FACTS}}},
            "srun is an option of slurm, but this site's scheduler is pbs",
        ),
        (
            {"kind": "none", "resources": {"account": "me"}},
            ("scheduler.resources.account: jobs of this site cannot request account"),
        ),
        (
            {"kind": "gridengine", "resources": {"nodes": 2}},
            "scheduler.resources.nodes: jobs of this site cannot request nodes",
        ),
        (
            {"kind": "slurm", "parallel_environment": {"name": "mpi", "slots_per_node": 4}},
            "scheduler.parallel_environment: slurm jobs request nodes, not slots",
        ),
    ],
)
def test_one_scheduler_one_language(
    tmp_path: Path, scheduler: dict[str, Any], message: str
) -> None:
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "scheduler": {**scheduler, **ANY}})
    with pytest.raises(ConfigError) as caught:
        load(path)
    said = str(caught.value)
    assert message in said
    # Both places, and the next step.
    assert said.count("s.yaml:") == 2
    assert "next: " in said


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ({"launcher": ["srun", "--gpus-per-task=1"], "ranks_per_node": 8}, 8),
        ({"launcher": ["srun", "--gpus-per-node=6"]}, 6),
        ({"launcher": ["srun", "--gpus-per-task=5"], "inside": "torchrun"}, 5),
        ({"launcher": ["srun", "--gpus-per-task=4"], "inside": "torchrun"}, None),
        ({"launcher": ["srun", "--gpus-per-node=4"], "ranks_per_node": 8}, None),
    ],
)
def test_no_form_asks_for_more_accelerators_than_a_node_has(
    tmp_path: Path, form: dict[str, Any], asked: int | None
) -> None:
    given = {"ranks_per_node": 4, **form, "summary": "f", "remembered": [*FACTS, "inside"]}
    facts = ["vendor", "model", "per_node"]
    gpu = {"vendor": "nvidia", "model": "A", "per_node": 4, "remembered": facts}
    scheduler = {"kind": "slurm", "forms": {"a": given}, **ANY}
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "accelerator": gpu, "scheduler": scheduler})
    if asked is None:
        assert load(path).value.scheduler.forms["a"].inside == form.get("inside")
        return
    with pytest.raises(
        ConfigError, match=f"requests {asked} accelerators per node, which has 4"
    ) as caught:
        load(path)
    assert str(caught.value).count("s.yaml:") == 2


@pytest.mark.parametrize(
    "scheduler",
    [
        {"kind": "pbs", "launcher": ["aprun"], "directives": ["#PBS -A X", "# a comment"]},
        {"kind": "cobalt", "launcher": ["aprun"]},
        {"kind": "slurm", "launcher": ["mpirun"]},
        {"kind": "lsf", "launcher": ["our-own-launcher"]},
    ],
)
def test_launchers_of_several_schedulers_and_of_none(
    tmp_path: Path, scheduler: dict[str, Any]
) -> None:
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "scheduler": {**scheduler, **ANY}})
    assert load(path).value.scheduler.kind == scheduler["kind"]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ({"rendezvous": {"suffix": "i", "interface": "ib0"}}, "give one of them"),
        ({"rendezvous": {"port": 80}}, "greater than or equal to 1024"),
        ({"rendezvous": {"port": 2000, "ports": "2000-3000"}}, "'port' and 'ports' exclude"),
        *(
            ({"rendezvous": {"ports": ports}}, "not a range of ports from 1024 to 65535")
            for ports in ("1023-2000", "2000-65536", "3000-2000", "2000", "a-b", "2000-3000\n")
        ),
        ({"warning": {"signal": "URG", "seconds": 60}}, "expected one of: 'USR1', 'USR2'"),
        ({"warning": {"signal": "USR1", "seconds": 0}}, "greater than 0"),
        ({"warning": {"signal": "USR1", "seconds": 65536}}, "less than or equal to 65535"),
        ({"staging": {"how": "sbcast"}}, "'to' is for copies only"),
        ({"staging": {"how": "none", "to": "/tmp"}}, "'to' is for copies only"),
        (
            {"staging": {"how": "sbcast", "to": "/l", "stripes": 4}},
            "'stripes' is for 'how: copy' only",
        ),
    ],
)
def test_jobs_that_contradict_themselves(
    tmp_path: Path, jobs: dict[str, Any], message: str
) -> None:
    jobs["remembered"] = [*jobs]
    with pytest.raises(ConfigError, match=message):
        load(write_yaml(tmp_path / "s.yaml", {**SITE, "jobs": jobs}))


@pytest.mark.parametrize(
    ("kind", "jobs", "says"),
    [
        *(
            (kind, {"warning": {"signal": "USR1", "seconds": 60}}, f"no option of {kind} is known")
            for kind in ("none", "pbs", "cobalt")
        ),
        ("slurm", {"warning": {"signal": "USR1"}}, "jobs.warning: seconds is missing"),
        ("gridengine", {"warning": {"signal": "USR1"}}, "gridengine does not send USR1"),
        (
            "gridengine",
            {"warning": {"signal": "USR2", "seconds": 60}},
            "jobs.warning.seconds: the queues of gridengine say how long",
        ),
        ("none", {"requeue": True}, "jobs.requeue: no option of none is known"),
        ("cobalt", {"requeue": False}, "jobs.requeue: no option of cobalt is known"),
    ],
)
def test_a_warning_that_the_scheduler_has_not(
    tmp_path: Path, kind: str, jobs: dict[str, Any], says: str
) -> None:
    site = {**SITE, "scheduler": {"kind": kind, **ANY}}
    with pytest.raises(ConfigError) as caught:
        load(write_yaml(tmp_path / "s.yaml", {**site, "jobs": {**jobs, "remembered": [*jobs]}}))
    said = str(caught.value)
    assert says in said
    assert said.count("s.yaml:") == 2
    assert "next: " in said


@pytest.mark.parametrize(
    ("kind", "line", "jobs"),
    [
        ("slurm", "#SBATCH -N 2 --signal=USR1", {"warning": {"signal": "USR1", "seconds": 60}}),
        ("slurm", "#SBATCH --no-requeue", {"requeue": True}),
        ("lsf", "#BSUB -wt 5", {"warning": {"signal": "USR1", "seconds": 60}}),
        ("lsf", "#BSUB -rn", {"requeue": False}),
        ("pbs", "#PBS -r n", {"requeue": True}),
        ("gridengine", "#$ -notify", {"warning": {"signal": "USR2"}}),
        ("gridengine", "#$ -r y", {"requeue": True}),
    ],
)
def test_a_line_and_a_key_do_not_say_the_same(
    tmp_path: Path, kind: str, line: str, jobs: dict[str, Any]
) -> None:
    site = {**SITE, "jobs": {**jobs, "remembered": [*jobs]}}
    scheduler = {"kind": kind, "directives": ["# -r", line], **ANY}
    with pytest.raises(ConfigError, match="says it too") as caught:
        load(write_yaml(tmp_path / "s.yaml", {**site, "scheduler": scheduler}))
    assert str(caught.value).count("s.yaml:") == 2


def test_a_node_s_ranks_have_a_port_each(tmp_path: Path) -> None:
    form = {**FORM, "ranks_per_node": 8, "launcher": ["srun"], "remembered": FACTS}
    site = {**SITE, "scheduler": {"kind": "slurm", "forms": {"a": form}, **ANY}}

    def ports(text: str) -> dict[str, Any]:
        jobs = {"rendezvous": {"ports": text}, "remembered": ["rendezvous"]}
        return {**site, "jobs": jobs}

    with pytest.raises(ConfigError, match="8 ports, but form a starts 8 ranks on a node"):
        load(write_yaml(tmp_path / "s.yaml", ports("2000-2007")))
    loaded = load(write_yaml(tmp_path / "s.yaml", ports("2000-2008")))
    assert loaded.value.jobs.rendezvous.between == range(2000, 2009)


def test_only_images_own_mpis_have_a_choice(tmp_path: Path) -> None:
    mpi = {"family": "mpich", "also": ["openmpi"], "mode": "swap", "name": "M"}
    site = {**SITE, "mpi": {**mpi, "remembered": [*mpi]}}
    with pytest.raises(
        ConfigError, match="'also' names MPIs inside images, and excludes 'mode: swap'"
    ):
        load(write_yaml(tmp_path / "s.yaml", site))


@pytest.mark.parametrize(
    ("kind", "time", "says"),
    [
        ("slurm", "1:30:00:00", "not a time limit: 0:30:00"),
        ("lsf", "1-12", "1-12 is not a time limit of this scheduler, whose form is [H:]M"),
        ("gridengine", "30:00", "30:00 is 0:30:00 to Slurm and PBS, and 30:00:00 to LSF"),
        ("pbs", "1:60", "more than 59 minutes or seconds"),
        (
            "pbs",
            "30",
            "this scheduler reads 30 as seconds (0:00:30): write 0:00:30, or 0:30",
        ),
        ("gridengine", "599", "write 0:09:59, or 9:59:00 for minutes"),
    ],
)
def test_a_time_is_one_of_the_sites_scheduler(
    tmp_path: Path, kind: str, time: str, says: str
) -> None:
    scheduler = {"kind": kind, "resources": {"time": time}, **ANY}
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "scheduler": scheduler})
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert says in str(caught.value)
    assert "s.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "time"), [("pbs", "600"), ("gridengine", "0:00:30"), ("slurm", "5"), ("lsf", "5")]
)
def test_a_time_that_only_one_thing_can_be_is_taken(tmp_path: Path, kind: str, time: str) -> None:
    scheduler = {"kind": kind, "resources": {"time": time}, **ANY}
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "scheduler": scheduler})
    assert load(path).value.scheduler.resources.time == time
