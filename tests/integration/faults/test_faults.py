"""SIGKILL and errors at each call by which a command changes files: nothing half, nothing left."""

import random

import pytest

from tests.faults import builds
from tests.faults.calls import changing
from tests.faults.stage import faults
from tests.faults.subjects import SUBJECTS
from tests.integration.faults.conftest import Recorded, Staged
from tests.integration.world import World

SEED = 20261122
# How many calls the short set draws for SIGKILL, and how many errors; the long set has all.
DRAWN = {
    "publish": (4, 3),
    "gc": (3, 1),
    "cache prune": (3, 1),
    "session": (2, 2),
    "bench trace": (2, 2),
}
OF_A_BUILD, OF_ITS_CHILDREN = 40, 100


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
