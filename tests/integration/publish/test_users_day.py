"""A user's day with a module, in a real Lmod: one script types it, and each part is looked at.

It runs long: PyTorch compiles, and Jupyter's packages are downloaded. The short set has the parts
alone: test_wrappers.py, test_modules.py and test_jupyter.py here.
"""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.publish.tools import Shelf, program
from tests.integration.world import World, write_wheel

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

PROGRAMS = {
    "train.py": """
import os
import torch
from torch.utils.data import DataLoader, TensorDataset

class Squares(TensorDataset):
    def __getitem__(self, index):
        return super().__getitem__(index)[0] ** 2

if __name__ == "__main__":
    data = Squares(torch.arange(8.0))
    total = sum(float(batch.sum()) for batch in DataLoader(data, batch_size=2, num_workers=2))
    print("LR", os.environ["LR"], "sum", total)
""",
    "rank.py": """
import os
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
# One write a rank: the ranks share a pipe.
os.write(1, f"rank {dist.get_rank()} of {int(one)} in {sys.prefix}\\n".encode())
dist.destroy_process_group()
""",
    "spawn.py": """
import torch
import torch.multiprocessing as mp

def work(rank, shared):
    shared[rank] += rank + 1

if __name__ == "__main__":
    shared = torch.zeros(2).share_memory_()
    mp.spawn(work, (shared,), nprocs=2)
    print(shared.tolist())
""",
    "compiled.py": """
import torch

@torch.compile
def f(x):
    return torch.sin(x) ** 2 + torch.cos(x) ** 2

print("compiled", f"{float(f(torch.ones(4)).sum()):.3f}")
""",
    "long.py": """
import pathlib
import signal
import sys
import time

signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(9)))
pathlib.Path("ready").touch()
while True:
    time.sleep(0.1)
""",
    # Runs on the host, as Jupyter's server does.
    "client.py": """
import pathlib
import sys
import time
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name=sys.argv[1], startup_timeout=180)

def run(code, interrupt_s=None):
    sent, said = client.execute(code), []
    if interrupt_s:
        time.sleep(interrupt_s)
        manager.interrupt_kernel()
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != sent:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            said.append(content["text"].strip())
        if kind == "error":
            said.append(content["ename"])
        if kind == "status" and content["execution_state"] == "idle":
            return " ".join(filter(None, said))

print(run("import dlctiny, torch, sys; print(dlctiny.ANSWER, sys.prefix)"))
print(run("import time; time.sleep(600)", interrupt_s=2))
print("still", run("import os; print(6 * 7)"))
pid = run("print(os.getpid())")
manager.shutdown_kernel()
client.stop_channels()
print("ended", not pathlib.Path("/proc", pid).exists())
""",
}

SCRIPT = """
part() { printf '\\n== %s\\n' "$1"; }
cd "$HOME"
module use "$USE"
part load; module load pytorch; type -P python
part train; LR=3 python train.py
part debug; PYTHONPATH=/evil DLCONTAINER_DEBUG=1 python -c 'import sys; print("/evil" in sys.path)'
part torchrun; torchrun --standalone --nproc-per-node 2 rank.py
part spawn; python spawn.py
part codes; python -c 'raise SystemExit(7)'; echo $?
python -c 'import os; os.kill(os.getpid(), 9)'; echo $?
part sigterm; python long.py &
while [ ! -e ready ]; do sleep 0.2; done
kill -TERM $!; wait $!; echo $?
part refused; pip install dlctiny; echo $?
part environment; dlcontainer-venv "$HOME/my-env" && . "$HOME/my-env/bin/activate"
pip install -q --no-index --find-links "$WHEELS" dlctiny
python -c 'import dlctiny, torch, sys; print(dlctiny.ANSWER, sys.prefix)'
torchrun --standalone --nproc-per-node 2 rank.py
part without; "$CLI" export jupyter; echo $?
part jupyter; pip install -q --no-index --find-links "$WHEELS" ipykernel
"$CLI" export jupyter --name day
PYTHONPATH=$CLIENT "$HOST_PYTHON" client.py day
part left; deactivate; python -c 'import dlctiny' 2>&1 | tail -1
part compile; python compiled.py
part unload; module unload pytorch; type -P torchrun || echo gone
"""


@pytest.fixture(scope="module")
def day(
    shelf: Shelf, lmod: str, world: World, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """Type the script once; give the text of each of its parts, by name."""
    folder = tmp_path_factory.mktemp("day")
    home, client, wheels = folder / "home", folder / "client", write_wheel(folder / "wheels").parent
    home.mkdir()
    for name, text in PROGRAMS.items():
        (home / name).write_text(text)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    # The kernel's packages are for the image's Python, the client's for this one.
    kernel = ("download", "--only-binary=:all:", "--python-version=3.11", "-d", str(wheels))
    for argv in ((*kernel, "ipykernel"), ("install", "--target", str(client), "jupyter_client")):
        subprocess.run([*pip, *argv], env=dict(world.environ), check=True, timeout=600)
    variables = {
        "HOME": str(home),
        "USE": str(shelf.root / "modules/lmod"),
        "WHEELS": str(wheels),
        "CLIENT": str(client),
        "CLI": world.program[0],
        "HOST_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [program("bash", "bash"), "--norc", "-c", f"{lmod}\nexec 2>&1\n{SCRIPT}"],
        env={**shelf.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    parts = done.stdout.split("\n== ")[1:]
    return {**dict(part.split("\n", 1) for part in parts), "home": str(home)}


def test_the_module_and_a_training(shelf: Shelf, day: Mapping[str, str]) -> None:
    assert day["load"].strip() == shelf.python
    # The square of each of 0 to 7, by two worker processes.
    assert day["train"].strip() == "LR 3 sum 140.0"
    assert day["spawn"].strip() == "[1.0, 2.0]"
    ranks = sorted(line for line in day["torchrun"].splitlines() if line.startswith("rank"))
    assert ranks == [f"rank {rank} of 2 in /opt/pytorch" for rank in (0, 1)]
    assert day["unload"].strip() == "gone"


def test_variables_that_stay_outside_are_named(day: Mapping[str, str]) -> None:
    said = day["debug"]
    assert "variables that stay outside:" in said
    assert "PYTHONPATH" in said.split("variables that stay outside:")[1]
    assert said.rstrip().endswith("False")


def test_exit_codes_and_the_end_of_a_job(day: Mapping[str, str]) -> None:
    numbers = [line for line in day["codes"].splitlines() if line.isdigit()]
    assert numbers == ["7", str(128 + signal.SIGKILL)]
    assert "saved" in day["sigterm"]
    assert day["sigterm"].split()[-1] == "9"


def test_packages_on_top(day: Mapping[str, str]) -> None:
    venv = f"{day['home']}/my-env"
    assert "next: dlcontainer-venv" in day["refused"]
    assert day["refused"].split()[-1] == "2"
    assert f"42 {venv}\n" in day["environment"]
    assert all(f"rank {rank} of 2 in {venv}\n" in day["environment"] for rank in (0, 1))
    assert "No module named 'dlctiny'" in day["left"]


def test_jupyter(day: Mapping[str, str]) -> None:
    venv = f"{day['home']}/my-env"
    assert f"ipykernel is missing in {venv}" in day["without"]
    assert day["without"].split()[-1] == "2"
    wrote = f"{day['home']}/.local/share/jupyter/kernels/day/kernel.json"
    assert f"wrote {wrote}\n" in day["jupyter"]
    for line in (f"42 {venv}", "KeyboardInterrupt", "still 42", "ended True"):
        assert line in day["jupyter"]
    assert [path.name for path in Path(wrote).parent.iterdir()] == ["kernel.json"]


def test_torch_compile(day: Mapping[str, str]) -> None:
    assert "compiled 4.000" in day["compile"]
