"""SIGKILL at each call by which a command changes files: nothing half, and the next run works."""

import random

import pytest

from tests.faults.calls import changing
from tests.faults.subjects import SUBJECTS
from tests.integration.faults.conftest import Recorded, Staged

SEED = 20261122
# How many calls of a command the short set draws; the long set has each call of each command.
DRAWN = {"publish": 5, "gc": 4, "cache prune": 3, "session": 3}


@pytest.mark.parametrize("name", DRAWN)
def test_killed_at_calls_that_are_drawn(
    staged: Staged, name: str, record_property: Recorded
) -> None:
    stage = staged(SUBJECTS[name])
    calls = changing(stage.calls())
    for call in random.Random(SEED).sample(calls, DRAWN[name]):
        stage.killed(call)


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
