"""SIGKILL and errors at each call by which a command changes files: nothing half, nothing left."""

import random
from pathlib import Path

import pytest

from tests.faults import builds
from tests.faults.calls import changing
from tests.faults.stage import Subject, faults
from tests.faults.subjects import SUBJECTS
from tests.integration.faults.conftest import Recorded, Staged
from tests.integration.world import Built, World, write_wheel

SEED = 20261122
# How many calls the short set draws for SIGKILL, and how many errors; the long set has all.
DRAWN = {
    "publish": (4, 3),
    "gc": (3, 1),
    "cache prune": (3, 1),
    "session": (2, 2),
    "lock --update": (2, 1),
    "bench trace": (2, 2),
}
OF_A_BUILD, OF_ITS_CHILDREN, OF_A_REFRESH = 40, 100, 20


@pytest.mark.parametrize("name", DRAWN)
def test_faults_that_are_drawn(staged: Staged, name: str) -> None:
    stage, draw = staged(SUBJECTS[name]), random.Random(SEED)
    kills, errors = DRAWN[name]
    calls = stage.calls()
    for call in draw.sample(changing(calls), kills):
        stage.killed(call)
    for call, error in draw.sample(faults(calls), errors):
        stage.failed(call, error)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SUBJECTS)
def test_killed_at_each_call(staged: Staged, name: str, record_property: Recorded) -> None:
    stage = staged(SUBJECTS[name])
    calls = changing(stage.calls())
    for call in calls:
        stage.killed(call)
    record_property("kills", len(calls))
    assert len(calls) >= 4


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SUBJECTS)
def test_each_error(staged: Staged, name: str, record_property: Recorded) -> None:
    stage = staged(SUBJECTS[name])
    codes = [stage.failed(call, error).code for call, error in faults(stage.calls())]
    record_property("errors", len(codes))
    record_property("went on", codes.count(0))
    assert len(codes) >= 4


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_build_is_killed(staged: Staged, alone: World, record_property: Recorded) -> None:
    stage = staged(builds.tiny(alone))
    calls = changing(stage.calls())
    record_property("calls", len(calls))
    assert len(calls) >= OF_A_BUILD
    for call in random.Random(SEED).sample(calls, OF_A_BUILD):
        stage.killed(call)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_build_s_children_are_killed(staged: Staged, alone: World) -> None:
    stage = staged(builds.tiny(alone))
    calls = changing(stage.calls_of_children())
    assert len(calls) >= OF_ITS_CHILDREN
    for call in random.Random(SEED).sample(calls, OF_ITS_CHILDREN):
        stage.child_killed(call)


@pytest.fixture
def refresh(tiny_image: Built, world: World, tiny: Path, tmp_path: Path) -> Subject:
    """Give the refresh of a wheel that is another file now."""
    wheels = write_wheel(tmp_path / "newer").parent
    return builds.refreshed(tiny_image, Path(world.environ["XDG_CACHE_HOME"]), tiny, wheels)


@pytest.mark.timeout(2400)  # five builds
def test_a_refresh_that_is_drawn(staged: Staged, refresh: Subject) -> None:
    """The image there stays whole until the refreshed one is; the long set has more of them."""
    stage, draw = staged(refresh), random.Random(SEED)
    assert stage.before != stage.after
    stage.killed(draw.choice(changing(stage.calls())))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_refresh_is_killed(staged: Staged, refresh: Subject, record_property: Recorded) -> None:
    stage = staged(refresh)
    calls, draw = stage.calls(), random.Random(SEED)
    record_property("calls", len(calls))
    for call in draw.sample(changing(calls), OF_A_REFRESH):
        stage.killed(call)
    for call, error in draw.sample(faults(calls), OF_A_REFRESH):
        stage.failed(call, error)
