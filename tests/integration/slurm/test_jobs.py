"""Rendered job scripts, submitted with the real sbatch."""

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests import goldens
from tests.integration import folders
from tests.integration.slurm import cluster as clusters
from tests.integration.slurm.cluster import WIDE, Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.world import Built, World
from tests.processes import poll

FORMS = """\
scheduler:
  kind: slurm
  launcher: [srun]
  directives:
    - "#SBATCH -N 2"
    - "#SBATCH --ntasks-per-node=2"
    - "#SBATCH -t 00:05:00"
    - "#SBATCH -o job.o%j"
  forms:
    two:
      summary: two ranks a node
      launcher: [srun, "-N{nodes}", "-n{ranks}", "--ntasks-per-node={ranks_per_node}"]
      ranks_per_node: 2
"""
SAY = (
    "import os, dlctiny\n"
    "print(os.environ['SLURM_PROCID'], os.environ['SLURMD_NODENAME'], dlctiny.ANSWER)"
)
FAIL = "import os, sys; sys.exit(3 if os.environ['SLURM_PROCID'] == '1' else 0)"
# Options of sbatch with a value that a site alone knows; without accounting any account will do.
_PARTITION = re.compile(r"^#SBATCH (?:-p |--partition=)(\S+)", re.MULTILINE)


@pytest.fixture
def submit(user: World, tiny: Path, tiny_image: Built, engine: Apptainer, tmp_path: Path) -> World:
    """Give a user whose `run` submits a rendered script, and waits for the job's end."""
    path = f"{engine.program.parent}:{user.environ['PATH']}"
    # The script says `apptainer exec`: root of a container may have no more than a user.
    own = user.having(PATH=path, DLCONTAINER_IMAGE=tiny_image.image, APPTAINER_USERNS="1")
    return World(environ=own.environ, folder=tmp_path, program=("sbatch", "--wait"))


def rendered(user: World, tiny: Path, site: str | Path, folder: Path) -> Path:
    text = user.run("render", tiny, "--site", site, "--format", "job").stdout
    (folder / "job.sh").write_text(text)
    return folder / "job.sh"


def test_the_example_sites_job_runs_to_its_end(
    user: World, submit: World, tiny: Path, tmp_path: Path
) -> None:
    script = rendered(user, tiny, "example-slurm", tmp_path)
    submit.run("--nodes=2", script, "/opt/tiny/bin/python", "-c", SAY)
    [output] = tmp_path.glob("slurm-*.out")
    said = sorted(line for line in output.read_text().splitlines() if line.endswith(" 42"))
    assert said == ["0 n1 42", "1 n2 42"]


def test_ranks_start_where_the_job_was_submitted(
    user: World, submit: World, tiny: Path, cluster: Cluster, tmp_path: Path
) -> None:
    script = rendered(user, tiny, "example-slurm", tmp_path)
    program = ("/opt/tiny/bin/python", "-c", folders.LOOK)
    log = tmp_path / "log"
    with folders.placed(tmp_path) as place:
        named = place.home / "two/run"
        own = submit.having(PWD=named)
        words = ("--nodes=2", "-o", log, script, *program, str(named), str(place.run))
        own.run(*words, cwd=named)
        lines = [line for line in log.read_text().splitlines() if line.startswith("[")]
        assert len(lines) == 2
        assert all(line.endswith("[true, true]]") for line in lines)
        assert (place.run / "ckpt").exists()
        # Slurm starts a job in /tmp where its own folder is gone.
        gone = place.far / "gone"
        gone.mkdir()
        held = replace(submit, program=("sbatch", "--parsable", "--hold"))
        job = held.run("-o", log, script, *program, cwd=gone).stdout.strip()
        gone.rmdir()
        replace(submit, program=("scontrol",)).run("release", job)
        assert poll(lambda: not cluster.jobs(), 60)
        assert "next: submit it from a folder that all nodes have" in log.read_text()


def test_a_form_lays_ranks_on_nodes_and_the_proof_is_run(
    user: World, submit: World, tiny: Path, tiny_image: Built, tmp_path: Path
) -> None:
    site = tmp_path / "lab.yaml"
    site.write_text(SITE.partition("scheduler:")[0] + FORMS)
    script = rendered(user, tiny, site, tmp_path)
    submit.run(script)
    [proof] = tmp_path.glob("job.o*")
    assert proof.read_text().count('"answer": 42') == 4
    proof.unlink()
    [folder] = tmp_path.glob("proof-*")
    judged = json.loads(user.run("prove", folder, "--site", site, "--json").stdout)
    findings = {finding["name"]: finding for finding in judged["findings"]}
    assert findings["site"]["state"] == "ok"
    assert findings["ranks"]["detail"] == "4 of 4 ranks on n1; n2"
    checked = user.run("prove", folder, "--site", site, "--image", tiny_image.image).stdout
    assert ["ok", "image"] in [line.split()[:2] for line in checked.splitlines()]
    submit.run(script, "/opt/tiny/bin/python", "-c", SAY)
    [ranks] = tmp_path.glob("job.o*")
    said = sorted(line for line in ranks.read_text().splitlines() if line.endswith(" 42"))
    assert said == ["0 n1 42", "1 n1 42", "2 n2 42", "3 n2 42"]
    done = submit.run(script, "/opt/tiny/bin/python", "-c", FAIL, code=None)
    # srun gives the highest code of its ranks: one that was still at work is ended by SIGTERM.
    assert done.returncode in {3, 128 + signal.SIGTERM}


def test_an_image_that_is_not_there_fails_the_job(
    user: World, submit: World, tiny: Path, tmp_path: Path
) -> None:
    script = rendered(user, tiny, "example-slurm", tmp_path)
    submit.having(DLCONTAINER_IMAGE=tmp_path / "no.sif").run(script, code=3)
    [output] = tmp_path.glob("slurm-*.out")
    assert f"can't read {tmp_path}/no.sif" in output.read_text()


@pytest.fixture(scope="module")
def wide() -> Iterator[Cluster]:
    """Run a Slurm whose nodes have eight GPUs and many cores."""
    with clusters.running(node=WIDE) as running:
        yield running


def test_sbatch_takes_the_options_of_every_site(wide: Cluster, tmp_path: Path) -> None:
    scripts = [path for path in goldens.write_all(tmp_path) if path.name == "job.sh"]
    scripts = [script for script in scripts if "\n#SBATCH " in script.read_text()]
    assert len({script.read_text().partition("set -eu")[0] for script in scripts}) > 20
    names = {name for script in scripts for name in _PARTITION.findall(script.read_text())}
    for name in sorted(names - {"batch"}):
        wide.run("scontrol", "create", f"partitionname={name}", "nodes=ALL", "state=UP")
    wide.run("sbatch", "--test-only", "--no-such-option", scripts[0], code=255)
    for script in scripts:
        said = wide.run("sbatch", "--test-only", script).stderr
        assert re.search(r"sbatch: Job \d+ to start at ", said), f"{script}: {said}"
