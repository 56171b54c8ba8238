"""A job script on the real engine: what the site puts into the image arrives as it is written."""

import json
import subprocess
from pathlib import Path

from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.formats import texts
from tests.integration.world import Built, World
from tests.jobs import BASH, plan_at
from tests.values import HOSTILE, TEMPLATES, folder_of, plan_of, shipped_site

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def test_variables_arrive_in_the_image(
    tiny_image: Built, tried: EngineCapabilities, world: World, tmp_path: Path
) -> None:
    there = tmp_path / "it's shown"
    there.mkdir()
    (there / "file").write_text("seen")
    lines = {f"V{n}": text for n, text in enumerate(HOSTILE) if "$" not in text}
    evil = "$(touch CANARY)`touch CANARY`\\ ' \" & $HOME"
    engine = {"run_mode": tried.run_mode}
    jobs = {
        "inside": {**lines, "FROM_HOST": "a $EVIL", "LD_LIBRARY_PATH": "/from/jobs"},
        "binds": ["$THERE:/mnt"],
    }
    mpi = {"family": "mpich", "mode": "swap", "name": "M", "library_path": ["$NOT", "/opt/m/lib"]}
    plan = plan_at(tmp_path, jobs=jobs, mpi=mpi, engine=engine)
    script = tmp_path / "job.sh"
    script.write_text(texts.text(plan, "job", [TEMPLATES]))
    environ = {
        **world.environ,
        "DLCONTAINER_IMAGE": str(tiny_image.image),
        "EVIL": evil,
        "THERE": str(there),
        "NOT": "/n`o`t",
    }
    done = subprocess.run(
        [BASH, str(script), "/opt/tiny/bin/python", "-c", SHOW],
        cwd=there,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert {name: seen[name] for name in lines} == lines
    assert seen["FROM_HOST"] == f"a {evil}"
    assert seen["LD_LIBRARY_PATH"].split(":")[:3] == ["/n`o`t", "/opt/m/lib", "/from/jobs"]
    assert {path.name for path in there.iterdir()} == {"file"}


def test_the_job_of_this_very_machine_runs_and_keeps_the_host_out(
    tiny_image: Built, tried: EngineCapabilities, world: World, tmp_path: Path
) -> None:
    plan = plan_of(folder_of(tmp_path), site=shipped_site("local"), trial=tried)
    script = tmp_path / "job.sh"
    script.write_text(texts.text(plan, "job", [TEMPLATES]))
    host = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere", "LD_PRELOAD": ""}
    (tmp_path / "os.py").write_text("raise SystemExit('a module of the host')\n")
    done = subprocess.run(
        [BASH, str(script), "/opt/tiny/bin/python", "-c", SHOW],
        cwd=tmp_path,
        env={**world.environ, **host, "DLCONTAINER_IMAGE": str(tiny_image.image)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not set(host) & set(json.loads(done.stdout))
