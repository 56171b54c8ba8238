"""Two real ranks train one network, by each way that there is; the truth is computed by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.series import Series
from dlcontainer.config.resources import PROBE
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from tests.integration.averaged import AVERAGED
from tests.integration.test_bench import environment_with
from tests.integration.test_bench_ranks import phases, raw
from tests.integration.test_frameworks import Inside
from tests.integration.truth import native_prefix, packages_of
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

RANKS, STEPS, WARMUP = 2, 3, 5
# float32, in another order, over eight steps; ranks that do not average are 1e-2 apart by then.
CLOSE = 1e-3

# As if the ranks had found each other and nothing came of it.
NO_OPERATION = """\
import builtins, sys
real = builtins.__import__
def begin(self, module, **more):
    sys.modules["torch"].nn.Module.__init__(self)
    self.module = module
def import_(name, *rest, **more):
    module = real(name, *rest, **more)
    parallel = sys.modules.get("torch.nn.parallel")
    if hasattr(parallel, "DistributedDataParallel"):
        parallel.DistributedDataParallel.__init__ = begin
        parallel.DistributedDataParallel.forward = lambda self, *given: self.module(*given)
    return module
builtins.__import__ = import_
"""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to train, the image that has it, and the arms that it is measured with."""

    way: str
    framework: str
    recipe: Sequence[str]
    arms: str
    backend: str


WAYS = [
    Way(way="ddp", framework="torch", recipe=("pytorch",), arms="native,container", backend="gloo"),
    Way(
        way="tensorflow",
        framework="tensorflow",
        recipe=("tensorflow",),
        arms="native,container",
        backend="grpc",
    ),
    Way(
        way="horovod",
        framework="torch",
        recipe=("horovod", "--variant", "pytorch"),
        arms="native,container",
        backend="mpi",
    ),
    Way(
        way="horovod",
        framework="tensorflow",
        recipe=("horovod", "--variant", "tensorflow"),
        arms="unpacked,container",
        backend="mpi",
    ),
]


@pytest.fixture(scope="module", params=WAYS, ids=lambda one: f"{one.framework}-{one.way}")
def there(request: pytest.FixtureRequest, world: World) -> tuple[Way, Built]:
    """Build: half a minute to ten, where Horovod is compiled."""
    one: Way = request.param
    recipe, *more = one.recipe
    folder = world.folder / f"trains by {one.framework} {one.way}"
    return one, replace(world, patience_s=3600).build(recipe, folder, *more)


@pytest.fixture(scope="module")
def inside(world: World, engine: Apptainer, tried: EngineCapabilities) -> Inside:
    return Inside(world, engine, str(tried.run_mode))


def trained(launching: World, built: Built, output: Path, *more: object) -> Series:
    argv = ["--site", "local", "--image", built.image, "--controls", 0, "--pairs", 1]
    argv += ["--steps", STEPS, "--ranks", RANKS, "--threads", 1, "-o", output, *more]
    replace(launching, patience_s=3600).run("bench", "train", *map(str, argv))
    return reader.read(output)


def truth(inside: Inside, one: Way, built: Built, seed: int, folder: Path) -> list[list[float]]:
    """Give the losses of each rank, as they must be."""
    (folder / "averaged.py").write_text(AVERAGED)
    for file in PROBE.glob("*.py"):
        (folder / file.name).write_bytes(file.read_bytes())
    python = f"{built.recorded()['content']['recipe']['prefix']}/bin/python"
    steps = str(WARMUP + STEPS)
    argv = (python, "/mnt/averaged.py", "/mnt", one.framework, steps, str(seed), "1")
    done = inside.run(built, *argv, bind=folder)
    found: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_ranks_train_one_network(
    launching: World, there: tuple[Way, Built], inside: Inside, tmp_path: Path
) -> None:
    one, built = there
    series = trained(launching, built, tmp_path / "x.jsonl", "--arms", one.arms)
    assert series.complete
    work = series.session.declared.workload
    # Named by nobody: the usual way of this image.
    assert (work["distributed"], work["framework"]) == (one.way, one.framework)
    judged = analyse(series)
    # Of Horovod, which is compiled, the twin has the image's own build.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    assert judged.losses is not None
    assert judged.losses.problem == ""
    (tmp_path / "mnt").mkdir()
    by_hand = truth(inside, one, built, int(str(work["seed"])), tmp_path / "mnt")
    for sample in series.samples:
        for rank, wanted in zip(raw(sample), by_hand, strict=True):
            assert rank["losses"] == pytest.approx(wanted, rel=CLOSE), sample.arm
            assert rank["transport"]["backend"] == one.backend
            assert rank["moved"]["length"] > 0.01
        averaged = [sum(step) / RANKS for step in zip(*by_hand, strict=True)]
        assert sample.values["loss"] == pytest.approx(averaged, rel=CLOSE)
        assert phases(sample) >= {"import", "device", "process_group", "step_1", "steady"}
        assert sample.wall_s == max(rank["values"]["wall_s"] for rank in raw(sample))


def test_ranks_that_do_not_average_are_refused(
    launching: World, pytorch_image: Built, tmp_path: Path
) -> None:
    # Makes the twin, and shows that it averages.
    trained(launching, pytorch_image, tmp_path / "whole.jsonl")
    packages = packages_of(native_prefix(tmp_path / "whole.jsonl"))
    side = environment_with(tmp_path / "side", packages, tmp_path, "import no_operation")
    (tmp_path / "no_operation.py").write_text(NO_OPERATION)
    argv: list[Any] = ["--site", "local", "--image", pytorch_image.image, "--pairs", 1]
    argv += ["--steps", STEPS, "--ranks", RANKS, "--native", side, "-o", tmp_path / "x.jsonl"]
    done = launching.run("bench", "train", *map(str, argv), code=7)
    assert "the gradients are not averaged (ddp)" in done.stderr
    (first, *_) = reader.read(tmp_path / "x.jsonl").samples
    assert not first.ok


def test_a_way_that_the_image_has_not(
    launching: World, pytorch_image: Built, tmp_path: Path
) -> None:
    argv: list[Any] = ["--site", "local", "--image", pytorch_image.image, "--ranks", 2]
    argv += ["--distributed", "horovod", "-o", tmp_path / "x.jsonl"]
    done = launching.run("bench", "train", *map(str, argv), code=2)
    assert "choose from: ddp" in done.stderr
