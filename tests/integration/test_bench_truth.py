"""What is known beforehand, and what the benchmark says of it: real launches, real images."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.bench.analysis import session_analysis
from tests.integration import standin
from tests.integration.planting import numpy_recipe, other_openblas, planted_image
from tests.integration.test_bench import user
from tests.integration.truth import (
    bench,
    mean,
    native_against_native,
    native_prefix,
    ratio_is_covered,
    sessions_until_right,
    was_right,
)
from tests.integration.world import Built, World

__all__ = ["user"]  # a fixture
pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

# Seconds that are planted.
IMPORT_S = 1.0
PLANTED_S = 0.02  # half a step
# A share that the expected ratio may lie beside the interval: it has noise of its own, in the
# reference's mean.
SLACK = 0.01
TRAIN = ("--steps", "20", "--threads", "1", "--device", "cpu")


def test_native_against_native_is_neither_slower_nor_faster(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    def session(seed: int) -> dict[str, str]:
        more = ("--recipe", tiny, "--pairs", 8, "--controls", 8, "--seed", seed)
        found = bench(user, "import", tiny_image.image, tmp_path / f"{seed}.jsonl", *more)
        assert found.series.session.declared.control_pairs == 8
        return {"A/A": native_against_native(found.series).word}

    said = sessions_until_right(session)
    assert was_right(said), said


def test_a_planted_delay_of_the_import_is_found(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    line = f"import time; time.sleep({IMPORT_S})"
    slow = planted_image(user, tiny, "/opt/tiny", tmp_path / "slow", line, "dlctiny.py")
    # Without controls: their gate (99 %) refuses one healthy session in a hundred.
    more = ("--recipe", tiny, "--pairs", 8, "--controls", 0, "--seed", 5)
    plain = bench(user, "import", tiny_image.image, tmp_path / "plain.jsonl", *more)
    found = bench(user, "import", slow, tmp_path / "slow.jsonl", *more)
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
    side = other_openblas(native_prefix(tmp_path / "same.jsonl"), tmp_path / "side")
    found = bench(world, "import", built.image, tmp_path / "other.jsonl", *more, "--native", side)
    assert found.verdict.word == "NOT COMPARABLE"
    assert any("openblas" in reason for reason in found.verdict.reasons), found.verdict.reasons


@dataclass(frozen=True)
class Trained:
    """Sessions of a stand-in for PyTorch, whose step has a known length."""

    world: World
    recipe: Path
    folder: Path

    def session(self, image: Path, name: str, *more: object) -> session_analysis.Analysis:
        output = self.folder / f"{name}.jsonl"
        return bench(self.world, "train", image, output, *TRAIN, "--recipe", self.recipe, *more)


def training(world: World, folder: Path, work: str) -> tuple[Trained, Path]:
    """Build the stand-in's image; give it with what runs its sessions."""
    recipe, wheels = standin.write(folder / "standin", work)
    trained = Trained(world.having(PIP_FIND_LINKS=wheels), recipe, folder)
    return trained, trained.world.build(recipe, folder / "image").image


def test_training_with_nothing_planted(world: World, tmp_path: Path) -> None:
    trained, image = training(world, tmp_path, standin.ASLEEP)

    def session(seed: int) -> dict[str, str]:
        more = ("--pairs", 8, "--controls", 8, "--seed", seed)
        plain = trained.session(image, f"plain-{seed}", *more)
        assert not [item for item in plain.differences if item.refuses], plain.differences
        # Asleep for the same time on both sides: here the truth of the pairs is known too.
        assert ratio_is_covered(plain, 1.0, SLACK), plain.verdict
        return {"A/A": native_against_native(plain.series).word, "A/B": plain.verdict.word}

    said = sessions_until_right(session)
    assert was_right(said), said


def test_a_step_slowed_by_a_known_time(world: World, tmp_path: Path) -> None:
    recipe, wheels = standin.write(tmp_path / "standin", standin.ASLEEP)
    trained = Trained(world.having(PIP_FIND_LINKS=wheels), recipe, tmp_path)
    line = f"import sys; sys.planted_s = {PLANTED_S}"
    where = (standin.PREFIX, tmp_path / "slow", line, standin.FILE)
    slow = planted_image(trained.world, trained.recipe, *where)
    found = trained.session(slow, "slow", "--pairs", 8, "--controls", 0, "--seed", 7)
    # The gate must not see it: versions and builds are the same.
    assert not [item for item in found.differences if item.refuses], found.differences
    assert found.verdict.word == "SLOWER", found.verdict
    # A busy machine wakes a process late: what a step takes natively is measured.
    step = mean(found, 0) / found.series.session.declared.steps
    assert step >= standin.STEP_S
    assert ratio_is_covered(found, 1 + PLANTED_S / step, SLACK), (found.verdict, step)


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
    """Burn processor time in seeded bursts, on more processes than there are cores.

    Each in a session of its own: where the kernel shares the processors out by session
    (sched_autogroup), all hogs of one session together would get no more than one launch does.
    """
    number = 3 * len(os.sched_getaffinity(0))
    running = [
        subprocess.Popen([sys.executable, "-c", HOG, str(seed)], start_new_session=True)
        for seed in range(number)
    ]
    try:
        yield
    finally:
        for one in running:
            one.send_signal(signal.SIGKILL)
            one.wait()


def test_a_machine_that_is_too_noisy(world: World, tmp_path: Path) -> None:
    trained, image = training(world, tmp_path, standin.AT_WORK)
    noisy = []

    def session(seed: int) -> dict[str, str]:
        more = ("--pairs", 8, "--controls", 2, "--seed", seed)
        noisy.append(trained.session(image, f"noisy-{seed}", *more))
        return {"A/B": noisy[-1].verdict.word}

    with hogs():
        said = sessions_until_right(session)
    assert was_right(said), said
    found = noisy[-1]
    assert found.main is not None
    # The test's own premise: pairs scatter far more than the margin.
    assert found.main.fitted.sd > 0.03, found.main.fitted.sd
    assert found.verdict.word == "INCONCLUSIVE", found.verdict
    if not found.verdict.tail:
        assert found.verdict.more_pairs is not None, found.verdict
        assert found.verdict.more_pairs >= 4
