"""`modules gc` beside jobs of the real Slurm: what a job has loaded stays until it is over."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.tools import Shelf, clean_home
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.world import Built, World
from tests.processes import poll

WAIT = """\
import os, pathlib, sys, time
here = pathlib.Path(os.environ["HOME"])
(here / "started").touch()
while not (here / "end").exists():
    time.sleep(0.1)
import dlctiny
print("answer", dlctiny.ANSWER)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Centre:
    """A published module, the staff who keep its tree, and the site's file as they have it."""

    shelf: Shelf
    staff: World
    site: Path

    def gc(self, site: Path | None = None, **variables: str) -> tuple[list[str], str]:
        """Collect all that may go now; give the folders that went, and why others stay."""
        argv = ("modules", "gc", "--root", self.shelf.root, "--site", site or self.site)
        said = self.staff.having(**variables).run(*argv, "--keep", "0", "--json").stdout
        body = json.loads(said)
        return body["removed"], "; ".join(kept["why"] for kept in body["kept"])

    def unpublish(self) -> Path:
        """Take the module back; give the release that is no longer live."""
        release = self.shelf.folder
        self.staff.run("modules", "unpublish", "tiny/1.0", "--root", self.shelf.root)
        return release


@pytest.fixture
def centre(user: World, site: Path, tiny_image: Built, engine: Apptainer, tmp_path: Path) -> Centre:
    root = tmp_path / "root"
    user.run("publish", tiny_image.image, "--site", site, "--root", root)
    environ = clean_home(tmp_path)
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    shelf = Shelf(root=root, name="tiny", version="1.0", environ=environ)
    return Centre(shelf=shelf, staff=user, site=site)


@pytest.mark.long  # tests/unit/publish has what is in use
def test_an_image_that_a_step_runs_stays(centre: Centre, cluster: Cluster, tmp_path: Path) -> None:
    shelf, home = centre.shelf, Path(centre.shelf.environ["HOME"])
    step = subprocess.Popen(
        ["srun", "--ntasks=1", shelf.python, "-c", WAIT],
        env={**shelf.environ, **cluster.variables},
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert poll((home / "started").exists, 60)
        release = centre.unpublish()
        removed, why = centre.gc()
        assert removed == []
        assert "a job in the queue was submitted while it was live" in why
        removed, why = centre.gc(SLURM_CONF=str(tmp_path / "none.conf"))
        assert removed == []
        assert "the scheduler can't be queried" in why
        # A scheduler that forgets the job: this host's processes still speak for its image.
        forgetful = tmp_path / "forgetful.yaml"
        forgetful.write_text(f"{SITE}modules: {{submissions: [/bin/true]}}\n")
        removed, why = centre.gc(forgetful)
        assert removed == ["generations/1"]
        assert "a process on this host has" in why
        assert (release / "image.sif").is_file()
    finally:
        (home / "end").touch()
        said = step.communicate(timeout=90)[0]
    assert (step.returncode, said) == (0, "answer 42\n")
    assert poll(lambda: cluster.jobs() == [], 60)
    assert centre.gc()[0] == [f"releases/{release.name}"]


@pytest.mark.long
def test_an_image_that_a_waiting_job_has_in_its_environment_stays(
    centre: Centre, cluster: Cluster
) -> None:
    """No process speaks for it: only the time of its submission does."""
    argv = ("sbatch", "--parsable", "--hold", "--output=/dev/null", f"--wrap={centre.shelf.python}")
    job = cluster.run(*argv).stdout.strip()
    release = centre.unpublish()
    removed, why = centre.gc()
    assert removed == []
    assert "a job in the queue was submitted while it was live" in why
    cluster.run("scancel", job)
    assert poll(lambda: job not in cluster.jobs(), 60)
    # Left a moment ago counts as just now.
    assert poll(lambda: centre.gc()[0] == ["generations/1", f"releases/{release.name}"], 60)
