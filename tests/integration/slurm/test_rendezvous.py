"""Ranks of rendered job scripts find each other under the real srun: in the image and outside."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.world import Built, World
from tests.jobs import MEET, without_engine
from tests.processes import poll

FORMS = """\
scheduler:
  kind: slurm
  launcher: [srun]
  directives:
    - "#SBATCH -N 2"
    - "#SBATCH --ntasks-per-node=2"
    - "#SBATCH -o job.o%j"
  forms:
    two:
      summary: two ranks a node
      launcher: [srun, "-N{nodes}", "-n{ranks}", "--ntasks-per-node={ranks_per_node}"]
      ranks_per_node: 2
    torchrun:
      summary: one torchrun a node
      # The count of all ranks is the script's: else the job's own would hold, two a node.
      launcher: [srun, "-N{nodes}", --ntasks-per-node=1]
      ranks_per_node: 2
      inside: torchrun
"""
# A torchrun as far as its command line goes: starts the ranks of its node.
TORCHRUN = """\
import os, subprocess, sys
words = dict(word[2:].split("=") for word in sys.argv[1:] if word.startswith("--") and "=" in word)
assert sys.argv[1] == "--no_python" and not {"RANK", "LOCAL_RANK"} & set(os.environ)
each, nodes = int(words["nproc_per_node"]), int(words["nnodes"])
command = sys.argv[2 + len(words):]
def start(local):
    rank = int(os.environ["PET_NODE_RANK"]) * each + local
    numbers = dict(RANK=rank, WORLD_SIZE=nodes * each, LOCAL_RANK=local, LOCAL_WORLD_SIZE=each)
    meet = dict(MASTER_ADDR=words["master_addr"], MASTER_PORT=words["master_port"])
    given = {name: str(value) for name, value in {**numbers, **meet}.items()}
    return subprocess.Popen(command, env={**os.environ, **given})
running = [start(local) for local in range(each)]
sys.exit(max([started.wait() for started in running]))
"""
# It serves the engine's own mounts, and not ours.
REAL = "case $* in *timeout=*) exit 1 ;; esac; exec /usr/bin/squashfuse_ll"
WANTED = [
    {"rank": rank, "local": rank % 2, "there": 2, "node": f"n{1 + rank // 2}", "leaks": []}
    for rank in range(4)
]


@pytest.fixture
def submit(user: World, tiny_image: Built, engine: Apptainer, tmp_path: Path) -> World:
    """Give a user whose `run` submits a script with what a host may have, and waits for its end."""
    own = user.having(
        PATH=f"{engine.program.parent}:{user.environ['PATH']}",
        DLCONTAINER_IMAGE=tiny_image.image,
        APPTAINER_USERNS="1",
        PYTHONPATH=tmp_path,
        PYTHONHOME="/nowhere",
    )
    return World(environ=own.environ, folder=tmp_path, program=("sbatch", "--wait"))


def script(user: World, recipe: Path, folder: Path, *more: str) -> Path:
    (folder / "lab.yaml").write_text(SITE.partition("scheduler:")[0] + FORMS + "\n".join(more))
    argv = ("render", recipe, "--site", folder / "lab.yaml", "--format", "job")
    (folder / "job.sh").write_text(user.run(*argv).stdout)
    (folder / "meet.py").write_text(MEET)
    return folder / "job.sh"


def met(folder: Path) -> object:
    [output] = folder.glob("job.o*")
    text = output.read_text()
    [line] = [line for line in text.splitlines() if line.startswith("met ")]
    return json.loads(line.partition(" ")[2])


@pytest.mark.parametrize("native", [False, True])
def test_ranks_meet_by_what_they_are_told(
    user: World, submit: World, tiny: Path, tmp_path: Path, native: bool
) -> None:
    job = script(user, tiny, tmp_path)
    program = "/opt/tiny/bin/python"
    if native:
        job.write_text(without_engine(job.read_text()))
        program = "/usr/bin/python3"
    submit.run(job, program, tmp_path / "meet.py")
    assert met(tmp_path) == WANTED


def test_a_rank_that_fails_ends_the_others(
    user: World, submit: World, tiny: Path, tmp_path: Path
) -> None:
    job = script(user, tiny, tmp_path)
    line = "import os, sys, time; os.environ['RANK'] == '3' and sys.exit(5); time.sleep(600)"
    began = time.monotonic()
    # The others' signal may be what Slurm tells of.
    assert submit.run(job, "/opt/tiny/bin/python", "-c", line, code=None).returncode in (5, 143)
    assert time.monotonic() - began < 400


def test_one_torchrun_a_node_starts_the_ranks(
    user: World, submit: World, tiny: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    for path in tiny.iterdir():
        (recipe / path.name).write_bytes(path.read_bytes())
    text = (recipe / "recipe.yaml").read_text()
    (recipe / "recipe.yaml").write_text(text.replace("exposes: [", "exposes: [torchrun, "))
    job = script(user, recipe, tmp_path)
    # The tiny image has no PyTorch: in its place stands what torchrun's command line means.
    (tmp_path / "torchrun.py").write_text(TORCHRUN)
    assert job.read_text().count("-m torch.distributed.run") == 1
    words = job.read_text().replace("-m torch.distributed.run", str(tmp_path / "torchrun.py"))
    job.write_text(words)
    chosen = submit.having(DLCONTAINER_FORM="torchrun")
    chosen.run(job, "/opt/tiny/bin/python", tmp_path / "meet.py")
    assert met(tmp_path) == WANTED


def test_a_staged_image_runs_from_its_copies_and_they_go(
    user: World, submit: World, tiny: Path, tmp_path: Path, cluster: Cluster
) -> None:
    to = tmp_path / "node local"
    to.mkdir()
    staging = "jobs: {staging: {how: sbcast, to: $NODE_LOCAL}}\n"
    job = script(user, tiny, tmp_path, staging)
    show = "import os; print('ran', os.environ['APPTAINER_CONTAINER'])"
    # Each rank mounts the copy itself: through a shared mount the engine shows that one's name.
    here = submit.having(NODE_LOCAL=to, DLCONTAINER_KEEP="0")
    here.run(job, "/opt/tiny/bin/python", "-c", show)
    [output] = tmp_path.glob("job.o*")
    ran = [line for line in output.read_text().splitlines() if line.startswith("ran ")]
    assert len(ran) == 4
    [copy] = set(ran)
    assert copy.startswith(f"ran {to}/dlcontainer-{output.name[5:]}-")
    assert list(to.iterdir()) == []
    output.unlink()
    here.having(DLCONTAINER_STAGE="0").run(job, "/opt/tiny/bin/python", "-c", show)
    [output] = tmp_path.glob("job.o*")
    assert f"ran {submit.environ['DLCONTAINER_IMAGE']}" in output.read_text()


SHOW = "import os; print('ran', os.environ['APPTAINER_CONTAINER'], flush=True)"


def ran(folder: Path) -> list[str]:
    """Name the place of the image as each rank saw it."""
    lines = [line for path in folder.glob("job.o*") for line in path.read_text().splitlines()]
    return [line.removeprefix("ran ") for line in lines if line.startswith("ran ")]


def is_mounted(point: str) -> bool:
    """Tell whether this host has a mount there, a dead one too."""
    return f" {point} " in Path("/proc/self/mounts").read_text()


def is_served(point: str) -> bool:
    """Tell whether a process serves a mount there, in whichever namespace."""
    servers = Path("/proc").glob("[0-9]*/cmdline")
    return any(f"\0{point}\0" in text(path) for path in servers)


def text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize(("site", "is_seen"), [("", False), ("modules: {keep_mounted: 10}", True)])
def test_a_nodes_ranks_share_one_mount(
    user: World, submit: World, tiny: Path, tmp_path: Path, site: str, is_seen: bool
) -> None:
    job = script(user, tiny, tmp_path, f"{site}\n")
    # Slurm's four nodes are one host here: all ranks of the step share the mount.
    program = ("/opt/tiny/bin/python", "-c", f"{SHOW}; import time; time.sleep(1)")
    shared = submit.having(DLCONTAINER_KEEP="10")
    shared.run(job, *program)
    [output] = tmp_path.glob("job.o*")
    assert len(ran(tmp_path)) == 4, output.read_text()
    [point] = set(ran(tmp_path))
    assert point.startswith("/tmp/dlcontainer-")
    assert is_mounted(point) is is_seen
    output.unlink()
    submit.having(DLCONTAINER_KEEP="0").run(job, *program)
    assert ran(tmp_path) == [submit.environ["DLCONTAINER_IMAGE"]] * 4
    # What this Slurm (proctrack/pgid) does not end with the step goes when it was idle.
    assert poll(lambda: not is_served(point) and not is_mounted(point), 60)


def test_a_job_leaves_the_mount_of_another_alone(
    user: World, submit: World, cluster: Cluster, tiny: Path, tmp_path: Path
) -> None:
    job, go = script(user, tiny, tmp_path), tmp_path / "go"
    shared = submit.having(DLCONTAINER_KEEP="10")
    stays = f"{SHOW}; import time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)"
    queue = replace(shared, program=("sbatch", "--parsable"))
    number = queue.run(job, "/opt/tiny/bin/python", "-c", stays).stdout.strip()
    assert poll(lambda: len(ran(tmp_path)) == 4, 180), cluster.state_of(number)
    [point] = set(ran(tmp_path))
    server = Path(f"{point}.pid").read_text().strip()
    # Both clean up what jobs before them left.
    shared.run(job, "/opt/tiny/bin/python", "-c", SHOW)
    assert len(set(ran(tmp_path))) == 2
    assert Path(f"/proc/{server}/root{point}/.singularity.d/actions/exec").read_bytes()
    go.touch()
    assert poll(lambda: number not in cluster.jobs() and not is_served(point), 120)
    shared.run(job, "/opt/tiny/bin/python", "-c", SHOW)
    assert [end for end in ("", ".pid", ".lock") if Path(point + end).exists()] == []


def test_each_rank_mounts_the_image_itself_where_the_site_says_so(
    user: World, submit: World, tiny: Path, tmp_path: Path
) -> None:
    job = script(user, tiny, tmp_path, "modules: {keep_mounted: 0}\n")
    submit.run(job, "/opt/tiny/bin/python", "-c", SHOW)
    assert ran(tmp_path) == [submit.environ["DLCONTAINER_IMAGE"]] * 4


@pytest.mark.parametrize("how", ["a rank fails", pytest.param("killed", marks=pytest.mark.long)])
def test_no_end_leaves_a_mount(
    user: World, submit: World, cluster: Cluster, tiny: Path, tmp_path: Path, how: str
) -> None:
    job = script(user, tiny, tmp_path)
    fails = "os.environ['RANK'] == '3' and time.sleep(1) is None and sys.exit(5)"
    line = f"import os, sys, time; {SHOW}; {fails if how != 'killed' else ''}; time.sleep(600)"
    line = line.replace("; ;", ";")
    queue = replace(submit.having(DLCONTAINER_KEEP="10"), program=("sbatch", "--parsable"))
    number = queue.run(job, "/opt/tiny/bin/python", "-c", line).stdout.strip()
    assert poll(lambda: len(ran(tmp_path)) == 4 or number not in cluster.jobs(), 120)
    [point] = set(ran(tmp_path))
    assert "/dlcontainer-" in point
    if how == "killed":
        assert is_served(point)
        cluster.run("scancel", "--signal=KILL", "--full", number)
    assert poll(lambda: number not in cluster.jobs(), 120)
    # At no time had this host's list of mounts the image's.
    assert not is_mounted(point)
    assert poll(lambda: not is_served(point), 60)


@pytest.mark.long
def test_a_mount_that_fails_is_told_where_it_was_asked_for(
    user: World, submit: World, tiny: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "programs"
    broken.mkdir()
    (broken / "squashfuse_ll").write_text(f'#!/bin/sh\n{REAL} "$@"\n')
    (broken / "squashfuse_ll").chmod(0o755)
    job = script(user, tiny, tmp_path)
    own = submit.having(PATH=f"{broken}:{submit.environ['PATH']}")
    own.having(DLCONTAINER_KEEP="10").run(job, "/opt/tiny/bin/python", "-c", SHOW)
    [output] = tmp_path.glob("job.o*")
    assert ran(tmp_path) == [submit.environ["DLCONTAINER_IMAGE"]] * 4
    assert output.read_text().count("job: the image's mount can't be shared: ") == 1
    output.unlink()
    own.run(job, "/opt/tiny/bin/python", "-c", SHOW)
    [output] = tmp_path.glob("job.o*")
    assert (len(ran(tmp_path)), output.read_text().count("can't be shared")) == (4, 0)
