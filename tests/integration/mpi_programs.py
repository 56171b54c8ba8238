"""Real MPIs as wheels, in folders of their own, and a small program of two ranks for them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.world import missing

LIB = "/usr/lib/x86_64-linux-gnu"
# Each rank says its numbers, a sum over all, and the MPI that it has.
SOURCE = """\
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    int rank, size, sum = -1;
    char line[4096];
    FILE *maps;
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "/libmpi") && !strstr(line, "libmpi_shm")) break;
    line[strcspn(line, "\\n")] = 0;
    printf("%d of %d: %d by %s\\n", rank, size, sum, strchr(line, '/'));
    fflush(stdout);
    return MPI_Finalize();
}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankLines:
    """What ranks said: their sizes and sums, and the MPI libraries that they had."""

    code: int
    sizes: frozenset[str]
    sums: Sequence[str]
    libraries: frozenset[str]
    text: str

    def are_one_job(self, folder: Path) -> bool:
        """Return whether both ranks are of one job, and have the MPI of a folder."""
        with_mpi = {os.path.realpath(library) for library in self.libraries}
        there = (library.startswith(f"{os.path.realpath(folder)}/") for library in with_mpi)
        return not self.code and self.sizes == {"2"} and self.sums == ["1", "1"] and all(there)


def install(folder: Path, requirement: str) -> Path:
    """Install an MPI's wheel as a centre would: a folder of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    argv = [str(folder / "bin/python"), "-m", "pip", "install", "-q", requirement]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        missing(f"{requirement}, which pip can't install: {done.stderr}")
    return folder


def compiled(program: Path, mpi: Path, library: str, *words: str) -> Path:
    """Compile the program with the headers of an MPI, linked to one of its libraries."""
    compiler = shutil.which("gcc")
    if compiler is None:
        missing("gcc (Debian's package gcc)")
    program.parent.mkdir(parents=True, exist_ok=True)
    source = program.with_suffix(".c")
    source.write_text(SOURCE)
    where = [f"-I{mpi}/include", f"-L{mpi}/lib", f"-Wl,-rpath-link,{mpi}/lib"]
    argv = [compiler, "-w", *words, "-o", str(program), str(source), *where, f"-l:{library}"]
    subprocess.run(argv, check=True)
    return program


def tree(root: Path, program: Path, libraries: Path, extra: Sequence[Path] = ()) -> Path:
    """Make an image's tree of a program, its MPI and all that either loads."""
    place, own = root / "opt/app/bin/app", root / "opt/app/lib"
    place.parent.mkdir(parents=True)
    shutil.copy(program, place)
    shutil.copytree(libraries, own, symlinks=True, ignore=shutil.ignore_patterns("python*"))
    for path in extra:
        (root / str(path).lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(path, root / str(path).lstrip("/"), symlinks=True)
    system = root / LIB.lstrip("/")
    system.mkdir(parents=True, exist_ok=True)
    for path in _loaded([place, *own.glob("**/*.so*")], own):
        if not path.is_relative_to(root) and not (system / path.name).exists():
            shutil.copy(path.resolve(), system / path.name)
    settings = root / ".singularity.d/env/90-environment.sh"
    settings.parent.mkdir(parents=True)
    settings.write_text("export PATH=/opt/app/bin:/usr/bin\nexport LD_LIBRARY_PATH=/opt/app/lib\n")
    (root / "lib64").symlink_to(LIB.lstrip("/"))
    return root


def _loaded(files: Sequence[Path], libraries: Path) -> set[Path]:
    env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(libraries)}
    names: set[Path] = set()
    for file in files:
        done = subprocess.run(["ldd", file], capture_output=True, text=True, env=env, check=False)
        words = (line.split() for line in done.stdout.splitlines())
        names |= {Path(part) for line in words for part in line if part.startswith("/")}
    return {path for path in names if path.exists()}


def ranks(argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> RankLines:
    """Run two ranks, and read what they say."""
    as_root = {
        name: "1"
        for prefix in ("OMPI", "PRTE")
        for name in (f"{prefix}_ALLOW_RUN_AS_ROOT", f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM")
    }
    variables = {"PATH": os.environ["PATH"], "HOME": str(cwd), "I_MPI_FABRICS": "shm"}
    done = subprocess.run(
        argv,
        env={**variables, **as_root, **environ},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return read(done)


def read(done: "subprocess.CompletedProcess[str]") -> RankLines:
    """Read what ranks said."""
    lines = [line for line in done.stdout.splitlines() if " of " in line and " by " in line]
    words = [line.split(" ") for line in lines]
    return RankLines(
        code=done.returncode,
        sizes=frozenset(line[2].rstrip(":") for line in words),
        sums=[line[3] for line in words],
        libraries=frozenset(line[5] for line in words),
        text=done.stdout + done.stderr,
    )
