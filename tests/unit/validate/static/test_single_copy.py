"""MPIs whose ranks copy from each other's memory, where each has a user namespace of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.elves import Elf, texts
from tests.unit.validate.static.test_mpi_library import MPI4PY, mpi
from tests.unpacked import LIB, findings, lines, only

COPYING = texts("process_vm_readv")
VADER = "openmpi/mca_btl_vader.so"
OFF = "OMPI_MCA_btl_vader_single_copy_mechanism"
MPICH_OFF = "UCX_POSIX_USE_PROC_LINK=n MPIR_CVAR_CH4_CMA_ENABLE=0"


def found(folder: Path, soname: str, parts: Any, environment: str = "", **site: Any) -> Any:
    files = {
        MPI4PY: Elf(needed=(soname,)),
        f"{LIB}/{soname}": Elf(soname=soname),
        **{f"{LIB}/{name}": part for name, part in parts.items()},
    }
    script = {"/.singularity.d/env/90-environment.sh": environment.encode()}
    return findings(folder, {**files, **script}, **site)


@pytest.mark.parametrize(
    ("soname", "parts", "setting"),
    [
        ("libmpi.so.40", {VADER: Elf(sections=COPYING)}, f"{OFF}=none"),
        ("libmpi.so.12", {"libmpi.so.12": Elf(sections=COPYING)}, MPICH_OFF),
        ("libmpi.so.12", {"ucx/libuct_cma.so.0": Elf(sections=COPYING)}, MPICH_OFF),
        # As measured: Open MPI 5 and Intel MPI go on without it.
        ("libmpi.so.40", {"libopen-pal.so.80": Elf(sections=COPYING)}, ""),
        ("libmpi.so.12", {"libmpi.so.12": Elf(sections=texts("I_MPI_PMI_LIBRARY"))}, ""),
        ("libmpi.so.40", {VADER: Elf()}, ""),
    ],
)
def test_who_copies(tmp_path: Path, soname: str, parts: Any, setting: str) -> None:
    family = "openmpi" if soname == "libmpi.so.40" else "mpich"
    told = found(tmp_path, soname, parts, mpi=mpi(family, "container"))
    if not setting:
        assert lines(told) == []
        return
    one = only(told)
    assert (one.rule, one.level) == ("single-copy", "note")
    assert one.what.endswith(f"; jobs and modules of dlcontainer set {setting}")


@pytest.mark.parametrize(("value", "level"), [("none", ""), ("cma", "warning")])
def test_what_the_image_sets(tmp_path: Path, value: str, level: str) -> None:
    parts = {VADER: Elf(sections=COPYING)}
    text = f"export {OFF}={value}\n"
    told = found(tmp_path, "libmpi.so.40", parts, text, mpi=mpi("openmpi", "container"))
    assert [one.level for one in told] == ([level] if level else [])


def test_a_runtime_that_is_not_apptainer(tmp_path: Path) -> None:
    engine = {"runtime": "podman-hpc", "remembered": ["runtime"]}
    parts = {VADER: Elf(sections=COPYING)}
    told = found(tmp_path, "libmpi.so.40", parts, mpi=mpi("openmpi", "container"), engine=engine)
    one = only(told)
    assert (one.level, "podman-hpc gives each one is open" in one.why) == ("not decided", True)


def test_the_site_s_mpi_is_not_judged(tmp_path: Path) -> None:
    parts = {"libmpi.so.12": Elf(sections=COPYING)}
    told = found(tmp_path, "libmpi.so.12", parts, mpi=mpi("mpich", "swap", "libmpi.so.12"))
    assert "single-copy" not in {one.rule for one in told}
