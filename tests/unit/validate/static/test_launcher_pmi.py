"""The PMI by which srun starts ranks, and those that the image's MPI speaks.

As real ranks said under a real Slurm 22.05 (tests/integration/slurm/test_static_pmi.py); under pmix
of a Slurm with libpmix MPICH 5.0.2 ended with "unsupported PMI version PMIx", Open MPI 4.1.4 and
5.0.11 were 2 of 2.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.elves import Elf, texts
from tests.unit.validate.static.test_mpi_library import MPI4PY, mpi
from tests.unpacked import LIB, findings, lines, only

# MPICH's texts name PMIx where it is not built in.
MPICH = {"libmpi.so.12": Elf(sections=texts("PMI_FD", "PMI2_Init", "PMIx_Init failed"))}
MPICH_ON_PMIX = {"libmpi.so.12": Elf(sections=texts("PMI_FD", "PMIx_Init"))}
INTEL = {"libmpi.so.12": Elf(sections=texts("PMI_FD", "PMIx_Init", "I_MPI_PMI_LIBRARY"))}
OPEN_MPI_5 = {
    "libmpi.so.40": Elf(needed=("libpmix.so.2",), sections=texts("PMIx_Init")),
    "libpmix.so.2": Elf(sections=texts("PMIx_Init")),
}
OPEN_MPI_4 = {
    "libmpi.so.40": Elf(),
    "openmpi/mca_pmix_ext3x.so": Elf(sections=texts("PMIx_Init")),
    "openmpi/mca_pmix_flux.so": Elf(sections=texts("PMI_Init")),
}
OPEN_MPI_4_WITH_PMI2 = {**OPEN_MPI_4, "openmpi/mca_pmix_s2.so": Elf()}


def slurm(**forms: str) -> dict[str, Any]:
    """Make a scheduler's facts of the PMI of each form; `x_` before a name: of no family."""
    facts = {
        name.removeprefix("x_"): {
            "summary": "a form",
            "launcher": ["srun", *([f"--mpi={kind}"] if kind else [])],
            "ranks_per_node": 2,
            **({} if name.startswith("x_") else {"mpi": "openmpi"}),
        }
        for name, kind in forms.items()
    }
    for form in facts.values():
        form["remembered"] = list(form)
    scheduler = {"kind": "slurm", "launcher": ["srun"], "forms": facts}
    return {"scheduler": {**scheduler, "remembered": ["kind", "launcher", "forms"]}}


def found(folder: Path, parts: dict[str, Elf], site: Any, **more: Any) -> Any:
    name = next(iter(parts))
    files = {MPI4PY: Elf(needed=(name,)), **{f"{LIB}/{path}": part for path, part in parts.items()}}
    family = "openmpi" if name == "libmpi.so.40" else "mpich"
    return findings(folder, files, mpi=mpi(family, "container", **more), **site)


@pytest.mark.parametrize(
    ("parts", "kind", "fits"),
    [
        (MPICH, "pmi2", True),
        (MPICH, "pmix", False),
        (MPICH, "pmix_v4", False),
        (MPICH_ON_PMIX, "pmix", True),
        # It loads any, as a variable says: not decided, and not reported.
        (INTEL, "pmix", True),
        (OPEN_MPI_5, "pmix", True),
        (OPEN_MPI_5, "pmi2", False),
        (OPEN_MPI_4, "pmix", True),
        (OPEN_MPI_4, "pmi2", False),
        (OPEN_MPI_4_WITH_PMI2, "pmi2", True),
    ],
)
def test_kinds(tmp_path: Path, parts: Any, kind: str, fits: bool) -> None:
    told = found(tmp_path, parts, slurm(x_ranks=kind))
    if fits:
        assert lines(told) == []
        return
    one = only(told)
    assert (one.rule, one.level, one.file) == ("launcher-pmi", "error", MPI4PY)
    assert "the site's form ranks starts ranks by pm" in one.what


@pytest.mark.parametrize("kind", ["", "cray_shasta", "none", "pmix_v", "--help"])
def test_what_srun_has_as_its_default_is_not_known(tmp_path: Path, kind: str) -> None:
    one = only(found(tmp_path, MPICH, slurm(x_ranks=kind)))
    assert (one.rule, one.level) == ("launcher-pmi", "not decided")
    assert "by which PMI srun starts ranks is not stated (form ranks)" in one.what


def test_another_form_fits(tmp_path: Path) -> None:
    """As at a site whose usual form is for Open MPI 4, and another for 5."""
    one = only(found(tmp_path, OPEN_MPI_5, slurm(x_gpu="", old="pmi2", x_new="pmix")))
    assert (one.level, one.fix) == ("warning", "start jobs with DLCONTAINER_FORM=new")


def test_a_variable_says_it(tmp_path: Path) -> None:
    site = slurm()
    more = {"environment": {"SLURM_MPI_TYPE": "pmi2"}}
    one = only(found(tmp_path / "5", OPEN_MPI_5, site, **more))
    assert (one.level, "the site's launcher starts ranks by pmi2" in one.what) == ("error", True)
    # A form's own words come before it.
    assert lines(found(tmp_path / "4", OPEN_MPI_5, slurm(x_a="pmix"), **more)) == []


def test_another_launcher(tmp_path: Path) -> None:
    site = slurm(x_a="pmix")
    site["scheduler"]["forms"]["a"]["launcher"] = ["mpiexec", "--mpi=pmix"]
    assert lines(found(tmp_path, MPICH, site)) == []


def test_the_site_s_mpi_is_not_judged(tmp_path: Path) -> None:
    files = {MPI4PY: Elf(needed=("libmpi.so.12",)), f"{LIB}/libmpi.so.12": MPICH["libmpi.so.12"]}
    site = {"mpi": mpi("mpich", "swap", "libmpi.so.12"), **slurm(x_a="pmix")}
    assert {one.rule for one in findings(tmp_path, files, **site)} <= {
        "mpi-library",
        "host-library",
    }
