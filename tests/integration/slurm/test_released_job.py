"""The job that a module brings: a user loads the module in a real Lmod, and submits it to Slurm."""

from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.conftest import lmod
from tests.integration.publish.tools import Shelf, clean_home, in_shell
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.slurm.test_rendezvous import FORMS, WANTED, met
from tests.integration.world import Built, World
from tests.jobs import MEET

__all__ = ("lmod",)

SUBMITTED = (
    'cd "$1" && module load tiny && shift && sbatch --wait "$DLCONTAINER_JOB" "$@"; echo "rc $?"'
)


@pytest.fixture
def shelf(
    world: World, cluster: Cluster, engine: Apptainer, tiny_image: Built, tmp_path: Path
) -> Shelf:
    """Publish the tiny image at a site with Slurm, below a path that needs quoting."""
    site = tmp_path / "lab.yaml"
    site.write_text(SITE.partition("scheduler:")[0] + FORMS)
    root = tmp_path / "root's;(one)&#two*"
    world.run("publish", tiny_image.image, "--site", site, "--root", root, "--json")
    environ = clean_home(tmp_path)
    environ |= {"PATH": f"{engine.program.parent}:{environ['PATH']}", "APPTAINER_USERNS": "1"}
    # The cluster's four nodes are one host, whose own name may lead to the loopback.
    environ |= {"DLCONTAINER_MASTER_ADDR": "127.0.0.1", **cluster.variables}
    return Shelf(root=root, name="tiny", version="1.0", environ=environ)


def test_a_module_brings_its_job(shelf: Shelf, lmod: str, tmp_path: Path) -> None:
    here = tmp_path / "a job's folder"
    here.mkdir()
    (here / "meet.py").write_text(MEET)
    words = (str(here), "python", str(here / "meet.py"))
    # As a user types it: the image's own python, by its name.
    said = in_shell(shelf, (lmod, "lmod"), SUBMITTED, *words)
    assert said.splitlines()[-1] == "rc 0", said
    assert met(here) == WANTED
    [output] = here.glob("job.o*")
    assert {path.name for path in here.iterdir()} == {output.name, "meet.py"}
    output.unlink()
    # What somebody changed since does not run.
    for name in ("job-rank.sh", "job-functions.sh"):
        path = shelf.folder / "job" / name
        right = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(b"echo planted\n" + right)
        said = in_shell(shelf, (lmod, "lmod"), SUBMITTED, *words)
        assert said.splitlines()[-1] == "rc 3", said
        [output] = here.glob("job.o*")
        assert f"{name} was changed" in output.read_text()
        assert "it does not run" in output.read_text()
        assert "planted" not in output.read_text()
        output.unlink()
        path.write_bytes(right)
