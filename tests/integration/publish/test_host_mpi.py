"""A published module and the host's MPI, for real: Intel MPI in place of the image's MPICH, by an
environment module; another family, another version, a missing library.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.system.process import quote
from tests.integration import mpi_programs
from tests.integration.publish.tools import Shelf, clean_home, program
from tests.integration.world import World, missing

pytestmark = pytest.mark.long

INTEL, VERSION = "impi-rt==2021.18.1", "2021.18"
RECIPE = """\
schema: 1
name: ranks
version: "1.0"
summary: A Python and MPICH, for tests
space_mb: 600
base: {distribution: debian, release: bookworm}
prefix: /opt/ranks
stack: {mpi: {family: mpich, name: MPICH 5.0.2}}
steps:
  - name: system
    os_packages: [python3, python3-venv]
  - name: wheel
    python_packages:
      packages: [mpich==5.0.2]
  - name: loader
    shell: echo /opt/ranks/lib > /etc/ld.so.conf.d/ranks.conf && ldconfig
exposes: [python]
verify: {script: verify.py, imports: {}}
"""
# Of a site whose hosts have their own MPI.
HOST_MPI = """\
mpi:
  family: mpich
  mode: swap
  name: Intel MPI
  modules: [load lab-mpi/2021.18]
  version_variable: LAB_MPI_VERSION
  known_versions: ["2021.18"]
  binds: [$LAB_MPI_ROOT]
  libraries: [$LAB_MPI_ROOT/lib/libmpi.so.12]
  library_path: [$LAB_MPI_ROOT/lib, $LD_LIBRARY_PATH]
"""
SITE = f"""\
schema: 1
name: local
summary: for tests
facts: host
default_recipe: ranks
jobs: {{inside: {{LAB_FABRIC: "a b"}}, environment: {{LAB_TEAM: ours}}}}
{HOST_MPI}  inside: {{LAB_SWAPPED: "1"}}
"""
VERIFY = 'print(\'{"ok": true, "what": "ranks", "ranks": 1}\')\n'
# The handles are those of MPICH's ABI.
PROGRAM = """\
import ctypes, json, os
mpi = ctypes.CDLL("libmpi.so.12")
mpi.MPI_Init(None, None)
rank, size = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(0x44000000, ctypes.byref(rank))
mpi.MPI_Comm_size(0x44000000, ctypes.byref(size))
total = ctypes.c_int()
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, 0x4c000405, 0x58000003, 0x44000000)
with open("/proc/self/maps") as file:
    over = {line.split()[-1] for line in file if "libmpi.so" in line}
said = {name: os.environ.get(name) for name in ("LAB_SWAPPED", "LAB_FABRIC", "LAB_TEAM")}
said |= {"rank": rank.value, "size": size.value, "sum": total.value, "over": sorted(over)}
line = json.dumps(said)
os.write(1, (line + chr(10)).encode())
mpi.MPI_Finalize()
"""
MODULE = """\
setenv("LAB_MPI_VERSION", "{version}")
setenv("LAB_MPI_ROOT", "{root}")
prepend_path("PATH", "{root}/bin")
prepend_path("LD_LIBRARY_PATH", "{root}/lib")
"""
LMOD = Path("/usr/share/lmod/lmod/init/bash")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lab:
    """A published module of an image with MPI, the host's MPI, and modules of both."""

    shelf: Shelf
    host: Path
    modules: Path

    def run(
        self, load: str, command: str, variables: Mapping[str, str] | None = None, *, code: int = 0
    ) -> tuple[list[dict[str, Any]], str]:
        """Load modules by Lmod and run a command; give the ranks' lines, and stderr."""
        use = f"module use {self.modules} '{self.shelf.root}'/modules/lmod"
        given = "".join(f"export {quote([f'{k}={v}'])}; " for k, v in (variables or {}).items())
        lines = f"{given}. {LMOD}; {use}; module load {load}; {command}"
        done = self.shelf.run("bash", "-c", lines, code=code)
        ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return sorted(ranks, key=lambda rank: int(rank.get("rank", 0))), done.stderr


@pytest.fixture(scope="session")
def intel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install Intel's MPI as a centre would: a folder of its own."""
    if not LMOD.is_file():
        missing("Lmod (Debian's package lmod)")
    return mpi_programs.install(tmp_path_factory.mktemp("host") / "mpi", INTEL)


@pytest.fixture(scope="session")
def lab(
    world: World, engine: Apptainer, intel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    recipe = folder / "recipe"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "verify.py").write_text(VERIFY)
    site = folder / "lab.yaml"
    site.write_text(SITE)
    built = world.build(recipe, folder / "image", "--site", site)
    root = folder / "a root"
    there = {"LAB_MPI_ROOT": str(intel)}
    world.having(**there).run("publish", built.image, "-s", site, "--root", root)
    modules = folder / "modules"
    (modules / "lab-mpi").mkdir(parents=True)
    for version in (VERSION, "2099.1"):
        text = MODULE.format(version=version, root=intel)
        (modules / "lab-mpi" / f"{version}.lua").write_text(text)
    broken = folder / "broken"
    broken.mkdir()
    (broken / "bin").symlink_to(intel / "bin")
    (modules / "lab-broken").mkdir()
    text = MODULE.format(version=VERSION, root=broken)
    (modules / "lab-broken" / "1.lua").write_text(text)
    (modules / "openmpi").mkdir()
    (modules / "openmpi" / "4.1.lua").write_text('setenv("MPI_OF_ANOTHER", "1")\n')
    environ = clean_home(folder)
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    shelf = Shelf(root=root, name="ranks", version="1.0", environ=environ)
    (Path(environ["HOME"]) / "ranks.py").write_text(PROGRAM)
    return Lab(shelf=shelf, host=intel, modules=modules)


def test_the_host_s_mpi_takes_the_image_s_place(lab: Lab) -> None:
    ranks, said = lab.run(
        "lab-mpi/2021.18 ranks", "mpiexec -n 3 python ranks.py", {"DLCONTAINER_DEBUG": "1"}
    )
    assert [(rank["rank"], rank["size"], rank["sum"]) for rank in ranks] == [
        (0, 3, 3),
        (1, 3, 3),
        (2, 3, 3),
    ]
    for rank in ranks:
        (over,) = rank["over"]
        assert over.startswith(f"{lab.host}/lib/")
        assert (rank["LAB_SWAPPED"], rank["LAB_FABRIC"], rank["LAB_TEAM"]) == ("1", "a b", "ours")
    # One rank says it for all.
    assert said.count("the host's Intel MPI") == 1


def test_nothing_loaded_runs_the_image_s_own(lab: Lab) -> None:
    (rank,), said = lab.run("ranks", "python ranks.py", {"DLCONTAINER_DEBUG": "1"})
    (over,) = rank["over"]
    assert over.startswith("/opt/ranks/lib/")
    assert (rank["size"], rank["LAB_SWAPPED"], rank["LAB_FABRIC"]) == (1, None, "a b")
    assert "the image's own MPI" in said
    _, said = lab.run("ranks", "python ranks.py", {"DLCONTAINER_MPI": "mine"}, code=2)
    assert "DLCONTAINER_MPI is 'mine'; known: own, host" in said


def test_a_launcher_of_another_family_is_refused(lab: Lab) -> None:
    mpirun = f"{program('mpirun.openmpi', 'openmpi-bin')} --allow-run-as-root --oversubscribe -n 2"
    ranks, said = lab.run("ranks", f"{mpirun} python ranks.py", code=8)
    assert ranks == []
    assert "a launcher of the family openmpi started these ranks" in said
    assert "next: start them with Intel MPI: module load lab-mpi/2021.18" in said
    # A program without MPI may well be started so.
    plain = f"{mpirun} python -c 'print(chr(123) + chr(125), flush=True)'"
    done, _ = lab.run("ranks", plain, {"DLCONTAINER_MPI": "own"})
    assert done == [{}, {}]


def test_an_unknown_version_is_refused_in_a_job(lab: Lab) -> None:
    load = "lab-mpi/2099.1 ranks"
    job = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}
    ranks, said = lab.run(load, "python ranks.py", job, code=8)
    assert ranks == []
    assert "$LAB_MPI_VERSION is 2099.1, and the site config knows 2021.18" in said
    assert "next: module load lab-mpi/2021.18\n" in said
    # On a login node it is a warning of one line.
    (rank,), said = lab.run(load, "python ranks.py")
    assert rank["LAB_SWAPPED"] is None
    assert said.count("\n") == 1
    assert "runs with its own MPI: $LAB_MPI_VERSION is 2099.1" in said
    (rank,), said = lab.run(load, "python ranks.py", {**job, "DLCONTAINER_MPI": "own"})
    assert (rank["LAB_SWAPPED"], said) == (None, "")
    (rank,), _ = lab.run(load, "python ranks.py", {**job, "DLCONTAINER_MPI": "host"})
    assert rank["LAB_SWAPPED"] == "1"


def test_two_families_loaded(lab: Lab) -> None:
    load = "lab-mpi/2021.18 openmpi/4.1 ranks"
    ranks, said = lab.run(load, "python ranks.py", {"PBS_JOBID": "7"}, code=8)
    assert ranks == []
    assert "the module openmpi is loaded too, an MPI of another family" in said
    assert "next: module unload openmpi" in said


def test_a_library_that_is_missing_on_this_host(lab: Lab) -> None:
    load = "lab-broken/1 ranks"
    ranks, said = lab.run(load, "python ranks.py", {"LSB_JOBID": "7"}, code=8)
    assert ranks == []
    assert "there is no " in said
    assert "broken/lib/libmpi.so.12 on this host" in said
    (rank,), said = lab.run(load, "python ranks.py")
    assert rank["LAB_SWAPPED"] is None
    assert "runs with its own MPI: there is no" in said


def test_the_help_names_the_mpi_that_takes_over(lab: Lab) -> None:
    _, said = lab.run("ranks", "module help ranks/1.0")
    assert (
        "MPI: the host's Intel MPI in place of the image's, where $LAB_MPI_VERSION is set" in said
    )


def test_a_user_s_own_value_passes_by_name(lab: Lab) -> None:
    own = {"LAB_FABRIC": "mine", "DLCONTAINER_PASS": "LAB_FABRIC"}
    (rank,), _ = lab.run("ranks", "python ranks.py", own)
    assert (rank["LAB_FABRIC"], rank["LAB_TEAM"]) == ("mine", "ours")
