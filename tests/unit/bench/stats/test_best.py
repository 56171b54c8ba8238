"""The best of several settings: planted, and what is not told apart from it."""

import random

import pytest

from dlcontainer.bench.stats import best


def drawn(means: list[float], sd: float, launches: int = 8, seed: int = 3) -> list[list[float]]:
    chance = random.Random(seed)
    # What a launch does to all settings alike is no difference between them.
    common = [chance.gauss(0, 0.5) for _ in range(launches)]
    return [[mean + each + chance.gauss(0, sd) for each in common] for mean in means]


def test_a_planted_best_is_sure() -> None:
    found = best.of(drawn([0.3, 0.0, 0.1, 0.5], 0.01), 0.05)
    assert found is not None
    assert (found.setting, found.next, found.tied) == (1, 2, ())
    assert found.behind.low < 1.105 < found.behind.high
    assert found.behind.low > 1


def test_what_scatters_is_not_told_apart() -> None:
    found = best.of(drawn([0.0, 0.0, 1.0], 0.05), 0.05)
    assert found is not None
    assert (found.setting, found.tied) in {(0, (1,)), (1, (0,))}


def test_of_equal_settings_a_best_is_rarely_sure() -> None:
    # Picked by the same times: without a correction over all pairs it would be sure far too often.
    sure = 0
    for seed in range(300):
        found = best.of(drawn([0.0] * 6, 0.1, seed=seed), 0.05)
        assert found is not None
        sure += len(found.tied) < 5
    assert sure <= 300 * 0.08


@pytest.mark.parametrize("logs", [[], [[0.1, 0.2]], [[], []]])
def test_nothing_to_choose_from(logs: list[list[float]]) -> None:
    assert best.of(logs, 0.05) is None


def test_one_launch_decides_nothing() -> None:
    found = best.of([[0.0], [1.0]], 0.05)
    assert found is not None
    assert (found.setting, found.tied) == (0, (1,))


def test_times_without_any_scatter() -> None:
    found = best.of([[0.5] * 3, [0.25] * 3, [0.5] * 3], 0.05)
    assert found is not None
    assert (found.setting, found.tied) == (1, ())
