"""`bench job` and the steps of a program: natively and in a real image, planted and not."""

from pathlib import Path

import pytest

from dlcontainer.bench.job import job_analysis, job_file
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.job.step_analysis import StepReading
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.test_bench import environment_with
from tests.integration.world import Built, World

# The end of a step, as PyTorch runs the hooks of its optimizers: what is tried is the way into the
# image, and the verdict. The real one is below.
STAND_IN = """\
hooks = []


def register_optimizer_step_post_hook(hook):
    hooks.append(hook)


class Optimizer:
    def step(self):
        for hook in hooks:
            hook(self, (), {})
"""
PROGRAM = """\
import os, sys, time
sys.path.insert(0, os.getcwd())
from torch.optim.optimizer import Optimizer

optimizer, inside = Optimizer(), os.path.exists("/.singularity.d")
for step in range(40):
    time.sleep(0.01 + inside * float(sys.argv[1]))
    optimizer.step()
    print("step", step)
"""
REAL = """\
import os, sys, time
import torch

inside = os.path.exists("/.singularity.d")
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.zeros(320, 64))
# The workers are forked: they have the hook, and no step.
for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=1):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    time.sleep(0.05 + inside * float(sys.argv[1]))
"""
# Of steps of 10 and of 50 ms.
PLANTED, REAL_PLANTED = "0.03", "0.1"


@pytest.fixture
def running(world: World, engine: Apptainer) -> World:
    """Give a user whose job scripts find the engine, which they call by its name."""
    path = f"{engine.program.parent}:{world.environ['PATH']}"
    return world.having(PATH=path, APPTAINER_USERNS="1")


def session(user: World, folder: Path, *words: object) -> JobSession:
    target = folder / "j.jsonl"
    target.unlink(missing_ok=True)
    begin = ["bench", "job", "--site", "local", "-o", str(target), "--time", "0:05:00"]
    user.run(*begin, *map(str, words), cwd=folder)
    return job_file.read(target)


def steps(job: JobSession) -> StepReading:
    found = job_analysis.read(job).steps
    assert found is not None
    return found


@pytest.fixture
def of_tiny(tiny_image: Built, tiny: Path, tmp_path: Path) -> list[object]:
    for name in ("torch/__init__.py", "torch/optim/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "torch/optim/optimizer.py").write_text(STAND_IN)
    (tmp_path / "train.py").write_text(PROGRAM)
    native = environment_with(tmp_path / "native")
    return ["--image", tiny_image.image, "--recipe", tiny, "--native", native]


def test_a_slower_step_inside_alone_is_found(
    running: World, of_tiny: list[object], tmp_path: Path
) -> None:
    job = session(running, tmp_path, *of_tiny, "--", "python", "train.py", PLANTED)
    found = steps(job)
    assert found.verdict is not None, found.reason
    assert found.verdict.word == "SLOWER", found
    assert (found.steps, found.rule.source) == (40, "optimizer")
    said = running.run("report", tmp_path / "j.jsonl").stdout
    assert "steps SLOWER: +" in said


def test_a_mark_in_the_output_and_a_program_without_steps(
    running: World, of_tiny: list[object], tmp_path: Path
) -> None:
    one = [*of_tiny, "--pairs", "1"]
    marked = session(running, tmp_path, *one, "--step-mark", r"^step \d", "--", "python",
                     "train.py", "0")  # fmt: skip
    assert [launch.steps and launch.steps.steps for launch in marked.launches] == [40] * 4
    without = session(running, tmp_path, *one, "--", "sh", "-c", "exit 0")
    found = job_analysis.read(without)
    assert found.judged is not None
    assert found.steps is not None
    assert "no optimizer of PyTorch stepped" in found.steps.reason


@pytest.mark.long  # the shipped image is built, and 36 jobs import PyTorch: the road is that above
@pytest.mark.timeout(5400)
def test_steps_of_the_real_pytorch(running: World, pytorch_image: Built, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REAL)
    # With half of a step as the margin a machine on which others work decides as well.
    words = ["--image", pytorch_image.image, "--step-margin", "50%", "--", "python", "train.py"]
    planted = steps(session(running, tmp_path, *words, REAL_PLANTED))
    assert planted.verdict is not None, planted.reason
    assert planted.verdict.word == "SLOWER", planted
    assert planted.steps == 40
    none = steps(session(running, tmp_path, *words, "0"))
    assert none.verdict is not None, none.reason
    assert none.verdict.word != "SLOWER", none
