"""The procedure of three arms on simulated sessions; figures come from benchmarks/statistics.py."""

import numpy
import pytest

from benchmarks import triples
from benchmarks.simulation import Design, share
from benchmarks.triples import CONTRASTS, Arms
from benchmarks.worlds import World
from dlcontainer.bench.stats import paired

LOOKS = Design(looks=(12, 18, 36), controls=36)
QUICK = Design(looks=(12,), controls=12)
SESSIONS = 1500


@pytest.mark.parametrize(
    ("world", "arms"),
    [
        (World(truth=1.012, sd=0.014), Arms(design=LOOKS, built=1.01, own_controls=12)),
        (World(sd=0.03, far=0.2), Arms(design=QUICK)),
        (World(truth=1.03), Arms(design=Design(looks=(12, 18), equivalence=False), built=1.03)),
    ],
)
def test_the_arrays_say_what_the_real_code_says(world: World, arms: Arms) -> None:
    assert triples.agrees(world, arms, 25, 7)


def test_holm_is_the_real_one() -> None:
    drawn = numpy.random.default_rng(2).random((300, 3)) ** 3
    found = triples.holm(drawn, 0.05)
    for row, beyond in zip(drawn, found, strict=True):
        p = paired.holm([float(one) for one in row])
        assert [value <= 0.05 for value in p] == list(beyond)


@pytest.mark.parametrize(
    "sd",
    [
        0.005,
        pytest.param(0.014, marks=pytest.mark.long),
        pytest.param(0.03, marks=pytest.mark.long),
    ],
)
def test_wrong_words_are_rare_on_each_contrast(sd: float) -> None:
    importing = Design(looks=LOOKS.looks, controls=36, equivalence=False)
    for world, arms, contrast, words in (
        (World(truth=1.02, sd=sd), Arms(design=LOOKS), CONTRASTS[0], ("EQUIVALENT",)),
        (World(truth=1.03, sd=sd), Arms(design=LOOKS, built=1.02), CONTRASTS[1], ("EQUIVALENT",)),
        (World(sd=sd), Arms(design=importing), CONTRASTS[0], ("SLOWER", "FASTER")),
        (World(sd=sd), Arms(design=importing), None, ("SLOWER",)),
    ):
        ended = triples.seen(triples.simulate(world, arms, SESSIONS, 11), contrast)
        assert share(ended, words)[1] <= 0.05  # the interval's lower end


@pytest.mark.parametrize(("sd", "same", "middle"), [(0.005, 0.9, 0.6), (0.01, 0.85, 0.5)])
def test_right_words_are_found(sd: float, same: float, middle: float) -> None:
    equal = triples.simulate(World(sd=sd, outliers=0.0), Arms(design=QUICK), SESSIONS, 13)
    for contrast in CONTRASTS:
        assert share(triples.seen(equal, contrast), ("EQUIVALENT",))[2] >= same
    slower = triples.simulate(World(truth=1.03, sd=sd), Arms(design=LOOKS), SESSIONS, 13)
    assert share(triples.seen(slower, CONTRASTS[0]), ("SLOWER",))[1] >= 0.9
    # It is judged where the whole decided, which may be too early for it.
    assert share(triples.seen(slower, CONTRASTS[2]), ("SLOWER",))[1] >= middle
