"""CPUs of ranks: what a job's lines or its devices ask for, and what the real srun gives."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import job_file
from dlcontainer.bench.samples import reader
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm import cluster as clusters
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.test_bench import environment_with, options
from tests.integration.world import Built, World
from tests.judging import analyse

SITE_OF_FORMS = f"""\
{SITE.partition("scheduler:")[0]}scheduler:
  kind: slurm
  launcher: [srun]
  directives:
    - "#SBATCH -N 2"
    - "#SBATCH --ntasks-per-node=1"
    - "#SBATCH --cpus-per-task=2"
    - "#SBATCH -t 00:05:00"
    - "#SBATCH -o job.o%j"
  forms:
    plain:
      summary: the launcher says no number
      launcher: [srun]
      ranks_per_node: 1
    own:
      summary: the launcher says its own
      launcher: [srun, -c1]
      ranks_per_node: 1
"""
HANDED = "export SRUN_CPUS_PER_TASK="
# Two devices that nothing looks at, on a machine of two cores.
SITE_OF_DEVICES = f"""\
{SITE.partition("scheduler:")[0]}accelerator:
  {{vendor: intel, model: none, per_node: 2, near: NEAR}}
scheduler:
  kind: slurm
  launcher: [srun]
  directives:
    - "#SBATCH -N 2"
    - "#SBATCH --exclusive"
    - "#SBATCH -t 00:05:00"
    - "#SBATCH -o job.o%j"
  forms:
    near:
      summary: a rank beside each device
      launcher: [srun, "-N{{nodes}}", "-n{{ranks}}", "--ntasks-per-node={{ranks_per_node}}"]
      ranks_per_node: 2
      cpu_bind: near
"""
SAY_CPUS = (
    "import os\n"
    "print('on', os.environ['SLURM_LOCALID'], *sorted(os.sched_getaffinity(0)), flush=True)"
)


@pytest.fixture(scope="module")
def bound() -> Iterator[Cluster]:
    """Run a Slurm that binds each task to its CPUs, as centres do."""
    with clusters.running(binding="affinity") as running:
        yield running


@pytest.fixture
def member(world: World, wheels: Path, bound: Cluster) -> World:
    """Give a user of that cluster, outside of any job."""
    return world.having(PIP_FIND_LINKS=wheels, **bound.variables)


@pytest.fixture
def script(member: World, tiny: Path, tmp_path: Path) -> Path:
    """Render the job script of a site whose lines ask for two CPUs a task."""
    site = tmp_path / "lab.yaml"
    site.write_text(SITE_OF_FORMS)
    text = member.run("render", tiny, "--site", site, "--format", "job").stdout
    (tmp_path / "job.sh").write_text(text)
    return tmp_path / "job.sh"


@pytest.fixture
def submit(member: World, tiny_image: Built, engine: Apptainer, tmp_path: Path) -> World:
    """Give a user whose `run` submits a script, and waits for the job's end."""
    path = f"{engine.program.parent}:{member.environ['PATH']}"
    own = member.having(PATH=path, DLCONTAINER_IMAGE=tiny_image.image, APPTAINER_USERNS="1")
    # The nodes are one host, whose own name may lead to the loopback: here that serves.
    own = own.having(DLCONTAINER_MASTER_ADDR="127.0.0.1")
    return World(environ=own.environ, folder=tmp_path, program=("sbatch", "--wait"))


def proved(member: World, folder: Path, code: int = 0) -> dict[str, Any]:
    """Judge the only proof in a folder; give what it says of CPUs."""
    [proof] = folder.glob("proof-*")
    said = json.loads(member.run("prove", proof, "--json", code=code).stdout)
    [found] = [one for one in said["findings"] if one["name"] == "CPUs"]
    return {"state": found["state"], "detail": found["detail"]}


def test_ranks_get_what_the_lines_ask_for(
    submit: World, member: World, script: Path, tmp_path: Path
) -> None:
    submit.run(script)
    found = proved(member, tmp_path)
    assert found == {"state": "ok", "detail": "2 for each rank or more, as the job asked"}


def test_without_the_line_they_get_one_and_the_proof_says_so(
    submit: World, member: World, script: Path, tmp_path: Path
) -> None:
    text = script.read_text()
    [line] = [line for line in text.splitlines() if HANDED in line]
    script.write_text(text.replace(line, ":"))
    submit.run(script)
    found = proved(member, tmp_path, code=1)
    assert found["state"] == "failed"
    assert found["detail"].startswith("ranks 0, 1: 1 on n1 of the 2 that the job asked for each")


@pytest.mark.parametrize(
    ("words", "form"), [(("-c", "1"), "plain"), ((), "own")], ids=["sbatch -c", "srun -c"]
)
def test_the_number_of_whoever_says_one_holds(
    submit: World, member: World, script: Path, tmp_path: Path, words: tuple[str, ...], form: str
) -> None:
    submit.having(DLCONTAINER_FORM=form).run(*words, script)
    found = proved(member, tmp_path)
    assert found == {"state": "ok", "detail": "1 for each rank or more, as the job asked"}


@pytest.fixture
def argv(tiny_image: Built, tiny: Path, tmp_path: Path) -> list[str]:
    """Give the options of a session at a site with srun, written to x.jsonl."""
    (tmp_path / "lab.yaml").write_text(SITE)
    found = options(tiny_image, tiny, tmp_path / "x.jsonl", "--pairs", 1, "--controls", 0)
    found[found.index("local")] = str(tmp_path / "lab.yaml")
    return found


RANKED = ("--ranks", "2", "--ranks-per-node", "1", "--nodes", "2")


def test_a_session_of_ranks_hands_them_on(
    member: World, bound: Cluster, argv: list[str], tmp_path: Path
) -> None:
    inside = bound.allocated(member, "--nodes=2", "--ntasks=2", "--cpus-per-task=2")
    inside.run("bench", "import", *argv, *RANKED)
    series = reader.read(tmp_path / "x.jsonl")
    assert series.session.declared.workload["cpus_asked"] == 2
    seen = [rank["affinity"] for sample in series.samples for rank in sample.ranks]
    assert [one for one in seen if not isinstance(one, list) or len(one) != 2] == []


@pytest.mark.parametrize(
    ("start", "ranked", "says"),
    [
        (
            (),
            (*RANKED, "--launcher", "srun -c2 --cpu-bind=map_cpu:0 -N{nodes} -n{ranks}"),
            "may use 1 of the 2 CPUs that the job asked for each",
        ),
        (("srun", "-N1", "-n1"), (), "only 1 of the 2 CPUs per task that this job requested"),
    ],
    ids=["ranks", "the session itself"],
)
def test_a_session_on_fewer_is_refused(
    member: World,
    bound: Cluster,
    argv: list[str],
    tmp_path: Path,
    start: tuple[str, ...],
    ranked: tuple[str, ...],
    says: str,
) -> None:
    inside = bound.allocated(member, "--nodes=2", "--ntasks=2", "--cpus-per-task=2")
    salloc = len(inside.program) - len(member.program)
    inside = replace(inside, program=(*inside.program[:salloc], *start, *member.program))
    done = inside.run("bench", "import", *argv, *ranked, code=7)
    assert says in done.stderr
    assert (tmp_path / "x.jsonl").exists() == bool(ranked)
    if ranked:
        verdict = analyse(reader.read(tmp_path / "x.jsonl")).verdict
        assert verdict.word == "NOT COMPARABLE"
        assert says in verdict.reasons[0]


def test_jobs_of_a_session_hand_them_on(
    submit: World, member: World, script: Path, tiny: Path, tiny_image: Built, tmp_path: Path
) -> None:
    assert script.exists()
    native = environment_with(tmp_path / "native")
    words: list[str | Path] = [
        "--image",
        tiny_image.image,
        "--recipe",
        tiny,
        "--native",
        native,
        "--pairs",
        "1",
    ]
    user = replace(member, environ=submit.environ).having(DLCONTAINER_IMAGE="")
    command = ("-o", tmp_path / "j.jsonl", "--", "python", "-c", "print(1)")
    user.run("bench", "job", "--site", tmp_path / "lab.yaml", *words, *command)
    job = job_file.read(tmp_path / "j.jsonl")
    assert [rank.cpus for one in job.launches for rank in one.ranks] == [2] * 8


@pytest.mark.parametrize(
    ("near", "cpu", "masks", "says"),
    [
        # A third core, reserved, so that srun is told of cores: of domains this machine has one.
        ("[1, 0]", "{cores: 2, cores_per_domain: 1, reserved: [2]}", "2,1", ["on 0 1", "on 1 0"]),
        ("[0, 0]", "{cores: 2, cores_per_domain: 2}", "1,2", ["on 0 0", "on 1 1"]),
    ],
    ids=["reversed", "shared domain"],
)
def test_ranks_run_on_the_cores_beside_their_devices(
    submit: World,
    member: World,
    tiny: Path,
    tmp_path: Path,
    near: str,
    cpu: str,
    masks: str,
    says: list[str],
) -> None:
    site = tmp_path / "lab.yaml"
    site.write_text(f"{SITE_OF_DEVICES.replace('NEAR', near)}cpu: {cpu}\n")
    text = member.run("render", tiny, "--site", site, "--cpu", "--format", "job").stdout
    assert f"--cpu-bind=mask_cpu:{masks}" in text
    (tmp_path / "job.sh").write_text(text)
    own = submit.having(DLCONTAINER_GPUS="0")
    own.run(tmp_path / "job.sh", "/opt/tiny/bin/python", "-c", SAY_CPUS)
    [output] = tmp_path.glob("job.o*")
    ran = sorted(line for line in output.read_text().splitlines() if line.startswith("on "))
    # On each of two nodes, which are this machine.
    assert ran == sorted(says * 2)
