"""The form `ray` of a job, under the real srun: a head, a worker on the other node, a command."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.world import Built, World
from tests.rays import FAKE, MODULE, watched

LINES = """\
  directives:
    - "#SBATCH -N 2"
    - "#SBATCH --ntasks-per-node=2"
    - "#SBATCH -o job.o%j"
  forms:
    two:
      summary: two ranks a node
      launcher: [srun, "-N{nodes}", "-n{ranks}", "--ntasks-per-node={ranks_per_node}"]
      ranks_per_node: 2
"""
OVER_TINY = """\
schema: 1
name: tinyray
extends: {tiny}/recipe.yaml
summary: A program that is called as Ray's, for tests
exposes: [ray]
job: {{form: ray}}
steps: [{{name: note, shell: ":"}}]
verify: {{script: verify.py}}
"""
COMMAND = """\
import json, os, sys, ray
ray.init(os.environ["RAY_ADDRESS"])
names = ("HOME", "RANK", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "SLURMD_NODENAME", "RAY_ADDRESS")
said = {name: os.environ.get(name) for name in names}
said["nodes"] = len(ray.nodes())
with open("ran.json", "w") as file:
    json.dump(said, file)
sys.exit(int(sys.argv[1]))
"""
DRIVER = """\
import json, os, sys, time
import ray
ray.init()
@ray.remote(num_cpus=1)
def square(number):
    time.sleep(0.2)
    node = os.environ["SLURMD_NODENAME"]
    return number * number, node, os.environ["HOME"], os.environ.get("RANK")
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as At
ids = [node["NodeID"] for node in ray.nodes()]
there = [square.options(scheduling_strategy=At(node_id, soft=False)) for node_id in ids]
told = ray.get([there[i % 2].remote(i) for i in range(20)])
os.environ["RAY_AUTH_TOKEN"] = "0" * 64
import subprocess
line = "import os, ray; ray.init(os.environ['RAY_ADDRESS'])"
stranger = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=300)
said = {
    "sum": sum(one[0] for one in told),
    "nodes": sorted({one[1] for one in told}),
    "homes": sorted({one[2] for one in told}),
    "ranks": [one[3] for one in told if one[3]],
    "home": os.environ["HOME"],
    "stranger": [stranger.returncode != 0, "uthentication" in stranger.stderr],
}
print("ran", json.dumps(said), flush=True)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def submit(user: World, engine: Apptainer, cluster: Cluster, tmp_path: Path) -> Iterator[World]:
    """Give a user whose `run` submits a script, and waits for its end; then nothing is left."""
    with watched() as variables:
        own = user.having(
            PATH=f"{engine.program.parent}:{user.environ['PATH']}",
            APPTAINER_USERNS="1",
            DLCONTAINER_KEEP="0",  # a mount that ranks share stays a minute
            **variables,
        )
        yield World(environ=own.environ, folder=tmp_path, program=("sbatch", "--wait"))


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a recipe over the tiny one, with a program that is called as Ray's."""
    folder = tmp_path_factory.mktemp("recipes") / "tinyray"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(OVER_TINY.format(tiny=os.path.relpath(tiny, folder)))
    (folder / "verify.py").write_text((tiny / "verify.py").read_text())
    return folder


@pytest.fixture(scope="module")
def ray_image(world: World) -> Built:
    """Build the shipped recipe, once: some minutes."""
    return world.build("ray", world.folder / "ray image")


def script(user: World, recipe: str | Path, folder: Path, more: str = "") -> Path:
    site = SITE.partition("scheduler:")[0] + "scheduler:\n  kind: slurm\n  launcher: [srun]\n"
    (folder / "lab.yaml").write_text(site + LINES + more)
    argv = ("render", recipe, "--site", folder / "lab.yaml", "--format", "job")
    (folder / "job.sh").write_text(user.run(*argv).stdout)
    return folder / "job.sh"


def faked(user: World, recipe: Path, folder: Path) -> Path:
    """Give the script of a job that finds the fake in the tiny image: bound, not built."""
    (folder / "ray").write_text(f"#!/opt/tiny/bin/python\n{FAKE}")
    (folder / "ray").chmod(0o755)
    (folder / "module.py").write_text(MODULE)
    plan = json.loads(user.run("plan", recipe, "--site", "local", "--json").stdout)
    modules = f"/opt/tiny/lib/python{plan['system']['python']}/site-packages"
    binds = [f"{folder}/ray:/opt/tiny/bin/ray", f"{folder}/module.py:{modules}/ray.py"]
    return script(user, recipe, folder, f"jobs: {{binds: {json.dumps(binds)}}}\n")


def log(folder: Path) -> str:
    [output] = folder.glob("job.o*")
    text = output.read_text()
    output.unlink()
    return text


def told(text: str) -> Any:
    [line] = [line for line in text.splitlines() if line.startswith("ran ")]
    return json.loads(line.partition(" ")[2])


def started(folder: Path, what: str) -> Any:
    [path] = (folder / "started").glob(f"{what}-*.json")
    return json.loads(path.read_text())


def test_a_head_a_worker_and_the_command(
    user: World, submit: World, recipe: Path, tiny_image: Built, tmp_path: Path
) -> None:
    job = faked(user, recipe, tmp_path)
    (tmp_path / "command.py").write_text(COMMAND)
    own = submit.having(DLCONTAINER_IMAGE=tiny_image.image)
    own.run(job, "python", "command.py", "7", code=7)
    text = log(tmp_path)
    ran = json.loads((tmp_path / "ran.json").read_text())
    head, worker = started(tmp_path, "head"), started(tmp_path, "worker")
    assert (ran["SLURMD_NODENAME"], ran["nodes"], ran["RANK"]) == ("n1", 2, None)
    assert [head["SLURMD_NODENAME"], worker["SLURMD_NODENAME"]] == ["n1", "n2"]
    assert f"--address={ran['RAY_ADDRESS']}" in worker["argv"]
    assert "job: Ray has 2 nodes, 4 CPUs, 0 GPUs" in text
    tokens = {each["RAY_AUTH_TOKEN"] for each in (ran, head, worker)}
    [token] = tokens
    assert len(token) == 64
    assert token not in text
    assert token not in " ".join([*head["argv"], *worker["argv"]])
    assert {each["RAY_AUTH_MODE"] for each in (ran, head, worker)} == {"token"}
    # A private home and folder each; the command has the user's.
    homes = [head["HOME"], worker["HOME"]]
    assert len({*homes, ran["HOME"]}) == 3
    assert not any(Path(home).exists() for home in homes)
    for each in (head, worker):
        assert each["home_is_folder"]
        assert f"--temp-dir={Path(each['HOME']).parent}/ray" in each["argv"]
        assert each["RAY_USAGE_STATS_ENABLED"] == "0"
        assert (each["RANK"], each["MASTER_ADDR"], each["RAY_ADDRESS"]) == (None, None, None)
        assert "--min-worker-port=0" in each["argv"]
    ports = [re.findall(r"(?<=port=)[1-9]\d*", " ".join(each["argv"])) for each in (head, worker)]
    assert len(set(ports[0] + ports[1])) == 5  # each a free one, none Ray's usual


def test_a_proof_has_ranks_and_a_form_can_be_chosen(
    user: World, submit: World, recipe: Path, tiny_image: Built, tmp_path: Path
) -> None:
    job = faked(user, recipe, tmp_path)
    own = submit.having(DLCONTAINER_IMAGE=tiny_image.image)
    own.run(job)
    assert log(tmp_path).count('"answer": 42') == 4
    own.having(DLCONTAINER_FORM="two").run(job, "python", "-c", "print('a rank')")
    assert log(tmp_path).splitlines().count("a rank") == 4
    own.having(DLCONTAINER_FORM="ray").run(job, code=3)
    assert "DLCONTAINER_FORM=two" in log(tmp_path)
    assert not (tmp_path / "started").exists()


def test_a_worker_that_does_not_start_ends_the_job(
    user: World, submit: World, recipe: Path, tiny_image: Built, tmp_path: Path
) -> None:
    job = faked(user, recipe, tmp_path)
    own = submit.having(DLCONTAINER_IMAGE=tiny_image.image, FAKE_RAY="no-worker")
    done = own.run(job, "python", "-c", "print('ran')", code=None)
    assert done.returncode in {3, 137, 143}  # srun's: the head's, or the signal of a worker
    text = log(tmp_path)
    assert "exit code 9: a reason that Ray gave" in text
    assert "Ray did not start on" in text
    assert "ran" not in text.splitlines()


@pytest.mark.long  # what the fake shows, with Ray itself: its image takes some minutes
@pytest.mark.timeout(3600)
def test_tasks_run_on_both_nodes_and_a_stranger_stays_out(
    user: World, submit: World, ray_image: Built, tmp_path: Path
) -> None:
    job = script(user, "ray", tmp_path)
    (tmp_path / "driver.py").write_text(DRIVER)
    own = submit.having(DLCONTAINER_IMAGE=ray_image.image)
    own.run(job, "python", "driver.py", "7", code=7)
    ran = told(log(tmp_path))
    assert ran["sum"] == sum(number * number for number in range(20))
    assert ran["nodes"] == ["n1", "n2"]
    assert len(ran["homes"]) == 2
    assert ran["home"] not in ran["homes"]
    assert ran["ranks"] == []
    assert ran["stranger"] == [True, True]
