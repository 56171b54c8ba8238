"""What `validate --static` says of srun's PMI before, and what two real ranks do then.

The road of `test_launcher_pmi`, by real ranks. Slurm's pmix needs libpmix on the host, which
Debian's Slurm does not bring: it was tried by hand.
"""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.validate.static import static
from tests.fakes import RecordingRunner
from tests.integration import mpi_programs
from tests.integration.slurm.cluster import Cluster
from tests.integration.test_static_swaps import Mpis, mpis
from tests.values import site_of

__all__ = ["mpis"]  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("built", "library", "family", "works"),
    [
        ("mpich", "libmpi.so.12", "mpich", True),
        # Not decided, and not reported: it may be told to load another PMI.
        ("intel", "libmpi.so.12", "mpich", True),
        ("openmpi", "libmpi.so.40", "openmpi", False),
        ("openmpi4", "libmpi.so.40", "openmpi", False),
    ],
)
def test_pmi2(
    cluster: Cluster,
    mpis: Mpis,
    tmp_path: Path,
    built: str,
    library: str,
    family: str,
    works: bool,
) -> None:
    mpi = mpis[built]
    headers = mpis["mpich" if built == "intel" else built]
    app = mpi_programs.compiled(tmp_path / "build/app", headers, library)
    modules = [Path(mpi_programs.LIB, "openmpi")] if built == "openmpi4" else []
    root = mpi_programs.tree(tmp_path / "image", app, mpi / "lib", modules)
    site: dict[str, Any] = {"family": family, "mode": "container", "name": "the image's"}
    launcher = {"kind": "slurm", "launcher": ["srun", "--mpi=pmi2"]}
    facts = site_of(
        mpi={**site, "remembered": list(site)},
        scheduler={**launcher, "remembered": list(launcher)},
    ).value
    where = {"TMPDIR": str(tmp_path)}
    findings = static.validate(root, facts, where, RecordingRunner(strict=True))
    errors = [one for one in findings if one.rule == "launcher-pmi"]
    assert (not errors) == works, findings

    variables = [f"LD_LIBRARY_PATH={mpi}/lib", f"OPAL_PREFIX={mpi}"]
    if built == "openmpi4":
        variables.pop()
    line = " ".join(["env", *variables, "srun -N1 -n2 --mpi=pmi2", str(root / "opt/app/bin/app")])
    told = mpi_programs.read(cluster.run("sh", "-c", f"{line} || true"))
    assert told.are_one_job(mpi) == works, told.text
