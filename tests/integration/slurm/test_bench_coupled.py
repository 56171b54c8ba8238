"""A simulation in C and MPI feeds a training in PyTorch by files: one job, one trace of both."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.slurm.cluster import Cluster
from tests.integration.test_bench_trace import ALL_STEPS, GRADIENT_BYTES, PROGRAM
from tests.integration.test_bench_trace_mpi import installed, of_kind
from tests.integration.world import World, missing

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STEPS = ALL_STEPS + 3
# Each step trains with what the simulation wrote in its turn.
TRAIN = PROGRAM.replace(
    "    optimizer.zero_grad()\n",
    """\
    name = f"field-{step}"
    while not os.path.exists(name):
        time.sleep(0.01)
    with open(name, "rb") as file:
        inputs[0, 0] = torch.frombuffer(bytearray(file.read()), dtype=torch.float64).mean()
    optimizer.zero_grad()
""",
)
# Within a step of Slurm's Hydra is to start its ranks itself.
COUPLED = f"""\
if [ "$RANK" = 0 ]; then
    mpiexec -rmk user -launcher fork -n 2 sim feeds {STEPS} &
fi
python train.py sleep {STEPS}
code=$?
wait
exit $code
"""


def test_one_trace_of_both(
    user: World, world: World, cluster: Cluster, site: Path, tmp_path: Path
) -> None:
    prefix = installed(tmp_path / "mpich")
    links = f"{world.environ.get('PIP_FIND_LINKS', '')} {user.environ['PIP_FIND_LINKS']}".strip()
    user = user.having(PIP_FIND_LINKS=links, PATH=f"{prefix}/bin:{user.environ['PATH']}")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "coupled.sh").write_text(COUPLED)
    where = ["--site", str(site), "--recipe", "pytorch", "--nodes", "1", "--ranks", "2"]
    command = ["--time", "10", "--steps", "6", "-o", "t", "--", "sh", "coupled.sh"]
    user.run("bench", "trace", *where, *command, cwd=tmp_path)
    (side,) = json.loads((tmp_path / "t/trace.json").read_text())["sides"]
    assert (side["ended"], side["missing"]) == ("ended", [])

    # The training: the second rank sleeps, and the first one waits for it.
    trains, late = side["ranks"]
    assert max(trains["waiting_for"], key=trains["waiting_for"].get) == "1"
    assert sum(late["waiting_for"].values()) < trains["waiting_for"]["1"]
    assert [row["bytes"] for row in side["collectives"]] == [GRADIENT_BYTES]

    # The simulation, the same.
    (simulation,) = side["mpi"]["worlds"]
    assert (simulation["program"], simulation["size"]) == ("sim", 2)
    first, second = simulation["ranks"]
    assert max(first["waiting_for"], key=first["waiting_for"].get) == "1"
    assert sum(second["waiting_for"].values()) < first["waiting_for"]["1"]
    (reduced,) = of_kind(simulation, "MPI_Allreduce")
    assert (reduced["bytes"], reduced["calls"]) == (8000, 2 * STEPS)

    # One archive.
    if shutil.which("otf2-print") is None:
        missing("otf2-tools")
    archive = str(tmp_path / "t/native" / side["archive"])
    printed = subprocess.run(["otf2-print", archive], capture_output=True, text=True, check=True)
    spans = [rank["archived"] for rank in (*side["ranks"], *simulation["ranks"])]
    assert all(spans)
    assert len(re.findall(r"^ENTER ", printed.stdout, re.MULTILINE)) == sum(spans)
    made = subprocess.run(["otf2-print", "-G", archive], capture_output=True, text=True, check=True)
    names = set(re.findall(r'^LOCATION_GROUP .*Name: "([^"]+)"', made.stdout, re.MULTILINE))
    assert names == {"rank 0", "rank 1", "sim rank 0", "sim rank 1"}
    assert cluster.jobs() == []
