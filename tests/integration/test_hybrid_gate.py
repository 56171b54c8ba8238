"""Strategies in an image's own PyTorch, by gloo: right ones pass the gate, wrong ones don't."""

from pathlib import Path

import pytest

from benchmarks import hybrid_gate
from dlcontainer.bench.samples import reader
from tests.integration.test_bench_ranks import raw
from tests.integration.truth import native_prefix
from tests.integration.world import Built, World

pytestmark = pytest.mark.timeout(5400)

NETWORK = hybrid_gate.NETWORK


SCRIPT = ("--script", f"{NETWORK}:build")
# With as many samples in the gate as in a timed step, of another length.
PUBLISHED = ("--workload", "transformer", "--batch", 4)


def argv(built: Built, output: Path, *more: object) -> list[str]:
    words = ["--site", "local", "--image", built.image, "--controls", 0, "--pairs", 1]
    words += ["--steps", 2, "--threads", 1, "-o", output, *more]
    return [str(word) for word in words]


@pytest.mark.parametrize(
    ("strategy", "network"),
    [
        ("pp2", PUBLISHED),
        pytest.param("tp2", SCRIPT, marks=pytest.mark.long),  # the same road, another network
    ],
    ids=["pp2", "tp2-script"],
)
def test_a_strategy_is_held_against_one_process_and_then_measured(
    strategy: str,
    network: tuple[object, ...],
    launching: World,
    pytorch_image: Built,
    tmp_path: Path,
) -> None:
    output = tmp_path / "x.jsonl"
    more = (*network, "--ranks", 2, "--parallel", strategy, "--arms", "unpacked,container")
    launching.run("bench", "train", *argv(pytorch_image, output, *more))
    series = reader.read(output)
    assert series.complete
    work = series.session.declared.workload
    assert work["parallel"] == strategy
    assert work.get("script") == (f"{NETWORK.name}:build" if network is SCRIPT else None)
    warm = [sample for sample in series.samples if sample.role == "warmup"]
    assert {sample.arm for sample in warm} == {"unpacked", "container"}
    for sample in warm:
        gate = raw(sample)[0]["gate"]
        assert gate["ok"]
        assert 0 <= max(gate["loss"], gate["weights"]) <= 1e-5
    page = tmp_path / "page.md"
    launching.run("report", str(output), "-o", str(page))
    assert "Held against one process" in page.read_text()


@pytest.fixture(scope="module")
def twin(world: World, pytorch_image: Built, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the Python of the image's native twin."""
    output = tmp_path_factory.mktemp("twin") / "twin.jsonl"
    words = ("--site", "local", "--image", pytorch_image.image, "--pairs", 1, "--controls", 0)
    world.run("bench", "import", *map(str, words), "-o", output)
    return str(native_prefix(output) / "bin/python")


@pytest.mark.long  # each strategy is a launch of 2 to 8 processes
@pytest.mark.parametrize("strategy", hybrid_gate.RIGHT)
def test_right_trainings_pass(twin: str, strategy: str) -> None:
    bodies = hybrid_gate.launched(twin, strategy)
    assert len(bodies) == hybrid_gate.ranks_of(strategy)
    for body in bodies:
        assert body["ok"], body["error"]
        assert body["gate"]["ok"], body["gate"]


@pytest.mark.long  # each is a launch of 2 to 4 processes
@pytest.mark.parametrize("wrong", hybrid_gate.WRONG)
def test_wrong_trainings_do_not(twin: str, wrong: str) -> None:
    for body in hybrid_gate.launched(twin, hybrid_gate.WRONG[wrong], wrong):
        gate = body["gate"]
        assert not gate["ok"]
        assert max(gate["loss"], gate["weights"]) > 10 * gate["tolerance"], gate
