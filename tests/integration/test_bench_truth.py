"""What is known beforehand, and what the benchmark says of it: real launches, real images."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.bench import analysis, looks, pairing, results, stats
from dlcontainer.bench.records import Series
from dlcontainer.bench.verdict import Evidence, Verdict, judge
from tests.integration import standin
from tests.integration.planting import numpy_recipe, other_openblas, planted_image
from tests.integration.test_bench import options, user
from tests.integration.world import Built, World

__all__ = ["user"]  # a fixture
pytestmark = pytest.mark.long

# Seconds that are planted.
IMPORT_S = 1.0
PLANTED_S = 0.02  # half a step
# A share that the expected ratio may lie beside the interval: it has noise of its own, in the
# reference's mean.
SLACK = 0.01
TRAIN = ("--steps", "20", "--threads", "1", "--device", "cpu", "--seed", "7")


def native_against_native(series: Series) -> Verdict:
    """Judge the session's controls as if one of their sides were the container."""
    rules = looks.rules(series)
    controls = pairing.differences(series.session.declared.metric, pairing.of(series)["control"])
    return judge(rules, Evidence(pairs=stats.fit(controls)))


def ratio_is_covered(verdict: Verdict, expected: float) -> bool:
    found = verdict.difference
    assert found is not None
    return found.low * (1 - SLACK) <= expected <= found.high * (1 + SLACK)


def mean(found: analysis.Analysis, side: int) -> float:
    assert found.main is not None
    return found.main.means[side]


def bench(world: World, probe: str, image: Path, output: Path, *more: object) -> analysis.Analysis:
    argv = ["--site", "local", "--image", image, "-o", output, *more]
    world.run("bench", probe, *map(str, argv), timeout=1500)
    return analysis.analyse(results.read(output))


def test_native_against_native_is_neither_slower_nor_faster(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    # A verdict errs in alpha of all sessions by its own declaration: twice the same way is wrong.
    words = []
    for seed in (11, 12):
        more = ("--pairs", 8, "--controls", 8, "--seed", seed)
        output = tmp_path / f"{seed}.jsonl"
        user.run("bench", "import", *options(tiny_image, tiny, output, *more))
        series = results.read(output)
        assert series.session.declared.control_pairs == 8
        found = native_against_native(series)
        assert found.difference is not None
        words.append(found.word)
        if found.word not in {"SLOWER", "FASTER"}:
            return
    assert words[0] != words[1], words


def test_a_planted_delay_of_the_import_is_found(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    # Python reads the .pth files of an environment twice (its site module does): once is planted.
    once = f'hasattr(sys, "planted") or (setattr(sys, "planted", 1), time.sleep({IMPORT_S}))'
    line = f"import sys, time; {once}"
    slow = planted_image(user, tiny, "/opt/tiny", tmp_path / "slow", line)
    more = ("--recipe", tiny, "--pairs", 8, "--controls", 4, "--seed", 5)
    plain = bench(user, "import", tiny_image.image, tmp_path / "plain.jsonl", *more)
    found = bench(user, "import", slow, tmp_path / "slow.jsonl", *more)
    # The gate must not see it: versions and builds are the same.
    assert not [item for item in found.differences if item.refuses], found.differences
    assert found.verdict.word == "SLOWER", found.verdict
    # Two sessions on a shared machine: what is known is the delay, not the rest.
    added = mean(found, 1) - mean(plain, 1)
    assert added == pytest.approx(IMPORT_S, abs=0.35)


def test_another_blas_under_one_version_is_not_comparable(world: World, tmp_path: Path) -> None:
    recipe = numpy_recipe(tmp_path / "recipe")
    built = world.build(recipe, tmp_path / "image")
    more = ("--recipe", recipe, "--pairs", 1, "--controls", 0)
    same = bench(world, "import", built.image, tmp_path / "same.jsonl", *more)
    assert same.verdict.word == "INCONCLUSIVE", same.verdict
    (twin,) = Path(world.environ["XDG_CACHE_HOME"]).glob("dlcontainer/twins/numeric-*/tree")
    side = other_openblas(twin, tmp_path / "side")
    found = bench(world, "import", built.image, tmp_path / "other.jsonl", *more, "--native", side)
    assert found.verdict.word == "NOT COMPARABLE"
    assert any("openblas" in reason for reason in found.verdict.reasons), found.verdict.reasons


@dataclass(frozen=True)
class Trained:
    """Sessions of a stand-in for PyTorch, whose step has a known length."""

    world: World
    recipe: Path
    folder: Path

    def session(self, image: Path, name: str, *more: object) -> analysis.Analysis:
        output = self.folder / f"{name}.jsonl"
        return bench(self.world, "train", image, output, *TRAIN, "--recipe", self.recipe, *more)


def training(world: World, folder: Path, work: str) -> tuple[Trained, Path]:
    """Build the stand-in's image; give it with what runs its sessions."""
    recipe, wheels = standin.write(folder / "standin", work)
    trained = Trained(world.having(PIP_FIND_LINKS=wheels), recipe, folder)
    return trained, trained.world.build(recipe, folder / "image").image


def test_training_with_nothing_planted(world: World, tmp_path: Path) -> None:
    trained, image = training(world, tmp_path, standin.ASLEEP)
    plain = trained.session(image, "plain", "--pairs", 8, "--controls", 8)
    assert native_against_native(plain.series).word not in {"SLOWER", "FASTER"}
    assert ratio_is_covered(plain.verdict, 1.0), plain.verdict


def test_a_step_slowed_by_a_known_time(world: World, tmp_path: Path) -> None:
    recipe, wheels = standin.write(tmp_path / "standin", standin.ASLEEP)
    trained = Trained(world.having(PIP_FIND_LINKS=wheels), recipe, tmp_path)
    line = f"import sys; sys.planted_s = {PLANTED_S}"
    slow = planted_image(trained.world, trained.recipe, standin.PREFIX, tmp_path / "slow", line)
    found = trained.session(slow, "slow", "--pairs", 8, "--controls", 4)
    # The gate must not see it: versions and builds are the same.
    assert not [item for item in found.differences if item.refuses], found.differences
    assert found.verdict.word == "SLOWER", found.verdict
    # A busy machine wakes a process late: what a step takes natively is measured.
    step = mean(found, 0) / found.series.session.declared.steps
    assert step >= standin.STEP_S
    assert ratio_is_covered(found.verdict, 1 + PLANTED_S / step), (found.verdict, step)


HOG = """
import random, sys, time
draw = random.Random(int(sys.argv[1]))
while True:
    end = time.perf_counter() + draw.expovariate(1 / 1.5)
    while time.perf_counter() < end:
        pass
    time.sleep(draw.expovariate(1 / 1.5))
"""


@contextmanager
def hogs() -> Iterator[None]:
    """Burn processor time in seeded bursts, on more processes than there are cores."""
    number = 3 * len(os.sched_getaffinity(0))
    running = [subprocess.Popen([sys.executable, "-c", HOG, str(seed)]) for seed in range(number)]
    try:
        yield
    finally:
        for one in running:
            one.send_signal(signal.SIGKILL)
            one.wait()


def test_a_machine_that_is_too_noisy(world: World, tmp_path: Path) -> None:
    trained, image = training(world, tmp_path, standin.AT_WORK)
    with hogs():
        found = trained.session(image, "noisy", "--pairs", 8, "--controls", 2)
    assert found.main is not None
    # The test's own premise: pairs scatter far more than the margin.
    assert found.main.fitted.sd > 0.03, found.main.fitted.sd
    assert found.verdict.word == "INCONCLUSIVE", found.verdict
    assert found.verdict.tail or (found.verdict.more_pairs or 0) >= 4, found.verdict
    assert math.isfinite(found.verdict.more_pairs or 0)
